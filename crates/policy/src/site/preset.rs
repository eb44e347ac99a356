//! What a preset determines: one type for each concept. Two constructors of [`super::Policy`] set all of them.

use std::time::Duration;

/// How requests are read before anything is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPolicy {
    /// When a request with `Authorization` may use the cache.
    pub authorization: AuthorizationPolicy,
    /// Which request directives (RFC 9111 section 5.2.1) count.
    pub directives: RequestDirectives,
    /// Whether the marks of scripts bypass the cache: `X-Requested-With`, and `X-WP-Nonce` of a logged-in user.
    pub bypass_scripts: bool,
    /// What happens to a request for less than the whole response, `HEAD` or `Range`, that nothing stored satisfies.
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

/// Which directives of a request count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestDirectives {
    /// `only-if-cached` alone: the application decides how fresh its pages are, not the visitor.
    OnlyIfCached,
    /// All.
    All,
}

/// What happens to a `HEAD` or `Range` request that nothing stored satisfies.
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
    /// Which order of parameters counts.
    pub parameter_order: ParameterOrder,
    /// Which URLs show the same page, so that a rule for one must apply to the others.
    pub spellings: EqualSpellings,
    /// Whether `No-Vary-Search` lets the response to one URL satisfy requests for another.
    pub no_vary_search: bool,
}

/// Which order of query parameters makes different pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterOrder {
    /// That of parameters with the same PHP variable.
    WithinVariable,
    /// Any.
    Exact,
}

/// Which URLs show the same page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EqualSpellings {
    /// Those that WordPress routes to it ([`crate::spellings`]).
    WordPress,
    /// Its own alone.
    Exact,
}

/// What a cookie means that the configuration does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnnamedCookies {
    /// The cookies of WordPress and its plugins have their class ([`crate::wordpress`]); all others are ignored.
    WordPress,
    /// The cache is bypassed: each may mean a person.
    Bypass,
}

/// Which responses are stored, and as what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoragePolicy {
    /// Which statuses are stored.
    pub statuses: StorableStatuses,
    /// Whether pages that PHP did not finish, and the heads that WordPress sends with missing pages, are recognised.
    pub checks_pages: bool,
    /// What a response varies by.
    pub vary: VaryPolicy,
    /// Which fields of a response speak to Galley.
    pub fields: AddressedFields,
    /// Whether a silent response is fresh for a tenth of its age (RFC 9111 section 4.2.2).
    pub heuristic: bool,
    /// Which side evaluates validators.
    pub validation: ValidationPolicy,
    /// How long it is remembered that a page may not be stored.
    pub hit_for_pass: Duration,
    /// On which errors of the upstream a stale response is sent.
    pub stale_on: StaleOnStatus,
}

/// Which statuses are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorableStatuses {
    /// Those that WordPress gives to pages and permanent redirects, and those that the configuration names.
    Pages,
    /// Any final status with an explicit lifetime, and those that are heuristically cacheable.
    Final,
}

/// What happens to a response with `Vary`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VaryPolicy {
    /// It is stored only if the key covers all that it names.
    CoveredByKey,
    /// Each variant has an entry.
    Variants,
}

/// Which fields of a response speak to Galley, besides `Cache-Control` and the targeted fields of RFC 9213.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressedFields {
    /// Those that WordPress plugins send to other caches.
    OfPlugins,
    /// `Surrogate-Control`, read by the letter. All others are ordinary fields of the response.
    Standard,
}

/// How stored responses are validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidationPolicy {
    /// Galley: it stores plain bodies, gives them an `ETag`, and has browsers revalidate. The upstream always sends whole pages.
    Galley,
    /// The origin: its response stays unchanged, and stale responses are revalidated with it.
    Origin,
}

/// On which statuses of the upstream a stale response is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleOnStatus {
    /// All errors of a server, such as a host's own 508, also after `must-revalidate`.
    ServerErrors,
    /// Those of RFC 5861 section 4, unless the response forbids it.
    Rfc5861,
}

/// How requests are sent to the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamRequests {
    /// Without all that is not in the key, and with fields for Galley's plugin.
    Trimmed,
    /// As the client sent them.
    AsSent,
}

/// What a successful unsafe request purges (RFC 9111 section 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsafeMethodPurges {
    /// Hard for sessions, softly for everybody else, and nothing where the plugin reports what changed. Unknown methods purge
    /// nothing, and each client has a low limit.
    BySession,
    /// Hard, for everybody, after every method that is not safe.
    Always,
}
