//! Files above `max_file`: compressed while they are sent. Pictures below it that are large: in memory if they are requested often.

use std::io::Write;

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::compress::{plain, send};
use crate::http2::client::Client;
use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, random_bytes, with_host};

/// A script of `length` bytes.
fn text(length: usize) -> Vec<u8> {
    let lines =
        (0_u64..).flat_map(|n| format!("const row{n} = {};\n", n * 7919 % 100_003).into_bytes());
    lines.take(length).collect()
}

#[test]
fn large_text_files_are_compressed_while_they_are_sent() {
    let script = text(3_000_000);
    let site = SiteBuilder::files()
        .cache("max_file = \"256KiB\"")
        .server("h2c = true")
        .site("compress = [\"br\", \"gzip\", \"zstd\"]")
        .file("app.js", &script)
        .file("photo.jpg", random_bytes(400_000))
        .start();
    let identity = send(&site, "/app.js", "identity").expect_status(200);
    assert!(identity.body == script);
    assert_eq!(identity.field("vary"), Some("Accept-Encoding"));
    let strong_etag = identity.field("etag").unwrap();
    for (accept, coding) in [
        ("gzip, deflate, br, zstd", "gzip"),
        ("br", "br"),
        ("zstd", "zstd"),
    ] {
        for response in [
            send(&site, "/app.js", accept),
            Client::open(site.addr())
                .send(&Request::get("/app.js").field("Accept-Encoding", accept)),
        ] {
            let response = response.expect_status(200);
            assert_eq!(response.field("content-encoding"), Some(coding));
            assert!(plain(&response) == script, "{coding}");
            assert!(
                response.body.len() < script.len() / 2,
                "{}",
                response.body.len()
            );
            let etag = format!("W/{};{coding}\"", strong_etag.strip_suffix('"').unwrap());
            assert_eq!(response.field("etag"), Some(etag.as_str()));
            assert_eq!(response.field("vary"), Some("Accept-Encoding"));
            assert!(!response.has("content-length") && !response.has("accept-ranges"));
            let conditional = Request::get("/app.js")
                .field("Accept-Encoding", accept)
                .field("If-None-Match", &etag);
            let not_modified = site.send(conditional).expect_status(304);
            assert_eq!(not_modified.field("etag"), Some(etag.as_str()));
            assert_eq!(not_modified.field("vary"), Some("Accept-Encoding"));
            let head = site.send(Request::head("/app.js").field("Accept-Encoding", accept));
            let head = head.expect_status(200);
            for name in [
                "content-encoding",
                "etag",
                "vary",
                "content-type",
                "last-modified",
            ] {
                assert_eq!(head.field(name), response.field(name), "{name}");
            }
            assert!(!head.has("content-length"));
            // Ranges apply to the uncompressed file, which the weak `ETag` cannot identify.
            let range = Request::get("/app.js")
                .field("Accept-Encoding", accept)
                .field("Range", "bytes=1000-1999");
            let part = site.send(range.clone()).expect_status(206);
            assert!(part.body == script[1000..2000] && !part.has("content-encoding"));
            assert_eq!(part.field("etag"), Some(strong_etag));
            let whole = site.send(range.field("If-Range", &etag)).expect_status(200);
            assert!(plain(&whole) == script);
        }
    }
    let image = send(&site, "/photo.jpg", "gzip, br").expect_status(200);
    assert!(!image.has("content-encoding") && !image.has("vary"));
    assert_eq!(image.field("content-length"), Some("400000"));
}

#[test]
fn an_existing_gz_file_is_sent_for_a_large_file() {
    let script = text(1_000_000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&script).unwrap();
    let gzipped = gzip.finish().unwrap();
    let site = SiteBuilder::files()
        .cache("max_file = \"256KiB\"")
        .file("app.js", &script)
        .file("app.js.gz", &gzipped)
        .start();
    let response = send(&site, "/app.js", "gzip").expect_status(200);
    assert!(response.body == gzipped);
    assert_eq!(
        response.field("content-length"),
        Some(gzipped.len().to_string().as_str())
    );
    // Clients that do not accept gzip get the file compressed in another coding.
    let response = send(&site, "/app.js", "br").expect_status(200);
    assert_eq!(response.field("content-encoding"), Some("br"));
    assert!(plain(&response) == script);
}

#[test]
fn compression_of_large_files_uses_little_memory_and_stops_on_disconnect() {
    let script = text(48 << 20);
    let site = SiteBuilder::files().file("export.txt", &script).start();
    send(&site, "/export.txt", "identity").assert_status(200);
    let before = site.peak_memory();
    let response = send(&site, "/export.txt", "gzip").expect_status(200);
    assert!(plain(&response) == script);
    // Clients that read nothing and disconnect.
    let stalled: Vec<_> = (0..4)
        .map(|_| {
            let mut connection = site.connect();
            let request = Request::get("/export.txt").field("Accept-Encoding", "gzip");
            connection.send(&with_host(request)).unwrap();
            connection
        })
        .collect();
    send(&site, "/export.txt", "identity").assert_status(200);
    drop(stalled);
    let grown = site.grown_since(before);
    assert!(grown < 12 * 1024 * 1024, "{grown} bytes");
    wait_for("the reserved memory to be released", TIMEOUT, || {
        let metrics = site.metrics();
        let mut lines = metrics.lines();
        let reserved = lines.find_map(|line| line.strip_prefix("galley_store_reserved_bytes "));
        reserved == Some("0")
    });
}

#[test]
fn large_files_are_not_compressed_where_the_site_disables_it() {
    let script = text(1_000_000);
    for options in ["compress = []", "compress_types = [\"text/html\"]"] {
        let site = SiteBuilder::files()
            .cache("max_file = \"256KiB\"")
            .site(options)
            .file("app.js", &script)
            .start();
        let response = send(&site, "/app.js", "gzip, br").expect_status(200);
        assert!(
            response.body == script && !response.has("vary"),
            "{options}"
        );
    }
}

#[test]
fn a_large_file_enters_the_memory_with_its_second_request() {
    let site = SiteBuilder::files()
        .file("once.jpg", random_bytes(400_000))
        .file("often.jpg", random_bytes(400_000))
        .start();
    let is_in_memory = |path: &str| site.why(path).contains("from memory");
    // Files that have just changed do not enter it.
    wait_for("a file in memory", TIMEOUT, || {
        let _ = site.get("/often.jpg").expect_status(200);
        is_in_memory("/often.jpg")
    });
    let _ = site.get("/once.jpg").expect_status(200);
    for _ in 0..3 {
        let part = Request::get("/once.jpg").field("Range", "bytes=0-9");
        let _ = site.send(part).expect_status(206);
        let _ = site.send(Request::head("/once.jpg")).expect_status(200);
    }
    assert!(!is_in_memory("/once.jpg"));
    let again = site.get("/once.jpg").expect_status(200);
    assert!(is_in_memory("/once.jpg"));
    let from_memory = site.get("/once.jpg").expect_status(200);
    assert!(from_memory.body == again.body && again.body.len() == 400_000);
}
