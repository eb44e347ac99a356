//! Bodies larger than the memory: streamed to the disk while they are sent, and from it afterwards, ranges included.

use galley_testkit::client::Request;
use galley_testkit::origin::Origin;

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite};

const LENGTH: usize = 12 << 20;

fn body() -> Vec<u8> {
    (0..LENGTH)
        .map(|at| u8::try_from((at.wrapping_mul(2_654_435_761) >> 13) & 0xff).unwrap())
        .collect()
}

/// Memory for bodies of six megabytes, and a disk.
fn stage(origin: &Origin, site: &str) -> TestSite {
    SiteBuilder::upstream_line(&format!("upstream = [\"{}\"]", origin.url()))
        .cache("memory = \"16MiB\"\nmax_object = \"16MiB\"\ndisk = \"{dir}/cache\"")
        .site(site)
        .start()
}

const FIELDS: [(&str, &str); 3] = [
    ("Cache-Control", "max-age=600"),
    ("Content-Type", "application/octet-stream"),
    ("ETag", "\"large\""),
];

#[test]
fn a_body_larger_than_memory_goes_to_the_disk_and_comes_from_it() {
    for site in ["", "preset = \"none\""] {
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
                    writer.answer(200, &FIELDS, &body);
                }
            })
            .unwrap();
            let mut stage = stage(&origin, site);
            let whole = body();
            let first = stage.send(Request::get("/file").timeout(TIMEOUT));
            assert!(first.body == whole, "{site} {is_chunked}");
            stage.wait_for_disk(1);
            let second = stage.get("/file");
            assert!(
                second.is_hit(),
                "{site} {is_chunked}: {}",
                second.cache_status()
            );
            assert!(second.body == whole);
            assert_eq!(second.field("content-length"), Some("12582912"));

            stage.restart();
            let range = |value: &str| stage.send(Request::get("/file").field("Range", value));
            let part = range("bytes=5000000-5999999");
            part.assert_status(206);
            assert_eq!(
                part.field("content-range"),
                Some("bytes 5000000-5999999/12582912")
            );
            assert!(part.body == whole[5_000_000..6_000_000]);
            let end = range("bytes=-7");
            assert!(end.body == whole[LENGTH - 7..]);
            let several = range("bytes=0-9,12000000-12000009");
            several.assert_status(206);
            let holds = |part: &[u8]| several.body.windows(part.len()).any(|at| at == part);
            assert!(holds(&whole[..10]) && holds(&whole[12_000_000..12_000_010]));
            range("bytes=12582912-").assert_status(416);
            let head = stage.send(Request::head("/file"));
            assert_eq!(head.field("content-length"), Some("12582912"));
            stage
                .send(Request::get("/file").field("If-None-Match", "\"large\""))
                .assert_status(304);
            assert_eq!(origin.requests().len(), 1, "{site} {is_chunked}");
        }
    }
}

#[test]
fn a_body_that_ends_short_is_not_found_on_the_disk() {
    let origin = Origin::start(|_, writer| {
        writer.chunked(200, &FIELDS);
        for chunk in body()[..8 << 20].chunks(100_000) {
            writer.chunk(chunk);
        }
        writer.close();
    })
    .unwrap();
    let stage = stage(&origin, "");
    for _ in 0..2 {
        assert!(
            Request::get("/file")
                .host("example.test")
                .send(stage.addr())
                .is_err()
        );
    }
    assert_eq!(stage.status_disk("entries"), 0);
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn a_client_that_leaves_does_not_end_what_is_being_written() {
    let origin = Origin::start(|_, writer| {
        writer.answer(200, &FIELDS, &body());
    })
    .unwrap();
    let stage = stage(&origin, "");
    let mut connection = stage.connect();
    connection
        .write(b"GET /file HTTP/1.1\r\nHost: example.test\r\n\r\n")
        .unwrap();
    let mut some = vec![0; 100_000];
    std::io::Read::read_exact(&mut connection.stream(), &mut some).unwrap();
    drop(connection);
    stage.wait_for_disk(1);
    let second = stage.get("/file");
    assert!(
        second.is_hit() && second.body == body(),
        "{}",
        second.cache_status()
    );
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn a_purge_reaches_what_is_on_the_disk_alone() {
    let origin = Origin::start(|_, writer| {
        writer.answer(200, &FIELDS, &body());
    })
    .unwrap();
    let stage = stage(&origin, "");
    stage.get("/file");
    stage.wait_for_disk(1);
    stage.purge(&["--url", "http://example.test/file"]);
    assert!(!stage.get("/file").is_hit());
    assert_eq!(origin.requests().len(), 2);
}
