//! Purge requests of existing plugins. Their scopes match the keys of stored responses exactly.

mod response_support;

use galley_policy::purge::{
    Dialect, MAX_PATTERNS, MAX_PURGES, Purge, PurgeError, PurgePattern, Scope, Strength,
    from_response, prefix_scope, url_scope,
};
use galley_policy::request_info::RequestInfo;
use galley_policy::site::Policy;
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use response_support::{Rows, info, lines};

/// The purges of a `PURGE` or `BAN`, or of another request in a dialect.
fn purges_from_request<'a>(
    info: &RequestInfo,
    fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone,
    policy: &Policy,
) -> Result<Vec<Purge>, PurgeError> {
    Dialect::of(info, fields.clone(), policy)
        .ok_or(PurgeError::NoPurge)?
        .purges(info, fields, b"", policy)
}

fn hard(scope: Scope) -> Purge {
    Purge {
        scope,
        strength: Strength::Hard,
    }
}

fn soft(scope: Scope) -> Purge {
    Purge {
        scope,
        strength: Strength::Soft,
    }
}

fn url(path: &str, query: Option<&str>) -> Scope {
    let query = query.map(|query| query.as_bytes().to_vec());
    Scope::Url {
        host: Some("example.com".to_owned()),
        path: path.into(),
        query,
    }
}

fn host() -> Scope {
    Scope::Host("example.com".to_owned())
}

fn tag(name: &str) -> Scope {
    Scope::Tag(name.to_owned())
}

fn purge(method: &str, target: &str, rows: Rows<'_>) -> Result<Purge, PurgeError> {
    let site = Policy::default();
    let mut purges = purges_from_request(&info(method, target, rows, &site), lines(rows), &site)?;
    assert_eq!(purges.len(), 1, "{method} {target}: {purges:?}");
    purges.pop().ok_or(PurgeError::NoPurge)
}

#[test]
fn plugins_purge_one_url() {
    const WORDPRESS: (&str, &str) = ("User-Agent", "WordPress/6.8; https://example.com");
    assert_hard_purges(&[
        // W3 Total Cache, WP Rocket, Proxy Cache Purge: one URL.
        ("PURGE", "/a/", &[], url("/a/", None)),
        (
            "PURGE",
            "/a/?b=2&a=1&utm_source=x",
            &[],
            url("/a/", Some("a=1&b=2")),
        ),
        (
            "PURGE",
            "http://example.com/a/./b/",
            &[("X-Purge-Method", "default")],
            url("/a/b/", None),
        ),
        (
            "PURGE",
            "/",
            &[("x-purge-method", "default")],
            url("/", None),
        ),
        (
            "PURGE",
            "/a*",
            &[("X-VC-Purge-Method", "exact")],
            url("/a*", None),
        ),
        // nginx-helper.
        (
            "GET",
            "/purge/a/?b=1",
            &[WORDPRESS],
            url("/a/", Some("b=1")),
        ),
        ("GET", "/purge/", &[WORDPRESS], url("/", None)),
        ("GET", "/purge", &[WORDPRESS], url("/", None)),
    ]);
}

#[test]
fn plugins_purge_everything_or_below_a_path() {
    let pattern = |text: &str| Scope::Pattern(PurgePattern::parse(text).unwrap());
    let prefix = |path: &str| Scope::Prefix(path.into());
    const WORDPRESS: (&str, &str) = ("User-Agent", "WordPress/6.8; https://example.com");
    const REGEX: (&str, &str) = ("X-Purge-Method", "regex");
    assert_hard_purges(&[
        // Everything, and prefixes.
        ("PURGE", "/.*", &[REGEX], host()),
        ("PURGE", "/.*", &[], host()),
        ("PURGE", "/*", &[], host()),
        ("PURGE", "/purgeall", &[], host()),
        ("PURGE", "/blog/.*", &[REGEX], prefix("/blog/")),
        ("PURGE", "/blog/.*", &[], prefix("/blog/")),
        ("PURGE", "/", &[("X-Purge-Regex", ".*")], host()),
        ("PURGE", "/de", &[("X-Purge-Regex", ".*")], pattern("^/de")),
        ("PURGE", "/(a|b)/x.*", &[REGEX], pattern("^/(a|b)/x")),
        ("PURGE", "/sitemap.*.xml", &[], pattern("^/sitemap.*.xml")),
        // VCaching.
        (
            "PURGE",
            "/a.b",
            &[("X-VC-Purge-Method", "default")],
            pattern("^/a\\.b(?:\\?|$)"),
        ),
        (
            "PURGE",
            "/",
            &[
                ("X-VC-Purge-Method", "regex"),
                ("X-VC-Purge-Host", "Example.com:80"),
            ],
            host(),
        ),
        // GoDaddy.
        ("BAN", "/", &[], host()),
        ("BAN", "/shop/", &[], prefix("/shop/")),
        ("BAN", "/shop", &[], pattern("^/shop")),
        ("GET", "/purgeall", &[WORDPRESS], host()),
    ]);
}

#[test]
fn plugins_purge_tags() {
    assert_hard_purges(&[
        (
            "PURGE",
            "/",
            &[("X-Purge-Method", "tags"), ("X-Cache-Tags-Pattern", "p-1")],
            tag("p-1"),
        ),
        ("PURGE", "/", &[("Surrogate-Key", "p-1")], tag("p-1")),
        ("BAN", "/", &[("Cache-Tags", "p-1")], tag("p-1")),
    ]);
}

fn assert_hard_purges(table: &[(&str, &str, Rows<'_>, Scope)]) {
    for (method, target, rows, expected) in table {
        assert_eq!(
            purge(method, target, rows),
            Ok(hard(expected.clone())),
            "{method} {target} {rows:?}"
        );
    }
}

#[test]
fn soft_purges_of_each_dialect() {
    let table: &[(Rows<'_>, Purge)] = &[
        (&[("Fastly-Soft-Purge", "1")], soft(url("/a", None))),
        (&[("X-Purge-Soft", "1")], soft(url("/a", None))),
        (&[("X-Purge-Soft", "0")], hard(url("/a", None))),
        (&[("xkey-softpurge", "t")], soft(tag("t"))),
        (&[("xkey-purge", "t")], hard(tag("t"))),
    ];
    for (rows, expected) in table {
        assert_eq!(
            purge("PURGE", "/a", rows).as_ref(),
            Ok(expected),
            "{rows:?}"
        );
    }
}

#[test]
fn several_tags_are_several_purges() {
    let site = Policy::default();
    let rows: Rows<'_> = &[
        ("X-Purge-Method", "tags"),
        ("X-Cache-Tags-Pattern", "p\\-1|t\\-2|p\\-1"),
    ];
    let found = purges_from_request(&info("PURGE", "/", rows, &site), lines(rows), &site);
    assert_eq!(found, Ok(vec![hard(tag("p-1")), hard(tag("t-2"))]));
}

#[test]
fn other_requests_and_invalid_purges_are_rejected() {
    let table: &[(&str, &str, Rows<'_>, PurgeError)] = &[
        ("GET", "/", &[], PurgeError::NoPurge),
        ("GET", "/purge-policy/", &[], PurgeError::NoPurge),
        ("POST", "/a", &[], PurgeError::NoPurge),
        (
            "PURGE",
            "/",
            &[("X-Purge-Method", "tags")],
            PurgeError::NoTags,
        ),
        ("PURGE", "/", &[("xkey", " ")], PurgeError::NoTags),
    ];
    for (method, target, rows, expected) in table {
        assert_eq!(
            purge(method, target, rows),
            Err(expected.clone()),
            "{method} {target} {rows:?}"
        );
    }
    assert!(matches!(
        purge("PURGE", "/.*", &[("X-VC-Purge-Host", "a b")]),
        Err(PurgeError::Host(_))
    ));
}

#[test]
fn equivalent_urls_have_the_same_scope() {
    let site = Policy::default();
    let scope = |host: Option<&str>, path: &str, query: Option<&str>| Scope::Url {
        host: host.map(str::to_owned),
        path: path.into(),
        query: query.map(Into::into),
    };
    let table = [
        ("/", scope(None, "/", None)),
        (" /a/../b?x=%7e&gclid=1 ", scope(None, "/b", Some("x=~"))),
        (
            "https://Example.com:8443/a#b",
            scope(Some("example.com"), "/a", None),
        ),
        ("http://example.com", scope(Some("example.com"), "/", None)),
        ("/?", scope(None, "/", None)),
    ];
    for (text, expected) in table {
        assert_eq!(url_scope(text, &site), Ok(expected), "{text}");
    }
    for text in ["", "a", "ftp://x/", "/%zz", "/a b", "http://a@b/"] {
        assert!(url_scope(text, &site).is_err(), "{text}");
    }
    assert_eq!(prefix_scope("/"), Ok(Scope::Site));
    assert_eq!(prefix_scope("/a/./b"), Ok(Scope::Prefix(b"/a/b".to_vec())));
    assert!(prefix_scope("a").is_err());
}

#[test]
fn purges_in_response_fields() {
    let site = Policy::default();
    let url = |path: &str| Scope::Url {
        host: None,
        path: path.into(),
        query: None,
    };
    let table: &[(&str, Vec<Purge>)] = &[
        (
            "public,b5f_Po.12,b5f_F",
            vec![hard(tag("b5f_Po.12")), hard(tag("b5f_F"))],
        ),
        ("public,stale,a", vec![soft(tag("a"))]),
        ("public,a;private,b", vec![hard(tag("a"))]),
        ("stale,a;public,b", vec![soft(tag("a")), hard(tag("b"))]),
        ("private,*", vec![]),
        ("*", vec![hard(Scope::Site)]),
        ("tag=x", vec![hard(tag("x"))]),
        ("/a/./b?utm_source=x", vec![hard(url("/a/b"))]),
        ("/%zz, tag=", vec![]),
        ("", vec![]),
    ];
    for (value, expected) in table {
        let mut fields = HeaderMap::new();
        fields.insert("x-litespeed-purge", HeaderValue::from_str(value).unwrap());
        assert_eq!(from_response(&fields, &site), *expected, "{value}");
    }
    let too_many: Vec<String> = (0..=MAX_PURGES).map(|n| format!("t{n}")).collect();
    let mut fields = HeaderMap::new();
    fields.insert(
        "galley-purge",
        HeaderValue::from_str(&too_many.join(",")).unwrap(),
    );
    assert_eq!(from_response(&fields, &site), [hard(Scope::Site)]);
}

proptest! {
    /// A purge by URL has the same scope as a request for that URL, whatever their spelling.
    #[test]
    fn purges_and_requests_have_the_same_scope(
        path in "(/[a-zA-Z0-9.~_-]{0,5}|/%[2-7][0-9a-fA-F]|/\\.\\.?){1,5}",
        query in proptest::option::of("([ab]=[a-z%]{0,2}&?|utm_source=x&?|&){0,5}"),
    ) {
        let site = Policy::default();
        let target = match &query {
            Some(query) => format!("{path}?{query}"),
            None => path,
        };
        if let Ok(scope) = url_scope(&format!("https://example.com{target}"), &site) {
            let line = galley_policy::request_info::RequestLineInfo {
                method: "GET",
                target: target.as_bytes(),
                scheme: galley_policy::request_info::Scheme::Http,
                host: "example.com",
                has_body: false,
                upgrade: false,
                country: None,
            };
            let mut request = galley_policy::request_info::RequestInfo::default();
            if request.parse(&line, lines(&[]), &site).is_ok() {
                let stored = Scope::Url {
                    host: Some(request.host().to_owned()),
                    path: request.path().to_vec(),
                    query: request.query().map(<[u8]>::to_vec),
                };
                prop_assert_eq!(scope, stored);
            }
        }
    }

    #[test]
    fn parsing_scopes_and_purges_never_panics(text in "[ -~]{0,40}", value in "[ -~]{0,40}") {
        let site = Policy::default();
        let _ = url_scope(&text, &site);
        let _ = prefix_scope(&text);
        for method in ["PURGE", "BAN", "GET"] {
            let info = info(method, "/a.*?b", &[], &site);
            for name in ["xkey", "x-purge-method", "x-purge-regex", "x-vc-purge-host"] {
                let _ = purges_from_request(&info, lines(&[(name, &*value)]), &site);
            }
        }
    }

    #[test]
    fn purge_interfaces_never_panic(
        path in "(/souin-api/souin|/service/)?[ -~]{0,30}",
        kind in "uri|uri-prefix|origin|group|x",
        selector in "(https?://)?[ -~]{0,30}",
        body in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let site = Policy::default();
        let json = format!("{{\"type\":\"{kind}\",\"selectors\":[{selector:?}],\"groups\":[{selector:?}]}}");
        let rows: Rows<'_> = &[("Content-Type", "application/json"), ("Fastly-Key", "k"), ("Surrogate-Key", &selector)];
        for (method, target) in [("PURGE", path.as_str()), ("POST", &path), ("POST", "/souin-api/souin")] {
            let line = galley_policy::request_info::RequestLineInfo {
                method,
                target: target.as_bytes(),
                scheme: galley_policy::request_info::Scheme::Http,
                host: "example.com",
                has_body: true,
                upgrade: false,
                country: None,
            };
            let mut request = galley_policy::request_info::RequestInfo::default();
            if request.parse(&line, lines(rows), &site).is_err() {
                continue;
            }
            let dialect = Dialect::of(&request, lines(rows), &site);
            for body in [&body[..], json.as_bytes()] {
                let purges = dialect.map(|dialect| dialect.purges(&request, lines(rows), body, &site));
                prop_assert!(!matches!(purges, Some(Ok(purges)) if purges.is_empty()));
            }
        }
    }
}

/// No plugin looks at the reply, so a purge that is rejected would be lost.
#[test]
fn a_request_or_response_beyond_a_limit_purges_the_whole_site() {
    let site = Policy::default();
    let all = [hard(Scope::Site)];
    let long_tag = "t".repeat(1_025);
    let long_path = format!("/{}", "p".repeat(9_000));
    let long_pattern = format!("/{}", "(a|b)".repeat(300));
    let large_pattern = "/((a{100}){100}){100}";
    let tags: Vec<String> = (0..=MAX_PURGES).map(|n| format!("t{n}")).collect();
    let many_tags = tags.join(",");
    let lines_of_tags: Vec<(&str, &str)> = tags.iter().map(|tag| ("xkey", &**tag)).collect();
    let regex = ("X-Purge-Method", "regex");
    let requests: &[(&str, &str, Rows<'_>)] = &[
        ("PURGE", "/", &[("xkey", &long_tag)]),
        ("BAN", "/", &[("Surrogate-Key", &long_tag)]),
        ("PURGE", "/", &[("Cache-Tags", &many_tags)]),
        ("PURGE", "/", &lines_of_tags),
        ("PURGE", &long_path, &[]),
        ("PURGE", &long_pattern, &[regex]),
        ("BAN", &long_pattern, &[regex]),
        ("PURGE", large_pattern, &[regex]),
        ("PURGE", "/", &[("X-Purge-Regex", &long_tag)]),
        ("BAN", "/", &[("X-Purge-Regex", "(?u)a")]),
        ("BAN", large_pattern, &[regex]),
        ("PURGE", &long_path, &[("X-VC-Purge-Method", "default")]),
    ];
    for (method, target, rows) in requests {
        let purges = purges_from_request(&info(method, target, rows, &site), lines(rows), &site);
        assert_eq!(
            purges.as_deref(),
            Ok(&all[..]),
            "{method} {target:.40} {:.2?}",
            rows.first()
        );
    }
    for value in [
        long_tag,
        long_path,
        format!("tag={}", "t".repeat(1_025)),
        many_tags,
    ] {
        let mut fields = HeaderMap::new();
        fields.insert("galley-purge", HeaderValue::from_str(&value).unwrap());
        assert_eq!(from_response(&fields, &site), all, "{value:.40}");
    }
}

#[test]
fn souin_keys_and_batches() {
    let site = Policy::default();
    let json: Rows<'_> = &[("Content-Type", "application/json; charset=utf-8")];
    let batch = |body: &str| {
        let request = info("POST", "/souin-api/souin/", json, &site);
        let dialect = Dialect::of(&request, lines(json), &site).expect("a batch");
        dialect.purges(&request, lines(json), body.as_bytes(), &site)
    };
    assert_eq!(
        batch(r#"{"type": "uri", "selectors": ["https://example.com/a?b=1"], "purge": false}"#),
        Ok(vec![hard(url("/a", Some("b=1")))])
    );
    assert_eq!(
        batch(r#"{"type": "uri-prefix", "selectors": ["http://example.com/a.b", "/c/"]}"#),
        Ok(vec![
            hard(Scope::Pattern(PurgePattern::parse("^/a\\.b").unwrap())),
            hard(Scope::Prefix(b"/c/".to_vec()))
        ])
    );
    assert_eq!(
        batch(r#"{"type": "group", "selectors": ["a"]}"#),
        Ok(vec![hard(tag("a")), hard(tag("cache-group:a"))])
    );
    for wrong in [
        "",
        "[]",
        "{}",
        r#"{"type": "x", "selectors": ["/"]}"#,
        r#"{"type": "uri", "selectors": "/"}"#,
    ] {
        assert_eq!(batch(wrong), Err(PurgeError::Body), "{wrong}");
    }
    assert_eq!(batch(r#"{"type": "uri"}"#), Err(PurgeError::NoPurge));
    let too_many = vec!["\"/\""; MAX_PURGES + 1].join(",");
    let too_many = format!("{{\"type\": \"uri\", \"selectors\": [{too_many}]}}");
    assert_eq!(batch(&too_many), Ok(vec![hard(Scope::Site)]));
    let too_many = vec!["\"/a\""; MAX_PATTERNS + 1].join(",");
    let too_many = format!("{{\"type\": \"uri-prefix\", \"selectors\": [{too_many}]}}");
    assert_eq!(batch(&too_many), Ok(vec![hard(Scope::Site)]));
    for (key, expected) in [
        ("GET-https-example.com-/a/", url("/a/", None)),
        ("GET-http-example.com-/a/?b=1", url("/a/", Some("b=1"))),
        ("GET-http-example.com-/a/.+", Scope::Prefix(b"/a/".to_vec())),
        ("get-http-example.com-/a/", Scope::Site),
        ("GET-ftp-example.com-/a/", Scope::Site),
        (".*example.*", Scope::Site),
    ] {
        let target = format!("/souin-api/souin/{key}");
        assert_eq!(purge("PURGE", &target, &[]), Ok(hard(expected)), "{key}");
    }
}
