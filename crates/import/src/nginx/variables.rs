//! The variables of nginx in a request without cookies and other optional fields.

use std::collections::HashMap;

use crate::evidence::SampleRequest;

/// The values of variables while nginx decides about a request.
#[derive(Default)]
pub(super) struct Variables<'r> {
    sample: Option<SampleRequest<'r>>,
    groups: Vec<String>,
    /// Those that `set` defines; `None`: the value is unknown.
    own: HashMap<String, Option<String>>,
}

impl<'r> Variables<'r> {
    pub fn of(sample: &SampleRequest<'r>) -> Self {
        Self {
            sample: Some(*sample),
            ..Self::default()
        }
    }

    pub fn is_missing(&self) -> bool {
        self.sample.is_some_and(|sample| sample.is_missing)
    }

    pub fn path(&self) -> &'r str {
        self.sample.map_or("", |sample| sample.path())
    }

    pub fn query(&self) -> &'r str {
        self.sample.map_or("", |sample| sample.query())
    }

    /// Sets a variable, whose name has the `$`.
    pub fn set(&mut self, name: &str, value: &str) {
        let value = self.expand(value);
        self.own
            .insert(name.trim_start_matches('$').to_owned(), value);
    }

    /// Makes the value of a variable unknown.
    pub fn forget(&mut self, name: &str) {
        self.own
            .insert(name.trim_start_matches('$').to_owned(), None);
    }

    /// Sets the groups of the last match.
    pub fn capture<'t>(&mut self, groups: impl Iterator<Item = &'t str>) {
        self.groups = groups.map(str::to_owned).collect();
    }

    /// A text with the values of its variables. `None`: one is unknown.
    pub fn expand(&self, text: &str) -> Option<String> {
        let mut parts = text.split('$');
        let mut whole = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = if let Some(inner) = part.strip_prefix('{') {
                inner.split_once('}')?
            } else {
                let is_digit = part.starts_with(|c: char| c.is_ascii_digit());
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let end = part.find(|c| !is_name(c)).unwrap_or(part.len());
                part.split_at(if is_digit { 1 } else { end })
            };
            whole.push_str(&self.value(name)?);
            whole.push_str(rest);
        }
        Some(whole)
    }

    fn value(&self, name: &str) -> Option<String> {
        if let Some(own) = self.own.get(name) {
            return own.clone();
        }
        if let Ok(group) = name.parse::<usize>() {
            return Some(
                group
                    .checked_sub(1)
                    .and_then(|at| self.groups.get(at))
                    .cloned()
                    .unwrap_or_default(),
            );
        }
        let sample = self.sample?;
        let is_absent = ["http_", "cookie_", "arg_"]
            .iter()
            .any(|start| name.starts_with(start));
        let value = match name {
            "request_uri" => sample.target,
            "uri" | "document_uri" => sample.path(),
            "args" | "query_string" => sample.query(),
            "is_args" if sample.query().is_empty() => "",
            "is_args" => "?",
            "host" | "http_host" => sample.host,
            "scheme" if sample.is_tls => "https",
            "scheme" => "http",
            "https" if sample.is_tls => "on",
            "https" => "",
            "request_method" => sample.method,
            "remote_addr" => return Some(sample.client.to_string()),
            _ if is_absent && !sample.query().contains(name.trim_start_matches("arg_")) => "",
            _ => return None,
        };
        Some(value.to_owned())
    }
}
