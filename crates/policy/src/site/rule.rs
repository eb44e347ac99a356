//! `[[site.rule]]`: settings for some paths and methods.

use std::time::Duration;

use crate::access::{AccessRules, CountryCode};
use crate::headers::Changes;
use crate::pattern::PathPattern;
use crate::redirect::Redirect;

/// One `[[site.rule]]`.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// The paths: `/form` (this path), `/form*` (all paths that begin with it). Compared with the decoded path.
    pub path: String,
    /// A pattern for the paths, in place of `path`.
    pub pattern: Option<PathPattern>,
    /// The methods; empty: all.
    pub methods: Vec<String>,
    /// The countries of the clients; empty: all, including clients whose country is unknown.
    pub countries: Vec<CountryCode>,
    /// `Some(false)`: never cached. `Some(true)` or `None`: as the preset decides.
    pub cache: Option<bool>,
    /// The lifetime: overrides the response's if `ignore` says so, otherwise used if the response states none.
    pub ttl: Option<Duration>,
    /// The fields that are ignored.
    pub ignore: IgnoredParts,
    /// Whether responses are forwarded as they arrive, at the client's pace, and never spooled to a file.
    pub stream: bool,
    /// Whether request bodies are sent to the upstream as they arrive, at the client's pace.
    pub stream_request: bool,
    /// The index in the site's list of further upstreams, if the rule names an upstream.
    pub upstream: Option<usize>,
    /// The target to which the rule redirects its requests.
    pub redirect: Option<Redirect>,
    /// Changes of response fields, in addition to the site's.
    pub changes: Changes,
    /// The maximum size of a request body in bytes, in place of the site's.
    pub request_body: Option<u64>,
    /// The timeouts for the upstream, in place of the site's.
    pub timeouts: UpstreamTimeouts,
    /// Access control for these paths.
    pub access: AccessRules,
    /// The status of a denial by the rule, 403 to 410; `None`: 403.
    pub deny_status: Option<u16>,
    /// Whether access control covers these paths only, and no other spellings of the same pages ([`crate::spellings`]).
    pub exact_access: bool,
}

/// How long a rule permits the upstream to be silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpstreamTimeouts {
    /// The time until the first byte of the response.
    pub first_byte: Option<Duration>,
    /// The time between two reads of the response.
    pub read: Option<Duration>,
}

impl Rule {
    /// Whether method and path match, whatever the country of the client ([`Rule::is_for`]).
    pub fn matches(&self, method: &str, decoded_path: &[u8]) -> bool {
        let path = match (&self.pattern, self.path.strip_suffix('*')) {
            (Some(pattern), _) => pattern.matches(decoded_path),
            (None, Some(prefix)) => decoded_path.starts_with(prefix.as_bytes()),
            (None, None) => decoded_path == self.path.as_bytes(),
        };
        path && (self.methods.is_empty() || self.methods.iter().any(|m| m == method))
    }

    /// Whether the rule applies to a client of this country; `None`: unknown.
    pub fn is_for(&self, country: Option<CountryCode>) -> bool {
        self.countries.is_empty()
            || country.is_some_and(|country| self.countries.contains(&country))
    }

    /// The parts of a matching path that a redirect may insert: the groups of the pattern, or the part that the `*` matches.
    pub fn groups<'p>(&self, decoded_path: &'p [u8]) -> Vec<Option<&'p [u8]>> {
        let rest = || {
            let prefix = self.path.strip_suffix('*')?;
            decoded_path.strip_prefix(prefix.as_bytes())
        };
        match &self.pattern {
            Some(pattern) => pattern.captures(decoded_path).unwrap_or_default(),
            None => rest().map(Some).into_iter().collect(),
        }
    }
}

/// `ignore = [...]` of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IgnoredParts {
    /// `Cache-Control` (and its targeted forms) of the response.
    pub cache_control: bool,
    /// `Expires` of the response.
    pub expires: bool,
    /// `Set-Cookie` of the response: removed, and no reason not to store.
    pub set_cookie: bool,
    /// `Cookie` of the request: neither a reason to pass nor sent upstream.
    pub cookie: bool,
    /// `Vary` of the response.
    pub vary: bool,
}
