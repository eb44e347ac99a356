//! How long a response is fresh: the field that counts, its value, and the default.
//!
//! Only the first of these fields that is present counts: `Galley-Cache-Control`, `CDN-Cache-Control` (RFC 9213),
//! `Surrogate-Control`, `X-LiteSpeed-Cache-Control`, the fields of `VCaching`, `X-Accel-Expires`; then `Cache-Control` with
//! `Expires` (RFC 9111 section 4.2.1). Directives of two fields are never combined. With RFC 9111 the fields of other
//! products do not count, and `Surrogate-Control` is interpreted as specified (Edge Architecture 1.0). An explicit lifetime
//! counts even if it is zero; the site's table applies only if there is none. [`crate::storable`] decides whether the response
//! is stored at all.

use std::time::{Duration, SystemTime};

use http::header::{AGE, AsHeaderName, CACHE_CONTROL, DATE, EXPIRES, LAST_MODIFIED};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::cache_control::{CacheControl, delta_seconds};
use crate::fields::has_any;
use crate::site::{AddressedFields, IgnoredParts, Policy, TtlTable};
use crate::storable::ResponseHead;
use crate::time::parse_date;

/// The field that defines how long a response is fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreshnessSource {
    /// `Galley-Cache-Control`, of Galley's plugin.
    Galley,
    /// `CDN-Cache-Control`.
    Cdn,
    /// `Surrogate-Control`.
    Surrogate,
    /// `X-LiteSpeed-Cache-Control`.
    LiteSpeed,
    /// `X-VC-Cacheable`, `X-VC-Enabled`, `X-VC-TTL`, of the plugin `VCaching`.
    Vcaching,
    /// `X-Accel-Expires`.
    Accel,
    /// `Cache-Control`, with `Expires` if it states no lifetime.
    CacheControl,
    /// `Expires` alone.
    Expires,
    /// None of them.
    Nobody,
}

/// What a response states about its freshness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The field that counts.
    pub freshness_source: FreshnessSource,
    /// The directives; empty if the field has none.
    pub control: CacheControl,
    /// The lifetime, counted from the moment of generation. `None`: not stated.
    pub lifetime: Option<Duration>,
}

/// How long a stale response may be sent after the end of freshness (RFC 5861).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StaleWindows {
    /// While one refresh runs.
    pub while_revalidate: Duration,
    /// When the upstream fails.
    pub if_error: Duration,
}

/// Reads what a response states about its freshness. `now`: when it was received.
pub fn statement(
    fields: &HeaderMap,
    addressed: AddressedFields,
    ignore: IgnoredParts,
    now: SystemTime,
) -> Statement {
    let addressed_statement = || {
        if !has_any(fields, ADDRESSED) {
            return None;
        }
        targeted(fields).or_else(|| match addressed {
            AddressedFields::OfPlugins => other_products(fields, now),
            AddressedFields::Standard => surrogate(fields),
        })
    };
    if let Some(statement) = (!ignore.cache_control).then(addressed_statement).flatten() {
        return statement;
    }
    let control = (!ignore.cache_control && is_present(fields, CACHE_CONTROL))
        .then(|| CacheControl::parse(values(fields, CACHE_CONTROL)));
    let expires = (!ignore.expires).then(|| expires(fields, now)).flatten();
    let freshness_source = match (&control, expires) {
        (Some(_), _) => FreshnessSource::CacheControl,
        (None, Some(_)) => FreshnessSource::Expires,
        (None, None) => FreshnessSource::Nobody,
    };
    let control = control.unwrap_or_default();
    let lifetime = control.shared_lifetime().or(expires);
    Statement {
        freshness_source,
        control,
        lifetime,
    }
}

/// How long a stale response may be sent, while one refresh runs and when the upstream fails (RFC 5861).
///
/// Both are zero with `must-revalidate` and `proxy-revalidate`. `s-maxage` implies the latter (RFC 9111 §5.2.2.10), so the
/// site's windows do not apply to it; a window in the same response is explicit permission. Errors get no window
/// from the site: a stale 404 would only hide a page that has been published since.
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

/// The lifetime of a response that states none: the site's row for its status; without a preset a tenth of its age (RFC 9111
/// §4.2.2, at most an hour) if it has `Last-Modified`; the site's default. `None`: the response has no lifetime.
pub fn default_lifetime(
    response: &ResponseHead<'_>,
    control: &CacheControl,
    policy: &Policy,
) -> Option<Duration> {
    if let Some(named) = named_lifetime(response.status, &policy.ttl) {
        return Some(named);
    }
    if !is_heuristically_cacheable(response.status) && !control.public {
        return None;
    }
    let heuristic = policy.storage.heuristic;
    let heuristic = heuristic
        .then(|| tenth_of_age(response.fields, response.now))
        .flatten();
    Some(heuristic.unwrap_or(policy.ttl.default))
}

/// The row of the site's table for a status.
pub fn named_lifetime(status: StatusCode, ttl: &TtlTable) -> Option<Duration> {
    ttl.by_status
        .iter()
        .find(|(named, _)| *named == status.as_u16())
        .map(|(_, lifetime)| *lifetime)
}

/// Whether a status permits a heuristic lifetime (RFC 9110 §15.1).
pub fn is_heuristically_cacheable(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501
    )
}

/// The age of a response on arrival (RFC 9111 §4.2.3): the larger of the age by its `Date` and the sum of its `Age` and the
/// duration of the request.
pub fn initial_age(fields: &HeaderMap, response_delay: Duration, now: SystemTime) -> Duration {
    let apparent = date(fields)
        .and_then(|date| now.duration_since(date).ok())
        .unwrap_or_default();
    let stated = stated_age(fields).unwrap_or_default();
    apparent.max(stated.saturating_add(response_delay))
}

/// The value of `Age`: the first member of a list, on one line or on several. `None`: the field is absent, or not a number,
/// which is ignored (RFC 9111 §5.1).
pub fn stated_age(fields: &HeaderMap) -> Option<Duration> {
    let members = values(fields, AGE).flat_map(|line| line.split(|&byte| byte == b','));
    let first = members
        .map(<[u8]>::trim_ascii)
        .find(|member| !member.is_empty())?;
    // `delta_seconds` also accepts a number in quotes, which directives may have.
    delta_seconds(first).filter(|_| first.first() != Some(&b'"'))
}

/// Whether a response forbids to send it stale, whatever the client and the site permit (RFC 9111 §4.2.4).
pub fn forbids_stale(fields: &HeaderMap, addressed: AddressedFields) -> bool {
    let control = statement(
        fields,
        addressed,
        IgnoredParts::default(),
        SystemTime::UNIX_EPOCH,
    )
    .control;
    control.must_revalidate
        || control.proxy_revalidate
        || control.s_maxage.is_some()
        || (control.no_cache && !control.is_confined())
}

fn targeted(fields: &HeaderMap) -> Option<Statement> {
    [
        ("galley-cache-control", FreshnessSource::Galley),
        ("cdn-cache-control", FreshnessSource::Cdn),
    ]
    .into_iter()
    .find_map(|(name, freshness_source)| {
        let control = CacheControl::parse_targeted(values(fields, name))?;
        Some(Statement {
            freshness_source,
            lifetime: control.shared_lifetime(),
            control,
        })
    })
}

/// The fields of other products, which WordPress plugins send.
fn other_products(fields: &HeaderMap, now: SystemTime) -> Option<Statement> {
    if is_present(fields, "surrogate-control") {
        let control = CacheControl::parse_surrogate(values(fields, "surrogate-control"));
        return Some(Statement {
            freshness_source: FreshnessSource::Surrogate,
            lifetime: control.shared_lifetime(),
            control,
        });
    }
    if is_present(fields, "x-litespeed-cache-control") {
        let control = CacheControl::parse(values(fields, "x-litespeed-cache-control"));
        return Some(Statement {
            freshness_source: FreshnessSource::LiteSpeed,
            lifetime: control.shared_lifetime(),
            control,
        });
    }
    if let Some(statement) = vcaching(fields) {
        return Some(statement);
    }
    let value = values(fields, "x-accel-expires").next()?.trim_ascii();
    Some(Statement {
        freshness_source: FreshnessSource::Accel,
        control: CacheControl::default(),
        lifetime: Some(accel_lifetime(value, now)),
    })
}

/// `X-VC-Cacheable: NO:reason` and `X-VC-Enabled: false` forbid storing, `X-VC-TTL` has seconds. Other values are ignored.
fn vcaching(fields: &HeaderMap) -> Option<Statement> {
    let value = |name| values(fields, name).next().map(<[u8]>::trim_ascii);
    let forbids = |name, word: &[u8]| {
        let start = value(name).and_then(|value| value.get(..word.len()));
        start.is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    let no_store = forbids("x-vc-cacheable", b"NO") || forbids("x-vc-enabled", b"false");
    let lifetime = value("x-vc-ttl").map(|text| delta_seconds(text).unwrap_or_default());
    (no_store || lifetime.is_some()).then(|| Statement {
        freshness_source: FreshnessSource::Vcaching,
        control: CacheControl {
            no_store,
            ..CacheControl::default()
        },
        lifetime,
    })
}

/// `Surrogate-Control`, as far as it is addressed to all surrogates or to Galley.
fn surrogate(fields: &HeaderMap) -> Option<Statement> {
    let lines: Vec<&[u8]> = values(fields, "surrogate-control").collect();
    let control = CacheControl::parse_surrogate_for(&lines, SURROGATE_NAME)?;
    Some(Statement {
        freshness_source: FreshnessSource::Surrogate,
        lifetime: control.shared_lifetime(),
        control,
    })
}

/// Seconds, or `@` and a Unix time. An invalid value is zero, so that the response is not stored.
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

/// `Expires` minus `Date` (RFC 9111 §4.2.1). Any value other than a single date counts as expired (§5.3).
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
    Some((age / 10).min(MAX_HEURISTIC_LIFETIME))
}

fn date(fields: &HeaderMap) -> Option<SystemTime> {
    parse_date(fields.get(DATE)?.as_bytes())
}

/// Whether a field is present and not empty.
fn is_present(fields: &HeaderMap, name: impl AsHeaderName) -> bool {
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

/// The name of Galley in `Surrogate-Control`, which it announces in `Surrogate-Capability`.
pub const SURROGATE_NAME: &[u8] = b"galley";

/// The maximum heuristic lifetime: a wrong guess has an effect for at most this long.
const MAX_HEURISTIC_LIFETIME: Duration = Duration::from_secs(3600);
