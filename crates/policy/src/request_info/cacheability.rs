//! Which requests may use the cache.
//!
//! Bypassing the cache is always correct, only slow. A request bypasses the cache if its response may be for one person or one
//! moment, or may depend on something that is neither in the key nor sent upstream. `Range` and conditions do not bypass
//! it.

use super::info::RequestLineInfo;
use super::kinds::{Cacheability, Method};
use crate::outcome::PassWhy;
use crate::query::QueryCacheability;
use crate::site::{AuthorizationPolicy, MemberPages, Policy, RequestDirectives, Rule};
use crate::wordpress;

/// The findings of the pass over the fields that cacheability depends on.
#[derive(Clone, Copy, Default)]
pub(super) struct CacheabilityFindings {
    pub(super) authorization: bool,
    pub(super) bypass_cookie: bool,
    pub(super) login_cookie: bool,
    /// A cookie other than those of members and carts.
    pub(super) other_cookie: bool,
    pub(super) nonce: bool,
    pub(super) ajax: bool,
    pub(super) foreign_origin: bool,
    pub(super) no_store: bool,
    pub(super) method_override: bool,
}

pub(super) fn judge(
    line: &RequestLineInfo<'_>,
    decoded_path: &[u8],
    query: QueryCacheability,
    seen: &CacheabilityFindings,
    rule: Option<&Rule>,
    policy: &Policy,
) -> Cacheability {
    match reason(line, decoded_path, query, seen, rule, policy) {
        Some(why) => Cacheability::Pass(why),
        None => Cacheability::Cacheable,
    }
}

/// Whether only the cookies of a member or a cart keep a `GET` from the cache, on a site with private fragments.
pub(super) fn is_member(
    line: &RequestLineInfo<'_>,
    decoded_path: &[u8],
    query: QueryCacheability,
    seen: &CacheabilityFindings,
    rule: Option<&Rule>,
    policy: &Policy,
) -> bool {
    let without_cookie = CacheabilityFindings {
        bypass_cookie: false,
        ..*seen
    };
    policy.members == MemberPages::Fragments
        && Method::parse(line.method) == Method::Get
        && seen.bypass_cookie
        && !seen.other_cookie
        && !seen.authorization
        && !rule.is_some_and(|rule| rule.ignore.cookie)
        && reason(line, decoded_path, query, &without_cookie, rule, policy).is_none()
}

/// The first reason to pass, in the order in which reasons are reported.
fn reason(
    line: &RequestLineInfo<'_>,
    decoded_path: &[u8],
    query: QueryCacheability,
    seen: &CacheabilityFindings,
    rule: Option<&Rule>,
    policy: &Policy,
) -> Option<PassWhy> {
    let ignores_cookies = rule.is_some_and(|rule| rule.ignore.cookie);
    let requests = &policy.requests;
    let reasons = [
        (
            !matches!(Method::parse(line.method), Method::Get | Method::Head),
            PassWhy::Method,
        ),
        (line.upgrade, PassWhy::Upgrade),
        (line.has_body, PassWhy::Body),
        // Without a preset RFC 9111 section 3.5 decides, from the response ([`crate::storable`]).
        (
            requests.authorization == AuthorizationPolicy::Bypass && seen.authorization,
            PassWhy::Authorization,
        ),
        (
            rule.is_some_and(|rule| rule.cache == Some(false)),
            PassWhy::Rule,
        ),
        (
            policy.urls.has_wordpress_paths && wordpress::is_bypass_path(decoded_path),
            PassWhy::Path,
        ),
        (query == QueryCacheability::MustPass, PassWhy::Query),
        (
            requests.bypass_scripts && seen.nonce && seen.login_cookie && !ignores_cookies,
            PassWhy::Nonce,
        ),
        (seen.bypass_cookie && !ignores_cookies, PassWhy::Cookie),
        // The response may name the origin (`Access-Control-Allow-Origin`), which a trimmed request does not carry.
        (seen.foreign_origin, PassWhy::Origin),
        (requests.bypass_scripts && seen.ajax, PassWhy::Ajax),
        // RFC 9111 section 5.2.1.5: the visitor's directive counts if the preset does not leave freshness to the application.
        (
            requests.directives == RequestDirectives::All && seen.no_store,
            PassWhy::NoStore,
        ),
    ];
    reasons
        .into_iter()
        .find_map(|(applies, why)| applies.then_some(why))
}

/// Finds the rule that applies: the first that matches. Rules for GET also match a HEAD request, because its response is
/// made from the page that GET stores.
pub(super) fn matching_rule(
    line: &RequestLineInfo<'_>,
    decoded_path: &[u8],
    policy: &Policy,
) -> MatchingRule {
    let method = line.method;
    let mut matching = MatchingRule::default();
    for (index, rule) in policy.rules.iter().enumerate() {
        let matches = rule.matches(method, decoded_path)
            || (method == "HEAD" && rule.matches("GET", decoded_path));
        if !matches {
            continue;
        }
        matching.is_by_country |= !rule.countries.is_empty();
        if rule.is_for(line.country) {
            matching.index = Some(index);
            break;
        }
    }
    matching
}

/// The rule that applies.
#[derive(Default)]
pub(super) struct MatchingRule {
    /// The index; `None`: no rule applies.
    pub(super) index: Option<usize>,
    /// Whether another rule may apply to clients of other countries.
    pub(super) is_by_country: bool,
}
