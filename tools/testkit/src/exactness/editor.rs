//! The editor: a browser of the logged-in administrator, and the other interfaces that change content.
//!
//! All edits go through the server and the real handlers of WordPress. Targets, fields and bodies may contain the name of an
//! object of the seed, such as `[[post.3]]`, in place of its id. An edit that WordPress refuses is an error, because an
//! event without an effect proves nothing.

use super::test_site::{ExactnessSite, HOST};
use crate::{
    TestkitError,
    client::{Browser, Request, Response},
};

/// A logged-in administrator.
pub(super) struct Editor<'s> {
    pub(super) site: &'s ExactnessSite,
    browser: Browser,
    rest_nonce: String,
}

impl<'s> Editor<'s> {
    /// Logs in on this host of the server.
    pub(super) fn log_in(site: &'s ExactnessSite, host: &str) -> Result<Self, TestkitError> {
        let mut browser = Browser::new(site.addr(), host);
        browser.login(&site.wordpress.user, &site.wordpress.password)?;
        let mut editor = Self {
            site,
            browser,
            rest_nonce: String::new(),
        };
        let nonce = editor.get("/wp-admin/admin-ajax.php?action=rest-nonce")?;
        nonce.text().trim().clone_into(&mut editor.rest_nonce);
        Ok(editor)
    }

    /// Follows a link of the administration, without a nonce.
    pub(super) fn get(&mut self, target: &str) -> Result<Response, TestkitError> {
        let target = self.site.substitute_ids(target)?;
        let response = self.browser.get(&target)?;
        require_success(response, &target)
    }

    /// Follows a link with a nonce, appended as `&_wpnonce=`.
    pub(super) fn link(&mut self, target: &str, action: &str) -> Result<(), TestkitError> {
        let nonce = self.nonce(action)?;
        self.get(&format!("{target}&_wpnonce={nonce}")).map(drop)
    }

    /// Submits a form with its nonce in `_wpnonce`.
    pub(super) fn form(
        &mut self,
        target: &str,
        action: &str,
        fields: &[(&str, &str)],
    ) -> Result<(), TestkitError> {
        self.form_with(target, ("_wpnonce", action), fields)
    }

    /// Submits a form with its nonce in another field.
    pub(super) fn form_with(
        &mut self,
        target: &str,
        (field, action): (&str, &str),
        fields: &[(&str, &str)],
    ) -> Result<(), TestkitError> {
        let nonce = self.nonce(action)?;
        let target = self.site.substitute_ids(target)?;
        let mut substituted = Vec::with_capacity(fields.len() + 1);
        for (name, value) in fields {
            let (name, value) = (
                self.site.substitute_ids(name)?,
                self.site.substitute_ids(value)?,
            );
            substituted.push((name, value));
        }
        substituted.push((field.to_owned(), nonce));
        let pairs: Vec<(&str, &str)> = substituted
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let response = require_success(self.browser.post(&target, &pairs)?, &target)?;
        // admin-ajax.php sends these with status 200 if it did nothing.
        let is_refused = ["0", "-1"].contains(&response.text().trim())
            || response.text().contains("\"success\":false");
        if is_refused {
            return Err(refusal(&target, &response));
        }
        Ok(())
    }

    /// Sends a REST request like the block editor: `path` is below `/wp-json/wp/v2/`, `body` is JSON.
    pub(super) fn rest(
        &mut self,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<(), TestkitError> {
        self.api(method, &format!("wp/v2/{path}"), body)
    }

    /// Sends a REST request to another plugin: `path` is below `/wp-json/`.
    pub(super) fn api(&mut self, method: &str, path: &str, body: &str) -> Result<(), TestkitError> {
        let target = self.site.substitute_ids(&format!("/wp-json/{path}"))?;
        let request = Request::new(method, &target)
            .field("Content-Type", "application/json")
            .field("X-WP-Nonce", &self.rest_nonce)
            .body(self.site.substitute_ids(body)?);
        let response = self.browser.send(request)?;
        require_success(response, &target).map(drop)
    }

    /// Sends a REST `POST` in which PHP measures the time spent in the plugin's functions.
    pub(super) fn rest_timed(&mut self, path: &str, body: &str) -> Result<(), TestkitError> {
        let target = self
            .site
            .substitute_ids(&format!("/wp-json/wp/v2/{path}"))?;
        let body = self.site.substitute_ids(body)?;
        let request = Request::post(&target, "application/json", body)
            .field("X-WP-Nonce", &self.rest_nonce)
            .field("X-Exact-Clock", "1");
        let response = self.browser.send(request)?;
        require_success(response, &target).map(drop)
    }

    /// Sends an XML-RPC request with the administrator's name and password after the first parameter.
    pub(super) fn xml_rpc(&mut self, method: &str, rest: &[&str]) -> Result<(), TestkitError> {
        let site = self.site;
        let mut values = vec!["<int>1</int>".to_owned()];
        for text in [&site.wordpress.user, &site.wordpress.password] {
            values.push(format!("<string>{text}</string>"));
        }
        for value in rest {
            values.push(site.substitute_ids(value)?);
        }
        let params = values.join("</value></param><param><value>");
        let body = format!(
            "<?xml version=\"1.0\"?><methodCall><methodName>{method}</methodName><params><param><value>{params}</value></param></params></methodCall>"
        );
        let response = self.send_as_visitor(Request::post("/xmlrpc.php", "text/xml", body))?;
        if response.text().contains("<fault>") {
            return Err(refusal("/xmlrpc.php", &response));
        }
        Ok(())
    }

    /// Sends any request of the administrator; the response may be an error.
    pub(super) fn send(&mut self, request: Request) -> Result<Response, TestkitError> {
        self.browser.send(request)
    }

    /// The nonce of REST requests.
    pub(super) fn rest_nonce(&self) -> &str {
        &self.rest_nonce
    }

    /// Sends a request without cookies.
    pub(super) fn send_as_visitor(&self, request: Request) -> Result<Response, TestkitError> {
        let target = request.target.clone();
        require_success(request.host(HOST).send(self.site.addr())?, &target)
    }

    /// Runs PHP code on the command line, in the loaded WordPress.
    pub(super) fn command_line(&self, code: &str) -> Result<(), TestkitError> {
        let code = self.site.substitute_ids(code)?;
        self.site.wordpress.php(&code).map(drop)
    }

    /// The nonce of the administration's form for this action.
    fn nonce(&mut self, action: &str) -> Result<String, TestkitError> {
        let action = self.site.substitute_ids(action)?;
        let target = format!("/wp-admin/admin-ajax.php?action=exact_nonce&for={action}");
        let response = self.get(&target)?;
        let text = response.text();
        let nonce = text.trim();
        if nonce.len() == 10 {
            return Ok(nonce.to_owned());
        }
        Err(refusal(&target, &response))
    }
}

/// Returns the response if its status is not an error.
fn require_success(response: Response, target: &str) -> Result<Response, TestkitError> {
    if response.status < 400 {
        return Ok(response);
    }
    Err(refusal(target, &response))
}

fn refusal(target: &str, response: &Response) -> TestkitError {
    TestkitError::Refused(format!("{target} was refused:\n{}", response.excerpt()))
}
