//! All settings of one site.

use std::time::Duration;

use http::{HeaderName, HeaderValue};

use super::flags::SiteFlags;
use super::names::NamePattern;
use super::preset::{
    AddressedFields, AuthorizationPolicy, EqualSpellings, ParameterOrder, PartialRequests,
    RequestDirectives, RequestPolicy, StaleOnStatus, StorableStatuses, StoragePolicy,
    UnnamedCookies, UnsafeMethodPurges, UpstreamRequests, UrlPolicy, ValidationPolicy, VaryPolicy,
};
use super::rule::Rule;
use super::ttl::TtlTable;
use crate::access::SiteAccess;
use crate::headers::Changes;
use crate::redirect::CanonicalAddress;
use crate::route::HostPattern;
use crate::spellings::SpellingGuard;

/// The built-in values that a site starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// WordPress: cookie classes, paths that bypass the cache, tracking parameters, default lifetimes.
    #[default]
    WordPress,
    /// RFC 9111 only.
    None,
}

/// The pages for members and visitors with a cart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemberPages {
    /// PHP generates the page for each request.
    #[default]
    Pass,
    /// Stored pages in which the private fragments ([`crate::private`]) are replaced by those of the visitor.
    Fragments,
}

/// A value of `Alt-Svc` (RFC 7838).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AltSvc {
    /// The requests that it is for, by the port that they name; `None`: all.
    pub of_port: Option<u16>,
    /// The value.
    pub value: HeaderValue,
}

/// The targets of ESI tags in a site's pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EsiPolicy {
    /// Hosts of includes besides the host of the page. They are requested from the site's own upstream.
    pub hosts: Vec<HostPattern>,
}

/// All settings for the requests and responses of one site.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The preset that the policy was built from, for reports. Decisions depend on the other fields.
    pub preset: Preset,
    /// How requests are interpreted before the lookup.
    pub requests: RequestPolicy,
    /// How URLs are interpreted.
    pub urls: UrlPolicy,
    /// The meaning of cookies that none of the lists below names.
    pub unnamed_cookies: UnnamedCookies,
    /// Which responses are stored, and how.
    pub storage: StoragePolicy,
    /// How requests are sent to the upstream.
    pub upstream_requests: UpstreamRequests,
    /// The purges after unsafe requests.
    pub unsafe_methods: UnsafeMethodPurges,
    /// The pages for members and visitors with a cart.
    pub members: MemberPages,
    /// Whether Galley processes ESI tags, and where includes may be requested; see [`crate::esi`].
    pub esi: Option<EsiPolicy>,
    /// The options that are `true` or `false`.
    pub flags: SiteFlags,
    /// Cookies whose `Set-Cookie` does not prevent storing a response (it is removed from the stored head).
    pub harmless_cookies: Vec<NamePattern>,
    /// Cookies whose value is part of the key.
    pub vary_cookies: Vec<NamePattern>,
    /// Cookies that make a request bypass the cache.
    pub bypass_cookies: Vec<NamePattern>,
    /// Query parameters that are neither part of the key nor sent upstream on a cacheable fetch.
    pub ignore_query: Vec<NamePattern>,
    /// The default lifetimes.
    pub ttl: TtlTable,
    /// The canonical address of the site, if the configuration names one.
    pub home: CanonicalAddress,
    /// Changes of response fields.
    pub changes: Changes,
    /// The field with the tags of a page, for caches in front; `None`: tags are not sent.
    pub tag_field: Option<HeaderName>,
    /// The maximum time for which caches in front may use a stored page; `None`: no field is sent.
    pub outer_ttl: Option<Duration>,
    /// `Strict-Transport-Security` (RFC 6797), if it is enabled.
    pub hsts: Option<HeaderValue>,
    /// The values of `Alt-Svc`, if the site is reachable over HTTP/3. The first for the port of a request applies.
    pub alt_svc: Vec<AltSvc>,
    /// The path below which Galley shows its dashboard of this site, with a slash at both ends.
    pub dashboard: Option<String>,
    /// The site's access control.
    pub access: SiteAccess,
    /// `[[site.rule]]` in file order; only the first that matches applies.
    pub rules: Vec<Rule>,
    /// The rules in the form in which other spellings of a URL are compared with them; built by [`Policy::guarded`].
    pub guard: SpellingGuard,
}

impl Default for Policy {
    fn default() -> Self {
        Self::wordpress()
    }
}

impl Policy {
    /// The policy of a WordPress site.
    pub fn wordpress() -> Self {
        Self {
            preset: Preset::WordPress,
            requests: RequestPolicy {
                authorization: AuthorizationPolicy::Bypass,
                directives: RequestDirectives::OnlyIfCached,
                bypass_scripts: true,
                partial: PartialRequests::FetchWhole,
                is_gateway: false,
            },
            urls: UrlPolicy {
                has_wordpress_paths: true,
                ignore_tracking: true,
                parameter_order: ParameterOrder::WithinVariable,
                spellings: EqualSpellings::WordPress,
                no_vary_search: false,
            },
            unnamed_cookies: UnnamedCookies::WordPress,
            storage: StoragePolicy {
                statuses: StorableStatuses::Pages,
                checks_pages: true,
                vary: VaryPolicy::CoveredByKey,
                fields: AddressedFields::OfPlugins,
                heuristic: false,
                validation: ValidationPolicy::Galley,
                hit_for_pass: Duration::from_secs(120),
                stale_on: StaleOnStatus::ServerErrors,
            },
            upstream_requests: UpstreamRequests::Trimmed,
            unsafe_methods: UnsafeMethodPurges::Softly,
            ttl: TtlTable::default(),
            members: MemberPages::Pass,
            esi: None,
            flags: SiteFlags::default(),
            harmless_cookies: Vec::new(),
            vary_cookies: Vec::new(),
            bypass_cookies: Vec::new(),
            ignore_query: Vec::new(),
            home: CanonicalAddress::default(),
            changes: Changes::default(),
            tag_field: None,
            outer_ttl: None,
            hsts: None,
            alt_svc: Vec::new(),
            dashboard: None,
            access: SiteAccess::default(),
            rules: Vec::new(),
            guard: SpellingGuard::default(),
        }
    }

    /// The policy of any other site: RFC 9111 only.
    pub fn rfc9111() -> Self {
        Self {
            preset: Preset::None,
            requests: RequestPolicy {
                authorization: AuthorizationPolicy::AsResponsePermits,
                directives: RequestDirectives::All,
                bypass_scripts: false,
                partial: PartialRequests::Forward,
                is_gateway: true,
            },
            urls: UrlPolicy {
                has_wordpress_paths: false,
                ignore_tracking: false,
                parameter_order: ParameterOrder::Exact,
                spellings: EqualSpellings::Exact,
                no_vary_search: true,
            },
            unnamed_cookies: UnnamedCookies::Bypass,
            storage: StoragePolicy {
                statuses: StorableStatuses::Final,
                checks_pages: false,
                vary: VaryPolicy::Variants,
                fields: AddressedFields::Standard,
                heuristic: true,
                validation: ValidationPolicy::Origin,
                // Long enough for a burst. No response of the URL is stored during that time.
                hit_for_pass: Duration::from_secs(2),
                stale_on: StaleOnStatus::Rfc5861,
            },
            upstream_requests: UpstreamRequests::AsSent,
            unsafe_methods: UnsafeMethodPurges::Always,
            ttl: TtlTable::none(),
            ..Self::wordpress()
        }
    }

    /// The policy of a preset.
    pub fn of(preset: Preset) -> Self {
        match preset {
            Preset::WordPress => Self::wordpress(),
            Preset::None => Self::rfc9111(),
        }
    }

    /// Whether a decoded path belongs to the dashboard: at or below its path, with or without the final slash.
    pub fn is_dashboard(&self, decoded_path: &[u8]) -> bool {
        self.dashboard.as_deref().is_some_and(|own| {
            decoded_path
                .strip_prefix(own.trim_end_matches('/').as_bytes())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        })
    }

    /// The same policy with the guard of its rules.
    #[must_use]
    pub fn guarded(mut self) -> Self {
        self.guard = SpellingGuard::of(
            self.urls.spellings,
            &self.rules,
            self.access.common.closes(),
        );
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_dashboard_are_those_below_it() {
        let policy = Policy {
            dashboard: Some("/a/galley/".to_owned()),
            ..Policy::wordpress()
        };
        for own in [
            "/a/galley",
            "/a/galley/",
            "/a/galley/api/status",
            "/a/galley//",
        ] {
            assert!(policy.is_dashboard(own.as_bytes()), "{own}");
        }
        for other in [
            "",
            "/",
            "/a/",
            "/a/galley2/",
            "/a/galle",
            "/galley/",
            "/b/a/galley/",
            "/A/galley/",
        ] {
            assert!(!policy.is_dashboard(other.as_bytes()), "{other}");
        }
        assert!(!Policy::wordpress().is_dashboard(b""));
    }
}
