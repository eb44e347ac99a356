//! Which responses are stored and for how long, and the reasons for not storing others.

#![expect(clippy::unwrap_used, reason = "tests")]

mod response_support;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use galley_policy::outcome::NotStored;
use galley_policy::site::{IgnoredParts, NamePattern, Policy, Rule, TtlTable};
use galley_policy::storable::{Lifetime, ResponseHead, Storability, judge, judge_body};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;
use response_support::{Rows, info};

fn map(rows: Rows<'_>) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in rows {
        let value = HeaderValue::from_str(value).unwrap();
        map.append(HeaderName::from_static(name), value);
    }
    map
}

/// Sun, 06 Nov 1994 08:49:37 GMT.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(784_111_777)
}

/// Fresh for 60 s, `stale_while_revalidate` 10 s, `stale_if_error` 100 s; 404 fresh for 5 s.
fn wordpress() -> Policy {
    Policy {
        ttl: TtlTable {
            by_status: vec![(404, Duration::from_secs(5))],
            default: Duration::from_secs(60),
            stale_while_revalidate: Duration::from_secs(10),
            stale_if_error: Duration::from_secs(100),
        },
        ..Policy::default()
    }
}

fn none() -> Policy {
    Policy {
        ttl: wordpress().ttl,
        ..Policy::rfc9111()
    }
}

fn storability(
    policy: &Policy,
    request: (&str, &str, Rows<'_>),
    status: u16,
    rows: Rows<'_>,
) -> Storability {
    let info = info(request.0, request.1, request.2, policy);
    let response = ResponseHead {
        status: StatusCode::from_u16(status).unwrap(),
        fields: &map(rows),
        response_delay: Duration::ZERO,
        now: now(),
    };
    judge(&info, &response, policy)
}

fn get(policy: &Policy, status: u16, rows: Rows<'_>) -> Storability {
    storability(policy, ("GET", "/page/?a=1", &[]), status, rows)
}

/// Stored with these seconds of `fresh`, `stale_while_revalidate` and `stale_if_error`.
fn store(fresh: u64, while_revalidate: u64, if_error: u64) -> Storability {
    Storability::Store(Lifetime {
        fresh: Duration::from_secs(fresh),
        stale_while_revalidate: Duration::from_secs(while_revalidate),
        stale_if_error: Duration::from_secs(if_error),
        initial_age: Duration::ZERO,
    })
}

const fn skip(why: NotStored) -> Storability {
    Storability::Skip(why)
}

#[test]
fn cacheable_statuses_with_the_wordpress_preset() {
    let table = [
        (200, store(60, 10, 100)),
        (203, store(60, 10, 100)),
        (301, store(60, 10, 100)),
        (308, store(60, 10, 100)),
        (404, store(5, 0, 0)),
        (410, store(60, 0, 0)),
        (204, skip(NotStored::Status)),
        (206, skip(NotStored::Partial)),
        (302, skip(NotStored::Status)),
        (303, skip(NotStored::Status)),
        (304, skip(NotStored::Status)),
        (307, skip(NotStored::Status)),
        (400, skip(NotStored::Status)),
        (401, skip(NotStored::Status)),
        (403, skip(NotStored::Status)),
        (405, skip(NotStored::Status)),
        (429, skip(NotStored::Status)),
        (500, skip(NotStored::Status)),
        (501, skip(NotStored::Status)),
        (503, skip(NotStored::Status)),
    ];
    for (status, expected) in table {
        assert_eq!(get(&wordpress(), status, &[]), expected, "{status}");
        if expected == skip(NotStored::Status) {
            let explicit = get(
                &wordpress(),
                status,
                &[("cache-control", "public, max-age=9")],
            );
            assert_eq!(explicit, expected, "{status} with a lifetime");
        }
    }
    assert_eq!(
        get(&wordpress(), 503, &[("retry-after", "600")]),
        skip(NotStored::Maintenance)
    );
    assert_eq!(
        get(&wordpress(), 200, &[("content-range", "bytes 0-1/2")]),
        skip(NotStored::Partial)
    );
}

#[test]
fn a_status_in_the_ttl_table_is_stored_if_it_is_cacheable() {
    let mut site = wordpress();
    site.ttl.by_status = [204, 302, 307, 401, 403, 429, 500]
        .map(|status| (status, Duration::from_secs(3)))
        .to_vec();
    assert_eq!(get(&site, 403, &[]), store(3, 0, 0));
    for status in [204, 302, 307, 401, 429, 500] {
        assert_eq!(get(&site, status, &[]), skip(NotStored::Status), "{status}");
    }
}

#[test]
fn cacheable_statuses_without_a_preset() {
    const EXPLICIT: Rows<'_> = &[("cache-control", "max-age=9")];
    let table: &[(u16, Rows<'_>, Storability)] = &[
        (200, EXPLICIT, store(9, 10, 100)),
        (302, EXPLICIT, store(9, 10, 100)),
        (299, EXPLICIT, store(9, 10, 100)),
        (500, EXPLICIT, store(9, 0, 0)),
        (200, &[], store(60, 10, 100)),
        (204, &[], store(60, 10, 100)),
        (302, &[], skip(NotStored::Status)),
        (500, &[], skip(NotStored::Status)),
        (302, &[("cache-control", "public")], store(60, 10, 100)),
        (304, EXPLICIT, skip(NotStored::Status)),
        (206, EXPLICIT, skip(NotStored::Partial)),
    ];
    for (status, rows, expected) in table {
        assert_eq!(get(&none(), *status, rows), *expected, "{status} {rows:?}");
    }
}

#[test]
fn cache_control_directives_prevent_or_limit_storing() {
    let table: &[(Rows<'_>, Storability)] = &[
        (&[("cache-control", "no-store")], skip(NotStored::NoStore)),
        (&[("cache-control", "private")], skip(NotStored::Private)),
        (&[("cache-control", "no-cache")], skip(NotStored::NoCache)),
        (
            &[("cache-control", "no-cache=\"set-cookie\"")],
            skip(NotStored::NoCache),
        ),
        (
            &[("cache-control", "public, max-age=60, private=\"x\"")],
            skip(NotStored::Private),
        ),
        (
            &[("cache-control", "max-age=0")],
            skip(NotStored::NoLifetime),
        ),
        (
            &[("cache-control", "max-age=oops")],
            skip(NotStored::NoLifetime),
        ),
        (
            &[("cache-control", "max-age=9, s-maxage=0")],
            skip(NotStored::NoLifetime),
        ),
        (&[("expires", "0")], skip(NotStored::NoLifetime)),
        (&[("pragma", "no-cache")], store(60, 10, 100)),
        (&[("cache-control", "max-age=9")], store(9, 10, 100)),
        (&[("cache-control", "s-maxage=9")], store(9, 0, 0)),
        (
            &[("cache-control", "max-age=9, must-revalidate")],
            store(9, 0, 0),
        ),
        (
            &[(
                "cache-control",
                "max-age=9, stale-while-revalidate=2, stale-if-error=3",
            )],
            store(9, 2, 3),
        ),
        (
            &[
                ("cache-control", "no-store"),
                ("galley-cache-control", "max-age=7"),
            ],
            store(7, 10, 100),
        ),
        (
            &[
                ("cache-control", "max-age=9"),
                ("galley-cache-control", "no-store"),
            ],
            skip(NotStored::NoStore),
        ),
        (
            &[("x-litespeed-cache-control", "no-cache")],
            skip(NotStored::NoCache),
        ),
        (&[("x-accel-expires", "0")], skip(NotStored::NoLifetime)),
    ];
    for (rows, expected) in table {
        assert_eq!(get(&wordpress(), 200, rows), *expected, "{rows:?}");
    }
    let must_understand: Rows<'_> = &[("cache-control", "no-store, must-understand, max-age=9")];
    assert_eq!(
        get(&wordpress(), 200, must_understand),
        skip(NotStored::NoStore)
    );
    assert_eq!(get(&none(), 200, must_understand), store(9, 10, 100));
}

#[test]
fn a_response_older_than_its_lifetime_is_not_stored() {
    let aged = get(
        &wordpress(),
        200,
        &[("cache-control", "max-age=9"), ("age", "8")],
    );
    assert!(
        matches!(aged, Storability::Store(lifetime) if lifetime.initial_age == Duration::from_secs(8))
    );
    let table: &[Rows<'_>] = &[
        &[("cache-control", "max-age=9"), ("age", "9")],
        &[
            ("cache-control", "max-age=9"),
            ("date", "Sun, 06 Nov 1994 08:49:20 GMT"),
        ],
        &[("age", "60")],
    ];
    for rows in table {
        assert_eq!(
            get(&wordpress(), 200, rows),
            skip(NotStored::NoLifetime),
            "{rows:?}"
        );
    }
}

#[test]
fn generation_time_does_not_reduce_a_default_lifetime() {
    const SLOW: u64 = 9;
    let brief = Policy {
        ttl: TtlTable {
            by_status: vec![(404, Duration::from_secs(1))],
            default: Duration::from_secs(1),
            ..wordpress().ttl
        },
        ..Policy::default()
    };
    let info = info("GET", "/page/", &[], &brief);
    let judge_slow = |status: u16, rows: Rows<'_>| {
        let response = ResponseHead {
            status: StatusCode::from_u16(status).unwrap(),
            fields: &map(rows),
            response_delay: Duration::from_secs(SLOW),
            now: now(),
        };
        match judge(&info, &response, &brief) {
            Storability::Store(lifetime) => {
                Ok((lifetime.fresh.as_secs(), lifetime.initial_age.as_secs()))
            }
            Storability::Skip(why) => Err(why),
        }
    };
    // Apache sets `Date` to the time of the request.
    let date = ("date", "Sun, 06 Nov 1994 08:49:27 GMT");
    assert_eq!(judge_slow(200, &[]), Ok((1 + SLOW, SLOW)));
    assert_eq!(judge_slow(200, &[date]), Ok((11, 10)));
    assert_eq!(judge_slow(404, &[]), Ok((1 + SLOW, SLOW)));
    // Stated lifetimes and the `Age` of another cache count as in RFC 9111.
    for rows in [
        &[("cache-control", "max-age=9")][..],
        &[("age", "0")],
        &[("age", "5"), date],
    ] {
        assert_eq!(
            judge_slow(200, rows),
            Err(NotStored::NoLifetime),
            "{rows:?}"
        );
    }
}

#[test]
fn set_cookie_prevents_storing_unless_the_site_names_the_cookie() {
    let site = Policy {
        harmless_cookies: vec![
            NamePattern::parse("pll_language"),
            NamePattern::parse("seen_*"),
        ],
        ..wordpress()
    };
    let table: &[(Rows<'_>, bool)] = &[
        (&[("set-cookie", "pll_language=de; Path=/")], true),
        (
            &[
                ("set-cookie", "seen_1=x"),
                ("set-cookie", "pll_language=de"),
            ],
            true,
        ),
        (&[("set-cookie", "PLL_language=de")], false),
        (
            &[
                ("set-cookie", "pll_language=de"),
                ("set-cookie", "PHPSESSID=x"),
            ],
            false,
        ),
        (
            &[("set-cookie", "wordpress_test_cookie=WP%20Cookie%20check")],
            false,
        ),
        (&[("set-cookie", "x; pll_language=de")], false),
        (&[("set-cookie", "")], false),
        (&[("lsc-cookie", "a=b")], false),
        (&[("set-cookie2", "a=b")], false),
    ];
    for (rows, stored) in table {
        let expected = if *stored {
            store(60, 10, 100)
        } else {
            skip(NotStored::SetCookie)
        };
        assert_eq!(get(&site, 200, rows), expected, "{rows:?}");
        if !stored {
            let mut rows = rows.to_vec();
            rows.push(("galley-cache-control", "public, max-age=9"));
            assert_eq!(
                get(&none(), 200, &rows),
                skip(NotStored::SetCookie),
                "{rows:?}"
            );
        }
    }
}

#[test]
fn vary_prevents_storing_unless_the_key_covers_it() {
    let vary = |policy: &Policy, value| get(policy, 200, &[("vary", value)]);
    assert_eq!(
        vary(&wordpress(), "Accept-Encoding, Cookie"),
        store(60, 10, 100)
    );
    assert_eq!(vary(&wordpress(), "Accept-Language"), skip(NotStored::Vary));
    assert_eq!(vary(&wordpress(), "Cookie, *"), skip(NotStored::Vary));
    assert_eq!(vary(&none(), "Accept-Encoding"), store(60, 10, 100));
    assert_eq!(vary(&none(), "Cookie, Foo"), store(60, 10, 100));
    assert_eq!(vary(&none(), "Foo, *"), skip(NotStored::Vary));
    assert_eq!(vary(&none(), "X-Forwarded-For"), skip(NotStored::Vary));
}

#[test]
fn responses_to_unsafe_and_private_requests_are_not_stored() {
    let table: &[(&str, &str, Rows<'_>, NotStored)] = &[
        ("POST", "/", &[], NotStored::Method),
        ("OPTIONS", "/", &[], NotStored::Method),
        ("PURGE", "/", &[], NotStored::Method),
        (
            "GET",
            "/",
            &[("authorization", "Basic eA==")],
            NotStored::Private,
        ),
        (
            "GET",
            "/",
            &[("cookie", "wordpress_logged_in_0123=x")],
            NotStored::Private,
        ),
        ("GET", "/wp-login.php", &[], NotStored::Private),
        ("GET", "/?preview=true", &[], NotStored::Private),
    ];
    for (method, target, rows, why) in table {
        let found = storability(
            &wordpress(),
            (method, target, rows),
            200,
            &[("cache-control", "public, s-maxage=60")],
        );
        assert_eq!(found, skip(*why), "{method} {target} {rows:?}");
    }
    assert_eq!(
        storability(&wordpress(), ("HEAD", "/", &[]), 200, &[]),
        store(60, 10, 100)
    );
}

#[test]
fn no_store_in_a_request_does_not_prevent_storing() {
    let visit = ("GET", "/", &[("cache-control", "no-store")][..]);
    assert_eq!(
        storability(&wordpress(), visit, 200, &[]),
        store(60, 10, 100)
    );
}

#[test]
fn not_found_pages_are_stored_briefly() {
    const EXPIRES: (&str, &str) = ("expires", "Wed, 11 Jan 1984 05:00:00 GMT");
    const BEFORE_6_8: (&str, &str) = ("cache-control", "no-cache, must-revalidate, max-age=0");
    const SINCE_6_8: (&str, &str) = (
        "cache-control",
        "no-cache, must-revalidate, max-age=0, no-store, private",
    );
    let table: &[(u16, Rows<'_>, Storability)] = &[
        (404, &[EXPIRES, BEFORE_6_8], store(5, 0, 0)),
        (404, &[EXPIRES, SINCE_6_8], store(5, 0, 0)),
        (
            404,
            &[EXPIRES, SINCE_6_8, ("set-cookie", "a=b")],
            skip(NotStored::SetCookie),
        ),
        (404, &[SINCE_6_8], skip(NotStored::NoStore)),
        (404, &[BEFORE_6_8], skip(NotStored::NoCache)),
        (404, &[EXPIRES], skip(NotStored::NoLifetime)),
        (
            404,
            &[EXPIRES, ("cache-control", "no-store")],
            skip(NotStored::NoStore),
        ),
        (
            404,
            &[("expires", "Thu, 19 Nov 1981 08:52:00 GMT"), SINCE_6_8],
            skip(NotStored::NoStore),
        ),
        (
            404,
            &[EXPIRES, SINCE_6_8, ("galley-cache-control", "no-store")],
            skip(NotStored::NoStore),
        ),
        (
            404,
            &[EXPIRES, SINCE_6_8, ("galley-cache-control", "max-age=33")],
            store(33, 0, 0),
        ),
        (200, &[EXPIRES, BEFORE_6_8], skip(NotStored::NoCache)),
        (410, &[EXPIRES, SINCE_6_8], skip(NotStored::NoStore)),
    ];
    for (status, rows, expected) in table {
        assert_eq!(
            get(&wordpress(), *status, rows),
            *expected,
            "{status} {rows:?}"
        );
    }
    assert_eq!(
        get(&none(), 404, &[EXPIRES, BEFORE_6_8]),
        skip(NotStored::NoCache)
    );
    let mut without_404 = wordpress();
    without_404.ttl.by_status.clear();
    assert_eq!(
        get(&without_404, 404, &[EXPIRES, BEFORE_6_8]),
        skip(NotStored::NoCache)
    );
    let for_member = storability(
        &wordpress(),
        ("GET", "/x", &[("cookie", "wordpress_logged_in_0123=x")]),
        404,
        &[EXPIRES, BEFORE_6_8],
    );
    assert_eq!(for_member, skip(NotStored::Private));
}

#[test]
fn redirects_to_the_same_url_are_not_stored() {
    // For a request of https://example.com/page/?a=1.
    let table = [
        ("https://example.com/page/?a=1", true),
        ("http://example.com/page/?a=1", true),
        ("https://EXAMPLE.com:443/page/?a=1#top", true),
        ("//example.com/page/?a=1", true),
        ("/page/?a=1", true),
        ("/x/../p%61ge/?a=1", true),
        ("?a=1", true),
        ("", true),
        ("#top", true),
        ("./?a=1", true),
        ("../page/?a=1", true),
        ("/page/?utm_source=x&a=1&fbclid=y", true),
        ("/caf\u{e9}", true),
        ("https://user@example.com/", true),
        ("/page?a=1", false),
        ("/page/", false),
        ("/page/?a=2", false),
        ("/Page/?a=1", false),
        ("page/?a=1", false),
        ("https://www.example.com/page/?a=1", false),
        ("//www.example.com/page/?a=1", false),
        ("mailto:a@example.com", false),
    ];
    for (location, is_loop) in table {
        let expected = if is_loop {
            skip(NotStored::Loop)
        } else {
            store(60, 10, 100)
        };
        assert_eq!(
            get(&wordpress(), 301, &[("location", location)]),
            expected,
            "`{location}`"
        );
        assert_eq!(
            get(&wordpress(), 200, &[("location", location)]),
            store(60, 10, 100),
            "`{location}`"
        );
    }
    let twice: Rows<'_> = &[("location", "/other/"), ("location", "/page/?a=1")];
    assert_eq!(get(&wordpress(), 308, twice), skip(NotStored::Loop));
}

#[test]
fn a_rule_sets_the_lifetime_if_the_response_has_none() {
    const NO: (&str, &str) = ("cache-control", "no-store, private");
    let nothing = IgnoredParts::default();
    with_rule(&[
        (nothing, Some(700), 200, &[], store(700, 10, 100)),
        (
            nothing,
            Some(700),
            200,
            &[("cache-control", "max-age=9")],
            store(9, 10, 100),
        ),
        (nothing, Some(700), 404, &[], store(5, 0, 0)),
        (nothing, Some(700), 200, &[NO], skip(NotStored::NoStore)),
    ]);
}

#[test]
fn fields_ignored_by_a_rule_do_not_prevent_storing() {
    let nothing = IgnoredParts::default();
    let control = IgnoredParts {
        cache_control: true,
        ..nothing
    };
    let both = IgnoredParts {
        expires: true,
        ..control
    };
    let cookies = IgnoredParts {
        set_cookie: true,
        ..nothing
    };
    let vary = IgnoredParts {
        vary: true,
        ..nothing
    };
    const NO: (&str, &str) = ("cache-control", "no-store, private");
    const EXPIRED: (&str, &str) = ("expires", "0");
    with_rule(&[
        (control, Some(700), 200, &[NO], store(700, 10, 100)),
        (control, None, 200, &[NO], store(60, 10, 100)),
        (
            control,
            Some(700),
            200,
            &[NO, EXPIRED],
            skip(NotStored::NoLifetime),
        ),
        (both, Some(700), 200, &[NO, EXPIRED], store(700, 10, 100)),
        (
            both,
            Some(700),
            500,
            &[NO, EXPIRED],
            skip(NotStored::Status),
        ),
        (
            both,
            Some(700),
            200,
            &[("set-cookie", "a=b")],
            skip(NotStored::SetCookie),
        ),
        (
            cookies,
            None,
            200,
            &[("set-cookie", "a=b")],
            store(60, 10, 100),
        ),
        (vary, None, 200, &[("vary", "*")], store(60, 10, 100)),
    ]);
}

type RuleRow<'t> = (IgnoredParts, Option<u64>, u16, Rows<'t>, Storability);

fn with_rule(table: &[RuleRow<'_>]) {
    let site = |ignore: IgnoredParts, ttl: Option<u64>| Policy {
        rules: vec![Rule {
            path: "/page/*".to_owned(),
            ttl: ttl.map(Duration::from_secs),
            ignore,
            ..Rule::default()
        }],
        ..wordpress()
    };
    for (ignore, ttl, status, rows, expected) in table {
        assert_eq!(
            get(&site(*ignore, *ttl), *status, rows),
            *expected,
            "{ignore:?} {ttl:?} {status} {rows:?}"
        );
    }
}

#[test]
fn empty_and_error_pages_are_not_stored() {
    const HTML: (&str, &str) = ("content-type", "text/html; charset=UTF-8");
    assert_eq!(
        get(&wordpress(), 200, &[HTML, ("content-length", "0")]),
        skip(NotStored::Empty)
    );
    assert_eq!(
        get(&none(), 200, &[HTML, ("content-length", "0")]),
        store(60, 10, 100)
    );
    assert_eq!(
        get(
            &wordpress(),
            301,
            &[HTML, ("content-length", "0"), ("location", "/x")]
        ),
        store(60, 10, 100)
    );

    let body = |rows, body: &str| judge_html(&wordpress(), rows, body);
    let json: Rows<'_> = &[("content-type", "application/json")];
    assert_eq!(body(&[HTML], ""), Err(NotStored::Empty));
    let message = "<h1>Error establishing a database";
    assert_eq!(body(&[HTML], message), Err(NotStored::ErrorPage));
    assert_eq!(body(&[HTML], "<p>short</p></body></HTML>\n"), Ok(()));
    assert_eq!(body(&[HTML], &"no page at all ".repeat(20)), Ok(()));
    assert_eq!(body(json, "[]"), Ok(()));
    assert_eq!(body(json, ""), Ok(()));
}

fn judge_html(policy: &Policy, rows: Rows<'_>, body: &str) -> Result<(), NotStored> {
    let response = ResponseHead {
        status: StatusCode::OK,
        fields: &map(rows),
        response_delay: Duration::ZERO,
        now: now(),
    };
    judge_body(&response, policy, body.as_bytes())
}

#[test]
fn an_incomplete_page_is_not_stored() {
    let html: Rows<'_> = &[("content-type", "text/html; charset=UTF-8")];
    let text = "<p>text</p>".repeat(500);
    let comment = "<!-- served by a plugin -->".repeat(100);
    let table = [
        (format!("<!DOCTYPE html>\n<html lang=\"en\">{text}"), false),
        (
            format!("<!-- a theme -->\n<!doctype html><HTML>{text}</body>"),
            false,
        ),
        (format!("<html>{text}</html>"), true),
        (format!("<html>{text}</HTML>\n{comment}"), true),
        // An intentional part of a page, and a page that contains HTML examples.
        (text.clone(), true),
        (format!("{text}&lt;html> and <html"), true),
    ];
    for (body, expected) in table {
        let found = judge_html(&wordpress(), html, &body);
        assert_eq!(found.is_ok(), expected, "{}", &body[..60]);
        assert_eq!(judge_html(&none(), html, &body), Ok(()));
    }
    let feed: Rows<'_> = &[("content-type", "application/rss+xml")];
    assert_eq!(judge_html(&wordpress(), feed, "<rss>"), Ok(()));
}

proptest! {
    /// A response with an unknown cookie is never stored.
    #[test]
    fn a_response_with_an_unknown_cookie_is_never_stored(
        status in 100_u16..600,
        control in "(public|max-age=60|s-maxage=60|private|must-understand|, ){0,4}",
        galley in "(max-age=60|public|, ){0,3}",
        cookie in "[a-zA-Z_]{0,12}=?[a-z0-9]{0,4}",
        site in prop::sample::select(vec![wordpress(), none()]),
    ) {
        let rows = [("cache-control", &*control), ("galley-cache-control", &*galley), ("set-cookie", &*cookie)];
        prop_assert!(matches!(get(&site, status, &rows), Storability::Skip(_)));
    }

    /// A response to a request with a session is never stored.
    #[test]
    fn a_response_to_a_session_is_never_stored(status in 100_u16..600, control in "(public|max-age=60|s-maxage=60|, ){0,4}") {
        let rows = [("cache-control", &*control)];
        let request: (&str, &str, Rows<'_>) = ("GET", "/", &[("cookie", "a=b; wordpress_logged_in_0123=x")]);
        prop_assert!(matches!(storability(&wordpress(), request, status, &rows), Storability::Skip(_)));
    }

    #[test]
    fn judging_arbitrary_fields_never_panics(location in "[ -~]{0,30}", expires in "[ -~]{0,30}", vary in "[ -~]{0,20}", accel in "@?[ -~]{0,12}") {
        let rows = [("location", &*location), ("expires", &*expires), ("vary", &*vary), ("x-accel-expires", &*accel)];
        let _ = get(&wordpress(), 301, &rows);
    }
}
