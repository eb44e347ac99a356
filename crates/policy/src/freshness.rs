//! How long a response is fresh: which of its fields counts, its value, and the default.
//!
//! Only the first of these fields that is present counts: `Galley-Cache-Control`, `CDN-Cache-Control` (RFC 9213),
//! `Surrogate-Control`, `X-LiteSpeed-Cache-Control`, the fields of `VCaching`, `X-Accel-Expires`; then `Cache-Control` with
//! `Expires` (RFC 9111 section 4.2.1). Directives of two fields are never combined. With RFC 9111 the fields of other
//! products do not count, and `Surrogate-Control` is read as specified (Edge Architecture 1.0). An explicit lifetime counts
//! even when it is zero; the site's table applies only if there is none. [`crate::storable`] decides whether the response
//! is stored at all.

use std::time::{Duration, SystemTime};

use http::header::{AGE, AsHeaderName, CACHE_CONTROL, DATE, EXPIRES, LAST_MODIFIED};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::cache_control::{CacheControl, delta_seconds};
use crate::fields::has_any;
use crate::site::{AddressedFields, Ignore, Policy, TtlTable};
use crate::storable::ResponseHead;
use crate::time::parse_date;

/// Which field speaks for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// `Galley-Cache-Control`: the plugin.
    Galley,
    /// `CDN-Cache-Control`.
    Cdn,
    /// `Surrogate-Control`.
    Surrogate,
    /// `X-LiteSpeed-Cache-Control`.
    LiteSpeed,
    /// `X-VC-Cacheable`, `X-VC-Enabled`, `X-VC-TTL`: the plugin `VCaching`.
    Vcaching,
    /// `X-Accel-Expires`.
    Accel,
    /// `Cache-Control`, with `Expires` if it names no lifetime itself.
    CacheControl,
    /// `Expires` alone.
    Expires,
    /// None of them.
    Nobody,
}

/// What a response says about its own life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The field that says it.
    pub voice: Voice,
    /// The directives; empty where the voice has none.
    pub control: CacheControl,
    /// The lifetime, counted from the moment of generation. `None`: not stated.
    pub lifetime: Option<Duration>,
}

/// How long a stale copy may answer, from the end of freshness (RFC 5861).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StaleWindows {
    /// While one refresh runs.
    pub while_revalidate: Duration,
    /// When the upstream fails.
    pub if_error: Duration,
}

/// Reads what a response says. `now`: when it was received.
pub fn statement(
    fields: &HeaderMap,
    addressed: AddressedFields,
    ignore: Ignore,
    now: SystemTime,
) -> Statement {
    let voiced = || {
        if !has_any(fields, ADDRESSED) {
            return None;
        }
        targeted(fields).or_else(|| match addressed {
            AddressedFields::OfPlugins => foreign(fields, now),
            AddressedFields::Standard => surrogate(fields),
        })
    };
    if let Some(statement) = (!ignore.cache_control).then(voiced).flatten() {
        return statement;
    }
    let control = (!ignore.cache_control && speaks(fields, CACHE_CONTROL))
        .then(|| CacheControl::parse(values(fields, CACHE_CONTROL)));
    let expires = (!ignore.expires).then(|| expires(fields, now)).flatten();
    let voice = match (&control, expires) {
        (Some(_), _) => Voice::CacheControl,
        (None, Some(_)) => Voice::Expires,
        (None, None) => Voice::Nobody,
    };
    let control = control.unwrap_or_default();
    let lifetime = control.shared_lifetime().or(expires);
    Statement {
        voice,
        control,
        lifetime,
    }
}

/// How long a stale copy may be served, while one refresh runs and when the upstream fails (RFC 5861).
///
/// Nothing after `must-revalidate` and `proxy-revalidate`. `s-maxage` implies the latter (RFC 9111 §5.2.2.10), so that the
/// site's windows do not apply to it; a window that the same response names is its explicit permission. Errors get no window
/// from the site: a stale 404 would only hide what has been published since.
pub fn windows(statement: &Statement, status: StatusCode, ttl: &TtlTable) -> StaleWindows {
    let control = &statement.control;
    if control.must_revalidate || control.proxy_revalidate {
        return StaleWindows::default();
    }
    let default_lifetime = if control.s_maxage.is_some() || status.as_u16() >= 400 {
        StaleWindows::default()
    } else {
        StaleWindows {
            while_revalidate: ttl.stale_while_revalidate,
            if_error: ttl.stale_if_error,
        }
    };
    StaleWindows {
        while_revalidate: control
            .stale_while_revalidate
            .unwrap_or(default_lifetime.while_revalidate),
        if_error: control.stale_if_error.unwrap_or(default_lifetime.if_error),
    }
}

/// The lifetime of a response without one: the site's row for its status; without a preset a tenth of its age (RFC 9111
/// §4.2.2, at most an hour) if it states that; the site's default. `None`: it has none.
pub fn default_lifetime(
    response: &ResponseHead<'_>,
    control: &CacheControl,
    site: &Policy,
) -> Option<Duration> {
    if let Some(named) = named_lifetime(response.status, &site.ttl) {
        return Some(named);
    }
    if !is_heuristically_cacheable(response.status) && !control.public {
        return None;
    }
    let heuristic = site.storage.heuristic;
    let heuristic = heuristic
        .then(|| tenth_of_age(response.fields, response.now))
        .flatten();
    Some(heuristic.unwrap_or(site.ttl.default))
}

/// The row of the site's table for a status.
pub fn named_lifetime(status: StatusCode, ttl: &TtlTable) -> Option<Duration> {
    ttl.by_status
        .iter()
        .find(|(named, _)| *named == status.as_u16())
        .map(|(_, lifetime)| *lifetime)
}

/// Statuses that may live on a guess (RFC 9110 §15.1).
pub fn is_heuristically_cacheable(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501
    )
}

/// How old a response is when it arrives (RFC 9111 §4.2.3): the larger of the age by its `Date` and of its `Age` plus the time
/// of the request.
pub fn initial_age(fields: &HeaderMap, response_delay: Duration, now: SystemTime) -> Duration {
    let apparent = date(fields)
        .and_then(|date| now.duration_since(date).ok())
        .unwrap_or_default();
    let stated = stated_age(fields).unwrap_or_default();
    apparent.max(stated.saturating_add(response_delay))
}

/// What `Age` says: of a list, on one line or on several, the first member. `None`: it is absent, or no number, which is
/// ignored (RFC 9111 §5.1).
pub fn stated_age(fields: &HeaderMap) -> Option<Duration> {
    let members = values(fields, AGE).flat_map(|line| line.split(|&byte| byte == b','));
    let first = members
        .map(<[u8]>::trim_ascii)
        .find(|member| !member.is_empty())?;
    // `delta_seconds` takes a number in quotes too, as directives may have it.
    delta_seconds(first).filter(|_| first.first() != Some(&b'"'))
}

/// Whether a response forbids that a stale copy of it answers, whatever client and site allow (RFC 9111 §4.2.4).
pub fn forbids_stale(fields: &HeaderMap, addressed: AddressedFields) -> bool {
    let control = statement(fields, addressed, Ignore::default(), SystemTime::UNIX_EPOCH).control;
    control.must_revalidate
        || control.proxy_revalidate
        || control.s_maxage.is_some()
        || (control.no_cache && !control.is_confined())
}

fn targeted(fields: &HeaderMap) -> Option<Statement> {
    [
        ("galley-cache-control", Voice::Galley),
        ("cdn-cache-control", Voice::Cdn),
    ]
    .into_iter()
    .find_map(|(name, voice)| {
        let control = CacheControl::parse_targeted(values(fields, name))?;
        Some(Statement {
            voice,
            lifetime: control.shared_lifetime(),
            control,
        })
    })
}

/// Fields of other products, which WordPress plugins send.
fn foreign(fields: &HeaderMap, now: SystemTime) -> Option<Statement> {
    if speaks(fields, "surrogate-control") {
        let control = CacheControl::parse_surrogate(values(fields, "surrogate-control"));
        return Some(Statement {
            voice: Voice::Surrogate,
            lifetime: control.shared_lifetime(),
            control,
        });
    }
    if speaks(fields, "x-litespeed-cache-control") {
        let control = CacheControl::parse(values(fields, "x-litespeed-cache-control"));
        return Some(Statement {
            voice: Voice::LiteSpeed,
            lifetime: control.shared_lifetime(),
            control,
        });
    }
    if let Some(statement) = vcaching(fields) {
        return Some(statement);
    }
    let value = values(fields, "x-accel-expires").next()?.trim_ascii();
    Some(Statement {
        voice: Voice::Accel,
        control: CacheControl::default(),
        lifetime: Some(accel_lifetime(value, now)),
    })
}

/// `X-VC-Cacheable: NO:reason` and `X-VC-Enabled: false` forbid, `X-VC-TTL` has seconds; anything else says nothing.
fn vcaching(fields: &HeaderMap) -> Option<Statement> {
    let value = |name| values(fields, name).next().map(<[u8]>::trim_ascii);
    let forbids = |name, word: &[u8]| {
        let start = value(name).and_then(|value| value.get(..word.len()));
        start.is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    let no_store = forbids("x-vc-cacheable", b"NO") || forbids("x-vc-enabled", b"false");
    let lifetime = value("x-vc-ttl").map(|text| delta_seconds(text).unwrap_or_default());
    (no_store || lifetime.is_some()).then(|| Statement {
        voice: Voice::Vcaching,
        control: CacheControl {
            no_store,
            ..CacheControl::default()
        },
        lifetime,
    })
}

/// `Surrogate-Control` as far as it is addressed to all surrogates or to this one.
fn surrogate(fields: &HeaderMap) -> Option<Statement> {
    let lines: Vec<&[u8]> = values(fields, "surrogate-control").collect();
    let control = CacheControl::parse_surrogate_for(&lines, SURROGATE_NAME)?;
    Some(Statement {
        voice: Voice::Surrogate,
        lifetime: control.shared_lifetime(),
        control,
    })
}

/// Seconds, or `@` and a Unix time. An invalid value is zero: in doubt nothing is stored.
fn accel_lifetime(value: &[u8], now: SystemTime) -> Duration {
    let Some(moment) = value.strip_prefix(b"@") else {
        return delta_seconds(value).unwrap_or_default();
    };
    let moment = std::str::from_utf8(moment)
        .ok()
        .and_then(|text| text.parse::<u32>().ok())
        .unwrap_or(0);
    let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(moment));
    moment.duration_since(now).unwrap_or_default()
}

/// `Expires` less `Date` (RFC 9111 §4.2.1). Anything that is not one date has expired already (§5.3).
fn expires(fields: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let mut lines = values(fields, EXPIRES);
    let value = lines.next()?;
    let moment = if lines.next().is_none() {
        parse_date(value)
    } else {
        None
    };
    let Some(moment) = moment else {
        return Some(Duration::ZERO);
    };
    Some(
        moment
            .duration_since(date(fields).unwrap_or(now))
            .unwrap_or_default(),
    )
}

fn tenth_of_age(fields: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let modified = parse_date(fields.get(LAST_MODIFIED)?.as_bytes())?;
    let age = date(fields).unwrap_or(now).duration_since(modified).ok()?;
    Some((age / 10).min(LONGEST_GUESS))
}

fn date(fields: &HeaderMap) -> Option<SystemTime> {
    parse_date(fields.get(DATE)?.as_bytes())
}

/// Whether a field is there and says anything.
fn speaks(fields: &HeaderMap, name: impl AsHeaderName) -> bool {
    values(fields, name).any(|line| !line.trim_ascii().is_empty())
}

fn values(fields: &HeaderMap, name: impl AsHeaderName) -> impl Iterator<Item = &[u8]> {
    fields.get_all(name).into_iter().map(HeaderValue::as_bytes)
}

/// Fields for shared caches.
const ADDRESSED: &[&str] = &[
    "galley-cache-control",
    "cdn-cache-control",
    "surrogate-control",
    "x-litespeed-cache-control",
    "x-vc-cacheable",
    "x-vc-enabled",
    "x-vc-ttl",
    "x-accel-expires",
];

/// How `Surrogate-Control` names Galley; it says so in `Surrogate-Capability`.
pub const SURROGATE_NAME: &[u8] = b"galley";

/// A guess that turns out wrong is wrong for at most this long.
const LONGEST_GUESS: Duration = Duration::from_secs(3600);
