//! Tests of changes to fields, for a site and its rules.

use super::*;
use crate::site::{AltSvc, Policy, Rule};
use http::header;
use http::{HeaderName, HeaderValue};
use proptest::prelude::*;

fn lines(texts: &[&str]) -> Vec<HeaderField> {
    texts.iter().map(|text| parse_line(text).unwrap()).collect()
}

fn names(texts: &[&str]) -> Vec<HeaderName> {
    texts.iter().map(|text| parse_name(text).unwrap()).collect()
}

fn changes(remove: &[&str], set: &[&str], add: &[&str]) -> Changes {
    Changes {
        remove: names(remove),
        set: lines(set),
        add: lines(add),
    }
}

fn stored(texts: &[&str]) -> (Vec<u8>, u64) {
    let lines: Vec<String> = texts.iter().map(|text| format!("{text}\r\n")).collect();
    let mask = texts
        .iter()
        .map(|text| mask_of(text.split(':').next().unwrap()))
        .fold(0, |all, one| all | one);
    (lines.concat().into_bytes(), mask)
}

#[test]
fn changes_of_a_rule_are_added_to_those_of_its_site() {
    let site = Policy {
        changes: changes(
            &["Server"],
            &["X-A: 1", "X-B: 1"],
            &["Link: </s>", "X-C: 1"],
        ),
        rules: vec![Rule {
            changes: changes(&["X-B"], &["X-A: 2"], &["Link: </r>"]),
            ..Rule::default()
        }],
        ..Policy::default()
    };
    let all = HeadChanges::new(&site);
    let text =
        |rule| String::from_utf8(all.of(rule, 200).lines(Recipient::Plain).to_vec()).unwrap();
    assert_eq!(text(None), "x-a: 1\r\nx-b: 1\r\nlink: </s>\r\nx-c: 1\r\n");
    assert_eq!(
        text(Some(0)),
        "x-a: 2\r\nlink: </s>\r\nx-c: 1\r\nlink: </r>\r\n"
    );
    let rule = all.of(Some(0), 200);
    assert!(
        ["server", "x-a", "x-b"]
            .iter()
            .all(|name| rule.drops(&parse_name(name).unwrap()))
    );
    assert!(!rule.drops(&header::LINK));
    assert_eq!(rule.fields(Recipient::Plain).len(), 4);
}

#[test]
fn errors_get_no_cache_control_of_files() {
    let site = Policy {
        changes: changes(&[], &["X-A: 1", "Cache-Control: max-age=9"], &[]),
        rules: vec![Rule {
            changes: changes(&[], &["Cache-Control: max-age=99"], &["Expires: 0"]),
            ..Rule::default()
        }],
        ..Policy::default()
    };
    let all = HeadChanges::new(&site);
    for status in [200, 304, 301, 399] {
        let changes = all.of(Some(0), status);
        assert_eq!(
            changes.lines(Recipient::Plain),
            b"x-a: 1\r\ncache-control: max-age=99\r\nexpires: 0\r\n"
        );
        assert!(changes.drops(&header::CACHE_CONTROL));
    }
    for (rule, status) in [(None, 400), (Some(0), 404), (Some(0), 503)] {
        let changes = all.of(rule, status);
        assert_eq!(changes.lines(Recipient::Plain), b"x-a: 1\r\n");
        assert!(!changes.drops(&header::CACHE_CONTROL), "that of PHP stays");
    }
}

#[test]
fn hsts_and_alt_svc_are_sent_over_tls_only() {
    let alternative = |of_port, value| AltSvc {
        of_port,
        value: HeaderValue::from_static(value),
    };
    let site = Policy {
        hsts: Some(HeaderValue::from_static("max-age=1")),
        alt_svc: vec![
            alternative(Some(8443), "h3=\":8443\""),
            alternative(Some(443), "h3=\":443\""),
        ],
        ..Policy::default()
    };
    let all = HeadChanges::new(&site);
    let own = all.of(None, 200);
    let hsts = "strict-transport-security: max-age=1\r\n";
    let with = |port| format!("{hsts}alt-svc: h3=\":{port}\"\r\n");
    for (recipient, lines, count) in [
        (Recipient::Plain, String::new(), 0),
        (Recipient::Tls { port: 443 }, with(443), 2),
        (Recipient::Tls { port: 8443 }, with(8443), 2),
        (Recipient::Tls { port: 9443 }, hsts.to_owned(), 1),
        // The port is not that of the proxy.
        (Recipient::TlsProxy, hsts.to_owned(), 1),
    ] {
        assert_eq!(own.lines(recipient), lines.as_bytes(), "{recipient:?}");
        assert_eq!(own.fields(recipient).len(), count, "{recipient:?}");
    }
    assert!(
        own.drops(&header::STRICT_TRANSPORT_SECURITY),
        "also that of the upstream"
    );
}

#[test]
fn removed_fields_are_not_in_stored_lines() {
    let site = Policy {
        changes: changes(&["X-B"], &["x-c: new"], &[]),
        ..Policy::default()
    };
    let all = HeadChanges::new(&site);
    let (lines, mask) = stored(&["x-a: 1", "x-b: 2", "x-bb: 3", "x-c: old", "x-b: 4"]);
    let left = all
        .of(None, 200)
        .left(&lines, mask)
        .collect::<Vec<_>>()
        .concat();
    assert_eq!(left, b"x-a: 1\r\nx-bb: 3\r\n");
    let (lines, mask) = stored(&["etag: 1", "date: 2"]);
    let pieces: Vec<_> = all.of(None, 200).left(&lines, mask).collect();
    assert_eq!(pieces, [lines.as_slice()], "in one piece");
}

#[test]
fn fields_about_framing_and_date_cannot_be_changed() {
    use FieldChange::{Add, Remove, Set};
    let of = |name: &str, change| refusal(&parse_name(name).unwrap(), change);
    for name in [
        "Connection",
        "Transfer-Encoding",
        "Content-Length",
        "TE",
        "Upgrade",
        "Date",
        "Age",
        "Cache-Status",
        "Content-Encoding",
    ] {
        assert!(
            [Add, Remove, Set]
                .iter()
                .all(|change| of(name, *change).is_some()),
            "{name}"
        );
    }
    assert!(of("Vary", Remove).is_some() && of("Vary", Add).is_none());
    assert!(of("ETag", Set).is_some() && of("ETag", Remove).is_none());
    assert!(of("Strict-Transport-Security", Set).is_some_and(|why| why.contains("hsts")));
    assert_eq!(of("X-Frame-Options", Set), None);
}

#[test]
fn lines_are_parsed() {
    let (name, value) = parse_line("X-Frame-Options:  DENY ").unwrap();
    assert_eq!(
        (name.as_str(), value.as_bytes()),
        ("x-frame-options", &b"DENY"[..])
    );
    for text in [
        "",
        "a",
        "a:",
        "a: ",
        ": b",
        "a b: c",
        "a: b\r\nc: d",
        "a\r: b",
    ] {
        assert_eq!(parse_line(text), None, "{text:?}");
    }
}

proptest! {
    #[test]
    fn masks_never_hide_a_name(given in proptest::collection::vec("[a-f-]{1,4}", 0..8), gone in proptest::collection::vec("[a-f]{1,4}", 0..4)) {
        let texts: Vec<String> = given.iter().map(|name| format!("{name}: v")).collect();
        let (lines, mask) = stored(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let remove: Vec<&str> = gone.iter().map(String::as_str).collect();
        let site = Policy { changes: changes(&remove, &[], &[]), ..Policy::default() };
        let all = HeadChanges::new(&site);
        let left = all.of(None, 200).left(&lines, mask).collect::<Vec<_>>().concat();
        let expected = given.iter().filter(|name| !gone.contains(name));
        let expected: Vec<String> = expected.map(|name| format!("{name}: v\r\n")).collect();
        prop_assert_eq!(left, expected.concat().into_bytes());
    }
}
