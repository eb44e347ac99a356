//! Storing by RFC 9111 alone: sites without a preset.
//!
//! A response that may not be used without validation is stored all the same if it has a validator, so that validation
//! costs a 304: with `no-cache`, or when it is stale on arrival. Responses to requests with `Authorization` are stored if
//! the response permits it (§3.5).

use super::lifetime::default_lifetime;
use super::response::{Lifetime, ResponseHead, Storability};
use crate::cache_control::CacheControl;
use crate::freshness::{self, StaleWindows, Statement};
use crate::outcome::NotStored;
use crate::request_info::RequestInfo;
use crate::site::{Ignore, Policy, Rule};
use http::HeaderMap;
use http::header::{ETAG, LAST_MODIFIED};
use std::time::Duration;

/// The last steps of [`super::judge()`]: directives and lifetimes.
pub(super) fn judge(
    response: &ResponseHead<'_>,
    statement: &Statement,
    rule: Option<&Rule>,
    site: &Policy,
) -> Storability {
    let control = &statement.control;
    // `must-understand` lifts `no-store` where the status is understood (§5.2.2.3): all that get here are.
    if control.no_store && !control.must_understand {
        return Storability::Skip(NotStored::NoStore);
    }
    if control.private && !control.is_confined() {
        return Storability::Skip(NotStored::Private);
    }
    let must_ask = control.no_cache && !control.is_confined();
    let (fresh, windows) = if must_ask {
        (Some(Duration::ZERO), StaleWindows::default())
    } else {
        (
            statement
                .lifetime
                .or_else(|| default_lifetime(response, statement, rule, site)),
            freshness::windows(statement, response.status, &site.ttl),
        )
    };
    let initial_age =
        freshness::initial_age(response.fields, response.response_delay, response.now);
    let life = Lifetime {
        fresh: fresh.unwrap_or_default(),
        stale_while_revalidate: windows.while_revalidate,
        stale_if_error: windows.if_error,
        initial_age,
    };
    let last_use = life
        .fresh
        .saturating_add(windows.while_revalidate.max(windows.if_error));
    if last_use > initial_age || has_validator(response.fields) {
        Storability::Store(life)
    } else if must_ask {
        Storability::Skip(NotStored::NoCache)
    } else {
        Storability::Skip(NotStored::NoLifetime)
    }
}

/// Whether the response may be given to others although the request may have carried `Authorization` (§3.5).
pub(super) fn may_share_authorized(info: &RequestInfo, control: &CacheControl) -> bool {
    !info.has_authorization() || permits_authorized(control)
}

/// Whether a response says that credentials do not keep it from being shared.
pub(super) fn permits_authorized(control: &CacheControl) -> bool {
    control.public || control.must_revalidate || control.s_maxage.is_some()
}

/// A stored head, updated by a response without content (304, or 200 to `HEAD`) (§3.2, §4.3.4).
///
/// Every field of `news` replaces those of its name, except for fields that describe or name the stored bytes. `news` must
/// have the raw fields, hop-by-hop ones included; the caller removes those that may not be stored.
///
/// Departs: by §4.3.4 a 304 with another strong `ETag` updates nothing. It answers a request with this entry's tag alone, so
/// the entry is current; servers that compress while they send are known to answer so.
pub fn updated_fields(stored: &HeaderMap, news: &HeaderMap) -> HeaderMap {
    let mut merged = stored.clone();
    for name in news
        .keys()
        .filter(|name| !DESCRIBES_BYTES.contains(&name.as_str()))
    {
        merged.remove(name);
        for value in news.get_all(name) {
            merged.append(name.clone(), value.clone());
        }
    }
    merged
}

/// Statuses whose meaning for caches we know (RFC 9110 §15).
pub(super) fn is_understood(status: u16) -> bool {
    matches!(
        status,
        200..=208 | 226 | 300..=305 | 307 | 308 | 400..=417 | 421..=426 | 428 | 429 | 431 | 451 | 500..=508 | 511
    )
}

fn has_validator(fields: &HeaderMap) -> bool {
    fields.contains_key(ETAG) || fields.contains_key(LAST_MODIFIED)
}

/// They belong to the bytes that are stored, not to those that were not sent.
const DESCRIBES_BYTES: &[&str] = &[
    "content-encoding",
    "content-length",
    "content-md5",
    "content-range",
    "etag",
];

/// For which requests a stored response may be used (§3.5).
///
/// Departs: §3.5 applies to responses to requests with credentials only. Here the same directives are also required before a
/// copy that was made without credentials is used for a request with credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedWith {
    /// Requests with credentials too.
    Everyone,
    /// Those without.
    Anonymous,
}

impl SharedWith {
    /// What a stored response's own fields say about requests with `Authorization`.
    pub fn of(fields: &HeaderMap, site: &Policy) -> Self {
        let ignore = Ignore::default();
        let now = std::time::SystemTime::UNIX_EPOCH;
        let control = freshness::statement(fields, site.storage.fields, ignore, now).control;
        if permits_authorized(&control) {
            Self::Everyone
        } else {
            Self::Anonymous
        }
    }
}
