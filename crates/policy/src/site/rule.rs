//! `[[site.rule]]`: settings for some paths and methods.

use std::time::Duration;

use crate::access::{AccessRules, CountryCode};
use crate::headers::Changes;
use crate::pattern::PathPattern;
use crate::redirect::Redirect;

/// One `[[site.rule]]`.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// Which paths: `/form` (that path), `/form*` (everything that begins so). Compared with the decoded path.
    pub path: String,
    /// Which paths, in place of `path`.
    pub pattern: Option<PathPattern>,
    /// Which methods; empty: all.
    pub methods: Vec<String>,
    /// From which countries; empty: all, also clients whose country is not known.
    pub countries: Vec<CountryCode>,
    /// `Some(false)`: never from the cache, never into it. `Some(true)` or `None`: as the preset decides.
    pub cache: Option<bool>,
    /// Lifetime: overrides the response's if `ignore` says so, otherwise used if the response has none.
    pub ttl: Option<Duration>,
    /// What of the exchange is to be ignored.
    pub ignore: Ignore,
    /// Whether answers go on as they come, at their client's pace, never by a file.
    pub stream: bool,
    /// Whether request bodies go to the upstream while they arrive, at their client's pace.
    pub stream_request: bool,
    /// Index into the site's list of further upstreams, where the rule names one.
    pub upstream: Option<usize>,
    /// Where its requests are sent to in place of a response.
    pub redirect: Option<Redirect>,
    /// Fields of its responses, on top of the site's.
    pub changes: Changes,
    /// The largest request body in bytes, in place of the site's.
    pub request_body: Option<u64>,
    /// Timeouts for the upstream, instead of the site's.
    pub timeouts: UpstreamTimeouts,
    /// Access control for these paths.
    pub access: AccessRules,
}

/// How long the upstream may be silent, where a rule says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpstreamTimeouts {
    /// Before the first byte of its response.
    pub first_byte: Option<Duration>,
    /// Inside its response.
    pub read: Option<Duration>,
}

impl Rule {
    /// Whether this rule is meant for a request, whatever the country of the client ([`Rule::is_for`]).
    pub fn matches(&self, method: &str, decoded_path: &[u8]) -> bool {
        let path = match (&self.pattern, self.path.strip_suffix('*')) {
            (Some(pattern), _) => pattern.matches(decoded_path),
            (None, Some(prefix)) => decoded_path.starts_with(prefix.as_bytes()),
            (None, None) => decoded_path == self.path.as_bytes(),
        };
        path && (self.methods.is_empty() || self.methods.iter().any(|m| m == method))
    }

    /// Whether it applies to a client of this country; `None`: unknown.
    pub fn is_for(&self, country: Option<CountryCode>) -> bool {
        self.countries.is_empty()
            || country.is_some_and(|country| self.countries.contains(&country))
    }

    /// What a redirect may insert from a path that it matches: the groups of the pattern, or the part that the `*` matches.
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
pub struct Ignore {
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
