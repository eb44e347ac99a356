//! `docs/tutorials/migrate-from-nginx.md`: each of its configurations runs, and does what the page says.
//!
//! A block stands below a heading, and [`CHECKS`] has the check of each: a block without one, or one without a block, fails.

use std::fs;
use std::path::{Path, PathBuf};

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::Origin;
use galley_testkit::{FpmOptions, Galley, PhpFpm, Scratch, wait_for};

use crate::support::{TIMEOUT, binary};

/// A heading of the page, and what its configuration does.
type Check = (&'static str, fn(&Running));

const CHECKS: [Check; 13] = [
    ("Cache pages from Apache", |one| {
        assert!(one.is_kept("/page"));
        assert_eq!(one.origin.requests()[0].field("host"), Some("example.com"));
        wait_for("the page on the disk", TIMEOUT, || {
            fs::read_dir(one.dir.join("cache/pages")).is_ok_and(|mut all| all.next().is_some())
        });
        // Nothing is said to forbid it.
        assert!(one.is_kept("/gone"), "a 404");
        assert!(!one.is_kept("/broken"), "a 500");
    }),
    ("No cached pages for logged-in users", |one| {
        assert!(one.is_kept("/page"));
        for cookie in [
            "my_session_7=x",
            "wordpress_logged_in_1=x",
            "comment_author_1=x",
        ] {
            let answer = one.send(Request::get("/page").cookie(cookie));
            assert_eq!(
                answer.cache_status(),
                "galley; fwd=bypass; detail=cookie",
                "{cookie}"
            );
        }
    }),
    ("Exclude paths from the cache", |one| {
        assert!(!one.is_kept("/form-example/a") && one.is_kept("/form"));
    }),
    ("Restrict the administration to networks", |one| {
        for path in ["/wp-admin/", "/wp-login.php"] {
            assert_eq!(one.send(Request::get(path)).status, 403, "{path}");
        }
        let ajax = one.send(Request::get("/wp-admin/admin-ajax.php"));
        assert_eq!((ajax.status, one.is_kept("/page")), (200, true));
    }),
    ("Longer lifetimes for images", |one| {
        for path in ["/never.PNG", "/never.css", "/never/a.jpeg"] {
            assert!(one.is_kept(path), "{path}");
        }
        assert!(!one.is_kept("/never.png.txt"));
    }),
    ("Separate pages for phones", |one| {
        let send = |agent: &str| one.send(Request::get("/page").field("User-Agent", agent));
        send("Mozilla/5.0 (Windows NT 10.0)");
        wait_for("a copy", TIMEOUT, || {
            send("Mozilla/5.0 (X11; Linux)").is_hit()
        });
        assert!(
            !send("Mozilla/5.0 (iPhone; Mobile)").is_hit(),
            "another copy"
        );
    }),
    ("Compression", |one| {
        let coded = |path: &str| {
            let answer = one.send(Request::get(path).field("Accept-Encoding", "br, gzip"));
            answer.all("content-encoding").concat()
        };
        wait_for("the page to be coded", TIMEOUT, || {
            coded("/large") == "gzip"
        });
        assert!(one.is_kept("/small"));
        assert_eq!(coded("/small"), "");
    }),
    ("Sizes and timeouts", |one| {
        assert!(one.is_kept("/page"));
        let announced =
            "POST /page HTTP/1.1\r\nHost: example.com\r\nContent-Length: 33554433\r\n\r\n";
        let answer = one.send_raw(announced.as_bytes());
        assert!(
            answer.starts_with(b"HTTP/1.1 413 "),
            "{}",
            answer.escape_ascii()
        );
    }),
    ("Hide software versions", |one| {
        for _ in 0..2 {
            let answer = one.send(Request::get("/page"));
            for name in ["x-powered-by", "x-pingback", "server", "etag"] {
                assert!(!answer.has(name), "{name}");
            }
        }
    }),
    ("Hidden files", |one| {
        fs::write(one.dir.join("www/example.com/.htaccess"), "").unwrap();
        let answer = one.send(Request::get("/.htaccess"));
        assert_eq!((answer.status, answer.text().as_str()), (403, PAGE));
    }),
    ("One host, and redirects", |one| {
        let other = one.send(Request::get("/page?a").field("Host", "example.com"));
        assert_eq!(other.all("location"), ["http://www.example.com/page?a"]);
        let old = one.send(Request::get("/old/a/b").field("Host", "www.example.com"));
        assert_eq!((old.status, old.all("location")), (301, vec!["/new/a/b"]));
    }),
    ("Logs", |one| {
        one.send(Request::get("/page"));
        wait_for("a line in the log", TIMEOUT, || {
            let log = one.dir.join("log/galley/access.log");
            fs::read_to_string(log)
                .is_ok_and(|text| text.starts_with('{') && text.contains("/page"))
        });
    }),
    ("Purge plugins for Varnish", |one| {
        assert!(one.is_kept("/page"));
        assert_eq!(one.send(Request::new("PURGE", "/page")).status, 200);
        assert!(!one.send(Request::get("/page")).is_hit());
    }),
];

/// One configuration of the page at work.
struct Running {
    galley: Galley,
    origin: Origin,
    dir: PathBuf,
    _fpm: Option<PhpFpm>,
    _scratch: Scratch,
}

impl Running {
    fn start(block: &str) -> Self {
        let scratch = Scratch::new().unwrap();
        let dir = scratch.path().to_owned();
        scratch.dir("log/galley").unwrap();
        scratch.write("403.html", PAGE).unwrap();
        scratch
            .write(
                "www/example.com/index.php",
                "<?php header('X-Uri: ' . $_SERVER['REQUEST_URI']); echo 'composed';",
            )
            .unwrap();
        let origin = origin();
        let fpm = block
            .contains("php-fpm.sock")
            .then(|| PhpFpm::start(&scratch.join("fpm"), &FpmOptions::default()).unwrap());
        let text = real(block, &dir, &origin, fpm.as_ref());
        let galley = Galley::start_binary(binary(), &scratch.join("galley"), &text).unwrap();
        Self {
            galley,
            origin,
            dir,
            _fpm: fpm,
            _scratch: scratch,
        }
    }

    fn send(&self, request: Request) -> Response {
        let is_named = !String::from_utf8_lossy(&request.to_bytes("-")).contains("Host: -");
        let request = if is_named {
            request
        } else {
            request.host("example.com")
        };
        request.send(self.galley.addr()).unwrap()
    }

    /// Whether a page is answered from the cache after it was asked for.
    fn is_kept(&self, path: &str) -> bool {
        (0..3).any(|_| self.send(Request::get(path)).is_hit())
    }

    fn send_raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut connection =
            galley_testkit::client::Connection::within(self.galley.addr(), TIMEOUT).unwrap();
        let _ = connection.write(bytes);
        connection.read_to_end().unwrap_or_default()
    }
}

/// The block with addresses and folders that exist, on a port of its own.
fn real(block: &str, dir: &Path, origin: &Origin, fpm: Option<&PhpFpm>) -> String {
    const LISTEN: &str = "[server]\nlisten = [\"127.0.0.1:0\"]\n";
    let at = dir.display();
    let mut text = block
        .replace("http://127.0.0.1:8080", &origin.url())
        .replace("/var/www/", &format!("{at}/www/"))
        .replace("/var/log/", &format!("{at}/log/"))
        .replace("/var/cache/galley", &format!("{at}/cache"))
        .replace("/etc/galley/", &format!("{at}/"));
    if let Some(fpm) = fpm {
        text = text.replace("unix:/run/php/php-fpm.sock", &fpm.address());
    }
    text = if text.contains("[server]\n") {
        text.replace("[server]\n", LISTEN)
    } else {
        format!("{LISTEN}{text}")
    };
    format!("{text}\n[admin]\nlisten = \"unix:{at}/galley/admin.sock\"\n")
}

/// An Apache that says much of itself.
fn origin() -> Origin {
    Origin::start(|seen, writer| {
        let path = seen.path();
        let status = match path {
            "/gone" => 404,
            "/broken" => 500,
            _ => 200,
        };
        let mut fields = vec![
            ("Content-Type", "text/html"),
            ("Server", "Apache/2.4.1 (Unix)"),
            ("X-Powered-By", "PHP/8.4.1"),
            ("X-Pingback", "http://example.com/xmlrpc.php"),
            ("ETag", "\"1\""),
        ];
        if path.starts_with("/never") {
            fields.push(("Cache-Control", "no-store, max-age=0"));
        }
        let words = if path == "/large" { 600 } else { 200 };
        let body = format!("<html><body>{}</body></html>", "some words ".repeat(words));
        writer.answer(status, &fields, body.as_bytes());
    })
    .unwrap()
}

/// The page's blocks, each with the heading above it.
fn blocks() -> Vec<(String, String)> {
    let page =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorials/migrate-from-nginx.md");
    let text = fs::read_to_string(page).unwrap();
    let mut found = Vec::new();
    for part in text.split("\n### ").skip(1) {
        let heading = part.lines().next().unwrap_or_default();
        for block in part.split("```toml\n").skip(1) {
            let block = block.split("```").next().unwrap_or_default();
            found.push((heading.to_owned(), block.to_owned()));
        }
    }
    found
}

#[test]
fn every_configuration_for_those_who_come_from_nginx_does_what_the_page_says() {
    let blocks = blocks();
    let headings: Vec<&str> = blocks.iter().map(|(heading, _)| heading.as_str()).collect();
    let mut checked: Vec<&str> = CHECKS.iter().map(|(heading, _)| *heading).collect();
    // It has a PHP-FPM of its own.
    checked.insert(12, "PHP-FPM");
    assert_eq!(headings, checked);
    for (heading, block) in &blocks {
        let running = Running::start(block);
        if let Some((_, check)) = CHECKS.iter().find(|(of, _)| of == heading) {
            check(&running);
        } else {
            let answer = running.send(Request::get("/2026/hello/?x=1"));
            assert_eq!(answer.text(), "composed", "{heading}");
            assert_eq!(answer.all("x-uri"), ["/2026/hello/?x=1"]);
        }
    }
}

const PAGE: &str = "this is not for you";
