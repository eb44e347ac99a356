//! The model: the text of the standards, rule by rule. Times are milliseconds.

use crate::cases::{Argument, Case, Directive, Item, MaxStale, Stamp, Targeted};

/// What happens to the second request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Fresh,
    MaxStale,
    WhileRevalidating,
    Ask { stale_on_error: bool },
    GatewayTimeout,
}

/// The directives that hold, whichever field says them.
#[derive(Clone, Debug, Default)]
struct Said {
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
    /// RFC 9213 section 2.2: a targeted field speaks, so `Expires` does not.
    is_targeted: bool,
}

impl Said {
    fn of(case: &Case) -> Self {
        // RFC 9213 section 2.2: the first of the target list that is there, valid and not empty; else Cache-Control.
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
        // Sections 5.2.2.4 and 5.2.2.7: with a list of fields they concern those fields alone.
        // Departs (section 5.2.2.4): one of them without a list, or with what is none, makes all of them plain.
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
        // RFC 9651 section 4.2.2: of equal keys the last one counts.
        let last = |key: &str| {
            let mut members = field.members.iter().rev();
            members.find(|member| member.key == key).map(|m| &m.value)
        };
        // Departs (RFC 9213 section 2.1): a restriction holds whatever its type, but for `?0`.
        let flag = |key: &str| last(key).is_some_and(|value| !matches!(value, Item::False));
        // Departs (RFC 9213 section 2.1): a lifetime of the wrong type is none, that is zero.
        let seconds = |key: &str| match last(key)? {
            Item::Integer(number) => Some(u64::try_from(*number).unwrap_or(0).min(MOST) * 1000),
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

/// Section 4.2.1: of several values the first counts, or the response is stale; what is no number makes it stale.
/// Departs (section 4.2.1): of several the smallest counts.
fn smallest(all: &[&Directive], name: &str) -> Option<u64> {
    all.iter()
        .filter(|directive| directive.name.eq_ignore_ascii_case(name))
        .map(|directive| match directive.argument {
            // Section 5.2: both forms; section 1.2.2: too large is 2^31.
            Argument::Number(seconds) | Argument::Quoted(seconds) => seconds.min(MOST) * 1000,
            Argument::None | Argument::Broken(_) | Argument::List(..) => 0,
        })
        .min()
}

/// Section 3: whether the response may be stored by a shared cache at all.
fn may_be_stored(case: &Case, said: &Said) -> bool {
    let is_final = case.status >= 200;
    // "the response status code is 206 or 304, or must-understand is present: the cache understands it". Parts are kept
    // elsewhere, and a 304 is never kept.
    let is_whole = !matches!(case.status, 206 | 304);
    let is_understood = !said.must_understand || UNDERSTOOD.contains(&case.status);
    // Section 5.2.2.3: who understands it ignores no-store.
    let is_allowed = !said.no_store || said.must_understand;
    // Section 3.5.
    let is_authorized = !case.first_authorized || permits_authorized(said);
    let has_expires = !said.is_targeted && !matches!(case.expires, Stamp::Absent);
    let has_reason = said.public
        || has_expires
        || said.max_age.is_some()
        || said.s_maxage.is_some()
        || HEURISTIC.contains(&case.status);
    is_final
        && is_whole
        && is_understood
        && is_allowed
        && !said.private
        && is_authorized
        && has_reason
}

fn permits_authorized(said: &Said) -> bool {
    said.public || said.must_revalidate || said.s_maxage.is_some()
}

/// Section 4.2.1, in its order.
fn freshness_lifetime(case: &Case, said: &Said) -> u64 {
    if let Some(shared) = said.s_maxage {
        return shared;
    }
    if let Some(any) = said.max_age {
        return any;
    }
    if !said.is_targeted {
        match &case.expires {
            Stamp::At(at) | Stamp::Obsolete(_, at) => return millis(at - date_value(case)),
            // Section 5.3: what is no date is in the past; section 4.2.1: two of them make it stale.
            Stamp::Broken(_) | Stamp::Twice(_) => return 0,
            Stamp::Absent => {}
        }
    }
    heuristic_lifetime(case, said)
}

/// Section 4.2.2: only of statuses that are cacheable by default or where `public` says so; a tenth of the time since
/// the last change. At most an hour: a cache's own choice.
fn heuristic_lifetime(case: &Case, said: &Said) -> u64 {
    if !HEURISTIC.contains(&case.status) && !said.public {
        return 0;
    }
    let modified = match &case.last_modified {
        Stamp::At(at) | Stamp::Obsolete(_, at) | Stamp::Twice(at) => *at,
        Stamp::Absent | Stamp::Broken(_) => return 0,
    };
    (millis(date_value(case) - modified) / 10).min(3_600_000)
}

/// Seconds from the arrival; the moment of arrival where there is none (RFC 9110 section 6.6.1).
fn date_value(case: &Case) -> i64 {
    match &case.date {
        Stamp::At(at) | Stamp::Obsolete(_, at) | Stamp::Twice(at) => *at,
        Stamp::Absent | Stamp::Broken(_) => 0,
    }
}

/// Section 4.2.3.
fn initial_age(case: &Case) -> u64 {
    // Section 5.1: what is no number is ignored.
    let age_value = case.age.first.unwrap_or_default().min(MOST);
    let apparent_age = millis(-date_value(case));
    let corrected_age_value = (age_value + case.response_delay) * 1000;
    apparent_age.max(corrected_age_value)
}

/// Section 4.2.4: whether something forbids stale answers whatever client and site allow.
fn forbids_stale(said: &Said) -> bool {
    // Section 5.2.2.10: s-maxage has the meaning of proxy-revalidate.
    said.must_revalidate || said.proxy_revalidate || said.s_maxage.is_some() || said.no_cache
}

/// RFC 5861 sections 3 and 4: the response's windows, else the site's.
fn windows(case: &Case, said: &Said) -> (u64, u64) {
    if said.must_revalidate || said.proxy_revalidate || said.no_cache {
        return (0, 0);
    }
    // Not the site's for errors: its own choice.
    let of_site = if said.s_maxage.is_some() || case.status >= 400 {
        (0, 0)
    } else {
        (case.site_windows.0 * 1000, case.site_windows.1 * 1000)
    };
    // Departs (section 5.2.2.10): a window next to s-maxage is permission by the same origin.
    (
        said.stale_while_revalidate.unwrap_or(of_site.0),
        said.stale_if_error.unwrap_or(of_site.1),
    )
}

/// What the text says.
pub fn model(case: &Case) -> Use {
    let wishes = &case.second;
    let asks = |stale_on_error| {
        if wishes.only_if_cached {
            // Section 5.2.1.7.
            Use::GatewayTimeout
        } else {
            Use::Ask { stale_on_error }
        }
    };
    // Section 5.2.1.5 would let a stored response answer; its own choice is to pass.
    if wishes.no_store {
        return asks(false);
    }
    let said = Said::of(case);
    if !may_be_stored(case, &said) {
        return asks(false);
    }
    // Departs (section 3.5): wanted also before credentials are answered by what was stored without them.
    if wishes.authorization && !permits_authorized(&said) {
        return asks(false);
    }
    // Section 4.2: fresh as long as lifetime > age. Section 5.2.2.4: no-cache is never used without asking.
    let lifetime = if said.no_cache {
        0
    } else {
        freshness_lifetime(case, &said)
    };
    let age = initial_age(case) + case.elapsed * 1000;
    let is_fresh = lifetime > age;
    let (while_revalidating, if_error) = windows(case, &said);
    let on_error = lifetime + if_error > age;
    // Sections 5.2.1.1, 5.2.1.3 and 5.2.1.4.
    let is_unwanted = wishes.no_cache
        || wishes.max_age.is_some_and(|most| age > most * 1000)
        || wishes
            .min_fresh
            .is_some_and(|least| lifetime.saturating_sub(age) < least * 1000);
    if is_unwanted {
        return asks(on_error);
    }
    if is_fresh {
        return Use::Fresh;
    }
    // Section 5.2.1.2.
    let is_taken = match wishes.max_stale {
        MaxStale::Unspecified => false,
        MaxStale::Any => true,
        MaxStale::Within(most) => age - lifetime <= most * 1000,
    };
    // What is stale on arrival, has no validator and no window is not worth its place: a cache's own choice.
    let is_kept = case.has_etag
        || !matches!(case.last_modified, Stamp::Absent)
        || lifetime + while_revalidating.max(if_error) > initial_age(case);
    if is_taken && is_kept && !forbids_stale(&said) {
        return Use::MaxStale;
    }
    // Departs (RFC 5861 section 3): not for a request with credentials, which a background fetch would not carry.
    if lifetime + while_revalidating > age && !wishes.authorization {
        return Use::WhileRevalidating;
    }
    asks(on_error)
}

fn millis(seconds: i64) -> u64 {
    u64::try_from(seconds).unwrap_or(0) * 1000
}

/// Section 1.2.2.
const MOST: u64 = 1 << 31;

/// RFC 9110 section 15.1, without 206 as above.
const HEURISTIC: &[u16] = &[200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501];

/// Statuses of RFC 9110 section 15 and those registered since.
const UNDERSTOOD: &[u16] = &[
    200, 201, 203, 204, 206, 300, 301, 302, 304, 307, 308, 400, 401, 404, 405, 410, 414, 451, 500,
    501, 503,
];
