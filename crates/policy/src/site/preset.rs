//! The settings that a preset determines: one type for each concept. Two constructors of [`super::Policy`] set all of them.

use std::time::Duration;

/// How requests are interpreted before the lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPolicy {
    /// When a request with `Authorization` may use the cache.
    pub authorization: AuthorizationPolicy,
    /// Which request directives (RFC 9111 section 5.2.1) count.
    pub directives: RequestDirectives,
    /// Whether the marks of scripts bypass the cache: `X-Requested-With`, and `X-WP-Nonce` of a logged-in user.
    pub bypass_scripts: bool,
    /// What happens to a `HEAD` or `Range` request that no stored response satisfies.
    pub partial: PartialRequests,
    /// Whether Galley is a gateway by RFC 9110: it forwards unknown methods to HTTP servers, sends `Via` and `CDN-Loop`, and
    /// detects loops.
    pub is_gateway: bool,
}

/// When a request with `Authorization` may use the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizationPolicy {
    /// Never.
    Bypass,
    /// When the response permits it (RFC 9111 section 3.5).
    AsResponsePermits,
}

/// The request directives that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestDirectives {
    /// Only `only-if-cached`: the application decides how fresh its pages are, not the visitor.
    OnlyIfCached,
    /// All directives.
    All,
}

/// What happens to a `HEAD` or `Range` request that no stored response satisfies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialRequests {
    /// The whole page is fetched and stored.
    FetchWhole,
    /// The request is forwarded.
    Forward,
}

/// How the URLs of a site are interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UrlPolicy {
    /// Whether the paths, parameters and scripts of WordPress have their meaning: some bypass the cache, some are for
    /// administrators.
    pub has_wordpress_paths: bool,
    /// Whether parameters that only analytics read are dropped.
    pub ignore_tracking: bool,
    /// Which differences in the order of parameters matter.
    pub parameter_order: ParameterOrder,
    /// The URLs that show the same page, so that a rule for one must apply to the others.
    pub spellings: EqualSpellings,
    /// Whether `No-Vary-Search` lets the response to one URL satisfy requests for another.
    pub no_vary_search: bool,
}

/// Which differences in the order of query parameters make different pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterOrder {
    /// The order of parameters that set the same PHP variable.
    WithinVariable,
    /// Any difference.
    Exact,
}

/// The URLs that show the same page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EqualSpellings {
    /// All URLs that WordPress routes to the page ([`crate::spellings`]).
    WordPress,
    /// The URL of the page only.
    Exact,
}

/// The meaning of cookies that the configuration does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnnamedCookies {
    /// The cookies of WordPress and its plugins have their class ([`crate::wordpress`]); all others are ignored.
    WordPress,
    /// Each of them bypasses the cache, because it may identify a person.
    Bypass,
}

/// Which responses are stored, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoragePolicy {
    /// The statuses that are stored.
    pub statuses: StorableStatuses,
    /// Whether pages that PHP did not finish, and the standard head of WordPress on missing pages, are recognized.
    pub checks_pages: bool,
    /// What happens to a response with `Vary`.
    pub vary: VaryPolicy,
    /// The response fields that Galley reads as instructions.
    pub fields: AddressedFields,
    /// Whether a response that states no lifetime is fresh for a tenth of its age (RFC 9111 section 4.2.2).
    pub heuristic: bool,
    /// Who validates stored responses.
    pub validation: ValidationPolicy,
    /// How long a hit-for-pass object is used.
    pub hit_for_pass: Duration,
    /// The upstream errors for which a stale response is sent.
    pub stale_on: StaleOnStatus,
}

/// The statuses that are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorableStatuses {
    /// Those of WordPress's pages and permanent redirects, and those that the configuration names.
    Pages,
    /// Any final status with an explicit lifetime, and the heuristically cacheable ones.
    Final,
}

/// What happens to a response with `Vary`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VaryPolicy {
    /// It is stored only if the key covers all fields that `Vary` names.
    CoveredByKey,
    /// Each variant has an entry.
    Variants,
}

/// The response fields that Galley reads as instructions, besides `Cache-Control` and the targeted fields of RFC 9213.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressedFields {
    /// The fields that WordPress plugins send to other caches.
    OfPlugins,
    /// `Surrogate-Control`, interpreted as specified. All others are ordinary response fields.
    Standard,
}

/// Who validates stored responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidationPolicy {
    /// Galley: it stores plain bodies, gives them an `ETag`, and has browsers revalidate. The upstream always sends whole pages.
    Galley,
    /// The origin: its response is not changed, and stale responses are revalidated with it.
    Origin,
}

/// The upstream statuses for which a stale response is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleOnStatus {
    /// All server errors, including a host's own such as 508, also after `must-revalidate`.
    ServerErrors,
    /// Those of RFC 5861 section 4, unless the response forbids it.
    Rfc5861,
}

/// How requests are sent to the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamRequests {
    /// Without the parts that are not in the key, and with fields for Galley's plugin.
    Trimmed,
    /// As the client sent them.
    AsSent,
}

/// The purges after successful unsafe requests (RFC 9111 section 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsafeMethodPurges {
    /// Soft, for every client, and none if the plugin reports changes. Unknown methods purge nothing, and each client has a low
    /// limit.
    Softly,
    /// Hard, for every client, after every method that is not safe.
    Always,
}
