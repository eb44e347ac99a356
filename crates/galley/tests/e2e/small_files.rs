//! Small files in memory: what changes on the disk is seen, and answers are those of the disk, byte for byte.

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

    /// Asks until each of them answers from memory.
    fn wait_until_kept(&self, targets: &[&str]) {
        for target in targets {
            wait_for(&format!("{target} in memory"), TIMEOUT, || {
                self.get(target);
                self.why(target).contains("is sent, from memory\"")
            });
        }
    }

    /// Waits, without asking for it, until a file may not answer before the disk has been looked at again.
    fn wait_until_at_rest(&self, target: &str) {
        wait_for(&format!("{target} at rest"), TIMEOUT, || {
            self.why(target).contains("once the disk has been")
        });
    }
}

#[test]
fn a_file_that_is_asked_for_often_is_hardly_looked_at() {
    let site = SiteBuilder::files().file("a.css", "body{}").start();
    site.wait_until_kept(&["/a.css"]);
    assert!(site.why("/a.css").contains("from memory"));
    let (looks, reads) = (
        site.status_small_files("looks"),
        site.status_small_files("reads"),
    );
    let mut connection = site.connect();
    for _ in 0..2000 {
        let answer = connection
            .exchange(&Request::get("/a.css").host(HOST))
            .unwrap();
        assert_eq!(answer.text(), "body{}");
    }
    assert!(
        site.status_small_files("looks") < looks + 1000,
        "a look for each request"
    );
    assert_eq!(site.status_small_files("reads"), reads);
    assert_eq!(site.status_number("entries"), 0, "no page");
    let text = site.access_line("/a.css");
    assert!(text.contains("outcome=file"), "{text}");
}

#[test]
fn a_change_is_seen_at_the_first_request_after_a_rest() {
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
    let mut plan = SiteBuilder::files();
    for name in names.iter().filter(|name| **name != "link.css") {
        plan = plan.file(name, "old");
    }
    plan = plan.file("one.txt", "old").file("two.txt", "new");
    symlink("one.txt", plan.scratch.join("root/link.css")).unwrap();
    let site = plan.start();
    let targets = names.map(|name| format!("/{name}"));
    site.wait_until_kept(&targets.each_ref().map(String::as_str));
    for target in &targets {
        site.wait_until_at_rest(target);
    }

    changed_content_is_seen(&site);
    changed_kinds_are_seen(&site);
}

fn changed_content_is_seen(site: &TestSite) {
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
    // As long as before, and as old by its own word.
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

fn changed_kinds_are_seen(site: &TestSite) {
    let root = |name: &str| site.root(name);
    let new = |name: &str| assert_eq!(site.get(name).expect_status(200).text(), "new", "{name}");
    fs::write(root("closed/.htaccess"), "Require all denied").unwrap();
    // Rules that were read are valid for a second of their own.
    wait_for("the folder to be closed", TIMEOUT, || {
        site.get("/closed/a.css").status == 403
    });
    fs::remove_file(root("folder.css")).unwrap();
    fs::create_dir(root("folder.css")).unwrap();
    site.get("/folder.css").assert_status(404);
    fs::remove_file(root("link.css")).unwrap();
    symlink("two.txt", root("link.css")).unwrap();
    new("/link.css");
    fs::write(root("sibling.css.gz"), "zipped").unwrap();
    let answer = site.send(Request::get("/sibling.css").field("Accept-Encoding", "gzip"));
    assert_eq!(
        (answer.text(), answer.field("content-encoding")),
        ("zipped".to_owned(), Some("gzip"))
    );
    // A link out of the root, to what nobody may see.
    fs::remove_file(root("script.css")).unwrap();
    symlink("/etc/passwd", root("script.css")).unwrap();
    site.get("/script.css").assert_status(404);
}

#[test]
fn a_change_is_seen_while_everybody_asks() {
    let site = SiteBuilder::php().file("a.css", "old").start();
    site.wait_until_kept(&["/a.css"]);
    let mut connection = site.connect();
    let mut send = || {
        connection
            .exchange(&Request::get("/a.css").host(HOST))
            .unwrap()
    };
    assert_eq!(send().text(), "old");
    fs::write(site.root("a.css"), "new").unwrap();
    wait_for("the new content", TIMEOUT, || send().text() == "new");
    site.wait_until_kept(&["/a.css"]);
    assert_eq!(send().text(), "new");
    fs::remove_file(site.root("a.css")).unwrap();
    // What is no file is WordPress's.
    wait_for("PHP to be asked", TIMEOUT, || {
        send().text().contains("path=/a.css")
    });
    assert!(!site.get("/a.css").text().contains("new"));
}

#[test]
fn what_is_young_is_not_kept_and_never_wrong() {
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
    // A time of change in the future is a file's own word.
    file.set_modified(SystemTime::now() + TIMEOUT * 1000)
        .unwrap();
    assert_eq!(site.get("/a.txt").text(), whole);
    site.wait_until_kept(&["/a.txt"]);
    assert_eq!(site.get("/a.txt").text(), whole);
}

fn coded(site: &TestSite, target: &str, accept: &str) -> Response {
    site.send(Request::get(target).field("Accept-Encoding", accept))
}

fn unzipped(bytes: &[u8]) -> String {
    let mut plain = String::new();
    flate2::read::GzDecoder::new(bytes)
        .read_to_string(&mut plain)
        .unwrap();
    plain
}

#[test]
fn text_is_coded_beside_what_its_owner_coded() {
    let text = "p { margin: 0 }\n".repeat(500);
    let site = SiteBuilder::files()
        .file("a.css", &text)
        .file("b.css", &text)
        .file("b.css.gz", "OWN")
        .file("c.png", &text)
        .file("short.css", "p{}")
        .start();
    let all = ["/a.css", "/b.css", "/c.png", "/short.css"];
    // The first answer says already that a coding is chosen.
    assert_eq!(site.get("/a.css").field("vary"), Some("Accept-Encoding"));
    site.wait_until_kept(&all);
    let mut zipped = coded(&site, "/a.css", "gzip");
    wait_for("the coded file", TIMEOUT, || {
        zipped = coded(&site, "/a.css", "gzip");
        zipped.has("content-encoding")
    });
    assert_eq!(unzipped(&zipped.body), text);
    let plain = site.get("/a.css");
    assert_eq!(plain.text(), text);
    let brotli = coded(&site, "/a.css", "br");
    let tags = [&plain, &zipped, &brotli].map(|answer| answer.field("etag").unwrap().to_owned());
    assert!(tags.iter().all(|tag| tag.starts_with('"')), "strong");
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2]);
    for answer in [&plain, &zipped, &brotli] {
        assert_eq!(answer.field("vary"), Some("Accept-Encoding"));
        assert_eq!(answer.field("content-type"), plain.field("content-type"));
    }
    let known = |tag: &str| {
        let request = Request::get("/a.css").field("Accept-Encoding", "gzip");
        site.send(request.field("If-None-Match", tag)).status
    };
    assert_eq!((known(&tags[1]), known(&tags[0])), (304, 200));
    // Parts are parts of the file as it lies there.
    let part = Request::get("/a.css").field("Accept-Encoding", "gzip");
    let part = site
        .send(part.field("Range", "bytes=4-9"))
        .expect_status(206);
    assert_eq!(
        (part.text().as_str(), part.has("content-encoding")),
        ("margin"[..6].into(), false)
    );
    // The owner's own, also when another coding has been made beside it.
    wait_for("the other coding", TIMEOUT, || {
        coded(&site, "/b.css", "br").has("content-encoding")
    });
    assert_eq!(coded(&site, "/b.css", "gzip").text(), "OWN");
    assert!(!coded(&site, "/c.png", "gzip").has("content-encoding"));
    assert!(!coded(&site, "/short.css", "gzip").has("content-encoding"));
    // Coded copies end with the file.
    fs::write(site.root("a.css"), text.replace('p', "q")).unwrap();
    wait_for("the new content", TIMEOUT, || {
        site.get("/a.css").text().starts_with('q')
    });
    let new = coded(&site, "/a.css", "gzip");
    let new = if new.has("content-encoding") {
        unzipped(&new.body)
    } else {
        new.text()
    };
    assert!(new.starts_with('q'), "{new}");
}

#[test]
fn two_sites_of_one_host_keep_their_files_apart() {
    let site = SiteBuilder::files()
        .file("a.css", "one")
        .file("inner/a.css", "two")
        .server("listen = [\"127.0.0.1:0\", \"127.0.0.2:0\"]")
        .site("listen = [\"127.0.0.1:0\"]")
        .more(&format!(
            "[[site]]\nhosts = [\"{HOST}\"]\nroot = \"{{root}}/inner\"\nlisten = [\"127.0.0.2:0\"]"
        ))
        .start();
    site.wait_until_kept(&["/a.css"]);
    let of = |index: usize| {
        let request = Request::get("/a.css").host(HOST);
        request.send(site.addr_of(index)).unwrap().text()
    };
    wait_for("both in memory", TIMEOUT, || {
        assert_eq!((of(0).as_str(), of(1).as_str()), ("one", "two"));
        site.status_small_files("entries") == 2
    });
    assert_eq!((of(0).as_str(), of(1).as_str()), ("one", "two"));
}

#[test]
fn pages_and_files_of_one_path_are_never_mixed_up() {
    let site = SiteBuilder::php().file("style.css", "file").start();
    site.wait_until_kept(&["/style.css"]);
    // Web cache deception: what looks like a file is PHP's unless it is one.
    for target in [
        "/account/style.css",
        "/style.css/x.css",
        "/style.css%2fx",
        "/style.css;a.css",
    ] {
        assert_ne!(site.get(target).text(), "file", "{target}");
    }
    let session = Request::get("/style.css").field("Cookie", "wordpress_logged_in_1=me");
    let answer = site.send(session);
    assert_eq!(
        (answer.text().as_str(), answer.cache_status()),
        ("file", "galley; detail=file")
    );
    site.send(Request::new("POST", "/style.css"))
        .assert_status(405);
    assert_eq!(site.status_small_files("entries"), 1);
    // A page that was there before the file stays until it is purged, as without memory.
    assert!(site.get("/later.txt").text().contains("path=/later.txt"));
    fs::write(site.root("later.txt"), "file").unwrap();
    assert!(site.get("/later.txt").is_hit());
    site.purge(&["--all"]);
    assert_eq!(site.get("/later.txt").text(), "file");
    assert_eq!(site.get("/style.css").text(), "file");
}

/// Three servers for the same files: by the fast path, the slow path, and without memory.
struct Ways(Vec<TestSite>);

const FILES: [&str; 6] = [
    "/style.css",
    "/pic.png",
    "/own.css",
    "/empty.txt",
    "/app.3f2a9c1b.js",
    "/folder/",
];

impl Ways {
    /// `compress`: for all of them; `settings`: of `[server]` and `[cache]` for each.
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
        let mut plans = settings.iter().map(|(server, cache)| {
            SiteBuilder::files()
                .server(server)
                .cache(&format!("memory = \"64MiB\"\n{cache}"))
                .site(&format!("compress = {compress}\ndense_after = 0"))
        });
        let mut first = plans.next().unwrap();
        for name in names {
            first = match name {
                "empty.txt" => first.file(name, ""),
                "closed/.htaccess" => first.file(name, "Require all denied"),
                "pic.png" => first.file(name, random_bytes(9000)),
                "own.css.gz" => first.file(name, "OWN"),
                _ => first.file(name, format!("/* {name} */\n").repeat(200)),
            };
        }
        let mut stages = Vec::new();
        for plan in plans {
            // The very same files: their tags tell the inode.
            for name in names {
                let to = plan.scratch.join("root").join(name);
                fs::create_dir_all(to.parent().unwrap()).unwrap();
                fs::hard_link(first.scratch.join("root").join(name), to).unwrap();
            }
            stages.push(plan.start());
        }
        stages.insert(0, first.start());
        Self(stages)
    }

    fn agree_on(&self, bytes: &[u8]) {
        let answers: Vec<String> = self
            .0
            .iter()
            .map(|site| comparable(&site.send_raw(bytes)))
            .collect();
        for other in &answers[1..] {
            assert!(
                *other == answers[0],
                "{}\n--- one way:\n{}\n--- another:\n{other}",
                bytes.escape_ascii(),
                answers[0]
            );
        }
        assert!(!answers[0].is_empty(), "{}", bytes.escape_ascii());
    }

    fn agree_on_all(&self) {
        let mut own = Vec::new();
        for accept in ["", "gzip", "br"] {
            for path in FILES {
                let answer = coded(&self.0[0], path, accept).expect_status(200);
                own.push(format!("If-None-Match: {}", answer.field("etag").unwrap()));
                own.push(format!("If-Match: {}", answer.field("etag").unwrap()));
                own.push(format!(
                    "If-Modified-Since: {}",
                    answer.field("last-modified").unwrap()
                ));
            }
        }
        let fields = FIELDS.iter().copied().chain(own.iter().map(String::as_str));
        let fields: Vec<&str> = fields.chain(["X-None: of these"]).collect();
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
                    self.agree_on(&request(method, path, &[field, "Connection: close"]));
                }
                let twice = [
                    "Accept-Encoding: gzip, br",
                    "Range: bytes=2-5",
                    "Connection: close",
                ];
                self.agree_on(&request(method, path, &twice));
            }
        }
        self.agree_on(b"GET /style.css HTTP/1.0\r\nHost: example.test\r\n\r\n");
        self.agree_on(b"POST /style.css HTTP/1.1\r\nHost: example.test\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        let pipeline = FILES
            .map(|path| request("GET", path, &["Accept-Encoding: gzip"]))
            .concat();
        self.agree_on(&[pipeline, request("GET", "/", &["Connection: close"])].concat());
    }
}

#[test]
fn files_are_answered_alike_with_memory_and_without() {
    let ways = Ways::start(
        "[]",
        &[
            ("fast_path = true", ""),
            ("fast_path = false", ""),
            ("", "max_file = 0"),
        ],
    );
    for site in &ways.0[..2] {
        site.wait_until_kept(&FILES);
    }
    assert!(!ways.0[2].why("/style.css").contains("from memory"));
    ways.agree_on_all();
}

#[test]
fn coded_files_are_the_same_on_both_paths() {
    let ways = Ways::start(
        "[\"br\", \"gzip\"]",
        &[("fast_path = true", ""), ("fast_path = false", "")],
    );
    for site in &ways.0 {
        site.wait_until_kept(&FILES);
        for (path, accept) in [
            ("/style.css", "gzip"),
            ("/own.css", "br"),
            ("/app.3f2a9c1b.js", "gzip"),
            ("/folder/", "gzip"),
        ] {
            wait_for("all codings", TIMEOUT, || {
                coded(site, path, accept).has("content-encoding")
            });
        }
    }
    ways.agree_on_all();
}
