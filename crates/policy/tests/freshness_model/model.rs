//! The model: the rules of the standards in their order. Times are in milliseconds.

use crate::cases::{Argument, Case, DateField, Directive, Item, MaxStale, Targeted};

/// How the cache responds to the second request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Fresh,
    MaxStale,
    WhileRevalidating,
    Fetch { stale_on_error: bool },
    GatewayTimeout,
}

/// The effective directives of the response, from the field with precedence.
#[derive(Clone, Debug, Default)]
struct ResponseDirectives {
    no_store: bool,
    no_cache: bool,
    private: bool,
    public: bool,
    must_revalidate: bool,
    proxy_revalidate: bool,
    must_understand: bool,
    max_age: Option<u64>,
    s_maxage: Option<u64>,
    stale_while_revalidate: Option<u64>,
    stale_if_error: Option<u64>,
    /// RFC 9213 section 2.2: a targeted field takes precedence, so `Expires` is ignored.
    is_targeted: bool,
}

impl ResponseDirectives {
    fn from_case(case: &Case) -> Self {
        // RFC 9213 section 2.2: the first field of the target list that is present, valid and not empty; otherwise Cache-Control.
        for field in [&case.own, &case.cdn].into_iter().flatten() {
            if !field.is_malformed && !field.members.is_empty() {
                return Self::targeted(field);
            }
        }
        Self::from_lines(&case.control)
    }

    fn from_lines(lines: &[Vec<Directive>]) -> Self {
        let all: Vec<&Directive> = lines.iter().flatten().collect();
        let has = |name: &str| all.iter().any(|d| d.name.eq_ignore_ascii_case(name));
        // Sections 5.2.2.4 and 5.2.2.7: with a list of fields, the directives apply only to those fields.
        // Departs (section 5.2.2.4): if one of them has no list or an invalid list, all of them apply to the response.
        let restricting = || {
            all.iter().filter(|d| {
                d.name.eq_ignore_ascii_case("no-cache") || d.name.eq_ignore_ascii_case("private")
            })
        };
        let are_qualified = restricting().all(|d| matches!(d.argument, Argument::List(_, true)));
        Self {
            no_store: has("no-store"),
            no_cache: has("no-cache") && !are_qualified,
            private: has("private") && !are_qualified,
            public: has("public"),
            must_revalidate: has("must-revalidate"),
            proxy_revalidate: has("proxy-revalidate"),
            must_understand: has("must-understand"),
            max_age: smallest(&all, "max-age"),
            s_maxage: smallest(&all, "s-maxage"),
            stale_while_revalidate: smallest(&all, "stale-while-revalidate"),
            stale_if_error: smallest(&all, "stale-if-error"),
            is_targeted: false,
        }
    }

    fn targeted(field: &Targeted) -> Self {
        // RFC 9651 section 4.2.2: the last of equal keys counts.
        let last = |key: &str| {
            let mut members = field.members.iter().rev();
            members.find(|member| member.key == key).map(|m| &m.value)
        };
        // Departs (RFC 9213 section 2.1): a restriction applies whatever its type, except for `?0`.
        let flag = |key: &str| last(key).is_some_and(|value| !matches!(value, Item::False));
        // Departs (RFC 9213 section 2.1): a lifetime of the wrong type is zero.
        let seconds = |key: &str| match last(key)? {
            Item::Integer(number) => {
                Some(u64::try_from(*number).unwrap_or(0).min(MAX_SECONDS) * 1000)
            }
            Item::True | Item::Other(_) => Some(0),
            Item::False => None,
        };
        Self {
            no_store: flag("no-store"),
            no_cache: flag("no-cache"),
            private: flag("private"),
            public: flag("public"),
            must_revalidate: flag("must-revalidate"),
            proxy_revalidate: flag("proxy-revalidate"),
            must_understand: flag("must-understand"),
            max_age: seconds("max-age"),
            s_maxage: seconds("s-maxage"),
            stale_while_revalidate: seconds("stale-while-revalidate"),
            stale_if_error: seconds("stale-if-error"),
            is_targeted: true,
        }
    }
}

/// Section 4.2.1: the first of several values counts, or the response is stale; an invalid number makes it stale.
/// Departs (section 4.2.1): the smallest of several values counts.
fn smallest(all: &[&Directive], name: &str) -> Option<u64> {
    all.iter()
        .filter(|directive| directive.name.eq_ignore_ascii_case(name))
        .map(|directive| match directive.argument {
            // Section 5.2: both forms; section 1.2.2: larger values are 2^31.
            Argument::Number(seconds) | Argument::Quoted(seconds) => {
                seconds.min(MAX_SECONDS) * 1000
            }
            Argument::None | Argument::Broken(_) | Argument::List(..) => 0,
        })
        .min()
}

/// Section 3: whether a shared cache may store the response.
fn may_be_stored(case: &Case, directives: &ResponseDirectives) -> bool {
    let is_final = case.status >= 200;
    // "the response status code is 206 or 304, or must-understand is present: the cache understands it". Partial responses are
    // stored separately, and a 304 is never stored.
    let is_whole = !matches!(case.status, 206 | 304);
    let is_understood = !directives.must_understand || UNDERSTOOD.contains(&case.status);
    // Section 5.2.2.3: a cache that implements must-understand ignores no-store.
    let is_allowed = !directives.no_store || directives.must_understand;
    // Section 3.5.
    let is_authorized = !case.first_authorized || permits_authorized(directives);
    let has_expires = !directives.is_targeted && !matches!(case.expires, DateField::Absent);
    let has_reason = directives.public
        || has_expires
        || directives.max_age.is_some()
        || directives.s_maxage.is_some()
        || HEURISTICALLY_CACHEABLE.contains(&case.status);
    is_final
        && is_whole
        && is_understood
        && is_allowed
        && !directives.private
        && is_authorized
        && has_reason
}

fn permits_authorized(directives: &ResponseDirectives) -> bool {
    directives.public || directives.must_revalidate || directives.s_maxage.is_some()
}

/// Section 4.2.1, in the order of its list.
fn freshness_lifetime(case: &Case, directives: &ResponseDirectives) -> u64 {
    if let Some(s_maxage) = directives.s_maxage {
        return s_maxage;
    }
    if let Some(max_age) = directives.max_age {
        return max_age;
    }
    if !directives.is_targeted {
        match &case.expires {
            DateField::At(at) | DateField::Obsolete(_, at) => return millis(at - date_value(case)),
            // Section 5.3: an invalid date is in the past; section 4.2.1: two dates make the response stale.
            DateField::Invalid(_) | DateField::Twice(_) => return 0,
            DateField::Absent => {}
        }
    }
    heuristic_lifetime(case, directives)
}

/// Section 4.2.2: only for statuses that are cacheable by default or with `public`; a tenth of the time since the last change.
/// The limit of an hour is a choice of this cache.
fn heuristic_lifetime(case: &Case, directives: &ResponseDirectives) -> u64 {
    if !HEURISTICALLY_CACHEABLE.contains(&case.status) && !directives.public {
        return 0;
    }
    let modified = match &case.last_modified {
        DateField::At(at) | DateField::Obsolete(_, at) | DateField::Twice(at) => *at,
        DateField::Absent | DateField::Invalid(_) => return 0,
    };
    (millis(date_value(case) - modified) / 10).min(3_600_000)
}

/// `Date` in seconds relative to the arrival; the time of arrival if there is none (RFC 9110 section 6.6.1).
fn date_value(case: &Case) -> i64 {
    match &case.date {
        DateField::At(at) | DateField::Obsolete(_, at) | DateField::Twice(at) => *at,
        DateField::Absent | DateField::Invalid(_) => 0,
    }
}

/// Section 4.2.3.
fn initial_age(case: &Case) -> u64 {
    // Section 5.1: an invalid number is ignored.
    let age_value = case.age.first.unwrap_or_default().min(MAX_SECONDS);
    let apparent_age = millis(-date_value(case));
    let corrected_age_value = (age_value + case.response_delay) * 1000;
    apparent_age.max(corrected_age_value)
}

/// Section 4.2.4: whether the response forbids stale use, whatever client and site allow.
fn forbids_stale(directives: &ResponseDirectives) -> bool {
    // Section 5.2.2.10: s-maxage has the meaning of proxy-revalidate.
    directives.must_revalidate
        || directives.proxy_revalidate
        || directives.s_maxage.is_some()
        || directives.no_cache
}

/// RFC 5861 sections 3 and 4: the windows of the response, otherwise of the site.
fn windows(case: &Case, directives: &ResponseDirectives) -> (u64, u64) {
    if directives.must_revalidate || directives.proxy_revalidate || directives.no_cache {
        return (0, 0);
    }
    // The windows of the site do not apply to errors: a choice of this cache.
    let site_windows = if directives.s_maxage.is_some() || case.status >= 400 {
        (0, 0)
    } else {
        (case.site_windows.0 * 1000, case.site_windows.1 * 1000)
    };
    // Departs (section 5.2.2.10): a window next to s-maxage is permission by the same origin.
    (
        directives.stale_while_revalidate.unwrap_or(site_windows.0),
        directives.stale_if_error.unwrap_or(site_windows.1),
    )
}

/// The use that the standards prescribe.
pub fn model(case: &Case) -> Use {
    let request = &case.second;
    let fetch = |stale_on_error| {
        if request.only_if_cached {
            // Section 5.2.1.7.
            Use::GatewayTimeout
        } else {
            Use::Fetch { stale_on_error }
        }
    };
    // Section 5.2.1.5 would permit a stored response; bypassing the cache is a choice of this cache.
    if request.no_store {
        return fetch(false);
    }
    let directives = ResponseDirectives::from_case(case);
    if !may_be_stored(case, &directives) {
        return fetch(false);
    }
    // Departs (section 3.5): also required before a response stored without credentials serves a request with credentials.
    if request.authorization && !permits_authorized(&directives) {
        return fetch(false);
    }
    // Section 4.2: fresh as long as lifetime > age. Section 5.2.2.4: no-cache is never used without validation.
    let lifetime = if directives.no_cache {
        0
    } else {
        freshness_lifetime(case, &directives)
    };
    let age = initial_age(case) + case.elapsed * 1000;
    let is_fresh = lifetime > age;
    let (while_revalidating, if_error) = windows(case, &directives);
    let on_error = lifetime + if_error > age;
    // Sections 5.2.1.1, 5.2.1.3 and 5.2.1.4.
    let is_excluded_by_request = request.no_cache
        || request.max_age.is_some_and(|max_age| age > max_age * 1000)
        || request
            .min_fresh
            .is_some_and(|min_fresh| lifetime.saturating_sub(age) < min_fresh * 1000);
    if is_excluded_by_request {
        return fetch(on_error);
    }
    if is_fresh {
        return Use::Fresh;
    }
    // Section 5.2.1.2.
    let accepts_stale = match request.max_stale {
        MaxStale::Unspecified => false,
        MaxStale::Any => true,
        MaxStale::Within(limit) => age - lifetime <= limit * 1000,
    };
    // A response that arrives stale without validator and window is not stored: a choice of this cache.
    let is_stored = case.has_etag
        || !matches!(case.last_modified, DateField::Absent)
        || lifetime + while_revalidating.max(if_error) > initial_age(case);
    if accepts_stale && is_stored && !forbids_stale(&directives) {
        return Use::MaxStale;
    }
    // Departs (RFC 5861 section 3): not for a request with credentials, because a background fetch would not have them.
    if lifetime + while_revalidating > age && !request.authorization {
        return Use::WhileRevalidating;
    }
    fetch(on_error)
}

fn millis(seconds: i64) -> u64 {
    u64::try_from(seconds).unwrap_or(0) * 1000
}

/// Section 1.2.2.
const MAX_SECONDS: u64 = 1 << 31;

/// Statuses that are heuristically cacheable (RFC 9110 section 15.1).
const HEURISTICALLY_CACHEABLE: &[u16] =
    &[200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501];

/// Statuses of RFC 9110 section 15 and later registrations.
const UNDERSTOOD: &[u16] = &[
    200, 201, 203, 204, 206, 300, 301, 302, 304, 307, 308, 400, 401, 404, 405, 410, 414, 451, 500,
    501, 503,
];
