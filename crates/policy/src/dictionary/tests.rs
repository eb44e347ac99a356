//! Tests of the rules for compression dictionaries.

use super::*;
use crate::access::{AccessRules, AccessSetting, CountryCode};
use crate::request_info::RequestLineInfo;
use crate::site::{NamePattern, Policy};
use crate::testing::{LINE, parsed};
use proptest::prelude::*;

fn info(scheme: Scheme, fields: &[(&str, &str)]) -> RequestInfo {
    parsed(
        &RequestLineInfo { scheme, ..LINE },
        fields,
        &Policy::wordpress(),
    )
}

/// The hash of 32 bytes from 0 on.
const HASH: &str = ":AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=:";
const BROWSER: &str = "gzip, deflate, br, zstd, dcb, dcz";

#[test]
fn requests_that_may_be_answered_by_dictionary() {
    let hash: Vec<u8> = (0..32).collect();
    type Row<'r> = (&'r [&'r str], &'r [(&'r str, &'r str)], bool);
    let table: &[Row<'_>] = &[
        (&["same-origin"], &[], true),
        (&["same-origin"], &[("Sec-Fetch-Mode", "cors")], true),
        // Typed, or from a bookmark.
        (&["none"], &[("Sec-Fetch-Mode", "navigate")], true),
        // A client that does not say where the request comes from.
        (&[], &[], false),
        (&[], &[("Sec-Fetch-Mode", "navigate")], false),
        (&[""], &[], false),
        // A link on another site.
        (&["cross-site"], &[("Sec-Fetch-Mode", "navigate")], false),
        (&["same-site"], &[("Sec-Fetch-Mode", "same-origin")], false),
        (&["cross-site"], &[("Sec-Fetch-Mode", "cors")], false),
        (&["cross-site"], &[("Sec-Fetch-Mode", "no-cors")], false),
        (&["same-site"], &[], false),
        (&["Same-Origin"], &[], false),
        (&["same-origin, cross-site"], &[], false),
        (&["same-origin", "cross-site"], &[], false),
        (&["cross-site", "same-origin"], &[], false),
        (&["same-origin", "same-origin"], &[], false),
        // A second dictionary.
        (&["same-origin"], &[("Available-Dictionary", HASH)], false),
    ];
    for (sites, more, expected) in table {
        let mut fields = vec![("Available-Dictionary", HASH), ("Accept-Encoding", BROWSER)];
        fields.extend(sites.iter().map(|value| ("Sec-Fetch-Site", *value)));
        fields.extend_from_slice(more);
        let secure = info(Scheme::Https, &fields);
        assert_eq!(
            secure.dictionary(),
            expected.then_some(&hash[..]),
            "{sites:?} {more:?}"
        );
        assert_eq!(info(Scheme::Http, &fields).dictionary(), None);
    }
}

#[test]
fn dcz_must_be_named_and_no_other_coding_preferred() {
    for (line, expected) in [
        (BROWSER, true),
        ("dcz", true),
        ("DCZ;q=0.5", true),
        ("dcz;q=0.5, br;q=0.4", true),
        ("dcz;q=0.5, br", false),
        ("dcz;q=0", false),
        ("dcz, dcz;q=0", false),
        ("dcz;q=x", false),
        ("*", false),
        ("gzip, br, *;q=1", false),
        ("gzip, deflate, br, zstd", false),
        ("dczz, dcb", false),
        ("", false),
    ] {
        let fields = [
            ("Accept-Encoding", line),
            ("Available-Dictionary", HASH),
            ("Sec-Fetch-Site", "none"),
        ];
        let found = info(Scheme::Https, &fields).dictionary().is_some();
        assert_eq!(found, expected, "{line}");
    }
    let fields = [("Available-Dictionary", HASH), ("Sec-Fetch-Site", "none")];
    assert_eq!(info(Scheme::Https, &fields).dictionary(), None);
}

#[test]
fn only_a_byte_sequence_of_32_bytes_is_a_hash() {
    assert!(byte_sequence(HASH.as_bytes()).is_some());
    assert!(byte_sequence(format!(" {HASH}\t").as_bytes()).is_some());
    let text = HASH.trim_matches(':');
    let wrong = [
        String::new(),
        ":".to_owned(),
        "::".to_owned(),
        text.to_owned(),
        format!("\"{text}\""),
        format!(":{}:", text.trim_end_matches('=')),
        format!(":{text}"),
        format!("{text}:"),
        format!(":{text}:;a=1"),
        format!(":{text}:, :{text}:"),
        format!(":{text}{text}:"),
        format!(": {text}:"),
        ":AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg==:".to_owned(),
        ":AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=:".to_owned(),
        ":AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g:".to_owned(),
        ":AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh-=:".to_owned(),
    ];
    for value in wrong {
        assert_eq!(byte_sequence(value.as_bytes()), None, "{value}");
    }
}

#[test]
fn templates_are_folders_of_pages() {
    for (path, pattern) in [
        ("/", "/*"),
        ("/hello/", "/*"),
        ("/hello/?a=/b/c", "/*"),
        ("/2026/11/29/hello/", "/*"),
        ("/page/2/", "/*"),
        ("/product/cup/", "/product/*"),
        ("/product/cup", "/product/*"),
        ("/category/news/", "/category/*"),
        ("/category/news/page/12/", "/category/*"),
        ("/en/product/cup/", "/en/product/*"),
        ("/a/b/c/d/", "/a/b/*"),
        ("/a/2026/d/", "/a/*"),
        ("/caf%C3%A9/x/", "/caf%C3%A9/*"),
        ("/a:b/x/", "/*"),
        ("/(x)/y/", "/*"),
        ("/a*/y/", "/*"),
        ("/a\"b/y/", "/*"),
    ] {
        assert_eq!(PageTemplate::of(path.as_bytes()).0, pattern, "{path}");
    }
}

#[test]
fn heads_name_the_present_dictionary_once() {
    let (one, other) = ([1; 32], [2; 32]);
    let mut fields = HeaderMap::new();
    let foreign = "<https://a.test/>; rel=\"preload\"";
    let theirs = "</theirs>; rel=\"compression-dictionary\"";
    fields.append(header::LINK, HeaderValue::from_static(foreign));
    fields.append(header::LINK, HeaderValue::from_static(theirs));
    assert!(!name_dictionary(&mut fields, None));
    assert!(name_dictionary(&mut fields, Some(&one)));
    assert!(!name_dictionary(&mut fields, Some(&one)));
    assert!(name_dictionary(&mut fields, Some(&other)));
    let links: Vec<_> = fields.get_all(header::LINK).iter().cloned().collect();
    let own = format!("<{}>; rel=\"compression-dictionary\"", path(&other));
    assert_eq!(links, [foreign, theirs, &own]);
    assert_eq!(hash_of_path(path(&other).as_bytes()), Some(other));
    assert!(name_dictionary(&mut fields, None));
    assert_eq!(fields.get_all(header::LINK).iter().count(), 2);
}

#[test]
fn the_head_of_a_dcz_page_has_a_validator_per_dictionary() {
    let mut plain = HeaderMap::new();
    plain.insert(header::ETAG, HeaderValue::from_static("\"x\""));
    plain.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    let fields = dcz_fields(&plain, &[0xab; 32]);
    assert_eq!(fields[header::ETAG], "\"x-dcz-abababababababab\"");
    assert_eq!(fields[header::CONTENT_ENCODING], "dcz");
    let vary: Vec<_> = fields.get_all(header::VARY).iter().collect();
    assert_eq!(vary, ["Accept-Encoding", "Available-Dictionary"]);
    let weak = HeaderMap::from_iter([(header::ETAG, HeaderValue::from_static("W/\"x\""))]);
    let weak = dcz_fields(&weak, &[0; 32]);
    assert_eq!(weak[header::ETAG], "W/\"x-dcz-0000000000000000\"");
    assert!(!dcz_fields(&HeaderMap::new(), &[0; 32]).contains_key(header::ETAG));
}

#[test]
fn only_html_for_everyone_takes_part() {
    let html = ("content-type", "Text/HTML; charset=utf-8");
    for (lines, expected) in [
        (&[html][..], true),
        (&[html, ("vary", "Accept-Encoding, accept")], true),
        (
            &[html, ("vary", "Accept-Encoding"), ("vary", "Cookie")],
            false,
        ),
        (&[html, ("vary", "*")], false),
        (&[html, ("set-cookie", "a=1")], false),
        (&[("content-type", "application/json")], false),
        (&[("content-type", "text/htmlx")], false),
        (&[], false),
    ] {
        let mut fields = HeaderMap::new();
        for (name, value) in lines {
            fields.append(*name, HeaderValue::from_static(value));
        }
        assert_eq!(is_for(&fields), expected, "{lines:?}");
    }
    assert!(!may_be_dictionary(b"/", 100));
    assert!(may_be_dictionary(b"/a/", 100) && !may_be_dictionary(b"/a/", 1 << 20));
}

proptest! {
    #[test]
    fn never_panics(
        value in proptest::collection::vec(any::<u8>(), 0..80),
        coding in proptest::collection::vec(any::<u8>(), 0..40),
        path in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let fields = [(b"available-dictionary", &value[..])];
        prop_assert!(of_request(Scheme::Https, fields.into_iter()).is_none());
        let mut weights = DczWeight::default();
        weights.read(&coding);
        let _ = weights.is_best();
        let PageTemplate(pattern) = PageTemplate::of(&path);
        prop_assert!(pattern.starts_with('/') && pattern.ends_with("/*"));
        prop_assert!(HeaderValue::from_str(&pattern).is_ok());
        let _ = hash_of_path(&path);
        let _ = hash_of_body(&value);
    }
}

#[test]
fn closed_pages_are_for_some_only() {
    let closed = |access: AccessRules| {
        let mut policy = Policy::wordpress();
        policy.access.common = access;
        policy
    };
    let networks = || vec!["10.0.0.0/8".parse().unwrap()];
    let country = || vec![CountryCode::parse("NZ").unwrap()];
    let access = AccessRules::default();
    let table = [
        (Policy::wordpress(), true),
        (
            closed(AccessRules {
                allow: AccessSetting::Is(networks()),
                ..access.clone()
            }),
            false,
        ),
        (
            closed(AccessRules {
                deny: AccessSetting::Is(networks()),
                ..access.clone()
            }),
            false,
        ),
        (
            closed(AccessRules {
                allow_countries: AccessSetting::Is(country()),
                ..access.clone()
            }),
            false,
        ),
        (
            closed(AccessRules {
                deny_countries: AccessSetting::Is(country()),
                ..access.clone()
            }),
            false,
        ),
        (
            closed(AccessRules {
                password: AccessSetting::Is("/p".into()),
                ..access
            }),
            false,
        ),
    ];
    for (policy, expected) in table {
        let request = parsed(&LINE, &[], &policy);
        assert_eq!(
            is_for_everyone(&request, &policy),
            expected,
            "{:?}",
            policy.access
        );
    }
    let policy = Policy {
        vary_cookies: vec![NamePattern::Exact("lang".to_owned())],
        ..Policy::wordpress()
    };
    for (cookie, expected) in [
        ("lang=de", false),
        ("wordpress_logged_in_1=x", false),
        ("_ga=1", true),
    ] {
        let request = parsed(&LINE, &[("Cookie", cookie)], &policy);
        assert_eq!(is_for_everyone(&request, &policy), expected, "{cookie}");
    }
    let basic = parsed(&LINE, &[("Authorization", "Basic eDp5")], &policy);
    assert!(!is_for_everyone(&basic, &policy));
}
