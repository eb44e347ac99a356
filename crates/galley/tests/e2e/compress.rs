//! Stored pages in the codings that clients take.

use std::io::Read;

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::Origin;
use galley_testkit::wait_for;

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite};

/// A page of some 30 KB, with whatever fields its query names: `?content-type=image/png`.
fn origin() -> Origin {
    Origin::start(|seen, writer| {
        let query = seen.target.split_once('?').map_or("", |(_, query)| query);
        let mut fields = vec![("Cache-Control", "max-age=600"), ("ETag", "\"v1\"")];
        let mut media_type = "text/html; charset=utf-8";
        for pair in query.split('&') {
            match pair.split_once('=') {
                Some(("content-type", value)) => media_type = value,
                Some(("no-transform", _)) => fields[0].1 = "max-age=600, no-transform",
                _ => {}
            }
        }
        fields.push(("Content-Type", media_type));
        let body = page();
        let body = match query {
            "small=1" => &body.as_bytes()[..100],
            _ => body.as_bytes(),
        };
        writer.answer(200, &fields, body);
    })
    .unwrap()
}

pub fn page() -> String {
    let rows: Vec<String> = (0..900)
        .map(|n| format!("<p class=\"row\">Row {n}, {}</p>", n * 7919 % 1000))
        .collect();
    format!("<html><body>{}</body></html>", rows.concat())
}

fn stage(origin: &Origin, site: &str) -> TestSite {
    SiteBuilder::upstream_line(&format!("upstream = [\"{}\"]", origin.url()))
        .site(site)
        .start()
}

fn send(stage: &TestSite, target: &str, accept: &str) -> Response {
    stage.send(Request::get(target).field("Accept-Encoding", accept))
}

fn wait_for_coded(stage: &TestSite, target: &str, accept: &str) -> Response {
    let mut found = send(stage, target, accept);
    wait_for(&format!("{target} coded"), TIMEOUT, || {
        found = send(stage, target, accept);
        found.is_hit() && found.has("content-encoding")
    });
    found
}

/// The body of an answer, whatever it is coded in.
pub fn plain(response: &Response) -> Vec<u8> {
    let mut plain = Vec::new();
    match response.field("content-encoding") {
        None => plain.clone_from(&response.body),
        Some("gzip") => {
            flate2::read::GzDecoder::new(&response.body[..])
                .read_to_end(&mut plain)
                .unwrap();
        }
        Some("br") => {
            brotli::BrotliDecompress(&mut &response.body[..], &mut plain).unwrap();
        }
        Some("zstd") => plain = zstd::decode_all(&response.body[..]).unwrap(),
        Some(other) => panic!("coded as {other}"),
    }
    plain
}

#[test]
fn a_stored_page_comes_in_the_coding_that_a_client_takes_best() {
    let origin = origin();
    let stage = stage(&origin, "");
    wait_for_coded(&stage, "/a", "gzip, deflate, br, zstd");
    for (accept, coding) in [
        ("gzip, deflate, br, zstd", Some("br")),
        ("gzip, deflate", Some("gzip")),
        ("br;q=0.5, gzip", Some("gzip")),
        ("br;q=0, gzip;q=0.1", Some("gzip")),
        ("*", Some("br")),
        ("*;q=0, gzip", Some("gzip")),
        ("identity", None),
        ("deflate, zstd", None),
        ("gzip;q=0", None),
        ("", None),
    ] {
        let answer = send(&stage, "/a", accept);
        assert_eq!(answer.field("content-encoding"), coding, "{accept}");
        assert!(answer.is_hit());
        assert!(plain(&answer) == page().as_bytes(), "{accept}");
        assert_eq!(answer.field("vary"), Some("Accept-Encoding"), "{accept}");
        let etag = match coding {
            None => "\"v1\"".to_owned(),
            Some(coding) => format!("\"v1-{coding}\""),
        };
        assert_eq!(answer.field("etag"), Some(etag.as_str()));
        let same = Request::get("/a")
            .field("Accept-Encoding", accept)
            .field("If-None-Match", &etag);
        stage.send(same).assert_status(304);
        let head = stage.send(Request::head("/a").field("Accept-Encoding", accept));
        assert_eq!(head.field("content-length"), answer.field("content-length"));
        assert_eq!(head.field("content-encoding"), coding);
    }
    // A validator of another coding is no validator of this one.
    let other = Request::get("/a")
        .field("Accept-Encoding", "br")
        .field("If-None-Match", "\"v1-gzip\"");
    stage.send(other).assert_status(200);
    let part = Request::get("/a")
        .field("Accept-Encoding", "br")
        .field("Range", "bytes=0-5");
    let part = stage.send(part);
    part.assert_status(206);
    assert_eq!(
        (part.text(), part.has("content-encoding")),
        ("<html>".to_owned(), false)
    );
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn zstd_is_kept_where_it_is_asked_for() {
    let origin = origin();
    let stage = stage(&origin, "compress = [\"br\", \"gzip\", \"zstd\"]");
    wait_for_coded(&stage, "/a", "zstd");
    for (accept, coding) in [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip, deflate, zstd", "zstd"),
        ("zstd, br;q=0.9", "zstd"),
    ] {
        let answer = send(&stage, "/a", accept);
        assert_eq!(answer.field("content-encoding"), Some(coding), "{accept}");
        assert!(
            answer.is_hit() && plain(&answer) == page().as_bytes(),
            "{accept}"
        );
        let etag = format!("\"v1-{coding}\"");
        assert_eq!(answer.field("etag"), Some(etag.as_str()));
    }
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn a_page_that_was_renewed_and_has_not_changed_is_not_coded_again() {
    let origin = Origin::start(|_, writer| {
        let fields = [
            ("Cache-Control", "max-age=1"),
            ("Content-Type", "text/html"),
        ];
        writer.answer(200, &fields, page().as_bytes());
    })
    .unwrap();
    let stage = stage(&origin, "");
    wait_for_coded(&stage, "/a", "br");
    let once = stage.status_number("pages_compressed");
    wait_for("three renewals", TIMEOUT, || {
        send(&stage, "/a", "br");
        origin.requests().len() > 3
    });
    // Fresh or stale, it never was plain in between.
    for accept in ["br", "gzip"] {
        let answer = send(&stage, "/a", accept);
        assert_eq!(answer.field("content-encoding"), Some(accept));
        assert!(plain(&answer) == page().as_bytes());
    }
    assert_eq!(stage.status_number("pages_compressed"), once);
}

#[test]
fn without_a_preset_codings_are_kept_where_they_are_asked_for_and_through_a_304() {
    let origin = Origin::start(|seen, writer| {
        let fields = [
            ("Cache-Control", "max-age=1"),
            ("Content-Type", "text/html"),
            ("ETag", "\"v1\""),
        ];
        match seen.field("if-none-match") {
            Some("\"v1\"") => writer.answer(304, &fields, b""),
            _ => writer.answer(200, &fields, page().as_bytes()),
        };
    })
    .unwrap();
    let plain_stage = SiteBuilder::origin(&origin, "none").start();
    for _ in 0..3 {
        let answer = send(&plain_stage, "/a", "br, gzip");
        assert!(!answer.has("content-encoding") && !answer.has("vary"));
    }
    let stage = SiteBuilder::origin(&origin, "none")
        .site("compress = [\"br\", \"gzip\"]")
        .start();
    wait_for_coded(&stage, "/a", "br");
    let (asked, once) = (
        origin.requests().len(),
        stage.status_number("pages_compressed"),
    );
    wait_for("three renewals", TIMEOUT, || {
        let answer = send(&stage, "/a", "br");
        assert_eq!(answer.field("content-encoding"), Some("br"));
        assert!(plain(&answer) == page().as_bytes());
        origin.requests().len() >= asked + 3
    });
    let renewed = origin
        .requests()
        .iter()
        .skip(asked)
        .all(|seen| seen.field("if-none-match").is_some());
    assert!(renewed, "the upstream was asked with what it gave");
    assert_eq!(stage.status_number("pages_compressed"), once);
}

#[test]
fn what_gains_nothing_or_forbids_it_stays_as_it_is() {
    let origin = origin();
    let stage = stage(&origin, "");
    let never = [
        "/a?content-type=image/png",
        "/a?no-transform=1",
        "/a?small=1",
    ];
    for target in never {
        for _ in 0..2 {
            send(&stage, target, "br, gzip");
        }
    }
    // Jobs are done in turn: when this one is, theirs would be.
    wait_for_coded(&stage, "/a", "br");
    for target in never {
        let answer = send(&stage, target, "br");
        assert_eq!(answer.field("content-encoding"), None, "{target}");
        assert_eq!(answer.field("etag"), Some("\"v1\""), "{target}");
    }
}

#[test]
fn a_site_says_what_is_compressed() {
    let origin = origin();
    let stage = stage(
        &origin,
        "compress = [\"gzip\"]\ncompress_types = [\"image/*\"]\ncompress_min = \"1KiB\"",
    );
    let answer = wait_for_coded(&stage, "/a?content-type=image/png", "br, gzip");
    assert_eq!(answer.field("content-encoding"), Some("gzip"));
    send(&stage, "/a", "gzip");
    assert!(!send(&stage, "/a", "gzip").has("content-encoding"));
}

#[test]
fn without_codings_nothing_is_compressed() {
    let origin = origin();
    let stage = stage(&origin, "compress = []");
    for _ in 0..3 {
        let answer = send(&stage, "/a", "br, gzip");
        assert!(!answer.has("content-encoding") && !answer.has("vary"));
    }
    assert_eq!(stage.status_number("pages_compressed"), 0);
}

#[test]
fn a_purge_reaches_every_coding_and_what_is_being_made() {
    let origin = origin();
    let stage = stage(&origin, "");
    for round in 0..20 {
        send(&stage, "/a", "br");
        // Often while it is being compressed.
        stage.purge(&["--url", "http://example.test/a"]);
        for accept in ["br", "gzip", "identity"] {
            let count = origin.requests().len();
            let answer = send(&stage, "/a", accept);
            let is_first = accept == "br";
            assert_eq!(
                origin.requests().len() - count,
                usize::from(is_first),
                "{round}"
            );
            assert!(plain(&answer) == page().as_bytes());
        }
        stage.purge(&["--url", "http://example.test/a"]);
    }
}

#[test]
fn a_page_that_proved_hot_is_compressed_again_densely() {
    let origin = origin();
    let stage = stage(
        &origin,
        "compress = [\"gzip\"]\ngzip_level = 1\ndense_after = 5",
    );
    let quick = wait_for_coded(&stage, "/a", "gzip").body.len();
    let mut dense = quick;
    wait_for("the page to become smaller", TIMEOUT, || {
        dense = send(&stage, "/a", "gzip").body.len();
        dense < quick
    });
    assert!(plain(&send(&stage, "/a", "gzip")) == page().as_bytes());
    assert_eq!(stage.status_number("pages_compressed"), 2);
}

#[test]
fn what_comes_back_from_the_disk_is_compressed_again() {
    let origin = origin();
    let line = format!("upstream = [\"{}\"]", origin.url());
    let mut stage = SiteBuilder::upstream_line(&line).disk().start();
    wait_for_coded(&stage, "/a", "br");
    stage.wait_for_disk(1);
    stage.restart();
    let answer = wait_for_coded(&stage, "/a", "br");
    assert!(plain(&answer) == page().as_bytes());
    assert_eq!(origin.requests().len(), 1);
}
