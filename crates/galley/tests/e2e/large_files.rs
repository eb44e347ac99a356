//! Files above `max_file`, compressed while they are sent.

use std::io::Write;

use galley_testkit::client::{Request, Response};
use galley_testkit::wait_for;

use crate::compress::plain;
use crate::http2::client::Client;
use crate::overload_outage::metrics;
use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, random_bytes, with_host};

/// Text of so many bytes.
fn text(length: usize) -> Vec<u8> {
    let lines =
        (0_u64..).flat_map(|n| format!("const row{n} = {};\n", n * 7919 % 100_003).into_bytes());
    lines.take(length).collect()
}

fn send(stage: &TestSite, target: &str, accept: &str) -> Response {
    stage.send(Request::get(target).field("Accept-Encoding", accept))
}

#[test]
fn large_text_is_compressed_on_its_way() {
    let script = text(3_000_000);
    let stage = SiteBuilder::files()
        .server("h2c = true")
        .site("compress = [\"br\", \"gzip\", \"zstd\"]")
        .file("app.js", &script)
        .file("photo.jpg", random_bytes(400_000))
        .start();
    let identity = send(&stage, "/app.js", "identity").expect_status(200);
    assert!(identity.body == script);
    assert_eq!(identity.field("vary"), Some("Accept-Encoding"));
    let strong = identity.field("etag").unwrap();
    for (accept, coding) in [
        ("gzip, deflate, br, zstd", "gzip"),
        ("br", "br"),
        ("zstd", "zstd"),
    ] {
        for answer in [
            send(&stage, "/app.js", accept),
            Client::open(stage.addr())
                .send(&Request::get("/app.js").field("Accept-Encoding", accept)),
        ] {
            let answer = answer.expect_status(200);
            assert_eq!(answer.field("content-encoding"), Some(coding));
            assert!(plain(&answer) == script, "{coding}");
            assert!(
                answer.body.len() < script.len() / 2,
                "{}",
                answer.body.len()
            );
            let etag = format!("W/{};{coding}\"", strong.strip_suffix('"').unwrap());
            assert_eq!(answer.field("etag"), Some(etag.as_str()));
            assert_eq!(answer.field("vary"), Some("Accept-Encoding"));
            assert!(!answer.has("content-length") && !answer.has("accept-ranges"));
            let same = Request::get("/app.js")
                .field("Accept-Encoding", accept)
                .field("If-None-Match", &etag);
            let same = stage.send(same).expect_status(304);
            assert_eq!(same.field("etag"), Some(etag.as_str()));
            assert_eq!(same.field("vary"), Some("Accept-Encoding"));
            let head = stage.send(Request::head("/app.js").field("Accept-Encoding", accept));
            let head = head.expect_status(200);
            for name in [
                "content-encoding",
                "etag",
                "vary",
                "content-type",
                "last-modified",
            ] {
                assert_eq!(head.field(name), answer.field(name), "{name}");
            }
            assert!(!head.has("content-length"));
            // Parts are parts of the file, which the compressed form cannot vouch for.
            let part = Request::get("/app.js")
                .field("Accept-Encoding", accept)
                .field("Range", "bytes=1000-1999");
            let found = stage.send(part.clone()).expect_status(206);
            assert!(found.body == script[1000..2000] && !found.has("content-encoding"));
            assert_eq!(found.field("etag"), Some(strong));
            let whole = stage.send(part.field("If-Range", &etag)).expect_status(200);
            assert!(plain(&whole) == script);
        }
    }
    let image = send(&stage, "/photo.jpg", "gzip, br").expect_status(200);
    assert!(!image.has("content-encoding") && !image.has("vary"));
    assert_eq!(image.field("content-length"), Some("400000"));
}

#[test]
fn a_compressed_file_beside_a_large_one_is_sent_as_it_is() {
    let script = text(1_000_000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&script).unwrap();
    let beside = gzip.finish().unwrap();
    let stage = SiteBuilder::files()
        .file("app.js", &script)
        .file("app.js.gz", &beside)
        .start();
    let answer = send(&stage, "/app.js", "gzip").expect_status(200);
    assert!(answer.body == beside);
    assert_eq!(
        answer.field("content-length"),
        Some(beside.len().to_string().as_str())
    );
    // Who takes only another coding gets that.
    let answer = send(&stage, "/app.js", "br").expect_status(200);
    assert_eq!(answer.field("content-encoding"), Some("br"));
    assert!(plain(&answer) == script);
}

#[test]
fn compressing_large_files_costs_little_memory_and_ends_with_the_client() {
    let script = text(48 << 20);
    let stage = SiteBuilder::files().file("export.txt", &script).start();
    send(&stage, "/export.txt", "identity").assert_status(200);
    let before = stage.peak_memory();
    let answer = send(&stage, "/export.txt", "gzip").expect_status(200);
    assert!(plain(&answer) == script);
    // Clients that read nothing, and leave.
    let waiting: Vec<_> = (0..4)
        .map(|_| {
            let mut connection = stage.connect();
            let request = Request::get("/export.txt").field("Accept-Encoding", "gzip");
            connection.send(&with_host(request)).unwrap();
            connection
        })
        .collect();
    send(&stage, "/export.txt", "identity").assert_status(200);
    drop(waiting);
    let grown = stage.grown_since(before);
    assert!(grown < 12 * 1024 * 1024, "{grown} bytes");
    wait_for("the memory to be free again", TIMEOUT, || {
        let metrics = metrics(&stage);
        let mut lines = metrics.lines();
        let reserved = lines.find_map(|line| line.strip_prefix("galley_store_reserved_bytes "));
        reserved == Some("0")
    });
}

#[test]
fn without_compression_large_files_stay_as_they_are() {
    let script = text(1_000_000);
    for site in ["compress = []", "compress_types = [\"text/html\"]"] {
        let stage = SiteBuilder::files()
            .site(site)
            .file("app.js", &script)
            .start();
        let answer = send(&stage, "/app.js", "gzip, br").expect_status(200);
        assert!(answer.body == script && !answer.has("vary"), "{site}");
    }
}
