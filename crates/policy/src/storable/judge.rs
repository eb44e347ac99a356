//! Evaluates a response: runs each check in order.

use super::fields::cookies_set;
use super::lifetime::{default_lifetime, from_arrival, missing_page, spread, store_unless_stale};
use super::response::{ResponseHead, Storability, is_html};
use super::{litespeed, redirect, rfc9111};
use crate::cache_control::CacheControl;
use crate::freshness::{self, StaleWindows, Statement};
use crate::outcome::NotStored;
use crate::request_info::{Cacheability, Method, RequestInfo};
use crate::site::{
    AddressedFields, AuthorizationPolicy, IgnoredParts, Policy, StorableStatuses, ValidationPolicy,
    VaryPolicy,
};
use crate::vary::Vary;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};

/// Evaluates a response to the trimmed form of the request `info`.
pub fn judge(info: &RequestInfo, response: &ResponseHead<'_>, policy: &Policy) -> Storability {
    judge_statement(info, response, policy, &statement(info, response, policy))
}

/// As [`judge`], but shortens a lifetime that the response does not state by up to a tenth, so that pages that were stored
/// together do not expire together. `seed`: any number that belongs to the entry; equal seeds give equal lifetimes.
pub fn judge_spread(
    info: &RequestInfo,
    response: &ResponseHead<'_>,
    policy: &Policy,
    seed: u64,
) -> Storability {
    let statement = statement(info, response, policy);
    match judge_statement(info, response, policy, &statement) {
        Storability::Store(lifetime) => {
            Storability::Store(spread(response, &statement, policy, lifetime, seed))
        }
        skip @ Storability::Skip(_) => skip,
    }
}

fn statement(info: &RequestInfo, response: &ResponseHead<'_>, policy: &Policy) -> Statement {
    let rule = info.rule().and_then(|index| policy.rules.get(index));
    let ignore = rule.map_or(IgnoredParts::default(), |rule| rule.ignore);
    freshness::statement(response.fields, policy.storage.fields, ignore, response.now)
}

fn judge_statement(
    info: &RequestInfo,
    response: &ResponseHead<'_>,
    policy: &Policy,
    statement: &Statement,
) -> Storability {
    let rule = info.rule().and_then(|index| policy.rules.get(index));
    let ignore = rule.map_or(IgnoredParts::default(), |rule| rule.ignore);
    let forbidden = check_request(info, statement, policy)
        .and_then(|()| check_status(response, statement, policy))
        .and_then(|()| check_cookies(response.fields, policy, ignore))
        .and_then(|()| check_vary(response.fields, policy, ignore))
        .and_then(|()| check_content(info, response, policy));
    if let Err(why) = forbidden {
        return Storability::Skip(why);
    }
    if let Some(lifetime) = missing_page(response, statement, policy) {
        let lifetime = from_arrival(response, lifetime);
        return store_unless_stale(response, lifetime, StaleWindows::default());
    }
    if policy.storage.validation == ValidationPolicy::Origin {
        return rfc9111::judge(response, statement, rule, policy);
    }
    if let Err(why) = check_directives(&statement.control) {
        return Storability::Skip(why);
    }
    let windows = freshness::windows(statement, response.status, &policy.ttl);
    let by_default = || {
        default_lifetime(response, statement, rule, policy).map(|own| from_arrival(response, own))
    };
    let fresh = statement.lifetime.or_else(by_default);
    fresh.map_or(Storability::Skip(NotStored::NoLifetime), |fresh| {
        store_unless_stale(response, fresh, windows)
    })
}

fn check_request(
    info: &RequestInfo,
    statement: &Statement,
    policy: &Policy,
) -> Result<(), NotStored> {
    if !matches!(info.method(), Method::Get | Method::Head) {
        return Err(NotStored::Method);
    }
    // `no-store` of a request is evaluated before the lookup, and only without a preset. Here it would mark the page as not
    // storable for everybody.
    let may_share = match policy.requests.authorization {
        AuthorizationPolicy::Bypass => !info.has_session(),
        // If the request may use the cache, its session consists of `Authorization` alone.
        AuthorizationPolicy::AsResponsePermits => {
            rfc9111::may_share_authorized(info, &statement.control)
        }
    };
    match info.cacheability() {
        Cacheability::Cacheable if may_share => Ok(()),
        // A request that passes is forwarded untrimmed, so its response may be personal.
        Cacheability::Cacheable | Cacheability::Pass(_) => Err(NotStored::Private),
    }
}

fn check_status(
    response: &ResponseHead<'_>,
    statement: &Statement,
    policy: &Policy,
) -> Result<(), NotStored> {
    let status = response.status.as_u16();
    // RFC 9110 §14.4: without a preset the field has a meaning only in a 206.
    let names_part = policy.storage.statuses == StorableStatuses::Pages
        && response.fields.contains_key(CONTENT_RANGE);
    if status == 206 || names_part {
        return Err(NotStored::Partial);
    }
    if status == 503 && response.fields.contains_key(RETRY_AFTER) {
        return Err(NotStored::Maintenance);
    }
    let has_lifetime = freshness::named_lifetime(response.status, &policy.ttl).is_some();
    let may_store = match policy.storage.statuses {
        StorableStatuses::Pages => match status {
            200 | 203 | 301 | 308 | 404 | 410 => true,
            // Temporary redirects of WordPress depend on the client and the time; 204 and 304 are not pages; the other statuses
            // are challenges, or ask the client to retry later.
            204 | 302..=304 | 307 | 401 | 407 | 429 => false,
            200..=499 => has_lifetime,
            _ => false,
        },
        StorableStatuses::Final => match status {
            304 | 0..=199 | 600.. => false,
            _ if statement.control.must_understand && !rfc9111::is_understood(status) => false,
            _ => {
                has_lifetime
                    || statement.lifetime.is_some()
                    || statement.control.public
                    || freshness::is_heuristically_cacheable(response.status)
            }
        },
    };
    if may_store {
        Ok(())
    } else {
        Err(NotStored::Status)
    }
}

fn check_cookies(
    fields: &HeaderMap,
    policy: &Policy,
    ignore: IgnoredParts,
) -> Result<(), NotStored> {
    if ignore.set_cookie || cookies_set(fields, policy).all(|name| is_harmless(name, policy)) {
        Ok(())
    } else {
        Err(NotStored::SetCookie)
    }
}

/// Whether the site's configuration declares a cookie harmless. No preset may decide that a cookie identifies nobody.
fn is_harmless(name: &[u8], policy: &Policy) -> bool {
    policy
        .harmless_cookies
        .iter()
        .any(|pattern| pattern.matches(name))
}

fn check_vary(fields: &HeaderMap, policy: &Policy, ignore: IgnoredParts) -> Result<(), NotStored> {
    let vary = Vary::of(fields);
    let is_supported = match policy.storage.vary {
        VaryPolicy::CoveredByKey => vary.is_covered_by_key(policy.storage.vary),
        // Each variant gets a separate entry.
        VaryPolicy::Variants => vary.is_selectable(),
    };
    if policy.storage.fields == AddressedFields::OfPlugins {
        litespeed::check(fields, policy)?;
    }
    if ignore.vary || is_supported {
        Ok(())
    } else {
        Err(NotStored::Vary)
    }
}

fn check_content(
    info: &RequestInfo,
    response: &ResponseHead<'_>,
    policy: &Policy,
) -> Result<(), NotStored> {
    if policy.storage.checks_pages && response.status == StatusCode::OK {
        let says_empty = response
            .fields
            .get(CONTENT_LENGTH)
            .is_some_and(|length| length.as_bytes() == b"0");
        if says_empty && is_html(response.fields) {
            return Err(NotStored::Empty);
        }
    }
    if response.status.is_redirection()
        && redirect::redirects_to_itself(info, response.fields, policy)
    {
        return Err(NotStored::Loop);
    }
    Ok(())
}

fn check_directives(control: &CacheControl) -> Result<(), NotStored> {
    if control.no_store {
        Err(NotStored::NoStore)
    } else if control.private {
        Err(NotStored::Private)
    } else if control.no_cache {
        Err(NotStored::NoCache)
    } else {
        Ok(())
    }
}
