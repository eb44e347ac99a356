//! Compressed copies of stored pages.

use std::io::Read;

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::Origin;
use galley_testkit::wait_for;

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite};

/// An origin with a page of about 30 KB; the query sets its fields: `?content-type=image/png`.
fn origin() -> Origin {
    Origin::start(|request, writer| {
        let query = request
            .target
            .split_once('?')
            .map_or("", |(_, query)| query);
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
        writer.respond(200, &fields, body);
    })
    .unwrap()
}

pub fn page() -> String {
    let rows: Vec<String> = (0..900)
        .map(|n| format!("<p class=\"row\">Row {n}, {}</p>", n * 7919 % 1000))
        .collect();
    format!("<html><body>{}</body></html>", rows.concat())
}

fn start_site(origin: &Origin, options: &str) -> TestSite {
    SiteBuilder::upstream_line(&format!("upstream = [\"{}\"]", origin.url()))
        .site(options)
        .start()
}

/// Requests an address with this `Accept-Encoding`.
pub fn send(site: &TestSite, target: &str, accept: &str) -> Response {
    site.send(Request::get(target).field("Accept-Encoding", accept))
}

fn wait_for_compressed(site: &TestSite, target: &str, accept: &str) -> Response {
    let mut response = send(site, target, accept);
    wait_for(&format!("{target} compressed"), TIMEOUT, || {
        response = send(site, target, accept);
        response.is_hit() && response.has("content-encoding")
    });
    response
}

/// The decoded body of a response.
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
        Some(other) => panic!("unexpected content coding {other}"),
    }
    plain
}

#[test]
fn stored_pages_are_sent_in_the_coding_that_the_client_prefers() {
    let origin = origin();
    let site = start_site(&origin, "");
    wait_for_compressed(&site, "/a", "gzip, deflate, br, zstd");
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
        let response = send(&site, "/a", accept);
        assert_eq!(response.field("content-encoding"), coding, "{accept}");
        assert!(response.is_hit());
        assert!(plain(&response) == page().as_bytes(), "{accept}");
        assert_eq!(response.field("vary"), Some("Accept-Encoding"), "{accept}");
        let etag = match coding {
            None => "\"v1\"".to_owned(),
            Some(coding) => format!("\"v1-{coding}\""),
        };
        assert_eq!(response.field("etag"), Some(etag.as_str()));
        let conditional = Request::get("/a")
            .field("Accept-Encoding", accept)
            .field("If-None-Match", &etag);
        site.send(conditional).assert_status(304);
        let head = site.send(Request::head("/a").field("Accept-Encoding", accept));
        assert_eq!(
            head.field("content-length"),
            response.field("content-length")
        );
        assert_eq!(head.field("content-encoding"), coding);
    }
    // The `ETag` of another coding does not match.
    let other = Request::get("/a")
        .field("Accept-Encoding", "br")
        .field("If-None-Match", "\"v1-gzip\"");
    site.send(other).assert_status(200);
    let part = Request::get("/a")
        .field("Accept-Encoding", "br")
        .field("Range", "bytes=0-5");
    let part = site.send(part);
    part.assert_status(206);
    assert_eq!(
        (part.text(), part.has("content-encoding")),
        ("<html>".to_owned(), false)
    );
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn zstd_copies_are_stored_where_compress_lists_zstd() {
    let origin = origin();
    let site = start_site(&origin, "compress = [\"br\", \"gzip\", \"zstd\"]");
    wait_for_compressed(&site, "/a", "zstd");
    for (accept, coding) in [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip, deflate, zstd", "zstd"),
        ("zstd, br;q=0.9", "zstd"),
    ] {
        let response = send(&site, "/a", accept);
        assert_eq!(response.field("content-encoding"), Some(coding), "{accept}");
        assert!(
            response.is_hit() && plain(&response) == page().as_bytes(),
            "{accept}"
        );
        let etag = format!("\"v1-{coding}\"");
        assert_eq!(response.field("etag"), Some(etag.as_str()));
    }
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn an_unchanged_page_is_not_compressed_again_after_a_refresh() {
    let origin = Origin::start(|_, writer| {
        let fields = [
            ("Cache-Control", "max-age=1"),
            ("Content-Type", "text/html"),
        ];
        writer.respond(200, &fields, page().as_bytes());
    })
    .unwrap();
    // The requests below are so many that Galley would compress the page at the dense level.
    let site = start_site(&origin, "dense_after = 0");
    wait_for_compressed(&site, "/a", "br");
    let compressed = site.status_number("pages_compressed");
    wait_for("three refreshes", TIMEOUT, || {
        send(&site, "/a", "br");
        origin.requests().len() > 3
    });
    // The page has compressed copies all the time, fresh or stale.
    for accept in ["br", "gzip"] {
        let response = send(&site, "/a", accept);
        assert_eq!(response.field("content-encoding"), Some(accept));
        assert!(plain(&response) == page().as_bytes());
    }
    assert_eq!(site.status_number("pages_compressed"), compressed);
}

#[test]
fn preset_none_compresses_on_request_and_keeps_copies_after_a_304() {
    let origin = Origin::start(|request, writer| {
        let fields = [
            ("Cache-Control", "max-age=1"),
            ("Content-Type", "text/html"),
            ("ETag", "\"v1\""),
        ];
        match request.field("if-none-match") {
            Some("\"v1\"") => writer.respond(304, &fields, b""),
            _ => writer.respond(200, &fields, page().as_bytes()),
        };
    })
    .unwrap();
    let uncompressed = SiteBuilder::origin(&origin, "none").start();
    for _ in 0..3 {
        let response = send(&uncompressed, "/a", "br, gzip");
        assert!(!response.has("content-encoding") && !response.has("vary"));
    }
    let site = SiteBuilder::origin(&origin, "none")
        .site("compress = [\"br\", \"gzip\"]\ndense_after = 0")
        .start();
    wait_for_compressed(&site, "/a", "br");
    let (request_count, compressed) = (
        origin.requests().len(),
        site.status_number("pages_compressed"),
    );
    wait_for("three refreshes", TIMEOUT, || {
        let response = send(&site, "/a", "br");
        assert_eq!(response.field("content-encoding"), Some("br"));
        assert!(plain(&response) == page().as_bytes());
        origin.requests().len() >= request_count + 3
    });
    let all_conditional = origin
        .requests()
        .iter()
        .skip(request_count)
        .all(|request| request.field("if-none-match").is_some());
    assert!(all_conditional, "refreshes are conditional requests");
    assert_eq!(site.status_number("pages_compressed"), compressed);
}

#[test]
fn images_small_pages_and_no_transform_are_not_compressed() {
    let origin = origin();
    let site = start_site(&origin, "");
    let targets = [
        "/a?content-type=image/png",
        "/a?no-transform=1",
        "/a?small=1",
    ];
    for target in targets {
        for _ in 0..2 {
            send(&site, target, "br, gzip");
        }
    }
    // Compression jobs run in order: after this one, the others would be done as well.
    wait_for_compressed(&site, "/a", "br");
    for target in targets {
        let response = send(&site, target, "br");
        assert_eq!(response.field("content-encoding"), None, "{target}");
        assert_eq!(response.field("etag"), Some("\"v1\""), "{target}");
    }
}

#[test]
fn compress_options_select_codings_types_and_minimum_size() {
    let origin = origin();
    let site = start_site(
        &origin,
        "compress = [\"gzip\"]\ncompress_types = [\"image/*\"]\ncompress_min = \"1KiB\"",
    );
    let response = wait_for_compressed(&site, "/a?content-type=image/png", "br, gzip");
    assert_eq!(response.field("content-encoding"), Some("gzip"));
    send(&site, "/a", "gzip");
    assert!(!send(&site, "/a", "gzip").has("content-encoding"));
}

#[test]
fn an_empty_compress_list_disables_compression() {
    let origin = origin();
    let site = start_site(&origin, "compress = []");
    for _ in 0..3 {
        let response = send(&site, "/a", "br, gzip");
        assert!(!response.has("content-encoding") && !response.has("vary"));
    }
    assert_eq!(site.status_number("pages_compressed"), 0);
}

#[test]
fn a_purge_covers_all_codings_and_running_compressions() {
    let origin = origin();
    let site = start_site(&origin, "");
    for round in 0..20 {
        send(&site, "/a", "br");
        // Often during the compression.
        site.purge(&["--url", "http://example.test/a"]);
        for accept in ["br", "gzip", "identity"] {
            let count = origin.requests().len();
            let response = send(&site, "/a", accept);
            let is_first = accept == "br";
            assert_eq!(
                origin.requests().len() - count,
                usize::from(is_first),
                "{round}"
            );
            assert!(plain(&response) == page().as_bytes());
        }
        site.purge(&["--url", "http://example.test/a"]);
    }
}

#[test]
fn popular_pages_are_compressed_again_at_a_higher_level() {
    let origin = origin();
    let site = start_site(
        &origin,
        "compress = [\"gzip\"]\ngzip_level = 1\ndense_after = 5",
    );
    let fast_size = wait_for_compressed(&site, "/a", "gzip").body.len();
    let mut size = fast_size;
    wait_for("the page to become smaller", TIMEOUT, || {
        size = send(&site, "/a", "gzip").body.len();
        size < fast_size
    });
    assert!(plain(&send(&site, "/a", "gzip")) == page().as_bytes());
    assert_eq!(site.status_number("pages_compressed"), 2);
}

#[test]
fn pages_loaded_from_disk_are_compressed_again() {
    let origin = origin();
    let line = format!("upstream = [\"{}\"]", origin.url());
    let mut site = SiteBuilder::upstream_line(&line).disk().start();
    wait_for_compressed(&site, "/a", "br");
    site.wait_for_disk(1);
    site.restart();
    let response = wait_for_compressed(&site, "/a", "br");
    assert!(plain(&response) == page().as_bytes());
    assert_eq!(origin.requests().len(), 1);
}
