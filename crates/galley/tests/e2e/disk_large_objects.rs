//! Objects larger than the memory cache: written to the disk while they are sent, and served from it afterwards, including ranges.

use galley_testkit::client::Request;
use galley_testkit::origin::Origin;

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite};

const LENGTH: usize = 12 << 20;

fn body() -> Vec<u8> {
    (0..LENGTH)
        .map(|at| u8::try_from((at.wrapping_mul(2_654_435_761) >> 13) & 0xff).unwrap())
        .collect()
}

/// A site with memory for bodies of six megabytes, and a disk cache.
fn start_site(origin: &Origin, lines: &str) -> TestSite {
    SiteBuilder::upstream_line(&format!("upstream = [\"{}\"]", origin.url()))
        .cache("memory = \"16MiB\"\nmax_object = \"16MiB\"\ndisk = \"{dir}/cache\"")
        .site(lines)
        .start()
}

const FIELDS: [(&str, &str); 3] = [
    ("Cache-Control", "max-age=600"),
    ("Content-Type", "application/octet-stream"),
    ("ETag", "\"large\""),
];

#[test]
fn a_body_larger_than_memory_is_stored_on_and_served_from_disk() {
    for preset in ["", "preset = \"none\""] {
        for is_chunked in [false, true] {
            let origin = Origin::start(move |_, writer| {
                let body = body();
                if is_chunked {
                    writer.chunked(200, &FIELDS);
                    for chunk in body.chunks(100_000) {
                        writer.chunk(chunk);
                    }
                    writer.last_chunk();
                } else {
                    writer.respond(200, &FIELDS, &body);
                }
            })
            .unwrap();
            let mut site = start_site(&origin, preset);
            let complete = body();
            let first = site.send(Request::get("/file").timeout(TIMEOUT));
            assert!(first.body == complete, "{preset} {is_chunked}");
            site.wait_for_disk(1);
            let second = site.get("/file");
            assert!(
                second.is_hit(),
                "{preset} {is_chunked}: {}",
                second.cache_status()
            );
            assert!(second.body == complete);
            assert_eq!(second.field("content-length"), Some("12582912"));

            site.restart();
            let range = |value: &str| site.send(Request::get("/file").field("Range", value));
            let part = range("bytes=5000000-5999999");
            part.assert_status(206);
            assert_eq!(
                part.field("content-range"),
                Some("bytes 5000000-5999999/12582912")
            );
            assert!(part.body == complete[5_000_000..6_000_000]);
            let end = range("bytes=-7");
            assert!(end.body == complete[LENGTH - 7..]);
            let several = range("bytes=0-9,12000000-12000009");
            several.assert_status(206);
            let contains = |part: &[u8]| several.body.windows(part.len()).any(|at| at == part);
            assert!(contains(&complete[..10]) && contains(&complete[12_000_000..12_000_010]));
            range("bytes=12582912-").assert_status(416);
            let head = site.send(Request::head("/file"));
            assert_eq!(head.field("content-length"), Some("12582912"));
            site.send(Request::get("/file").field("If-None-Match", "\"large\""))
                .assert_status(304);
            assert_eq!(origin.requests().len(), 1, "{preset} {is_chunked}");
        }
    }
}

#[test]
fn a_truncated_body_is_not_stored_on_disk() {
    let origin = Origin::start(|_, writer| {
        writer.chunked(200, &FIELDS);
        for chunk in body()[..8 << 20].chunks(100_000) {
            writer.chunk(chunk);
        }
        writer.close();
    })
    .unwrap();
    let site = start_site(&origin, "");
    for _ in 0..2 {
        assert!(
            Request::get("/file")
                .host("example.test")
                .send(site.addr())
                .is_err()
        );
    }
    assert_eq!(site.status_disk("entries"), 0);
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn writing_to_disk_continues_after_the_client_disconnects() {
    let origin = Origin::start(|_, writer| {
        writer.respond(200, &FIELDS, &body());
    })
    .unwrap();
    let site = start_site(&origin, "");
    let mut connection = site.connect();
    connection
        .write(b"GET /file HTTP/1.1\r\nHost: example.test\r\n\r\n")
        .unwrap();
    let mut beginning = vec![0; 100_000];
    std::io::Read::read_exact(&mut connection.stream(), &mut beginning).unwrap();
    drop(connection);
    site.wait_for_disk(1);
    let second = site.get("/file");
    assert!(
        second.is_hit() && second.body == body(),
        "{}",
        second.cache_status()
    );
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn a_purge_covers_entries_that_are_only_on_disk() {
    let origin = Origin::start(|_, writer| {
        writer.respond(200, &FIELDS, &body());
    })
    .unwrap();
    let site = start_site(&origin, "");
    site.get("/file");
    site.wait_for_disk(1);
    site.purge(&["--url", "http://example.test/file"]);
    assert!(!site.get("/file").is_hit());
    assert_eq!(origin.requests().len(), 2);
}
