//! Table tests of parsing.

use super::*;
use crate::encoding::Coding;
use crate::key;
use crate::outcome::PassWhy;
use crate::site::{IgnoredParts, NamePattern, Policy, Rule, SiteFlags};
use crate::testing::parsed;
use crate::uri::BadTarget;

const LINE: RequestLineInfo<'static> = RequestLineInfo {
    target: b"/",
    scheme: Scheme::Https,
    ..crate::testing::LINE
};

fn parse_with(
    line: &RequestLineInfo<'_>,
    fields: &[(&str, &str)],
    policy: &Policy,
) -> Result<RequestInfo, BadTarget> {
    let mut info = RequestInfo::default();
    info.parse(
        line,
        fields.iter().map(|(name, value)| (*name, value.as_bytes())),
        policy,
    )?;
    Ok(info)
}

fn parse(target: &str, fields: &[(&str, &str)]) -> RequestInfo {
    parse_with(
        &RequestLineInfo {
            target: target.as_bytes(),
            ..LINE
        },
        fields,
        &Policy::default(),
    )
    .unwrap()
}

fn text(bytes: Option<&[u8]>) -> Option<&str> {
    bytes.map(|bytes| std::str::from_utf8(bytes).unwrap())
}

#[test]
fn the_request_line_is_parsed() {
    let info = parse("/a%2fb/../%7e?b&utm_source=x&a=1&fbclid=%41", &[]);
    assert_eq!((info.method(), info.method_text()), (Method::Get, "GET"));
    assert_eq!((info.scheme(), info.host()), (Scheme::Https, "example.com"));
    assert_eq!((info.path(), info.decoded_path()), (&b"/~"[..], &b"/~"[..]));
    assert_eq!(text(info.query()), Some("a=1&b"));
    assert_eq!(
        text(info.raw_query()),
        Some("b&utm_source=x&a=1&fbclid=%41")
    );
    assert_eq!(text(info.dropped_query()), Some("utm_source=x&fbclid=%41"));
    let mut out = vec![1];
    info.path_query(&mut out);
    assert_eq!(out, b"/~?a=1&b");
    assert_eq!(
        info.url_id(),
        key::url_id("example.com", b"/~", Some(b"a=1&b"))
    );
    assert_eq!(info.host_id(), key::host_id("example.com"));

    let info = parse("/x%20y//z?", &[]);
    assert_eq!(
        (info.path(), info.decoded_path()),
        (&b"/x%20y//z"[..], &b"/x y/z"[..])
    );
    assert_eq!(
        (info.query(), info.raw_query(), info.dropped_query()),
        (None, Some(&b""[..]), None)
    );
    assert_eq!(parse("/?gclid=1", &[]).query(), None);
}

#[test]
fn the_fields_are_parsed() {
    let info = parse(
        "/",
        &[
            ("Accept-Encoding", "gzip"),
            ("accept-encoding", "br"),
            ("If-None-Match", "\"a\""),
            ("IF-NONE-MATCH", "\"b\", \"c\""),
            ("If-Match", "*"),
            ("If-Modified-Since", "Mon"),
            ("If-Modified-Since", "Tue"),
            ("If-Unmodified-Since", "Wed"),
            ("If-Range", "\"r\""),
            ("Range", "bytes=0-1"),
            ("Referer", "https://r/"),
            ("User-Agent", "Mobile"),
            ("Cache-Control", "max-age=0, only-if-cached"),
            ("Cache-Control", "no-store"),
            ("Accept", "application/json"),
        ],
    );
    assert!(info.codings().accepts(Coding::Gzip) && info.codings().accepts(Coding::Brotli));
    assert_eq!(text(info.if_none_match()), Some("\"a\", \"b\", \"c\""));
    assert_eq!(text(info.if_match()), Some("*"));
    assert_eq!(text(info.if_modified_since()), Some("Mon"));
    assert_eq!(text(info.if_unmodified_since()), Some("Wed"));
    assert_eq!(text(info.if_range()), Some("\"r\""));
    assert_eq!(text(info.range()), Some("bytes=0-1"));
    assert_eq!(text(info.referer()), Some("https://r/"));
    assert_eq!(text(info.user_agent()), Some("Mobile"));
    assert!(info.only_if_cached());
    assert_eq!(
        info.directives().max_age,
        None,
        "visitors do not decide about freshness"
    );
    assert_eq!(
        (info.accept(), info.device()),
        (AcceptClass::Json, Device::Any)
    );
    assert_eq!(info.cacheability(), Cacheability::Cacheable);
}

#[test]
fn fields_and_targets_determine_cacheability() {
    let cookie = |value| vec![("Cookie", value)];
    for (target, fields, expected) in [
        ("/", vec![], None),
        ("/?s=x&paged=2", vec![], None),
        (
            "/",
            vec![("Range", "bytes=0-1"), ("If-None-Match", "\"a\"")],
            None,
        ),
        ("/", vec![("Cache-Control", "no-cache, no-store")], None),
        (
            "/",
            cookie("PHPSESSID=1; _ga=2; wordpress_test_cookie=WP; wp-settings-1=x"),
            None,
        ),
        ("/", vec![("X-WP-Nonce", "abc")], None),
        ("/", vec![("Origin", "https://EXAMPLE.com:8443")], None),
        (
            "/",
            vec![("Authorization", "")],
            Some(PassWhy::Authorization),
        ),
        (
            "/",
            cookie("a=1; wordpress_logged_in_x=1"),
            Some(PassWhy::Cookie),
        ),
        (
            "/",
            vec![("cookie", "a=1"), ("COOKIE", "woocommerce_cart_hash=1")],
            Some(PassWhy::Cookie),
        ),
        ("/", cookie("wp-postpass_x=1"), Some(PassWhy::Cookie)),
        (
            "/",
            vec![("X-WP-Nonce", "1"), ("Cookie", "wordpress_logged_in_x=1")],
            Some(PassWhy::Nonce),
        ),
        (
            "/",
            vec![("X-Requested-With", "xmlhttprequest")],
            Some(PassWhy::Ajax),
        ),
        ("/", vec![("X-Requested-With", "com.android.browser")], None),
        (
            "/",
            vec![("Origin", "https://other.com")],
            Some(PassWhy::Origin),
        ),
        ("/", vec![("Origin", "null")], Some(PassWhy::Origin)),
        (
            "/",
            vec![("Origin", "https://example.com@other.com")],
            Some(PassWhy::Origin),
        ),
        ("/wp-admin%2fx", vec![], Some(PassWhy::Path)),
        ("//wp-login.php", vec![], Some(PassWhy::Path)),
        ("/site2/wp-admin/", vec![], Some(PassWhy::Path)),
        ("/x/%2e%2e/wp-login.php", vec![], Some(PassWhy::Path)),
        ("/?pre%76iew=1", vec![], Some(PassWhy::Query)),
    ] {
        let expected = expected.map_or(Cacheability::Cacheable, Cacheability::Pass);
        assert_eq!(
            parse(target, &fields).cacheability(),
            expected,
            "{target} {fields:?}"
        );
    }
}

#[test]
fn request_lines_determine_cacheability() {
    for (line, expected) in [
        (
            RequestLineInfo {
                method: "HEAD",
                ..LINE
            },
            Cacheability::Cacheable,
        ),
        (
            RequestLineInfo {
                method: "POST",
                ..LINE
            },
            Cacheability::Pass(PassWhy::Method),
        ),
        (
            RequestLineInfo {
                method: "get",
                ..LINE
            },
            Cacheability::Pass(PassWhy::Method),
        ),
        (
            RequestLineInfo {
                method: "PURGE",
                ..LINE
            },
            Cacheability::Pass(PassWhy::Method),
        ),
        (
            RequestLineInfo {
                has_body: true,
                ..LINE
            },
            Cacheability::Pass(PassWhy::Body),
        ),
        (
            RequestLineInfo {
                upgrade: true,
                ..LINE
            },
            Cacheability::Pass(PassWhy::Upgrade),
        ),
        (
            RequestLineInfo {
                method: "OPTIONS",
                target: b"*",
                ..LINE
            },
            Cacheability::Pass(PassWhy::Method),
        ),
    ] {
        assert_eq!(
            parse_with(&line, &[], &Policy::default())
                .unwrap()
                .cacheability(),
            expected,
            "{line:?}"
        );
    }
}

#[test]
fn without_a_preset_unknown_cookies_bypass_the_cache() {
    let site = Policy {
        vary_cookies: vec![NamePattern::parse("lang")],
        harmless_cookies: vec![NamePattern::parse("_*")],
        ..Policy::rfc9111()
    };
    for (fields, expected) in [
        (vec![], Cacheability::Cacheable),
        (vec![("Cookie", "lang=de; _ga=1")], Cacheability::Cacheable),
        (
            vec![("Cookie", "lang=de; x=1")],
            Cacheability::Pass(PassWhy::Cookie),
        ),
        (vec![("Cookie", "x")], Cacheability::Pass(PassWhy::Cookie)),
        (vec![("Authorization", "Basic x")], Cacheability::Cacheable),
        (
            vec![("Cache-Control", "no-store")],
            Cacheability::Pass(PassWhy::NoStore),
        ),
        (vec![("Cache-Control", "no-cache")], Cacheability::Cacheable),
    ] {
        let line = RequestLineInfo {
            target: b"/wp-admin/?preview=1",
            ..LINE
        };
        assert_eq!(
            parse_with(&line, &fields, &site).unwrap().cacheability(),
            expected,
            "{fields:?}"
        );
    }
    let info = parse_with(&LINE, &[("Cache-Control", "no-cache")], &site).unwrap();
    assert!(info.directives().no_cache);
}

#[test]
fn sessions_are_detected_whatever_the_cacheability() {
    for (fields, expected) in [
        (vec![("Authorization", "Basic x")], true),
        (vec![("Cookie", "wordpress_logged_in_x=1")], true),
        (vec![("Cookie", "comment_author_x=1")], true),
        (
            vec![("Cookie", "PHPSESSID=1; wordpress_test_cookie=1")],
            false,
        ),
        (vec![], false),
    ] {
        assert_eq!(parse("/", &fields).has_session(), expected, "{fields:?}");
        let post = RequestLineInfo {
            method: "POST",
            ..LINE
        };
        assert_eq!(
            parse_with(&post, &fields, &Policy::default())
                .unwrap()
                .has_session(),
            expected
        );
    }
}

#[test]
fn vary_cookies_are_sorted_and_sanitized() {
    let site = Policy {
        vary_cookies: vec![NamePattern::parse("v*")],
        ..Policy::default()
    };
    let fields = [
        ("Cookie", "vb=2; x=1; va = 1 "),
        ("Cookie", "vb=1;vc;vd=\u{1}"),
    ];
    let info = parse_with(&LINE, &fields, &site).unwrap();
    assert_eq!(info.vary_cookies(), b"va=1; vb=2; vb=1; vc=");
    assert_eq!(
        (info.cacheability(), info.has_session()),
        (Cacheability::Cacheable, false)
    );
}

#[test]
fn rules_override_the_preset() {
    let rule = |path: &str| Rule {
        path: path.to_owned(),
        ..Rule::default()
    };
    let no_cookies = IgnoredParts {
        cookie: true,
        ..IgnoredParts::default()
    };
    let site = Policy {
        vary_cookies: vec![NamePattern::parse("lang")],
        rules: vec![
            Rule {
                cache: Some(false),
                methods: vec!["GET".to_owned()],
                ..rule("/form a*")
            },
            Rule {
                ignore: no_cookies,
                ..rule("/open")
            },
            rule("/*"),
        ],
        ..Policy::default()
    };
    let fields = [
        ("Cookie", "lang=de; wordpress_logged_in_x=1"),
        ("X-WP-Nonce", "1"),
    ];
    let pass = Cacheability::Pass;
    for (method, target, rule, wanted) in [
        ("GET", "/form%20a/x", 0, pass(PassWhy::Rule)),
        ("HEAD", "/form%20a/x", 0, pass(PassWhy::Rule)),
        ("POST", "/form%20a/x", 2, pass(PassWhy::Method)),
        ("GET", "/open", 1, Cacheability::Cacheable),
        ("GET", "/open?preview=1", 1, pass(PassWhy::Query)),
        ("GET", "/else", 2, pass(PassWhy::Nonce)),
    ] {
        let line = RequestLineInfo {
            method,
            target: target.as_bytes(),
            ..LINE
        };
        let info = parse_with(&line, &fields, &site).unwrap();
        let seen = (info.rule(), info.cacheability());
        assert_eq!(seen, (Some(rule), wanted), "{method} {target}");
        match target {
            "/open" => assert!(
                !info.has_session() && info.ignores_cookies() && info.vary_cookies().is_empty()
            ),
            "/open?preview=1" => assert!(info.has_session()),
            _ => {}
        }
    }
}

#[test]
fn only_ports_of_the_requested_host_count() {
    for (line, fields, authority) in [
        (LINE, vec![("Host", "example.com")], "example.com"),
        (LINE, vec![("Host", "Example.com:443")], "example.com"),
        (LINE, vec![("Host", "example.com:8443")], "example.com:8443"),
        (LINE, vec![("Host", "example.com:80")], "example.com:80"),
        (LINE, vec![("Host", "other.com:8443")], "example.com"),
        (LINE, vec![("Host", "example.com:x")], "example.com"),
        (LINE, vec![], "example.com"),
        (
            RequestLineInfo {
                target: b"https://example.com:1/",
                ..LINE
            },
            vec![("Host", "example.com:2")],
            "example.com:1",
        ),
        (
            RequestLineInfo {
                target: b"https://example.com/",
                ..LINE
            },
            vec![("Host", "example.com:2")],
            "example.com",
        ),
    ] {
        let info = parse_with(&line, &fields, &Policy::default()).unwrap();
        assert_eq!(
            (info.authority(), info.host()),
            (authority, "example.com"),
            "{fields:?}"
        );
    }
}

#[test]
fn devices_are_classified_if_the_site_enables_it() {
    let site = Policy {
        flags: SiteFlags {
            device_variants: true,
            ..SiteFlags::default()
        },
        ..Policy::default()
    };
    let device = |fields: &[(&str, &str)]| parse_with(&LINE, fields, &site).unwrap().device();
    assert_eq!(device(&[]), Device::Desktop);
    assert_eq!(device(&[("User-Agent", "x Mobile y")]), Device::Mobile);
    assert_eq!(
        device(&[("User-Agent", "x Mobile y"), ("Sec-CH-UA-Mobile", "?0")]),
        Device::Desktop
    );
}

#[test]
fn an_invalid_head_gives_an_empty_result() {
    let mut info = parse("/a?b", &[("Cookie", "wordpress_logged_in_x=1")]);
    for (method, target, why) in [
        ("GET", "/a\\b", BadTarget::Backslash),
        ("GET", "*", BadTarget::Form),
        ("CONNECT", "example.com:443", BadTarget::Form),
        ("GET", "/a%2f..%2fb", BadTarget::Dots),
        ("GET", "/a?x\0", BadTarget::Control),
    ] {
        let line = RequestLineInfo {
            method,
            target: target.as_bytes(),
            ..LINE
        };
        assert_eq!(
            info.parse(
                &line,
                std::iter::empty::<(&str, &[u8])>(),
                &Policy::default()
            ),
            Err(why),
            "{target}"
        );
        assert_eq!(
            (info.path(), info.query(), info.host()),
            (&b""[..], None, "")
        );
        assert_eq!(info.cacheability(), Cacheability::Pass(PassWhy::Method));
    }
}

#[test]
fn buffers_are_reused() {
    let site = Policy {
        vary_cookies: vec![NamePattern::parse("v*")],
        ..Policy::default()
    };
    let long = format!(
        "/%20/{}?{}",
        "a/".repeat(200),
        "c=1&b=2&utm_source=3&a=4&".repeat(20)
    );
    let line = RequestLineInfo {
        target: long.as_bytes(),
        ..LINE
    };
    let fields = [
        ("Cookie", "vb=1; va=2; x=3".as_bytes()),
        ("If-None-Match", b"\"a\""),
        ("Host", b"example.com:81"),
    ];
    let mut info = RequestInfo::default();
    let shape = |info: &RequestInfo| {
        let scratch = &info.scratch;
        (
            info.arena.as_ptr(),
            scratch.work.as_ptr(),
            scratch.parameters.as_ptr(),
            scratch.cookies.as_ptr(),
        )
    };
    info.parse(&line, fields.into_iter(), &site).unwrap();
    let warm = shape(&info);
    for target in [&b"/"[..], line.target, b"/x?y"] {
        info.parse(
            &RequestLineInfo { target, ..line },
            fields.into_iter(),
            &site,
        )
        .unwrap();
        assert_eq!(shape(&info), warm);
        assert_eq!(
            (info.vary_cookies(), info.authority()),
            (&b"va=2; vb=1"[..], "example.com:81")
        );
    }
}

#[test]
fn members_are_clients_whose_cookies_alone_bypass_the_cache() {
    let on = Policy {
        members: crate::site::MemberPages::Fragments,
        bypass_cookies: vec![NamePattern::parse("wordpress_sec_mine")],
        ..Policy::wordpress()
    };
    let login: &[u8] = b"_ga=1; wordpress_logged_in_0a=ann";
    let is_member = |policy: &Policy, method: &str, target: &[u8], rows: &[(&str, &[u8])]| {
        let line = RequestLineInfo {
            method,
            target,
            scheme: Scheme::Https,
            host: "example.com",
            has_body: false,
            upgrade: false,
            country: None,
        };
        let mut info = RequestInfo::default();
        info.parse(&line, rows.iter().copied(), policy).unwrap();
        assert_eq!(info.without_member().is_some(), info.is_member());
        if info.is_member() {
            assert_eq!(info.cacheability(), Cacheability::Pass(PassWhy::Cookie));
        }
        info.is_member()
    };
    assert!(is_member(&on, "GET", b"/a", &[("cookie", login)]));
    assert!(is_member(
        &on,
        "GET",
        b"/a",
        &[("cookie", b"woocommerce_items_in_cart=1")]
    ));
    assert!(!is_member(
        &Policy::wordpress(),
        "GET",
        b"/a",
        &[("cookie", login)]
    ));
    assert!(!is_member(&on, "GET", b"/a", &[]));
    for method in ["HEAD", "POST", "PURGE", "OPTIONS"] {
        assert!(
            !is_member(&on, method, b"/a", &[("cookie", login)]),
            "{method}"
        );
    }
    for target in [
        &b"/wp-admin/"[..],
        b"/wp-login.php",
        b"/?preview=true",
        b"/wp-json/wc/store/v1/cart",
    ] {
        assert!(
            !is_member(&on, "GET", target, &[("cookie", login)]),
            "{target:?}"
        );
    }
    let further: [(&str, &[u8]); 7] = [
        ("cookie", b"wp-postpass_0a=x"),
        ("cookie", b"comment_author_0a=x"),
        ("cookie", b"wordpress_sec_mine=x"),
        ("authorization", b"Basic x"),
        ("origin", b"https://other.example"),
        ("x-requested-with", b"XMLHttpRequest"),
        ("x-wp-nonce", b"x"),
    ];
    for row in further {
        assert!(
            !is_member(&on, "GET", b"/a", &[("cookie", login), row]),
            "{row:?}"
        );
    }
}

#[test]
fn prefetch_requests_are_detected() {
    for (value, is_prefetch) in [
        ("prefetch", true),
        ("prefetch;prerender", true),
        (" prefetch ; anonymous-client-ip", true),
        ("prefetching", false),
        ("prerender", false),
        ("", false),
    ] {
        let of_method = |method| {
            let line = RequestLineInfo { method, ..LINE };
            let info = parsed(&line, &[("Sec-Purpose", value)], &Policy::default());
            info.is_prefetch()
        };
        assert_eq!(of_method("GET"), is_prefetch, "{value}");
        assert!(!of_method("POST"), "{value}");
    }
}
