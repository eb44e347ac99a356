//! Known traps of shared caches that concern decisions. The name of a test contains the number of its trap. `tests/traps` of the
//! server tests the traps that need a running server.

#![expect(clippy::unwrap_used, reason = "tests")]

mod response_support;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use galley_policy::cache_control::CacheControl;
use galley_policy::encoding::{AcceptedCodings, Coding};
use galley_policy::freshness::{initial_age, statement, windows};
use galley_policy::outcome::{NotStored, PassWhy};
use galley_policy::request_info::Cacheability;
use galley_policy::site::{AddressedFields, IgnoredParts, NamePattern, Policy, TtlTable};
use galley_policy::storable::{ResponseHead, Storability, judge, stored_fields};
use galley_policy::time::Tick;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use response_support::{Rows, info};

const DATE: (&str, &str) = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(784_111_777)
}

fn none() -> Policy {
    Policy {
        ttl: TtlTable {
            by_status: Vec::new(),
            default: Duration::ZERO,
            stale_while_revalidate: Duration::ZERO,
            stale_if_error: Duration::ZERO,
        },
        ..Policy::rfc9111()
    }
}

fn map(rows: Rows<'_>) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in rows {
        map.append(
            HeaderName::from_static(name),
            HeaderValue::from_str(value).unwrap(),
        );
    }
    map
}

fn storability(policy: &Policy, request: Rows<'_>, status: u16, rows: Rows<'_>) -> Storability {
    let response = ResponseHead {
        status: StatusCode::from_u16(status).unwrap(),
        fields: &map(rows),
        response_delay: Duration::ZERO,
        now: now(),
    };
    judge(&info("GET", "/", request, policy), &response, policy)
}

fn stored(status: u16, rows: Rows<'_>) -> Storability {
    storability(&none(), &[], status, rows)
}

fn fresh_s(storability: Storability) -> Option<u64> {
    match storability {
        Storability::Store(lifetime) if lifetime.fresh > lifetime.initial_age => {
            Some(lifetime.fresh.as_secs())
        }
        Storability::Store(_) | Storability::Skip(_) => None,
    }
}

#[test]
fn trap_01_responses_to_authorized_requests_need_explicit_permission_to_be_shared() {
    let with: Rows<'_> = &[("authorization", "Basic x")];
    for (control, is_shared) in [
        ("max-age=60", false),
        ("max-age=60, proxy-revalidate", false),
        ("max-age=60, public", true),
        ("max-age=60, must-revalidate", true),
        ("s-maxage=60", true),
        ("s-maxage=60, private", false),
    ] {
        let storability = storability(&none(), with, 200, &[("cache-control", control)]);
        assert_eq!(
            matches!(storability, Storability::Store(_)),
            is_shared,
            "{control}"
        );
    }
}

#[test]
fn trap_02_set_cookie_prevents_storing_unless_configured_as_harmless() {
    let rows: Rows<'_> = &[
        ("cache-control", "max-age=60, public"),
        ("set-cookie", "a=b"),
    ];
    assert_eq!(stored(200, rows), Storability::Skip(NotStored::SetCookie));
    let site = Policy {
        harmless_cookies: vec![NamePattern::parse("a")],
        ..none()
    };
    assert_eq!(fresh_s(storability(&site, &[], 200, rows)), Some(60));
}

#[test]
fn trap_03_directives_are_case_insensitive_whole_words() {
    for (control, is_stored) in [
        ("x-private-foo, max-age=60", true),
        ("foo=\"private, no-store\", max-age=60", true),
        ("PRIVATE, max-age=60", false),
        ("No-Store, max-age=60", false),
    ] {
        let found = fresh_s(stored(200, &[("cache-control", control)])).is_some();
        assert_eq!(found, is_stored, "{control}");
    }
}

#[test]
fn trap_04_qualified_directives_remove_the_named_fields() {
    let rows: Rows<'_> = &[
        ("cache-control", "no-cache=\"a\", max-age=60"),
        ("a", "1"),
        ("b", "2"),
    ];
    assert_eq!(fresh_s(stored(200, rows)), Some(60));
    let fields = stored_fields(&map(rows), &none(), None);
    assert!(!fields.contains_key("a") && fields.contains_key("b"));
    let plain: Rows<'_> = &[("cache-control", "no-cache=\"a\", no-cache, max-age=60")];
    assert_eq!(stored(200, plain), Storability::Skip(NotStored::NoCache));
}

#[test]
fn trap_05_no_store_in_a_request_prevents_storing() {
    let request: Rows<'_> = &[("cache-control", "no-store")];
    assert_eq!(
        info("GET", "/", request, &none()).cacheability(),
        Cacheability::Pass(PassWhy::NoStore)
    );
    let found = storability(&none(), request, 200, &[("cache-control", "max-age=60")]);
    assert!(matches!(found, Storability::Skip(_)));
}

#[test]
fn trap_06_s_maxage_forbids_stale_responses_without_explicit_permission() {
    let ttl = TtlTable {
        stale_while_revalidate: Duration::from_secs(7),
        stale_if_error: Duration::from_secs(8),
        ..none().ttl
    };
    let stale_seconds = |control| {
        let found = statement(
            &map(&[("cache-control", control)]),
            AddressedFields::Standard,
            IgnoredParts::default(),
            now(),
        );
        let windows = windows(&found, StatusCode::OK, &ttl);
        let (swr, sie) = (windows.while_revalidate, windows.if_error);
        (swr.as_secs(), sie.as_secs())
    };
    assert_eq!(stale_seconds("max-age=1"), (7, 8));
    assert_eq!(stale_seconds("s-maxage=1"), (0, 0));
    assert_eq!(stale_seconds("s-maxage=1, stale-if-error=5"), (0, 5));
}

#[test]
fn trap_07_must_revalidate_disables_stale_windows() {
    for control in ["must-revalidate", "proxy-revalidate"] {
        let control = format!("max-age=1, {control}, stale-if-error=60, stale-while-revalidate=60");
        let Storability::Store(lifetime) = stored(200, &[("cache-control", &control)]) else {
            panic!("{control}");
        };
        assert_eq!(
            lifetime.stale_if_error + lifetime.stale_while_revalidate,
            Duration::ZERO
        );
    }
}

#[test]
fn trap_08_only_the_lifetime_with_the_highest_precedence_counts() {
    let expires = ("expires", "Sun, 06 Nov 1994 08:50:17 GMT");
    let table: &[(Rows<'_>, Option<u64>)] = &[
        (&[DATE, expires], Some(40)),
        (&[DATE, expires, ("cache-control", "max-age=30")], Some(30)),
        (&[("cache-control", "max-age=30, s-maxage=20")], Some(20)),
        (
            &[
                ("cache-control", "s-maxage=20"),
                ("cdn-cache-control", "max-age=10"),
            ],
            Some(10),
        ),
        (
            &[
                ("cache-control", "max-age=9"),
                ("cdn-cache-control", "max-age=&"),
            ],
            Some(9),
        ),
        (
            &[
                ("cache-control", "no-store"),
                ("cdn-cache-control", "max-age=10"),
            ],
            Some(10),
        ),
        (
            &[
                ("cache-control", "max-age=9"),
                ("cdn-cache-control", "no-store"),
            ],
            None,
        ),
        (
            &[
                ("cdn-cache-control", "max-age=10"),
                ("galley-cache-control", "max-age=5"),
            ],
            Some(5),
        ),
    ];
    for (rows, expected) in table {
        assert_eq!(fresh_s(stored(200, rows)), *expected, "{rows:?}");
    }
}

#[test]
fn trap_09_the_smallest_of_several_lifetimes_counts() {
    for rows in [
        &[("cache-control", "max-age=60, max-age=5")][..],
        &[
            ("cache-control", "max-age=5"),
            ("cache-control", "max-age=60"),
        ],
    ] {
        assert_eq!(fresh_s(stored(200, rows)), Some(5), "{rows:?}");
    }
    assert_eq!(
        fresh_s(stored(200, &[("cache-control", "max-age=0, max-age=60")])),
        None
    );
}

#[test]
fn trap_10_an_invalid_lifetime_means_expired() {
    for (value, expected) in [
        ("99999999999999999999", Some(1 << 31)),
        ("0060", Some(60)),
        ("-1", None),
        ("1.5", None),
        ("'60'", None),
        ("60s", None),
    ] {
        let control = format!("max-age={value}");
        assert_eq!(
            fresh_s(stored(200, &[("cache-control", &control)])),
            expected,
            "{value}"
        );
    }
}

#[test]
fn trap_11_the_age_is_the_maximum_of_age_and_date() {
    let age = |rows: Rows<'_>, delay| {
        let later = now() + Duration::from_secs(30);
        initial_age(&map(rows), Duration::from_secs(delay), later).as_secs()
    };
    assert_eq!(age(&[DATE], 0), 30);
    assert_eq!(age(&[DATE, ("age", "100")], 2), 102);
    assert_eq!(age(&[("age", "100, 7")], 0), 100);
    for broken in ["abc", "-7200", "7200.0", "7200;foo=bar", ""] {
        let rows: Rows<'_> = &[("cache-control", "max-age=3600"), ("age", broken)];
        assert_eq!(fresh_s(stored(200, rows)), Some(3600), "{broken}");
    }
}

#[test]
fn trap_14_an_invalid_expires_means_expired() {
    for value in [
        "0",
        "-1",
        "Sun, 06 Nov 2094 08:49:37 UTC",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "",
    ] {
        let rows: Rows<'_> = &[
            DATE,
            ("expires", value),
            ("last-modified", "Sun, 06 Nov 1983 08:49:37 GMT"),
        ];
        assert_eq!(fresh_s(stored(200, rows)), None, "{value}");
    }
}

#[test]
fn trap_15_heuristics_apply_only_to_known_statuses_without_a_lifetime() {
    let old = ("last-modified", "Sat, 05 Nov 1994 08:49:37 GMT");
    for (status, is_heuristic) in [
        (200, true),
        (404, true),
        (501, true),
        (201, false),
        (403, false),
        (502, false),
    ] {
        assert_eq!(
            fresh_s(stored(status, &[DATE, old])).is_some(),
            is_heuristic,
            "{status}"
        );
    }
    assert_eq!(
        fresh_s(stored(200, &[DATE, old, ("cache-control", "max-age=0")])),
        None
    );
    assert!(fresh_s(stored(599, &[DATE, old, ("cache-control", "public")])).is_some());
    let ancient = ("last-modified", "Sun, 06 Nov 1983 08:49:37 GMT");
    assert_eq!(fresh_s(stored(200, &[DATE, ancient])), Some(3600));
}

#[test]
fn trap_16_must_understand_requires_a_known_status() {
    let long = ("cache-control", "max-age=60");
    for (status, is_stored) in [
        (200, true),
        (299, true),
        (599, true),
        (206, false),
        (304, false),
        (101, false),
    ] {
        assert_eq!(
            fresh_s(stored(status, &[long])).is_some(),
            is_stored,
            "{status}"
        );
    }
    let must = ("cache-control", "max-age=60, must-understand, no-store");
    assert_eq!(fresh_s(stored(200, &[must])), Some(60));
    assert_eq!(fresh_s(stored(599, &[must])), None);
}

#[test]
fn trap_17_errors_are_stored_only_with_an_explicit_lifetime() {
    for status in [500, 502, 503, 504] {
        assert_eq!(
            stored(status, &[]),
            Storability::Skip(NotStored::Status),
            "{status}"
        );
    }
    let rows: Rows<'_> = &[("cache-control", "max-age=9"), ("retry-after", "5")];
    assert_eq!(stored(503, rows), Storability::Skip(NotStored::Maintenance));
}

#[test]
fn trap_20_a_coding_with_q_zero_is_not_selected() {
    let mut codings = AcceptedCodings::default();
    codings.read(b"br;q=0, gzip;q=0.5, *;q=0");
    assert_eq!(
        codings.best(&[Coding::Brotli, Coding::Gzip, Coding::Identity]),
        Some(Coding::Gzip)
    );
}

#[test]
fn trap_21_requests_with_user_cookies_bypass_the_cache() {
    let cacheability =
        |policy: &Policy, cookie| info("GET", "/", &[("cookie", cookie)], policy).cacheability();
    let pass = Cacheability::Pass(PassWhy::Cookie);
    assert_eq!(cacheability(&none(), "a=b"), pass);
    assert_eq!(
        cacheability(&Policy::default(), "wordpress_logged_in_0=x"),
        pass
    );
    assert_eq!(
        cacheability(&Policy::default(), "_ga=x"),
        Cacheability::Cacheable
    );
}

#[test]
fn trap_23_a_get_with_a_body_bypasses_the_cache() {
    use galley_policy::request_info::{RequestInfo, RequestLineInfo, Scheme};
    let line = RequestLineInfo {
        method: "GET",
        target: b"/",
        scheme: Scheme::Http,
        host: "example.com",
        has_body: true,
        upgrade: false,
        country: None,
    };
    let mut info = RequestInfo::default();
    info.parse(&line, std::iter::empty::<(&str, &[u8])>(), &none())
        .unwrap();
    assert_eq!(info.cacheability(), Cacheability::Pass(PassWhy::Body));
}

#[test]
fn trap_31_immutable_does_not_extend_the_lifetime() {
    assert_eq!(
        fresh_s(stored(200, &[("cache-control", "immutable, max-age=0")])),
        None
    );
    assert_eq!(
        fresh_s(stored(200, &[("cache-control", "immutable, max-age=5")])),
        Some(5)
    );
}

#[test]
fn trap_35_proxy_authentication_fields_are_not_stored() {
    let rows: Rows<'_> = &[
        ("proxy-authenticate", "x"),
        ("proxy-authentication-info", "x"),
        ("proxy-authorization", "x"),
    ];
    assert!(stored_fields(&map(rows), &none(), None).is_empty());
}

#[test]
fn trap_36_equivalent_paths_have_one_canonical_form() {
    let path = |target| info("GET", target, &[], &none()).path().to_vec();
    assert_eq!(path("/%7ea/./b/../c"), b"/~a/c");
    assert_ne!(path("/a%2fb"), path("/a/b"));
    assert_ne!(path("/A"), path("/a"));
    assert_eq!(path("http://example.com"), b"/");
}

#[test]
fn trap_37_without_a_preset_queries_keep_order_and_duplicates() {
    let query =
        |policy: &Policy, target| info("GET", target, &[], policy).query().unwrap().to_vec();
    assert_eq!(query(&none(), "/?b=1&a=2&a=1"), b"b=1&a=2&a=1");
    assert_eq!(query(&none(), "/?utm_source=x"), b"utm_source=x");
    assert_eq!(
        query(&Policy::default(), "/?b=1&a=2&utm%5fsource=x"),
        b"a=2&b=1"
    );
}

#[test]
fn trap_40_ages_use_a_monotonic_clock() {
    let stored_at = Tick(5_000);
    assert_eq!(Tick(8_000).since(stored_at), Duration::from_secs(3));
    assert_eq!(Tick(1_000).since(stored_at), Duration::ZERO);
}

#[test]
fn an_unclosed_quote_does_not_affect_the_next_line() {
    let control = CacheControl::parse([&b"foo=\"bar"[..], b"max-age=5"].into_iter());
    assert_eq!(control.max_age, Some(Duration::from_secs(5)));
}
