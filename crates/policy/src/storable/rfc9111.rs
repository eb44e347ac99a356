//! Whether a response is stored by RFC 9111 alone, for sites without a preset.
//!
//! A response that must be validated before each use, because of `no-cache` or because it is stale on arrival, is stored if it
//! has a validator: then validation costs a 304. A response to a request with `Authorization` is stored if it permits that
//! (§3.5).

use super::lifetime::default_lifetime;
use super::response::{Lifetime, ResponseHead, Storability};
use crate::cache_control::CacheControl;
use crate::freshness::{self, StaleWindows, Statement};
use crate::outcome::NotStored;
use crate::request_info::RequestInfo;
use crate::site::{IgnoredParts, Policy, Rule};
use http::HeaderMap;
use http::header::{ETAG, LAST_MODIFIED};
use std::time::Duration;

/// The last steps of [`super::judge()`]: directives and lifetimes.
pub(super) fn judge(
    response: &ResponseHead<'_>,
    statement: &Statement,
    rule: Option<&Rule>,
    policy: &Policy,
) -> Storability {
    let control = &statement.control;
    // `must-understand` overrides `no-store` if the status is understood (§5.2.2.3). Earlier checks reject other statuses.
    if control.no_store && !control.must_understand {
        return Storability::Skip(NotStored::NoStore);
    }
    if control.private && !control.is_confined() {
        return Storability::Skip(NotStored::Private);
    }
    let must_validate = control.no_cache && !control.is_confined();
    let (fresh, windows) = if must_validate {
        (Some(Duration::ZERO), StaleWindows::default())
    } else {
        (
            statement
                .lifetime
                .or_else(|| default_lifetime(response, statement, rule, policy)),
            freshness::windows(statement, response.status, &policy.ttl),
        )
    };
    let initial_age =
        freshness::initial_age(response.fields, response.response_delay, response.now);
    let lifetime = Lifetime {
        fresh: fresh.unwrap_or_default(),
        stale_while_revalidate: windows.while_revalidate,
        stale_if_error: windows.if_error,
        initial_age,
    };
    let usable_until = lifetime
        .fresh
        .saturating_add(windows.while_revalidate.max(windows.if_error));
    if usable_until > initial_age || has_validator(response.fields) {
        Storability::Store(lifetime)
    } else if must_validate {
        Storability::Skip(NotStored::NoCache)
    } else {
        Storability::Skip(NotStored::NoLifetime)
    }
}

/// Whether others may get the response although the request may have carried `Authorization` (§3.5).
pub(super) fn may_share_authorized(info: &RequestInfo, control: &CacheControl) -> bool {
    !info.has_authorization() || permits_authorized(control)
}

/// Whether a response permits shared use although the request carried credentials.
pub(super) fn permits_authorized(control: &CacheControl) -> bool {
    control.public || control.must_revalidate || control.s_maxage.is_some()
}

/// Returns a stored head, updated by a response without content (304, or 200 to `HEAD`) (§3.2, §4.3.4).
///
/// Every field of `news` replaces the stored fields of the same name, except for fields that describe or name the stored bytes.
/// `news` must have the raw fields, including hop-by-hop ones; the caller removes those that may not be stored.
///
/// Departs: by §4.3.4 a 304 with another strong `ETag` updates nothing. But this 304 responds to a request with only this
/// entry's tag, so the entry is current. Servers that compress while they send are known to respond in this way.
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

/// Whether Galley knows what a status means for caches (RFC 9110 §15).
pub(super) fn is_understood(status: u16) -> bool {
    matches!(
        status,
        200..=208 | 226 | 300..=305 | 307 | 308 | 400..=417 | 421..=426 | 428 | 429 | 431 | 451 | 500..=508 | 511
    )
}

fn has_validator(fields: &HeaderMap) -> bool {
    fields.contains_key(ETAG) || fields.contains_key(LAST_MODIFIED)
}

/// Fields that describe the stored bytes, which the response without content does not replace.
const DESCRIBES_BYTES: &[&str] = &[
    "content-encoding",
    "content-length",
    "content-md5",
    "content-range",
    "etag",
];

/// The requests for which a stored response may be used (§3.5).
///
/// Departs: §3.5 applies to responses to requests with credentials only. Galley also requires the same directives before it
/// uses an entry that was fetched without credentials for a request with credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedWith {
    /// All requests, including those with credentials.
    Everyone,
    /// Requests without credentials.
    Anonymous,
}

impl SharedWith {
    /// The requests for which the stored fields permit use.
    pub fn of(fields: &HeaderMap, policy: &Policy) -> Self {
        let ignore = IgnoredParts::default();
        let now = std::time::SystemTime::UNIX_EPOCH;
        let control = freshness::statement(fields, policy.storage.fields, ignore, now).control;
        if permits_authorized(&control) {
            Self::Everyone
        } else {
            Self::Anonymous
        }
    }
}
