//! Static files: content types, validators, ranges, precompressed files, directories, and paths that must never be served.

use std::fs;
use std::os::unix::fs::symlink;

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{AssertStatus, HOST, SiteBuilder, TIMEOUT, TestSite, random_bytes, with_host};

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
        odd.beginning()
    );
    let foreign = site.get("//evil.test/%2e%2e/dir");
    assert!(
        foreign
            .field("location")
            .is_none_or(|location| !location.starts_with("//")),
        "{}",
        foreign.beginning()
    );
}

const SECRET: &str = "the secret beside the root";

fn site_with_secrets(builder: SiteBuilder) -> TestSite {
    builder.scratch.write("secret.txt", SECRET).unwrap();
    builder
        .scratch
        .write("rootless/secret.txt", SECRET)
        .unwrap();
    let builder = builder
        .file("a.txt", "a")
        .file("dir/b.txt", "b")
        .file(".env", SECRET)
        .file(".git/config", SECRET)
        .file(
            "wp-config.php",
            format!("<?php /* {SECRET} */ echo 'config ran';"),
        )
        .file("wp-config.php.bak", SECRET)
        .file("wp-config.php~", SECRET)
        .file("dump.sql", SECRET)
        .file("wp-content/debug.log", SECRET)
        .file(
            "wp-content/uploads/shell.php",
            format!("<?php /* {SECRET} */ echo '{SECRET}';"),
        );
    let root = builder.scratch.join("root");
    symlink(builder.scratch.join("secret.txt"), root.join("link.txt")).unwrap();
    symlink(builder.scratch.path(), root.join("up")).unwrap();
    symlink("/etc", root.join("etc")).unwrap();
    symlink("../secret.txt", root.join("relative.txt")).unwrap();
    builder.start()
}

#[test]
fn files_outside_the_root_and_denied_files_are_never_sent() {
    for site in [
        site_with_secrets(SiteBuilder::files()),
        site_with_secrets(SiteBuilder::php()),
    ] {
        let mut targets: Vec<String> = FORBIDDEN
            .iter()
            .map(|target| (*target).to_owned())
            .collect();
        targets.push(format!("/{}secret.txt", "../".repeat(40)));
        targets.push(format!("/{}etc/passwd", "%2e%2e/".repeat(40)));
        targets.push(format!("/{}", site.scratch.join("secret.txt").display()));
        for target in &targets {
            assert_nothing_disclosed(&site, target);
        }
    }
}

fn assert_nothing_disclosed(site: &TestSite, target: &str) {
    let bytes = format!("GET {target} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
    let response = site.send_raw(bytes.as_bytes());
    let text = String::from_utf8_lossy(&response);
    let status: u16 = text
        .get(9..12)
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0);
    assert!(
        !text.contains(SECRET) && !text.contains("root:x:"),
        "{target}\n{text}"
    );
    assert!(
        !text.contains("<?php") && !text.contains("config ran"),
        "{target}\n{text}"
    );
    // Paths without a file go to the front controller; a site without PHP has none.
    let allowed = if site.fpm.is_some() {
        200..500
    } else {
        301..500
    };
    assert!(
        allowed.contains(&status) || target.contains("a.txt?"),
        "{target}\n{text}"
    );
    if target.contains("%00") || target.contains('\\') || target.to_lowercase().contains("%5c") {
        assert_eq!(status, 400, "{target}\n{text}");
    }
}

const FORBIDDEN: &[&str] = &[
    "/../secret.txt",
    "/%2e%2e/secret.txt",
    "/%2E%2E/secret.txt",
    "/.%2e/secret.txt",
    "/%2e./secret.txt",
    "/..%2fsecret.txt",
    "/%2e%2e%2fsecret.txt",
    "/..%5csecret.txt",
    "/..\\secret.txt",
    "/%5c../secret.txt",
    "/dir/../../secret.txt",
    "/dir/%2e%2e/%2e%2e/secret.txt",
    "/dir/..%2f..%2fsecret.txt",
    "/./../secret.txt",
    "//../secret.txt",
    "/a.txt/../../secret.txt",
    "/..;/secret.txt",
    "/%252e%252e/secret.txt",
    "/%c0%ae%c0%ae/secret.txt",
    "/%uff0e%uff0e/secret.txt",
    "/..%00/secret.txt",
    "/a.txt%00.html",
    "/%00",
    "/%2e%2e%00/secret.txt",
    "/link.txt",
    "/relative.txt",
    "/up/secret.txt",
    "/up/rootless/secret.txt",
    "/etc/passwd",
    "/etc/hostname",
    "/.env",
    "/.git/config",
    "/%2egit/config",
    "/.GIT/config",
    "/wp-config.php",
    "/wp-config.php.bak",
    "/wp-config.php~",
    "/wp-config.php/",
    "/WP-CONFIG.PHP",
    "/dump.sql",
    "/dump.sql/",
    "/wp-content/debug.log",
    "/wp-content/uploads/shell.php",
    "/wp-content/uploads/shell.php/x.jpg",
    "/wp-content//uploads/shell.php",
    "/wp-content/./uploads/shell.php",
    "/wp-content/uploads/shell%2ephp",
    "/wp-content/uploads%2fshell.php",
    "/dir/../wp-content/uploads/shell.php",
    "http://example.test/../secret.txt",
    "/../rootless/secret.txt",
    "/../root/../secret.txt",
    "/a.txt/../../rootless/secret.txt",
    "/%2e%2e/notes/",
    "/?x=/../secret.txt",
    "/a.txt?../../secret.txt",
];

#[test]
fn denied_files_get_403_whether_or_not_they_exist() {
    let site = site_with_secrets(SiteBuilder::files());
    for (existing, missing) in [
        ("/.env", "/.missing"),
        ("/.git/config", "/.git/nothing"),
        ("/dump.sql", "/other.sql"),
        ("/wp-content/debug.log", "/wp-content/other.log"),
    ] {
        let (first, second) = (site.get(existing), site.get(missing));
        assert_eq!(first.status, 403, "{existing}");
        assert_eq!(
            first.status, second.status,
            "{existing} and {missing} differ"
        );
        assert!(
            !first.text().contains(site.scratch.path().to_str().unwrap()),
            "{}",
            first.text()
        );
    }
}

#[test]
fn script_sources_are_never_sent() {
    let source = "<?php /* source */ echo 'ran';";
    let with_scripts = |builder: SiteBuilder| {
        [
            "x.php",
            "x.php.bak",
            "X.PHP",
            "x.phtml",
            "x.php5",
            "x.phar",
            "x.Php",
            "x.php.txt",
            "x.php~",
            "x.php.swp",
            "x.inc.php",
        ]
        .into_iter()
        .fold(builder, |builder, name| builder.file(name, source))
    };
    let targets = [
        "/x.php",
        "/x.php/",
        "/x.php/info",
        "/x.php.bak",
        "/X.PHP",
        "/x.phtml",
        "/x.php5",
        "/x.phar",
        "/x.Php",
        "/x.php.txt",
        "/x.php~",
        "/x.php.swp",
        "/x.php%00.txt",
        "/x.php%20",
        "/x.php.",
        "/x.php::$DATA",
        "/x%2ephp",
        "/x.php?y",
        "/x.php%2f",
        "/x.inc.php",
        "/./x.php",
        "//x.php",
        "/x.ph%70",
        "/x.php;.txt",
        "/x.php%0a",
    ];
    let origin =
        galley_testkit::origin::Origin::constant(&[("Content-Type", "text/plain")], "upstream")
            .unwrap();
    let sites = [
        with_scripts(SiteBuilder::files()).start(),
        with_scripts(SiteBuilder::php()).start(),
        with_scripts(SiteBuilder::upstream_line(&format!(
            "upstream = [\"{}\"]",
            origin.url()
        )))
        .start(),
    ];
    for site in &sites {
        for target in targets {
            for method in ["GET", "HEAD", "POST"] {
                for accepts in ["identity", "gzip, br"] {
                    let response =
                        site.send(Request::new(method, target).field("Accept-Encoding", accepts));
                    assert!(
                        !response.text().contains("source"),
                        "{method} {target}: {}",
                        response.beginning()
                    );
                }
            }
        }
    }
    let php = &sites[1];
    assert_eq!(php.get("/x.php").expect_status(200).text(), "ran");
    assert_eq!(php.get("/x.php/info").expect_status(200).text(), "ran");
}

#[test]
fn htaccess_rules_apply_and_changes_are_noticed() {
    let site = SiteBuilder::files()
        .file("private/a.txt", "private")
        .file("private/.htaccess", "Require all denied\n")
        .start();
    site.get("/private/a.txt").assert_status(403);
    let rules = site.scratch.join("root/private/.htaccess");
    fs::write(&rules, "# open\n").unwrap();
    wait_for("access to be allowed", TIMEOUT, || {
        site.get("/private/a.txt").status == 200
    });
    fs::write(&rules, "Order deny,allow\nDeny from all\n").unwrap();
    wait_for("access to be denied", TIMEOUT, || {
        site.get("/private/a.txt").status == 403
    });
    fs::remove_file(&rules).unwrap();
    wait_for("access without rules", TIMEOUT, || {
        site.get("/private/a.txt").status == 200
    });
    assert_eq!(site.get("/private/.htaccess").status, 403);
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
            response.beginning()
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
