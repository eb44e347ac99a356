//! All settings of one site.

use http::HeaderValue;

use super::names::NamePattern;
use super::rule::Rule;
use super::ttl::TtlTable;
use crate::access::SiteAccess;
use crate::headers::Changes;
use crate::redirect::Home;
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
