//! Lifetimes that the site, not the response, defines.
//!
//! Default lifetimes are spread, so that pages that were stored together do not expire together. Only a lifetime that the
//! response does not state is shortened, by at most a tenth, and never lengthened: a stated lifetime is kept to the second,
//! and a heuristic one stays within the limits of RFC 9111 §4.2.2.

use std::time::Duration;

use http::StatusCode;
use http::header::EXPIRES;

use super::fields::cookies_set;
use super::response::{Lifetime, ResponseHead, Storability};
use crate::cache_control::CacheControl;
use crate::freshness::{self, StaleWindows, Statement, Voice};
use crate::outcome::NotStored;
use crate::site::{Policy, Rule};

/// The lifetime of a 404 that only has WordPress's standard head, if the site's configuration gives it any.
///
/// Departs: RFC 9111 §5.2.2.5 forbids to store it, but WordPress sends its no-cache head with every missing
/// page, and a scan for missing pages would occupy all of PHP. Such a head counts as no lifetime; there is no grace, and
/// nothing of it is personal because the request was trimmed. Pinned by `missing_pages_live_briefly`.
pub(super) fn missing_page(
    response: &ResponseHead<'_>,
    statement: &Statement,
    site: &Policy,
) -> Option<Duration> {
    let is_word_press_head = site.storage.checks_pages
        && response.status == StatusCode::NOT_FOUND
        && statement.voice == Voice::CacheControl
        && response
            .fields
            .get(EXPIRES)
            .is_some_and(|value| value.as_bytes() == WORDPRESS_EXPIRES)
        && cookies_set(response.fields, site).next().is_none();
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
    let says_only_that = *control == before_6_8 || *control == since_6_8;
    (is_word_press_head && says_only_that)
        .then(|| freshness::named_lifetime(response.status, &site.ttl))?
}

/// What holds where the response is silent: the rule's lifetime for what succeeded, else the site's.
pub(super) fn default_lifetime(
    response: &ResponseHead<'_>,
    statement: &Statement,
    rule: Option<&Rule>,
    site: &Policy,
) -> Option<Duration> {
    let of_rule = rule
        .and_then(|rule| rule.ttl)
        .filter(|_| response.status.as_u16() < 400);
    of_rule.or_else(|| freshness::default_lifetime(response, &statement.control, site))
}

/// A default lifetime counts from the arrival of the response, unless its `Age` says that it was in another cache.
///
/// Age counts from before the generation (RFC 9111 §4.2.3), and `Date` is cut to seconds. A lifetime shorter than PHP takes
/// would thus never begin, and the pages that most need to be cached would bypass the cache. How long a response without a
/// lifetime lives is the cache's own choice (§4.2.2).
pub(super) fn from_arrival(response: &ResponseHead<'_>, lifetime: Duration) -> Duration {
    if lifetime.is_zero() || freshness::stated_age(response.fields).is_some() {
        return lifetime;
    }
    let age = freshness::initial_age(response.fields, response.response_delay, response.now);
    lifetime.saturating_add(age)
}

/// An entry that is stale on arrival is not worth its memory.
pub(super) fn live(
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

/// The birthday of a WordPress developer; nothing else sends it.
const WORDPRESS_EXPIRES: &[u8] = b"Wed, 11 Jan 1984 05:00:00 GMT";

/// `life`, as evaluated, up to a tenth shorter if the response names no lifetime; see [`super::judge_spread`]. Whole seconds
/// are subtracted, so a lifetime below ten is unchanged.
pub(super) fn spread(
    response: &ResponseHead<'_>,
    statement: &Statement,
    site: &Policy,
    life: Lifetime,
    seed: u64,
) -> Lifetime {
    let is_ours = statement.lifetime.is_none() || missing_page(response, statement, site).is_some();
    let left = life.fresh.saturating_sub(life.initial_age);
    let most = left.as_secs() / 10;
    if !is_ours || most == 0 {
        return life;
    }
    let less = Duration::from_secs(seed % (most + 1));
    Lifetime {
        fresh: life.fresh.saturating_sub(less),
        ..life
    }
}
