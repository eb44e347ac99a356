//! Lifetimes that the site defines, not the response.
//!
//! Default lifetimes are spread, so that pages that were stored together do not expire together. Only a lifetime that the
//! response does not state is shortened, by at most a tenth, and never lengthened: a stated lifetime is exact to the second,
//! and a heuristic one stays within the limits of RFC 9111 §4.2.2.

use std::time::Duration;

use http::StatusCode;
use http::header::EXPIRES;

use super::fields::cookies_set;
use super::response::{Lifetime, ResponseHead, Storability};
use crate::cache_control::CacheControl;
use crate::freshness::{self, FreshnessSource, StaleWindows, Statement};
use crate::outcome::NotStored;
use crate::site::{Policy, Rule};

/// The lifetime of a 404 with WordPress's standard no-cache head, if the site's configuration names one for 404.
///
/// Departs: RFC 9111 §5.2.2.5 forbids to store it, but WordPress sends its no-cache head with every missing page, and a scan
/// for missing pages would occupy all PHP workers. Such a head counts as no lifetime. There are no stale windows, and the
/// response contains no personal data because the request was trimmed. Pinned by `missing_pages_live_briefly`.
pub(super) fn missing_page(
    response: &ResponseHead<'_>,
    statement: &Statement,
    policy: &Policy,
) -> Option<Duration> {
    let is_wordpress_head = policy.storage.checks_pages
        && response.status == StatusCode::NOT_FOUND
        && statement.freshness_source == FreshnessSource::CacheControl
        && response
            .fields
            .get(EXPIRES)
            .is_some_and(|value| value.as_bytes() == WORDPRESS_EXPIRES)
        && cookies_set(response.fields, policy).next().is_none();
    let control = &statement.control;
    let before_6_8 = CacheControl {
        no_cache: true,
        must_revalidate: true,
        max_age: Some(Duration::ZERO),
        ..CacheControl::default()
    };
    let since_6_8 = CacheControl {
        no_store: true,
        private: true,
        ..before_6_8.clone()
    };
    let has_no_other_directives = *control == before_6_8 || *control == since_6_8;
    (is_wordpress_head && has_no_other_directives)
        .then(|| freshness::named_lifetime(response.status, &policy.ttl))?
}

/// The lifetime of a response that states none: the rule's for a status below 400, otherwise the site's.
pub(super) fn default_lifetime(
    response: &ResponseHead<'_>,
    statement: &Statement,
    rule: Option<&Rule>,
    policy: &Policy,
) -> Option<Duration> {
    let of_rule = rule
        .and_then(|rule| rule.ttl)
        .filter(|_| response.status.as_u16() < 400);
    of_rule.or_else(|| freshness::default_lifetime(response, &statement.control, policy))
}

/// Extends a default lifetime so that it counts from the arrival of the response, unless `Age` shows that another cache had it.
///
/// Age counts from before the generation (RFC 9111 §4.2.3), and `Date` is cut to seconds. A lifetime shorter than the
/// generation would thus end before it begins, and the pages that most need the cache would bypass it. The cache may choose
/// the lifetime of a response that states none (§4.2.2).
pub(super) fn from_arrival(response: &ResponseHead<'_>, lifetime: Duration) -> Duration {
    if lifetime.is_zero() || freshness::stated_age(response.fields).is_some() {
        return lifetime;
    }
    let age = freshness::initial_age(response.fields, response.response_delay, response.now);
    lifetime.saturating_add(age)
}

/// Stores with this lifetime, unless the entry would be stale on arrival: that is not worth its memory.
pub(super) fn store_unless_stale(
    response: &ResponseHead<'_>,
    fresh: Duration,
    windows: StaleWindows,
) -> Storability {
    let initial_age =
        freshness::initial_age(response.fields, response.response_delay, response.now);
    if fresh <= initial_age {
        return Storability::Skip(NotStored::NoLifetime);
    }
    Storability::Store(Lifetime {
        fresh,
        stale_while_revalidate: windows.while_revalidate,
        stale_if_error: windows.if_error,
        initial_age,
    })
}

/// The birthday of a WordPress developer; no other software sends it.
const WORDPRESS_EXPIRES: &[u8] = b"Wed, 11 Jan 1984 05:00:00 GMT";

/// `lifetime`, up to a tenth shorter if the response does not state a lifetime; see [`super::judge_spread`]. Whole seconds are
/// subtracted, so a lifetime below ten seconds is unchanged.
pub(super) fn spread(
    response: &ResponseHead<'_>,
    statement: &Statement,
    policy: &Policy,
    lifetime: Lifetime,
    seed: u64,
) -> Lifetime {
    let is_default =
        statement.lifetime.is_none() || missing_page(response, statement, policy).is_some();
    let left = lifetime.fresh.saturating_sub(lifetime.initial_age);
    let most = left.as_secs() / 10;
    if !is_default || most == 0 {
        return lifetime;
    }
    let less = Duration::from_secs(seed % (most + 1));
    Lifetime {
        fresh: lifetime.fresh.saturating_sub(less),
        ..lifetime
    }
}
