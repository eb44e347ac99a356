//! Which requests may use the cache.
//!
//! Bypassing is always correct and only slow. A request bypasses the cache when its response may be for one person or one
//! moment, or may depend on something that is neither in the key nor sent upstream. `Range` and conditions do not bypass
//! it.

use super::info::RequestLineInfo;
use super::kinds::{Cacheability, Method};
use crate::outcome::PassWhy;
use crate::query::QueryCacheability;
use crate::site::{AuthorizationPolicy, MemberPages, Policy, RequestDirectives, Rule};
use crate::wordpress;

/// What the pass over the fields found that matters here.
#[derive(Clone, Copy, Default)]
pub(super) struct CacheabilityFindings {
    pub(super) authorization: bool,
    pub(super) bypass_cookie: bool,
    pub(super) login_cookie: bool,
    /// A cookie that means more than a member or a cart.
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
    site: &Policy,
) -> Cacheability {
    match reason(line, decoded_path, query, seen, rule, site) {
        Some(why) => Cacheability::Pass(why),
        None => Cacheability::Cacheable,
    }
}

/// Whether nothing but the cookies of a member or a cart keeps a `GET` from the cache, on a site that has private fragments.
pub(super) fn is_member(
    line: &RequestLineInfo<'_>,
    decoded_path: &[u8],
    query: QueryCacheability,
    seen: &CacheabilityFindings,
    rule: Option<&Rule>,
    site: &Policy,
) -> bool {
    let of_stranger = CacheabilityFindings {
        bypass_cookie: false,
        ..*seen
    };
    site.members == MemberPages::Fragments
        && Method::parse(line.method) == Method::Get
        && seen.bypass_cookie
        && !seen.other_cookie
        && !seen.authorization
        && !rule.is_some_and(|rule| rule.ignore.cookie)
        && reason(line, decoded_path, query, &of_stranger, rule, site).is_none()
}

/// The first reason to pass, in the order in which they are explained to people.
fn reason(
    line: &RequestLineInfo<'_>,
    decoded_path: &[u8],
    query: QueryCacheability,
    seen: &CacheabilityFindings,
    rule: Option<&Rule>,
    site: &Policy,
) -> Option<PassWhy> {
    let ignores_cookies = rule.is_some_and(|rule| rule.ignore.cookie);
    let requests = &site.requests;
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
            site.urls.has_wordpress_paths && wordpress::is_bypass_path(decoded_path),
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
        // RFC 9111 section 5.2.1.5; a visitor's wish where the application has no say of its own.
        (
            requests.directives == RequestDirectives::All && seen.no_store,
            PassWhy::NoStore,
        ),
    ];
    reasons
        .into_iter()
        .find_map(|(applies, why)| applies.then_some(why))
}

/// The rule that applies: the first that matches. A HEAD request also goes by the rules for GET, because it is answered
/// from the page that GET stores.
pub(super) fn matching_rule(
    line: &RequestLineInfo<'_>,
    decoded_path: &[u8],
    site: &Policy,
) -> MatchingRule {
    let method = line.method;
    let mut found = MatchingRule::default();
    for (index, rule) in site.rules.iter().enumerate() {
        let is_meant = rule.matches(method, decoded_path)
            || (method == "HEAD" && rule.matches("GET", decoded_path));
        if !is_meant {
            continue;
        }
        found.is_by_country |= !rule.countries.is_empty();
        if rule.is_for(line.country) {
            found.index = Some(index);
            break;
        }
    }
    found
}

/// The rule that applies.
#[derive(Default)]
pub(super) struct MatchingRule {
    /// `None`: no rule does.
    pub(super) index: Option<usize>,
    /// Whether it is, or may be, another one for clients of other countries.
    pub(super) is_by_country: bool,
}
