//! The editor: a browser of the logged-in administrator, and the other doors through which content changes.
//!
//! Everything goes through the server and the real handlers of WordPress. Targets, fields and bodies may name things of
//! the seed as `[[post.3]]`. An act that WordPress refuses is an error: an event that does nothing proves nothing.

use super::site::{HOST, Site};
use crate::{
    TestkitError,
    client::{Browser, Request, Response},
};

/// See the module.
pub(super) struct Editor<'s> {
    pub(super) site: &'s Site,
    browser: Browser,
    rest_key: String,
}

impl<'s> Editor<'s> {
    /// Logs in under a host of the server.
    pub(super) fn log_in(site: &'s Site, host: &str) -> Result<Self, TestkitError> {
        let mut browser = Browser::new(site.addr(), host);
        browser.login(&site.wordpress.user, &site.wordpress.password)?;
        let mut editor = Self {
            site,
            browser,
            rest_key: String::new(),
        };
        let key = editor.get("/wp-admin/admin-ajax.php?action=rest-nonce")?;
        key.text().trim().clone_into(&mut editor.rest_key);
        Ok(editor)
    }

    /// A link of the administration, without a one-time key.
    pub(super) fn get(&mut self, target: &str) -> Result<Response, TestkitError> {
        let target = self.site.fill(target)?;
        let answer = self.browser.get(&target)?;
        well(answer, &target)
    }

    /// A link with a one-time key: `&_wpnonce=` is added.
    pub(super) fn link(&mut self, target: &str, action: &str) -> Result<(), TestkitError> {
        let key = self.key(action)?;
        self.get(&format!("{target}&_wpnonce={key}")).map(drop)
    }

    /// A form with its one-time key in `_wpnonce`.
    pub(super) fn form(
        &mut self,
        target: &str,
        action: &str,
        fields: &[(&str, &str)],
    ) -> Result<(), TestkitError> {
        self.form_with(target, ("_wpnonce", action), fields)
    }

    /// A form with its one-time key in another field.
    pub(super) fn form_with(
        &mut self,
        target: &str,
        (field, action): (&str, &str),
        fields: &[(&str, &str)],
    ) -> Result<(), TestkitError> {
        let key = self.key(action)?;
        let target = self.site.fill(target)?;
        let mut filled = Vec::with_capacity(fields.len() + 1);
        for (name, value) in fields {
            filled.push((self.site.fill(name)?, self.site.fill(value)?));
        }
        filled.push((field.to_owned(), key));
        let pairs: Vec<(&str, &str)> = filled
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let answer = well(self.browser.post(&target, &pairs)?, &target)?;
        // What admin-ajax.php says when it did nothing.
        let refused = ["0", "-1"].contains(&answer.text().trim())
            || answer.text().contains("\"success\":false");
        if refused {
            return Err(refusal(&target, &answer));
        }
        Ok(())
    }

    /// An order of the block editor: `path` is below `/wp-json/wp/v2/`, `body` is JSON.
    pub(super) fn rest(
        &mut self,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<(), TestkitError> {
        self.api(method, &format!("wp/v2/{path}"), body)
    }

    /// The same for the interfaces of other plugins: `path` is below `/wp-json/`.
    pub(super) fn api(&mut self, method: &str, path: &str, body: &str) -> Result<(), TestkitError> {
        let target = self.site.fill(&format!("/wp-json/{path}"))?;
        let request = Request::new(method, &target)
            .field("Content-Type", "application/json")
            .field("X-WP-Nonce", &self.rest_key)
            .body(self.site.fill(body)?);
        let answer = self.browser.send(request)?;
        well(answer, &target).map(drop)
    }

    /// A `POST` of the block editor in which the plugin's own time is measured.
    pub(super) fn rest_clocked(&mut self, path: &str, body: &str) -> Result<(), TestkitError> {
        let target = self.site.fill(&format!("/wp-json/wp/v2/{path}"))?;
        let body = self.site.fill(body)?;
        let request = Request::post(&target, "application/json", body)
            .field("X-WP-Nonce", &self.rest_key)
            .field("X-Exact-Clock", "1");
        let answer = self.browser.send(request)?;
        well(answer, &target).map(drop)
    }

    /// A request of XML-RPC with the administrator's name and password behind the first parameter.
    pub(super) fn xml_rpc(&mut self, method: &str, rest: &[&str]) -> Result<(), TestkitError> {
        let site = self.site;
        let mut values = vec!["<int>1</int>".to_owned()];
        for text in [&site.wordpress.user, &site.wordpress.password] {
            values.push(format!("<string>{text}</string>"));
        }
        for value in rest {
            values.push(site.fill(value)?);
        }
        let params = values.join("</value></param><param><value>");
        let body = format!(
            "<?xml version=\"1.0\"?><methodCall><methodName>{method}</methodName><params><param><value>{params}</value></param></params></methodCall>"
        );
        let answer = self.stranger(Request::post("/xmlrpc.php", "text/xml", body))?;
        if answer.text().contains("<fault>") {
            return Err(refusal("/xmlrpc.php", &answer));
        }
        Ok(())
    }

    /// A request of somebody without cookies.
    pub(super) fn stranger(&self, request: Request) -> Result<Response, TestkitError> {
        let target = request.target.clone();
        well(request.host(HOST).send(self.site.addr())?, &target)
    }

    /// PHP code on the command line, in the loaded WordPress.
    pub(super) fn command_line(&self, code: &str) -> Result<(), TestkitError> {
        self.site.wordpress.php(&self.site.fill(code)?).map(drop)
    }

    /// The one-time key that a form of the administration carries for this action.
    fn key(&mut self, action: &str) -> Result<String, TestkitError> {
        let action = self.site.fill(action)?;
        let target = format!("/wp-admin/admin-ajax.php?action=exact_nonce&for={action}");
        let answer = self.get(&target)?;
        let text = answer.text();
        let key = text.trim();
        if key.len() == 10 {
            return Ok(key.to_owned());
        }
        Err(refusal(&target, &answer))
    }
}

/// The answer, if its status says that it was done.
fn well(answer: Response, target: &str) -> Result<Response, TestkitError> {
    if answer.status < 400 {
        return Ok(answer);
    }
    Err(refusal(target, &answer))
}

fn refusal(target: &str, answer: &Response) -> TestkitError {
    TestkitError::Refused(format!("{target} was refused:\n{}", answer.beginning()))
}
