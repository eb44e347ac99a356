//! What a person's browser does in tests: keeps one connection and the cookies of one host.

use std::net::SocketAddr;

use super::{Connection, Jar, Part, Request, Response};
use crate::TestkitError;

/// Asks one server as one host, with cookies. Redirects are returned, not followed.
#[derive(Debug)]
pub struct Browser {
    addr: SocketAddr,
    host: String,
    /// Its cookies; may be changed at will.
    pub jar: Jar,
    connection: Option<Connection>,
}

impl Browser {
    /// A browser without cookies. `host` is what it names in `Host`; it need not resolve.
    pub fn new(addr: SocketAddr, host: &str) -> Self {
        Self {
            addr,
            host: host.to_owned(),
            jar: Jar::new(),
            connection: None,
        }
    }

    /// GET.
    pub fn get(&mut self, target: &str) -> Result<Response, TestkitError> {
        self.send(Request::get(target))
    }

    /// POST of a form.
    pub fn post(
        &mut self,
        target: &str,
        fields: &[(&str, &str)],
    ) -> Result<Response, TestkitError> {
        self.send(Request::form(target, fields))
    }

    /// POST of a form with files.
    pub fn upload(&mut self, target: &str, parts: &[Part<'_>]) -> Result<Response, TestkitError> {
        self.send(Request::multipart(target, parts))
    }

    /// Sends a request with the host and the cookies added, and keeps the cookies of the answer.
    pub fn send(&mut self, request: Request) -> Result<Response, TestkitError> {
        let mut request = request.host(&self.host);
        if let Some(cookies) = self.jar.field(&request.target) {
            request = request.cookie(&cookies);
        }
        let reused = self.connection.take();
        let safe = matches!(request.method.as_str(), "GET" | "HEAD");
        let mut connection = match reused {
            Some(connection) if safe => connection,
            // A kept connection may be closed at any moment, and only a safe method may be sent twice.
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

    /// Logs in to WordPress through its form.
    ///
    /// # Errors
    /// [`TestkitError::Malformed`] when no login cookie is set; the message has the answer's beginning.
    pub fn login(&mut self, user: &str, password: &str) -> Result<(), TestkitError> {
        self.get("/wp-login.php")?;
        let form = [
            ("log", user),
            ("pwd", password),
            ("wp-submit", "Log In"),
            ("redirect_to", "/wp-admin/"),
            ("testcookie", "1"),
        ];
        let answer = self.post("/wp-login.php", &form)?;
        if self.jar.starting_with("wordpress_logged_in_").is_some() {
            return Ok(());
        }
        Err(TestkitError::Malformed(format!(
            "login as `{user}` set no cookie:\n{}",
            answer.beginning()
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
) -> Result<Jar, TestkitError> {
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
