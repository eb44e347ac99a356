//! Maps each word of `galley_policy::outcome` to a reason; a new word without a reason does not compile. The texts are in
//! [`super::reasons`].

use galley_cache::entry::Entry;
use galley_policy::cookie::Class;
use galley_policy::outcome::{NotStored, PassWhy, RefusedWhy};

use super::advice::{Advice, ReasonText};
use super::applying;
use super::reasons;
use galley_fetch::counters::UncachedPage;
use galley_fetch::hit_for_pass::PassReason;
use galley_request::Exchange;

/// The reason why a request bypasses the cache; without a request, the general reason.
pub(crate) fn pass(why: PassWhy, exchange: Option<&Exchange<'_>>) -> Advice {
    match why {
        PassWhy::Method => match exchange {
            Some(exchange) => {
                reasons::PASS_METHOD.with(&[("method", &exchange.info.method_text())])
            }
            None => reasons::PASS_METHOD_ANY.plain(),
        },
        PassWhy::Authorization => reasons::PASS_AUTHORIZATION.plain(),
        PassWhy::Cookie => meaning(&exchange.map_or_else(Vec::new, bypassing)),
        PassWhy::Path => reasons::PASS_PATH.plain(),
        PassWhy::Query => reasons::PASS_QUERY.plain(),
        PassWhy::Upgrade => reasons::PASS_UPGRADE.plain(),
        PassWhy::Body => reasons::PASS_BODY.plain(),
        PassWhy::Origin => reasons::PASS_ORIGIN.plain(),
        PassWhy::Nonce => reasons::PASS_NONCE.plain(),
        PassWhy::Compared => reasons::PASS_COMPARED.plain(),
        PassWhy::Differs => reasons::PASS_DIFFERS.plain(),
        PassWhy::Accept => reasons::PASS_ACCEPT.plain(),
        PassWhy::Ajax => reasons::PASS_AJAX.plain(),
        PassWhy::Rule => match exchange.and_then(applying::applying) {
            Some((number, rule)) => {
                reasons::PASS_RULE.with(&[("number", &number), ("path", &rule.path)])
            }
            None => reasons::PASS_RULE_ANY.plain(),
        },
        PassWhy::NoStore => reasons::PASS_NO_STORE.plain(),
        PassWhy::Remembered if exchange.is_some() => reasons::PASS_REMEMBERED.plain(),
        PassWhy::Remembered => reasons::PASS_REMEMBERED_ANY.plain(),
        PassWhy::Range => reasons::PASS_RANGE.plain(),
        PassWhy::Head => reasons::PASS_HEAD.plain(),
        PassWhy::Partition => reasons::PASS_PARTITION.plain(),
    }
}

fn bypassing(exchange: &Exchange<'_>) -> Vec<String> {
    let classes = applying::classes(exchange).into_iter();
    classes
        .filter(|(_, class)| *class == Class::Bypass)
        .map(|(name, _)| name)
        .collect()
}

fn meaning(names: &[String]) -> Advice {
    match names {
        [] => reasons::PASS_COOKIE_ANY.plain(),
        [one] => reasons::PASS_COOKIE.with(&[("cookie", one)]),
        several => reasons::PASS_COOKIES.with(&[("cookies", &several.join("`, `"))]),
    }
}

/// The reason why requests bypassed the cache for cookies of these names, the most frequent first.
pub(crate) fn passed_cookies(names: &[String]) -> Advice {
    match names {
        [] => reasons::PASS_COOKIE_ANY.plain(),
        names => reasons::PASS_COOKIES_SEEN.with(&[("cookies", &names.join("`, `"))]),
    }
}

/// The reason why a page was not stored lately.
pub(crate) fn uncached(page: UncachedPage) -> Advice {
    match (page.why, page.status) {
        (NotStored::Status, Some(status)) => status_not_stored(Some(status)),
        (why, _) => not_stored(why, None),
    }
}

/// The reason why a response was not stored; `reason` has the fields that cause it.
pub(crate) fn not_stored(why: NotStored, reason: Option<&PassReason>) -> Advice {
    let fields = reason.map_or(&[][..], |reason| &reason.fields);
    let cache_field = CACHE_FIELDS
        .iter()
        .find_map(|freshness_source| fields.iter().find(|(name, _)| name == freshness_source));
    let says = |otherwise: &'static ReasonText| match cache_field {
        Some((name, value)) => reasons::STORED_FIELD.with(&[("field", name), ("value", value)]),
        None => otherwise.plain(),
    };
    match why {
        NotStored::SetCookie => cookies_set(reason),
        NotStored::NoStore => {
            let by_plugin = cache_field.and_then(|(name, value)| forbidden(name, value));
            by_plugin.unwrap_or_else(|| says(reasons::STORED_NO_STORE))
        }
        NotStored::Private => says(reasons::STORED_PRIVATE),
        NotStored::NoCache => says(reasons::STORED_NO_CACHE),
        NotStored::Vary => {
            let field = reason.and_then(|r| r.fields.iter().find(|(name, _)| name == "vary"));
            let value = field.map_or("*", |(_, value)| value.as_str());
            reasons::STORED_VARY.with(&[("value", &value)])
        }
        NotStored::Status => status_not_stored(reason.map(|reason| reason.status.as_u16())),
        NotStored::NoLifetime => match cache_field {
            Some((name, value)) => {
                reasons::STORED_EXPIRED.with(&[("field", name), ("value", value)])
            }
            None => reasons::STORED_NO_LIFETIME.plain(),
        },
        NotStored::Empty => reasons::STORED_EMPTY.plain(),
        NotStored::ErrorPage => reasons::STORED_ERROR_PAGE.plain(),
        NotStored::Incomplete => reasons::STORED_INCOMPLETE.plain(),
        NotStored::Loop => reasons::STORED_LOOP.plain(),
        NotStored::Maintenance => reasons::STORED_MAINTENANCE.plain(),
        NotStored::TooLarge => reasons::STORED_TOO_LARGE.plain(),
        NotStored::Memory => reasons::STORED_MEMORY.plain(),
        NotStored::Partial => reasons::STORED_PARTIAL.plain(),
        NotStored::Coding => reasons::STORED_CODING.plain(),
        NotStored::Repaired => reasons::STORED_REPAIRED.plain(),
        NotStored::SentFile => reasons::STORED_SENT_FILE.plain(),
        NotStored::Purged => reasons::STORED_PURGED.plain(),
        NotStored::Method => reasons::STORED_METHOD.plain(),
    }
}

/// The reason for which Galley's plugin forbade to store a response, by the word in the field that it sends.
fn forbidden(name: &str, value: &str) -> Option<Advice> {
    let mut directives = value.split(',').map(str::trim);
    let why = directives.find_map(|directive| directive.strip_prefix("why="))?;
    let reason = match (name, why) {
        ("galley-cache-control", "rest-route") => reasons::STORED_REST_ROUTE,
        ("galley-cache-control", "donotcachepage") => reasons::STORED_DONOTCACHEPAGE,
        ("galley-cache-control", "nocache-headers") => reasons::STORED_NOCACHE_HEADERS,
        ("galley-cache-control", "development") => reasons::STORED_DEVELOPMENT,
        ("galley-cache-control", "excluded") => reasons::STORED_EXCLUDED,
        ("galley-cache-control", "logged-in") => reasons::STORED_LOGGED_IN,
        ("galley-cache-control", "preview") => reasons::STORED_PREVIEW,
        ("galley-cache-control", "password") => reasons::STORED_PASSWORD,
        ("galley-cache-control", "shop") => reasons::STORED_SHOP,
        ("galley-cache-control", "error") => reasons::STORED_PHP_ERROR,
        _ => return None,
    };
    Some(reason.plain())
}

/// The reason why a stored page has a short lifetime: the WordPress plugin tags it with tables of other plugins.
pub(super) fn short_lived(entry: &Entry) -> Option<Advice> {
    let tables = entry
        .tags
        .iter()
        .filter_map(|tag| tag.strip_prefix(TABLE_TAG));
    let tables: Vec<&str> = tables.collect();
    let table = tables.join("`, `");
    (!tables.is_empty()).then(|| reasons::SHORT_LIVED_TABLE.with(&[("table", &table)]))
}

/// The beginning of the WordPress plugin's tags for tables that it does not know.
const TABLE_TAG: &str = "db.";

/// The reason why a response with this status was not stored.
pub(crate) fn status_not_stored(status: Option<u16>) -> Advice {
    match status {
        Some(status @ 500..) => reasons::STORED_STATUS_ERROR.with(&[("status", &status)]),
        Some(status @ (204 | 302..=304 | 307 | 401 | 407 | 429)) => {
            reasons::STORED_STATUS_NEVER.with(&[("status", &status)])
        }
        Some(status) => reasons::STORED_STATUS.with(&[("status", &status)]),
        None => reasons::STORED_STATUS_ANY.plain(),
    }
}

fn cookies_set(reason: Option<&PassReason>) -> Advice {
    let cookies = reason.map_or(&[][..], |reason| &reason.cookies);
    let owner = |cookie: &String| {
        let mut known = COUNTING_COOKIES.iter();
        known
            .find(|(name, _)| cookie.starts_with(name))
            .map(|(_, owner)| (cookie.clone(), *owner))
    };
    if let Some((cookie, owner)) = cookies.iter().find_map(owner) {
        return reasons::SET_COOKIE_OF.with(&[("cookie", &cookie), ("owner", &owner)]);
    }
    match cookies {
        [] => reasons::SET_COOKIE_ANY.plain(),
        [one] => reasons::SET_COOKIE.with(&[("cookie", one)]),
        several => reasons::SET_COOKIES.with(&[("cookies", &several.join("`, `"))]),
    }
}

/// What sets cookies that count visits on each page: the beginning of their names, and the widget or plugin.
const COUNTING_COOKIES: &[(&str, &str)] = &[
    (
        "woocommerce_recently_viewed",
        "the widget \"Recently viewed products\" of WooCommerce",
    ),
    ("yith_wrvp_", "YITH WooCommerce Recently Viewed Products"),
    ("pvc_visits", "Post Views Counter"),
];

/// The reason why Galley responds with an error.
pub(super) fn refused(why: RefusedWhy) -> Advice {
    let reason = match why {
        RefusedWhy::UnknownHost => reasons::REFUSED_UNKNOWN_HOST,
        RefusedWhy::Misdirected => reasons::REFUSED_MISDIRECTED,
        RefusedWhy::BadRequest => reasons::REFUSED_BAD_REQUEST,
        RefusedWhy::HeadTooLarge => reasons::REFUSED_HEAD,
        RefusedWhy::BodyTooLarge => reasons::REFUSED_BODY,
        RefusedWhy::NoRoom => reasons::REFUSED_NO_ROOM,
        RefusedWhy::Timeout => reasons::REFUSED_TIMEOUT,
        RefusedWhy::ClientGone => reasons::REFUSED_CLIENT_GONE,
        RefusedWhy::Denied => reasons::REFUSED_DENIED,
        RefusedWhy::Network => reasons::REFUSED_NETWORK,
        RefusedWhy::Admin => reasons::REFUSED_ADMIN,
        RefusedWhy::NeedsTls => reasons::REFUSED_NEEDS_TLS,
        RefusedWhy::Password => reasons::REFUSED_PASSWORD,
        RefusedWhy::Limited => reasons::REFUSED_LIMITED,
        RefusedWhy::Unseen => reasons::REFUSED_UNSEEN,
        RefusedWhy::XmlRpc => reasons::REFUSED_XMLRPC,
        RefusedWhy::Authors => reasons::REFUSED_AUTHORS,
        RefusedWhy::Crawler => reasons::REFUSED_CRAWLER,
        RefusedWhy::CrawlDelay => reasons::REFUSED_CRAWL_DELAY,
        RefusedWhy::Method => reasons::REFUSED_METHOD,
        RefusedWhy::UnknownMethod => reasons::REFUSED_UNKNOWN_METHOD,
        RefusedWhy::NotFound => reasons::REFUSED_NOT_FOUND,
        RefusedWhy::OnlyIfCached => reasons::REFUSED_ONLY_IF_CACHED,
        RefusedWhy::Overload => reasons::REFUSED_OVERLOAD,
        RefusedWhy::UpstreamPaused => reasons::REFUSED_PAUSED,
        RefusedWhy::UpstreamDown => reasons::REFUSED_DOWN,
        RefusedWhy::UpstreamTimeout => reasons::REFUSED_UPSTREAM_TIMEOUT,
        RefusedWhy::BadUpstream => reasons::REFUSED_BAD_UPSTREAM,
        RefusedWhy::MustRevalidate => reasons::REFUSED_MUST_REVALIDATE,
        RefusedWhy::Loop => reasons::REFUSED_LOOP,
        RefusedWhy::Internal => reasons::REFUSED_INTERNAL,
    };
    reason.plain()
}

/// Fields that control caching, in the order of precedence.
const CACHE_FIELDS: &[&str] = &[
    "galley-cache-control",
    "cdn-cache-control",
    "surrogate-control",
    "x-litespeed-cache-control",
    "x-accel-expires",
    "cache-control",
    "expires",
];

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;

    #[test]
    fn cookies_that_count_visits_name_their_plugin() {
        let why = |cookies: &[&str]| {
            let reason = PassReason {
                why: NotStored::SetCookie,
                status: StatusCode::OK,
                cookies: cookies.iter().map(ToString::to_string).collect(),
                fields: Vec::new(),
            };
            not_stored(NotStored::SetCookie, Some(&reason)).why()
        };
        let table = [
            (&["woocommerce_recently_viewed"][..], "WooCommerce"),
            (&["a", "pvc_visits[0]"], "Post Views Counter"),
            (&["a"], "the page sets the cookie `a`"),
            (&["a", "b"], "the page sets the cookies `a`, `b`"),
        ];
        for (cookies, expected) in table {
            assert!(why(cookies).contains(expected), "{}", why(cookies));
        }
    }
}
