//! Static files: content types, validators, ranges, precompressed files, directories and large files.

use std::fs;

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{AssertStatus, HOST, SiteBuilder, TIMEOUT, random_bytes, with_host};

#[test]
fn files_have_content_types_and_validators() {
    let names = [
        ("a.css", "text/css"),
        ("a.js", "text/javascript"),
        ("a.png", "image/png"),
        ("a.svg", "image/svg+xml"),
        ("a.webp", "image/webp"),
        ("a.woff2", "font/woff2"),
        ("a.txt", "text/plain"),
        ("a.html", "text/html"),
        ("a.pdf", "application/pdf"),
        ("a.unknown", "application/octet-stream"),
        ("noending", "application/octet-stream"),
    ];
    let mut builder = SiteBuilder::files();
    for (name, _) in names {
        builder = builder.file(name, "content");
    }
    let site = builder.start();
    for (name, expected) in names {
        let response = site.get(&format!("/{name}")).expect_status(200);
        let found = response.field("content-type").unwrap_or_default();
        let accepted = found.starts_with(expected)
            || (expected == "text/javascript" && found.starts_with("application/javascript"));
        assert!(accepted, "{name}: {found}");
        assert_eq!(response.cache_status(), "galley; detail=file");
        let etag = response.field("etag").unwrap().to_owned();
        assert!(
            etag.starts_with('"') && etag.ends_with('"'),
            "strong: {etag}"
        );
        let modified = response.field("last-modified").unwrap().to_owned();
        let not_modified = site
            .send(Request::get(&format!("/{name}")).field("If-None-Match", &etag))
            .expect_status(304);
        assert_eq!(not_modified.field("etag"), Some(etag.as_str()));
        assert!(not_modified.body.is_empty());
        site.send(Request::get(&format!("/{name}")).field("If-Modified-Since", &modified))
            .assert_status(304);
        site.send(
            Request::get(&format!("/{name}"))
                .field("If-Modified-Since", &modified)
                .field("If-None-Match", "\"other\""),
        )
        .assert_status(200);
        site.send(Request::get(&format!("/{name}")).field("If-Match", "\"other\""))
            .assert_status(412);
    }
}

#[test]
fn range_requests_of_a_file() {
    let content: String = (0..1000)
        .map(|n| char::from(b'a' + u8::try_from(n % 26).unwrap()))
        .collect();
    let site = SiteBuilder::files().file("a.txt", &content).start();
    let part = |range: &str| site.send(Request::get("/a.txt").field("Range", range));
    for (range, from, to) in [
        ("bytes=0-0", 0, 1),
        ("bytes=10-19", 10, 20),
        ("bytes=990-", 990, 1000),
        ("bytes=-5", 995, 1000),
        ("bytes=900-5000", 900, 1000),
    ] {
        let response = part(range).expect_status(206);
        assert_eq!(response.text(), &content[from..to], "{range}");
        assert_eq!(
            response.field("content-range"),
            Some(format!("bytes {from}-{}/1000", to - 1).as_str()),
            "{range}"
        );
    }
    for range in ["bytes=1000-", "bytes=5000-6000", "bytes=-0"] {
        let response = part(range).expect_status(416);
        assert_eq!(
            response.field("content-range"),
            Some("bytes */1000"),
            "{range}"
        );
    }
    for range in ["lines=1-2", "bytes=5-2", "bytes=a-b", "bytes=", "0-5"] {
        assert_eq!(part(range).expect_status(200).text(), content, "{range}");
    }
    let several = part("bytes=0-1,10-11").expect_status(206);
    let kind = several.field("content-type").unwrap_or_default().to_owned();
    let boundary = kind
        .strip_prefix("multipart/byteranges; boundary=")
        .unwrap_or_else(|| panic!("{kind}"))
        .trim_matches('"');
    let text = several.text();
    assert_eq!(text.matches(&format!("--{boundary}")).count(), 3, "{text}");
    assert!(
        text.contains("bytes 0-1/1000\r\n") && text.contains("bytes 10-11/1000\r\n"),
        "{text}"
    );
    assert!(
        text.contains("\r\n\r\nab\r\n") && text.contains("\r\n\r\nkl\r\n"),
        "{text}"
    );
    let many: Vec<String> = (0..400).map(|n| format!("{}-{}", n * 2, n * 2)).collect();
    let response = part(&format!("bytes={}", many.join(",")));
    assert!(
        response.body.len() < 40_000,
        "many ranges enlarge the response: {}",
        response.body.len()
    );
    let etag = site.get("/a.txt").field("etag").unwrap().to_owned();
    let if_range = |value: &str| {
        site.send(
            Request::get("/a.txt")
                .field("Range", "bytes=0-0")
                .field("If-Range", value),
        )
        .status
    };
    assert_eq!((if_range(&etag), if_range("\"other\"")), (206, 200));
}

#[test]
fn precompressed_files_are_chosen_by_accept_encoding() {
    let site = SiteBuilder::files()
        .file("app.css", "body { color: red }")
        .file("app.css.gz", "GZIPPED")
        .file("app.css.br", "BROTLI")
        .start();
    let send =
        |accepts: &str| site.send(Request::get("/app.css").field("Accept-Encoding", accepts));
    for (accepts, coding, body) in [
        ("gzip, deflate, br", Some("br"), "BROTLI"),
        ("gzip", Some("gzip"), "GZIPPED"),
        ("br;q=0, gzip;q=0.5", Some("gzip"), "GZIPPED"),
        ("deflate", None, "body { color: red }"),
        ("", None, "body { color: red }"),
        ("gzip;q=0, br;q=0", None, "body { color: red }"),
    ] {
        let response = send(accepts).expect_status(200);
        assert_eq!(response.field("content-encoding"), coding, "{accepts}");
        assert_eq!(response.text(), body, "{accepts}");
        assert!(
            response
                .field("content-type")
                .unwrap()
                .starts_with("text/css"),
            "{accepts}"
        );
        assert!(
            response
                .all("vary")
                .iter()
                .any(|vary| vary.to_ascii_lowercase().contains("accept-encoding")),
            "{accepts}"
        );
    }
    assert_ne!(
        send("gzip").field("etag"),
        send("br").field("etag"),
        "each coding has a separate `ETag`"
    );
}

#[test]
fn directories_redirect_to_a_trailing_slash_and_are_never_listed() {
    let site = SiteBuilder::files()
        .file("dir/index.html", "<html>index</html>")
        .file("plain/a.txt", "a")
        .start();
    let redirect = site.get("/dir?x=1").expect_status(301);
    let location = redirect.field("location").unwrap();
    assert!(
        location == "/dir/?x=1" || location == format!("http://{HOST}/dir/?x=1"),
        "{location}"
    );
    assert_eq!(
        site.get("/dir/").expect_status(200).text(),
        "<html>index</html>"
    );
    for target in ["/plain/", "/plain"] {
        let response = site.get(target);
        assert!(
            [403, 404].contains(&response.status) && !response.text().contains("a.txt"),
            "{target}: {}",
            response.text()
        );
    }
    // A redirect never leads to another host.
    let odd = site.get("//dir");
    assert!(
        odd.field("location")
            .is_none_or(|location| !location.starts_with("//")),
        "{}",
        odd.excerpt()
    );
    let foreign = site.get("//evil.test/%2e%2e/dir");
    assert!(
        foreign
            .field("location")
            .is_none_or(|location| !location.starts_with("//")),
        "{}",
        foreign.excerpt()
    );
}

#[test]
fn a_large_file_is_sent_completely() {
    let content = random_bytes(50 * 1024 * 1024);
    let site = SiteBuilder::files().file("large.bin", &content).start();
    let mut connection = site.connect();
    let response = connection
        .exchange(&with_host(Request::get("/large.bin")))
        .unwrap()
        .expect_status(200);
    assert!(response.body == content, "the file differs");
    drop(response);
    let (from, to) = (20_000_000, 31_234_567);
    let range = format!("bytes={from}-{}", to - 1);
    let part = connection
        .exchange(&with_host(Request::get("/large.bin")).field("Range", &range))
        .unwrap()
        .expect_status(206);
    assert!(part.body == content[from..to], "the range differs");
    assert!(
        site.peak_memory() < 64 * 1024 * 1024,
        "{} bytes for a file",
        site.peak_memory()
    );
}

#[test]
fn a_file_outside_the_page_cache_is_sent_completely() {
    use rustix::fs::{Advice, fadvise};
    use std::num::NonZeroU64;
    let content = random_bytes(5_000_001);
    let site = SiteBuilder::files().file("cold.bin", &content).start();
    let file = fs::File::open(site.scratch.join("root/cold.bin")).unwrap();
    file.sync_all().unwrap();
    let evict = |offset: u64, length: u64| {
        fadvise(&file, offset, NonZeroU64::new(length), Advice::DontNeed).unwrap();
    };
    // Evict the whole file, a range in the middle, and the end.
    for (offset, length) in [(0, 0), (1_048_576, 524_288), (4_194_304, 0)] {
        evict(offset, length);
        let response = site.get("/cold.bin").expect_status(200);
        assert!(
            response.body == content,
            "{offset}+{length}: the file differs"
        );
        evict(offset, length);
        let part = site.send(Request::get("/cold.bin").field("Range", "bytes=1000000-4999999"));
        assert!(part.expect_status(206).body == content[1_000_000..5_000_000]);
        evict(offset, length);
        let parts = Request::get("/cold.bin").field("Range", "bytes=0-99999,1500000-2499999");
        let parts = site.send(parts).expect_status(206);
        let contains = |part: &[u8]| {
            let starts = parts.body.windows(16).enumerate();
            let mut starts = starts.filter(|(_, bytes)| *bytes == &part[..16]);
            starts.any(|(at, _)| parts.body[at..].starts_with(part))
        };
        assert!(contains(&content[..100_000]) && contains(&content[1_500_000..2_500_000]));
    }
}

#[test]
fn a_replaced_file_is_sent_at_once_without_files_in_memory() {
    let site = SiteBuilder::files()
        .cache("memory = \"64MiB\"\nmax_file = 0")
        .file("a.txt", "first")
        .start();
    let first = site.get("/a.txt");
    site.scratch.write("root/new.txt", "after").unwrap();
    fs::rename(
        site.scratch.join("root/new.txt"),
        site.scratch.join("root/a.txt"),
    )
    .unwrap();
    let second = site.get("/a.txt").expect_status(200);
    assert_eq!(
        (first.text().as_str(), second.text().as_str()),
        ("first", "after")
    );
    assert_ne!(first.field("etag"), second.field("etag"));
    fs::remove_file(site.scratch.join("root/a.txt")).unwrap();
    site.get("/a.txt").assert_status(404);
}

#[test]
fn a_file_truncated_while_it_is_sent_ends_early() {
    let site = SiteBuilder::files()
        .file("large.bin", random_bytes(40 * 1024 * 1024))
        .start();
    let mut connection = site.connect();
    connection
        .send(&with_host(Request::get("/large.bin")))
        .unwrap();
    let mut first = [0; 1024];
    std::io::Read::read_exact(&mut connection.stream(), &mut first).unwrap();
    fs::OpenOptions::new()
        .write(true)
        .open(site.scratch.join("root/large.bin"))
        .unwrap()
        .set_len(1024 * 1024)
        .unwrap();
    let rest = connection.read_to_end().unwrap_or_default();
    assert!(
        rest.len() < 39 * 1024 * 1024,
        "bytes after the end of the file were sent: {}",
        rest.len()
    );
    site.get("/large.bin").assert_status(200);
}

#[test]
fn files_reject_unsafe_methods() {
    let site = SiteBuilder::files().file("a.txt", "a").start();
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let response = site.send(Request::new(method, "/a.txt").body("x"));
        assert!(
            [404, 405].contains(&response.status),
            "{method}: {}",
            response.excerpt()
        );
    }
    assert_eq!(
        fs::read_to_string(site.scratch.join("root/a.txt")).unwrap(),
        "a"
    );
    wait_for("log records of all requests", TIMEOUT, || {
        site.access().lines().count() == 4
    });
}
