//! The clients of a stack: visitors with a browser's request head, and an editor who is logged in to WordPress through the stack.

use std::time::Duration;

use galley_testkit::client::{Browser, Request, Response};
use serde_json::Value;

use super::{
    environment::{HOST, SeedsEnvironment},
    stack::Stack,
};
use crate::{bench::decompress, error::CommandError};

/// A page that a visitor received, decoded.
#[derive(Debug)]
pub(super) struct ReceivedPage {
    pub(super) status: u16,
    pub(super) text: String,
}

/// Requests a page as a desktop browser without cookies.
pub(super) fn visit(stack: &Stack, target: &str) -> Result<ReceivedPage, CommandError> {
    visit_as(stack, target, DESKTOP, None)
}

/// Requests a page with a given User-Agent and cookies.
pub(super) fn visit_as(
    stack: &Stack,
    target: &str,
    browser: &str,
    cookies: Option<&str>,
) -> Result<ReceivedPage, CommandError> {
    let mut request = browser_request(target, browser);
    if let Some(cookies) = cookies {
        request = request.cookie(cookies);
    }
    decoded_page(stack, &request.send(stack.addr)?)
}

/// Requests a page and returns its status. Several threads can do this at the same time.
pub(super) fn status(stack: &Stack, target: &str) -> Result<u16, CommandError> {
    let response = browser_request(target, DESKTOP).send(stack.addr)?;
    Ok(response.status)
}

fn browser_request(target: &str, browser: &str) -> Request {
    Request::get(target)
        .host(HOST)
        .field("User-Agent", browser)
        .field("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
        .field("Accept-Encoding", "gzip")
        .field("Connection", "close")
        .timeout(TIMEOUT)
}

fn decoded_page(stack: &Stack, response: &Response) -> Result<ReceivedPage, CommandError> {
    let body = if response.field("content-encoding") == Some("gzip") {
        decompress(&["gzip", "-dc"], &response.body, stack.dir())?
    } else {
        response.body.clone()
    };
    Ok(ReceivedPage {
        status: response.status,
        text: String::from_utf8_lossy(&body).into_owned(),
    })
}

/// A logged-in administrator.
pub(super) struct Editor {
    browser: Browser,
    nonce: String,
}

impl Editor {
    /// Logs in through the stack.
    ///
    /// # Errors
    /// When WordPress sets no cookie, or does not show the dashboard afterwards.
    pub(super) fn log_in(
        environment: &SeedsEnvironment,
        stack: &Stack,
    ) -> Result<Self, CommandError> {
        let mut browser = Browser::new(stack.addr, HOST);
        browser.login(&environment.wordpress.user, &environment.wordpress.password)?;
        let dashboard = browser.get("/wp-admin/")?;
        if dashboard.status != 200 || !dashboard.text().contains("adminmenu") {
            return Err(format!("no dashboard after the login: {}", first_line(&dashboard)).into());
        }
        let response = browser.get("/wp-admin/admin-ajax.php?action=rest-nonce")?;
        let nonce = response.text().trim().to_owned();
        Ok(Self { browser, nonce })
    }

    /// Requests a page of the site and returns its text.
    pub(super) fn page(&mut self, target: &str) -> Result<String, CommandError> {
        Ok(self.browser.get(target)?.text())
    }

    /// Sends an edit to WordPress's REST API, as the block editor does. `path` is below `/wp-json/wp/v2/`.
    pub(super) fn rest(
        &mut self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<Value, CommandError> {
        let request = Request::new(method, &format!("/wp-json/wp/v2/{path}"))
            .field("Content-Type", "application/json")
            .field("X-WP-Nonce", &self.nonce)
            .body(body.to_string());
        let response = self.browser.send(request)?;
        if response.status >= 300 {
            let text = format!("{method} {path} was rejected: {}", first_line(&response));
            return Err(text.into());
        }
        Ok(serde_json::from_slice(&response.body)?)
    }
}

fn first_line(response: &Response) -> String {
    let text = response.excerpt();
    text.lines().next().unwrap_or_default().to_owned()
}

pub(super) const DESKTOP: &str =
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";
pub(super) const PHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1";
/// Longer than PHP needs for a page while other requests are waiting for it.
const TIMEOUT: Duration = Duration::from_secs(28);
