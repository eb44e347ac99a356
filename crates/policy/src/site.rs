//! What a site's file says about caching, in the form that decisions read.
//!
//! The configuration builds one [`SiteRules`] per site; it is immutable afterwards and shared by all cores. Lists hold
//! only what the file adds: what the preset brings is in [`crate::wordpress`].

use std::time::Duration;

use http::HeaderValue;

use crate::access::{AccessRules, SiteAccess};
use crate::headers::Changes;
use crate::pattern::PathPattern;
use crate::redirect::{Home, Redirect};
use crate::spellings::Guard;

/// Which built-in knowledge applies to a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// WordPress: cookie classes, paths that pass, tracking parameters, lifetimes where the response is silent.
    #[default]
    WordPress,
    /// RFC 9111 and nothing else.
    None,
}

/// Everything that decides about requests and responses of one site.
#[derive(Clone, Debug, Default)]
pub struct SiteRules {
    /// The built-in knowledge.
    pub preset: Preset,
    /// Whether phones and desktops get entries of their own.
    pub device_variants: bool,
    /// Whether the plugin of `LiteSpeed` is told that this is a cache of its kind.
    pub litespeed: bool,
    /// Cookies whose `Set-Cookie` does not keep a response from being stored (it is removed from the stored copy).
    pub harmless_cookies: Vec<NamePattern>,
    /// Cookies whose value is part of the key.
    pub vary_cookies: Vec<NamePattern>,
    /// Cookies that send a request past the cache.
    pub bypass_cookies: Vec<NamePattern>,
    /// Query parameters that are neither part of the key nor sent upstream on a cacheable fetch.
    pub ignore_query: Vec<NamePattern>,
    /// Lifetimes where the response says nothing.
    pub ttl: TtlTable,
    /// The one address of the site, where the file names one.
    pub home: Home,
    /// Fields of its answers.
    pub changes: Changes,
    /// `Strict-Transport-Security` (RFC 6797), where it is asked for.
    pub hsts: Option<HeaderValue>,
    /// Who may ask for what.
    pub access: SiteAccess,
    /// `[[site.rule]]` in file order; the first that matches applies, alone.
    pub rules: Vec<Rule>,
    /// Those rules as other spellings of an address are compared with them; made by [`SiteRules::guarded`].
    pub guard: Guard,
}

impl SiteRules {
    /// The same with the guard of its rules.
    #[must_use]
    pub fn guarded(mut self) -> Self {
        self.guard = Guard::of(self.preset, &self.rules, self.access.common.closes());
        self
    }
}

/// A name, or all names that begin with it: `woocommerce_*`. Case-sensitive, as cookies and PHP variables are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamePattern {
    /// This name only.
    Exact(String),
    /// Every name that begins with this text.
    Prefix(String),
}

impl NamePattern {
    /// Reads `name` or `prefix*`.
    pub fn parse(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(prefix) => Self::Prefix(prefix.to_owned()),
            None => Self::Exact(text.to_owned()),
        }
    }

    /// Whether `name` is meant.
    pub fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::Exact(text) => text.as_bytes() == name,
            Self::Prefix(text) => name.starts_with(text.as_bytes()),
        }
    }
}

/// `[site.ttl]`: lifetimes for responses that name none themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TtlTable {
    /// Status and lifetime, as the file names them.
    pub by_status: Vec<(u16, Duration)>,
    /// For heuristically cacheable statuses that `by_status` does not name.
    pub default: Duration,
    /// How long a stale entry may answer while one refresh runs.
    pub stale_while_revalidate: Duration,
    /// How long a stale entry may answer when the upstream fails.
    pub stale_if_error: Duration,
}

impl Default for TtlTable {
    /// 60 s fresh, 404 for 60 s, ten minutes of refresh, a day of grace: what a WordPress without exact purges needs.
    fn default() -> Self {
        Self {
            by_status: vec![(404, Duration::from_secs(60))],
            default: Duration::from_secs(60),
            stale_while_revalidate: Duration::from_secs(600),
            stale_if_error: Duration::from_secs(86_400),
        }
    }
}

/// One `[[site.rule]]`.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// Which paths: `/form` (that path), `/form*` (everything that begins so). Compared with the decoded path.
    pub path: String,
    /// Which paths, in place of `path`.
    pub pattern: Option<PathPattern>,
    /// Which methods; empty: all.
    pub methods: Vec<String>,
    /// `Some(false)`: never from the cache, never into it. `Some(true)` or `None`: as the preset decides.
    pub cache: Option<bool>,
    /// Lifetime: overrides the response's where `ignore` says so, else fills in where it is silent.
    pub ttl: Option<Duration>,
    /// What of the exchange is to be ignored.
    pub ignore: Ignore,
    /// Whether answers go on as they come, at their client's pace, never by a file.
    pub stream: bool,
    /// Index into the site's list of further upstreams, where the rule names one.
    pub upstream: Option<usize>,
    /// Where its requests are sent to in place of an answer.
    pub redirect: Option<Redirect>,
    /// Fields of its answers, on top of the site's.
    pub changes: Changes,
    /// The largest request body in bytes, in place of the site's.
    pub request_body: Option<u64>,
    /// Patience with the upstream, in place of the site's.
    pub patience: UpstreamTimeouts,
    /// Who may ask for these paths.
    pub access: AccessRules,
}

/// How long the upstream may be silent, where a rule says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpstreamTimeouts {
    /// Before the first byte of its answer.
    pub first_byte: Option<Duration>,
    /// Inside its answer.
    pub read: Option<Duration>,
}

impl Rule {
    /// Whether this rule is meant for a request.
    pub fn matches(&self, method: &str, decoded_path: &[u8]) -> bool {
        let path = match (&self.pattern, self.path.strip_suffix('*')) {
            (Some(pattern), _) => pattern.matches(decoded_path),
            (None, Some(prefix)) => decoded_path.starts_with(prefix.as_bytes()),
            (None, None) => decoded_path == self.path.as_bytes(),
        };
        path && (self.methods.is_empty() || self.methods.iter().any(|m| m == method))
    }

    /// What a redirect may fill in of a path that it matches: the groups of the pattern, or what the `*` stands for.
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
