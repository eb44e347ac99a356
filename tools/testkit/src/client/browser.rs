//! A simple browser: one persistent connection and the cookies of one host.

use std::net::SocketAddr;

use super::{Connection, CookieJar, Part, Request, Response};
use crate::TestkitError;

/// Sends requests with cookies to one host of one server. Returns redirects instead of following them.
#[derive(Debug)]
pub struct Browser {
    addr: SocketAddr,
    host: String,
    /// The cookies; tests may change them.
    pub jar: CookieJar,
    connection: Option<Connection>,
}

impl Browser {
    /// Creates a browser without cookies. `host` is the value of `Host`; it need not resolve.
    pub fn new(addr: SocketAddr, host: &str) -> Self {
        Self {
            addr,
            host: host.to_owned(),
            jar: CookieJar::new(),
            connection: None,
        }
    }

    /// Sends a GET request.
    pub fn get(&mut self, target: &str) -> Result<Response, TestkitError> {
        self.send(Request::get(target))
    }

    /// Submits a form with POST.
    pub fn post(
        &mut self,
        target: &str,
        fields: &[(&str, &str)],
    ) -> Result<Response, TestkitError> {
        self.send(Request::form(target, fields))
    }

    /// Submits a form with files with POST.
    pub fn upload(&mut self, target: &str, parts: &[Part<'_>]) -> Result<Response, TestkitError> {
        self.send(Request::multipart(target, parts))
    }

    /// Adds the host and the cookies to a request, sends it, and stores the cookies of the response.
    pub fn send(&mut self, request: Request) -> Result<Response, TestkitError> {
        let mut request = request.host(&self.host);
        if let Some(cookies) = self.jar.field(&request.target) {
            request = request.cookie(&cookies);
        }
        let reused = self.connection.take();
        let safe = matches!(request.method.as_str(), "GET" | "HEAD");
        let mut connection = match reused {
            Some(connection) if safe => connection,
            // The server may close a persistent connection at any time, and only a safe method may be sent again.
            _ => Connection::within(self.addr, request.timeout)?,
        };
        let response = match connection.exchange(&request) {
            Err(TestkitError::Io { source, .. }) if safe && is_closed(&source) => {
                connection = Connection::within(self.addr, request.timeout)?;
                connection.exchange(&request)?
            }
            other => other?,
        };
        self.jar.store(&response);
        if !response.closes() {
            self.connection = Some(connection);
        }
        Ok(response)
    }

    /// Logs in to WordPress with its login form.
    ///
    /// # Errors
    /// [`TestkitError::Malformed`] with the beginning of the response if it sets no login cookie.
    pub fn login(&mut self, user: &str, password: &str) -> Result<(), TestkitError> {
        self.get("/wp-login.php")?;
        let form = [
            ("log", user),
            ("pwd", password),
            ("wp-submit", "Log In"),
            ("redirect_to", "/wp-admin/"),
            ("testcookie", "1"),
        ];
        let response = self.post("/wp-login.php", &form)?;
        if self.jar.starting_with("wordpress_logged_in_").is_some() {
            return Ok(());
        }
        Err(TestkitError::Malformed(format!(
            "login as `{user}` set no cookie:\n{}",
            response.excerpt()
        )))
    }
}

/// Logs in to the WordPress at `addr` as `host` and returns the cookies.
///
/// # Errors
/// As [`Browser::login`].
pub fn login(
    addr: SocketAddr,
    host: &str,
    user: &str,
    password: &str,
) -> Result<CookieJar, TestkitError> {
    let mut browser = Browser::new(addr, host);
    browser.login(user, password)?;
    Ok(browser.jar)
}

fn is_closed(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof
    )
}
