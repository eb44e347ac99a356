//! Small files in memory: changes on disk are noticed, and responses are the same with and without the memory cache.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::SystemTime;

use galley_testkit::client::{Request, Response};
use galley_testkit::wait_for;

use crate::fast_path::{FIELDS, comparable, request};
use crate::support::{AssertStatus, HOST, SiteBuilder, TIMEOUT, TestSite, random_bytes};

impl TestSite {
    fn root(&self, name: &str) -> PathBuf {
        self.scratch.join("root").join(name)
    }

    /// Requests each file until it is sent from memory.
    fn wait_until_in_memory(&self, targets: &[&str]) {
        for target in targets {
            wait_for(&format!("{target} in memory"), TIMEOUT, || {
                self.get(target);
                self.why(target).contains("is sent, from memory\"")
            });
        }
    }

    /// Waits, without requests for the file, until the next request has to check the file on disk.
    fn wait_until_check_is_due(&self, target: &str) {
        wait_for(&format!("the check of {target} to be due"), TIMEOUT, || {
            self.why(target).contains("once the disk has been")
        });
    }
}

#[test]
fn frequent_requests_for_a_file_rarely_check_the_disk() {
    let site = SiteBuilder::files().file("a.css", "body{}").start();
    site.wait_until_in_memory(&["/a.css"]);
    assert!(site.why("/a.css").contains("from memory"));
    let (checks, reads) = (
        site.status_small_files("checks"),
        site.status_small_files("reads"),
    );
    let mut connection = site.connect();
    for _ in 0..2000 {
        let response = connection
            .exchange(&Request::get("/a.css").host(HOST))
            .unwrap();
        assert_eq!(response.text(), "body{}");
    }
    assert!(
        site.status_small_files("checks") < checks + 1000,
        "too many checks of the disk"
    );
    assert_eq!(site.status_small_files("reads"), reads);
    assert_eq!(
        site.status_number("entries"),
        0,
        "files are not in the page cache"
    );
    let line = site.access_line("/a.css");
    assert!(line.contains("outcome=file"), "{line}");
}

#[test]
fn the_first_request_after_a_pause_notices_every_change() {
    let names = [
        "written.css",
        "renamed.css",
        "removed.css",
        "grown.css",
        "cut.css",
        "same-time.css",
        "closed/a.css",
        "folder.css",
        "link.css",
        "sibling.css",
        "script.css",
    ];
    let mut builder = SiteBuilder::files();
    for name in names.iter().filter(|name| **name != "link.css") {
        builder = builder.file(name, "old");
    }
    builder = builder.file("one.txt", "old").file("two.txt", "new");
    symlink("one.txt", builder.scratch.join("root/link.css")).unwrap();
    let site = builder.start();
    let targets = names.map(|name| format!("/{name}"));
    site.wait_until_in_memory(&targets.each_ref().map(String::as_str));
    for target in &targets {
        site.wait_until_check_is_due(target);
    }

    assert_new_content(&site);
    assert_new_file_kinds(&site);
}

fn assert_new_content(site: &TestSite) {
    let root = |name: &str| site.root(name);
    let new = |name: &str| assert_eq!(site.get(name).expect_status(200).text(), "new", "{name}");
    fs::write(root("written.css"), "new").unwrap();
    new("/written.css");
    fs::write(root("other"), "new").unwrap();
    fs::rename(root("other"), root("renamed.css")).unwrap();
    new("/renamed.css");
    fs::remove_file(root("removed.css")).unwrap();
    site.get("/removed.css").assert_status(404);
    let mut file = OpenOptions::new()
        .append(true)
        .open(root("grown.css"))
        .unwrap();
    file.write_all(b"er").unwrap();
    assert_eq!(site.get("/grown.css").text(), "older");
    OpenOptions::new()
        .write(true)
        .open(root("cut.css"))
        .unwrap()
        .set_len(1)
        .unwrap();
    assert_eq!(site.get("/cut.css").text(), "o");
    // The same size and the same modification time.
    let modified = fs::metadata(root("same-time.css"))
        .unwrap()
        .modified()
        .unwrap();
    fs::write(root("same-time.css"), "new").unwrap();
    File::open(root("same-time.css"))
        .unwrap()
        .set_modified(modified)
        .unwrap();
    new("/same-time.css");
}

fn assert_new_file_kinds(site: &TestSite) {
    let root = |name: &str| site.root(name);
    let new = |name: &str| assert_eq!(site.get(name).expect_status(200).text(), "new", "{name}");
    fs::write(root("closed/.htaccess"), "Require all denied").unwrap();
    // Galley uses loaded `.htaccess` rules for up to one second.
    wait_for("access to be denied", TIMEOUT, || {
        site.get("/closed/a.css").status == 403
    });
    fs::remove_file(root("folder.css")).unwrap();
    fs::create_dir(root("folder.css")).unwrap();
    site.get("/folder.css").assert_status(404);
    fs::remove_file(root("link.css")).unwrap();
    symlink("two.txt", root("link.css")).unwrap();
    new("/link.css");
    fs::write(root("sibling.css.gz"), "zipped").unwrap();
    let response = site.send(Request::get("/sibling.css").field("Accept-Encoding", "gzip"));
    assert_eq!(
        (response.text(), response.field("content-encoding")),
        ("zipped".to_owned(), Some("gzip"))
    );
    // A link to a file outside the root.
    fs::remove_file(root("script.css")).unwrap();
    symlink("/etc/passwd", root("script.css")).unwrap();
    site.get("/script.css").assert_status(404);
}

#[test]
fn changes_are_noticed_during_continuous_requests() {
    let site = SiteBuilder::php().file("a.css", "old").start();
    site.wait_until_in_memory(&["/a.css"]);
    let mut connection = site.connect();
    let mut send = || {
        connection
            .exchange(&Request::get("/a.css").host(HOST))
            .unwrap()
    };
    assert_eq!(send().text(), "old");
    fs::write(site.root("a.css"), "new").unwrap();
    wait_for("the new content", TIMEOUT, || send().text() == "new");
    site.wait_until_in_memory(&["/a.css"]);
    assert_eq!(send().text(), "new");
    fs::remove_file(site.root("a.css")).unwrap();
    // Paths without a file go to PHP.
    wait_for("the response of PHP", TIMEOUT, || {
        send().text().contains("path=/a.css")
    });
    assert!(!site.get("/a.css").text().contains("new"));
}

#[test]
fn recently_changed_files_are_sent_from_disk() {
    let site = SiteBuilder::files().file("a.txt", "").start();
    let whole: String = (0..4000).map(|n| format!("{n};")).collect();
    let mut file = OpenOptions::new()
        .append(true)
        .open(site.root("a.txt"))
        .unwrap();
    for piece in whole.as_bytes().chunks(97) {
        file.write_all(piece).unwrap();
        let text = site.get("/a.txt").text();
        assert!(whole.starts_with(&text), "{text}");
    }
    // A modification time in the future does not prevent caching.
    file.set_modified(SystemTime::now() + TIMEOUT * 1000)
        .unwrap();
    assert_eq!(site.get("/a.txt").text(), whole);
    site.wait_until_in_memory(&["/a.txt"]);
    assert_eq!(site.get("/a.txt").text(), whole);
}

fn get_with_coding(site: &TestSite, target: &str, accept: &str) -> Response {
    site.send(Request::get(target).field("Accept-Encoding", accept))
}

fn decompress(bytes: &[u8]) -> String {
    let mut plain = String::new();
    flate2::read::GzDecoder::new(bytes)
        .read_to_string(&mut plain)
        .unwrap();
    plain
}

#[test]
fn text_files_are_compressed_and_precompressed_files_are_preferred() {
    let text = "p { margin: 0 }\n".repeat(500);
    let site = SiteBuilder::files()
        .file("a.css", &text)
        .file("b.css", &text)
        .file("b.css.gz", "OWN")
        .file("c.png", &text)
        .file("short.css", "p{}")
        .start();
    let all = ["/a.css", "/b.css", "/c.png", "/short.css"];
    // `Vary` is present before a compressed copy exists.
    assert_eq!(site.get("/a.css").field("vary"), Some("Accept-Encoding"));
    site.wait_until_in_memory(&all);
    let mut gzip = get_with_coding(&site, "/a.css", "gzip");
    wait_for("the compressed file", TIMEOUT, || {
        gzip = get_with_coding(&site, "/a.css", "gzip");
        gzip.has("content-encoding")
    });
    assert_eq!(decompress(&gzip.body), text);
    let plain = site.get("/a.css");
    assert_eq!(plain.text(), text);
    let brotli = get_with_coding(&site, "/a.css", "br");
    let tags = [&plain, &gzip, &brotli].map(|response| response.field("etag").unwrap().to_owned());
    assert!(tags.iter().all(|tag| tag.starts_with('"')), "strong");
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2]);
    for response in [&plain, &gzip, &brotli] {
        assert_eq!(response.field("vary"), Some("Accept-Encoding"));
        assert_eq!(response.field("content-type"), plain.field("content-type"));
    }
    let status_for = |tag: &str| {
        let request = Request::get("/a.css").field("Accept-Encoding", "gzip");
        site.send(request.field("If-None-Match", tag)).status
    };
    assert_eq!((status_for(&tags[1]), status_for(&tags[0])), (304, 200));
    // Ranges apply to the uncompressed file.
    let part = Request::get("/a.css").field("Accept-Encoding", "gzip");
    let part = site
        .send(part.field("Range", "bytes=4-9"))
        .expect_status(206);
    assert_eq!(
        (part.text().as_str(), part.has("content-encoding")),
        ("margin"[..6].into(), false)
    );
    // The precompressed file is sent, also when Galley has added another coding.
    wait_for("the Brotli copy", TIMEOUT, || {
        get_with_coding(&site, "/b.css", "br").has("content-encoding")
    });
    assert_eq!(get_with_coding(&site, "/b.css", "gzip").text(), "OWN");
    assert!(!get_with_coding(&site, "/c.png", "gzip").has("content-encoding"));
    assert!(!get_with_coding(&site, "/short.css", "gzip").has("content-encoding"));
    // Compressed copies are discarded when the file changes.
    fs::write(site.root("a.css"), text.replace('p', "q")).unwrap();
    wait_for("the new content", TIMEOUT, || {
        site.get("/a.css").text().starts_with('q')
    });
    let new = get_with_coding(&site, "/a.css", "gzip");
    let new = if new.has("content-encoding") {
        decompress(&new.body)
    } else {
        new.text()
    };
    assert!(new.starts_with('q'), "{new}");
}

#[test]
fn two_sites_with_the_same_host_have_separate_files() {
    let site = SiteBuilder::files()
        .file("a.css", "one")
        .file("inner/a.css", "two")
        .server("listen = [\"127.0.0.1:0\", \"127.0.0.2:0\"]")
        .site("listen = [\"127.0.0.1:0\"]")
        .more(&format!(
            "[[site]]\nhosts = [\"{HOST}\"]\nroot = \"{{root}}/inner\"\nlisten = [\"127.0.0.2:0\"]"
        ))
        .start();
    site.wait_until_in_memory(&["/a.css"]);
    let text_from = |index: usize| {
        let request = Request::get("/a.css").host(HOST);
        request.send(site.addr_of(index)).unwrap().text()
    };
    wait_for("both in memory", TIMEOUT, || {
        assert_eq!(
            (text_from(0).as_str(), text_from(1).as_str()),
            ("one", "two")
        );
        site.status_small_files("entries") == 2
    });
    assert_eq!(
        (text_from(0).as_str(), text_from(1).as_str()),
        ("one", "two")
    );
}

#[test]
fn pages_and_files_with_similar_paths_are_never_confused() {
    let site = SiteBuilder::php().file("style.css", "file").start();
    site.wait_until_in_memory(&["/style.css"]);
    // Web cache deception: URLs that look like files go to PHP unless the file exists.
    for target in [
        "/account/style.css",
        "/style.css/x.css",
        "/style.css%2fx",
        "/style.css;a.css",
    ] {
        assert_ne!(site.get(target).text(), "file", "{target}");
    }
    let session = Request::get("/style.css").field("Cookie", "wordpress_logged_in_1=me");
    let response = site.send(session);
    assert_eq!(
        (response.text().as_str(), response.cache_status()),
        ("file", "galley; detail=file")
    );
    site.send(Request::new("POST", "/style.css"))
        .assert_status(405);
    assert_eq!(site.status_small_files("entries"), 1);
    // A page that was stored before the file existed stays until it is purged, as without the memory cache.
    assert!(site.get("/later.txt").text().contains("path=/later.txt"));
    fs::write(site.root("later.txt"), "file").unwrap();
    assert!(site.get("/later.txt").is_hit());
    site.purge(&["--all"]);
    assert_eq!(site.get("/later.txt").text(), "file");
    assert_eq!(site.get("/style.css").text(), "file");
}

/// Servers with the same files and different settings.
struct ServerGroup(Vec<TestSite>);

const FILES: [&str; 6] = [
    "/style.css",
    "/pic.png",
    "/own.css",
    "/empty.txt",
    "/app.3f2a9c1b.js",
    "/folder/",
];

impl ServerGroup {
    /// `compress` applies to all servers; `settings` has lines of `[server]` and `[cache]` for each.
    fn start(compress: &str, settings: &[(&str, &str)]) -> Self {
        let names = [
            "style.css",
            "pic.png",
            "own.css",
            "own.css.gz",
            "empty.txt",
            "app.3f2a9c1b.js",
            "folder/index.html",
            ".env",
            "closed/x.txt",
            "closed/.htaccess",
        ];
        let mut builders = settings.iter().map(|(server, cache)| {
            SiteBuilder::files()
                .server(server)
                .cache(&format!("memory = \"64MiB\"\n{cache}"))
                .site(&format!("compress = {compress}\ndense_after = 0"))
        });
        let mut first = builders.next().unwrap();
        for name in names {
            first = match name {
                "empty.txt" => first.file(name, ""),
                "closed/.htaccess" => first.file(name, "Require all denied"),
                "pic.png" => first.file(name, random_bytes(9000)),
                "own.css.gz" => first.file(name, "OWN"),
                _ => first.file(name, format!("/* {name} */\n").repeat(200)),
            };
        }
        let mut sites = Vec::new();
        for builder in builders {
            // Hard links, because the `ETag` contains the inode.
            for name in names {
                let to = builder.scratch.join("root").join(name);
                fs::create_dir_all(to.parent().unwrap()).unwrap();
                fs::hard_link(first.scratch.join("root").join(name), to).unwrap();
            }
            sites.push(builder.start());
        }
        sites.insert(0, first.start());
        Self(sites)
    }

    fn assert_same_response(&self, bytes: &[u8]) {
        let responses: Vec<String> = self
            .0
            .iter()
            .map(|site| comparable(&site.send_raw(bytes)))
            .collect();
        for other in &responses[1..] {
            assert!(
                *other == responses[0],
                "{}\n--- first server:\n{}\n--- another server:\n{other}",
                bytes.escape_ascii(),
                responses[0]
            );
        }
        assert!(!responses[0].is_empty(), "{}", bytes.escape_ascii());
    }

    fn assert_same_responses(&self) {
        let mut conditions = Vec::new();
        for accept in ["", "gzip", "br"] {
            for path in FILES {
                let response = get_with_coding(&self.0[0], path, accept).expect_status(200);
                conditions.push(format!(
                    "If-None-Match: {}",
                    response.field("etag").unwrap()
                ));
                conditions.push(format!("If-Match: {}", response.field("etag").unwrap()));
                conditions.push(format!(
                    "If-Modified-Since: {}",
                    response.field("last-modified").unwrap()
                ));
            }
        }
        let fields = FIELDS
            .iter()
            .copied()
            .chain(conditions.iter().map(String::as_str));
        let fields: Vec<&str> = fields.chain(["X-Unused: 1"]).collect();
        let others = [
            "/style.css?ver=6.1",
            "/style.css?utm_source=a",
            "/.env",
            "/closed/x.txt",
            "/nothing.css",
            "/folder",
        ];
        for method in ["GET", "HEAD"] {
            for path in FILES.iter().chain(&others) {
                for field in &fields {
                    self.assert_same_response(&request(
                        method,
                        path,
                        &[field, "Connection: close"],
                    ));
                }
                let twice = [
                    "Accept-Encoding: gzip, br",
                    "Range: bytes=2-5",
                    "Connection: close",
                ];
                self.assert_same_response(&request(method, path, &twice));
            }
        }
        self.assert_same_response(b"GET /style.css HTTP/1.0\r\nHost: example.test\r\n\r\n");
        self.assert_same_response(b"POST /style.css HTTP/1.1\r\nHost: example.test\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        let pipeline = FILES
            .map(|path| request("GET", path, &["Accept-Encoding: gzip"]))
            .concat();
        self.assert_same_response(
            &[pipeline, request("GET", "/", &["Connection: close"])].concat(),
        );
    }
}

#[test]
fn files_get_the_same_response_with_and_without_the_memory_cache() {
    let servers = ServerGroup::start(
        "[]",
        &[
            ("fast_path = true", ""),
            ("fast_path = false", ""),
            ("", "max_file = 0"),
        ],
    );
    for site in &servers.0[..2] {
        site.wait_until_in_memory(&FILES);
    }
    assert!(!servers.0[2].why("/style.css").contains("from memory"));
    servers.assert_same_responses();
}

#[test]
fn compressed_files_are_the_same_on_the_fast_and_slow_path() {
    let servers = ServerGroup::start(
        "[\"br\", \"gzip\"]",
        &[("fast_path = true", ""), ("fast_path = false", "")],
    );
    for site in &servers.0 {
        site.wait_until_in_memory(&FILES);
        for (path, accept) in [
            ("/style.css", "gzip"),
            ("/own.css", "br"),
            ("/app.3f2a9c1b.js", "gzip"),
            ("/folder/", "gzip"),
        ] {
            wait_for("all codings", TIMEOUT, || {
                get_with_coding(site, path, accept).has("content-encoding")
            });
        }
    }
    servers.assert_same_responses();
}
