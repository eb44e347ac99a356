//! The clients of a stack: visitors with the head of a browser, and an editor who is logged in to WordPress through it.

use std::time::Duration;

use galley_testkit::client::{Browser, Request, Response};
use serde_json::Value;

use super::{
    stack::Stack,
    stage::{HOST, Stage},
};
use crate::{bench::decode, demo::CommandError};

/// A page as a visitor sees it.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) status: u16,
    pub(super) text: String,
}

/// Requests a page as a desktop's browser does, without cookies.
pub(super) fn visit(stack: &Stack, target: &str) -> Result<Seen, CommandError> {
    visit_as(stack, target, DESKTOP, None)
}

/// The same with another browser or with cookies.
pub(super) fn visit_as(
    stack: &Stack,
    target: &str,
    browser: &str,
    cookies: Option<&str>,
) -> Result<Seen, CommandError> {
    let mut request = browsers_request(target, browser);
    if let Some(cookies) = cookies {
        request = request.cookie(cookies);
    }
    seen(stack, &request.send(stack.addr)?)
}

/// The status of a page; several threads may ask at the same time.
pub(super) fn status(stack: &Stack, target: &str) -> Result<u16, CommandError> {
    let response = browsers_request(target, DESKTOP).send(stack.addr)?;
    Ok(response.status)
}

fn browsers_request(target: &str, browser: &str) -> Request {
    Request::get(target)
        .host(HOST)
        .field("User-Agent", browser)
        .field("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
        .field("Accept-Encoding", "gzip")
        .field("Connection", "close")
        .timeout(TIMEOUT)
}

fn seen(stack: &Stack, response: &Response) -> Result<Seen, CommandError> {
    let body = if response.field("content-encoding") == Some("gzip") {
        decode(&["gzip", "-dc"], &response.body, stack.dir())?
    } else {
        response.body.clone()
    };
    Ok(Seen {
        status: response.status,
        text: String::from_utf8_lossy(&body).into_owned(),
    })
}

/// The administrator, logged in.
pub(super) struct Editor {
    browser: Browser,
    rest_key: String,
}

impl Editor {
    /// Logs in through the stack.
    ///
    /// # Errors
    /// When WordPress sets no cookie, or does not show the administration after it.
    pub(super) fn log_in(stage: &Stage, stack: &Stack) -> Result<Self, CommandError> {
        let mut browser = Browser::new(stack.addr, HOST);
        browser.login(&stage.wordpress.user, &stage.wordpress.password)?;
        let dashboard = browser.get("/wp-admin/")?;
        if dashboard.status != 200 || !dashboard.text().contains("adminmenu") {
            return Err(format!(
                "no administration after the login: {}",
                first_line(&dashboard)
            )
            .into());
        }
        let key = browser.get("/wp-admin/admin-ajax.php?action=rest-nonce")?;
        let rest_key = key.text().trim().to_owned();
        Ok(Self { browser, rest_key })
    }

    /// A page of the site, as the editor sees it.
    pub(super) fn page(&mut self, target: &str) -> Result<String, CommandError> {
        Ok(self.browser.get(target)?.text())
    }

    /// An edit through the interface of the block editor: `path` is below `/wp-json/wp/v2/`.
    pub(super) fn rest(
        &mut self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<Value, CommandError> {
        let request = Request::new(method, &format!("/wp-json/wp/v2/{path}"))
            .field("Content-Type", "application/json")
            .field("X-WP-Nonce", &self.rest_key)
            .body(body.to_string());
        let response = self.browser.send(request)?;
        if response.status >= 300 {
            let what = format!("{method} {path} was refused: {}", first_line(&response));
            return Err(what.into());
        }
        Ok(serde_json::from_slice(&response.body)?)
    }
}

fn first_line(response: &Response) -> String {
    let text = response.beginning();
    text.lines().next().unwrap_or_default().to_owned()
}

pub(super) const DESKTOP: &str =
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";
pub(super) const PHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1";
/// Longer than PHP takes for a page while others wait for it.
const TIMEOUT: Duration = Duration::from_secs(28);
