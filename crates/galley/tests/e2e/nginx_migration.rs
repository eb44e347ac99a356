//! Runs the configuration in `docs/tutorials/migrate-from-nginx.md` and checks that each part of it does what the page says.

use std::fs;
use std::path::{Path, PathBuf};

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::Origin;
use galley_testkit::{Galley, Scratch, wait_for};

use crate::support::{TIMEOUT, binary};

/// What a check examines, and the check.
type Check = (&'static str, fn(&RunningExample));

const CHECKS: [Check; 13] = [
    ("Cache pages from Apache", |site| {
        assert!(site.is_stored("/page"));
        assert_eq!(
            site.origin.requests()[0].field("host"),
            Some("www.example.com")
        );
        wait_for("the page on the disk", TIMEOUT, || {
            fs::read_dir(site.dir.join("cache/pages")).is_ok_and(|mut all| all.next().is_some())
        });
        // The origin sends no `Cache-Control`.
        assert!(site.is_stored("/gone"), "a 404");
        assert!(!site.is_stored("/broken"), "a 500");
    }),
    ("No cached pages for logged-in users", |site| {
        assert!(site.is_stored("/page"));
        for cookie in [
            "my_session_7=x",
            "wordpress_logged_in_1=x",
            "comment_author_1=x",
        ] {
            let response = site.send(Request::get("/page").cookie(cookie));
            assert_eq!(
                response.cache_status(),
                "galley; fwd=bypass; detail=cookie",
                "{cookie}"
            );
        }
    }),
    ("Exclude paths from the cache", |site| {
        assert!(!site.is_stored("/form-example/a") && site.is_stored("/form"));
    }),
    ("Restrict the administration to networks", |site| {
        for path in ["/wp-admin/", "/wp-login.php"] {
            assert_eq!(site.send(Request::get(path)).status, 403, "{path}");
        }
        let ajax = site.send(Request::get("/wp-admin/admin-ajax.php"));
        assert_eq!((ajax.status, site.is_stored("/page")), (200, true));
    }),
    ("Longer lifetimes for images", |site| {
        for path in ["/never.PNG", "/never.css", "/never/a.jpeg"] {
            assert!(site.is_stored(path), "{path}");
        }
        assert!(!site.is_stored("/never.png.txt"));
    }),
    ("Separate pages for phones", |site| {
        let send = |agent: &str| site.send(Request::get("/page").field("User-Agent", agent));
        send("Mozilla/5.0 (Windows NT 10.0)");
        wait_for("the stored page", TIMEOUT, || {
            send("Mozilla/5.0 (X11; Linux)").is_hit()
        });
        assert!(
            !send("Mozilla/5.0 (iPhone; Mobile)").is_hit(),
            "phones have a separate variant"
        );
    }),
    ("Compression", |site| {
        let coding = |path: &str| {
            let response = site.send(Request::get(path).field("Accept-Encoding", "br, gzip"));
            response.all("content-encoding").concat()
        };
        wait_for("the page to be compressed", TIMEOUT, || {
            coding("/large") == "gzip"
        });
        assert!(site.is_stored("/small"));
        assert_eq!(coding("/small"), "");
    }),
    ("Sizes and timeouts", |site| {
        assert!(site.is_stored("/page"));
        let head =
            "POST /page HTTP/1.1\r\nHost: www.example.com\r\nContent-Length: 33554433\r\n\r\n";
        let response = site.send_raw(head.as_bytes());
        assert!(
            response.starts_with(b"HTTP/1.1 413 "),
            "{}",
            response.escape_ascii()
        );
    }),
    ("Hide software versions", |site| {
        for _ in 0..2 {
            let response = site.send(Request::get("/page"));
            for name in ["x-powered-by", "x-pingback", "server"] {
                assert!(!response.has(name), "{name}");
            }
        }
    }),
    ("Hidden files", |site| {
        fs::write(site.dir.join("www/example.com/.htaccess"), "").unwrap();
        let response = site.send(Request::get("/.htaccess"));
        assert_eq!((response.status, response.text().as_str()), (403, PAGE));
    }),
    ("One host, and redirects", |site| {
        let redirect = site.send(Request::get("/page?a").field("Host", "example.com"));
        assert_eq!(redirect.all("location"), ["http://www.example.com/page?a"]);
        let old = site.send(Request::get("/old/a/b").field("Host", "www.example.com"));
        assert_eq!((old.status, old.all("location")), (301, vec!["/new/a/b"]));
    }),
    ("Logs", |site| {
        site.send(Request::get("/page"));
        wait_for("a line in the log", TIMEOUT, || {
            let log = site.dir.join("log/galley/access.log");
            fs::read_to_string(log)
                .is_ok_and(|text| text.starts_with('{') && text.contains("/page"))
        });
    }),
    ("Purge plugins for Varnish", |site| {
        assert!(site.is_stored("/page"));
        assert_eq!(site.send(Request::new("PURGE", "/page")).status, 200);
        assert!(!site.send(Request::get("/page")).is_hit());
    }),
];

/// A server that runs one configuration of the page.
struct RunningExample {
    galley: Galley,
    origin: Origin,
    dir: PathBuf,
    _scratch: Scratch,
}

impl RunningExample {
    fn start(block: &str) -> Self {
        let scratch = Scratch::new().unwrap();
        let dir = scratch.path().to_owned();
        scratch.dir("log/galley").unwrap();
        scratch.write("403.html", PAGE).unwrap();
        scratch.dir("www/example.com").unwrap();
        let origin = origin();
        let text = adapted_config(block, &dir, &origin);
        let galley = Galley::start_binary(binary(), &scratch.join("galley"), &text).unwrap();
        Self {
            galley,
            origin,
            dir,
            _scratch: scratch,
        }
    }

    fn send(&self, request: Request) -> Response {
        let has_host = !String::from_utf8_lossy(&request.to_bytes("-")).contains("Host: -");
        let request = if has_host {
            request
        } else {
            request.host("www.example.com")
        };
        request.send(self.galley.addr()).unwrap()
    }

    /// Whether one of three requests for a page is a hit.
    fn is_stored(&self, path: &str) -> bool {
        (0..3).any(|_| self.send(Request::get(path)).is_hit())
    }

    fn send_raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut connection =
            galley_testkit::client::Connection::within(self.galley.addr(), TIMEOUT).unwrap();
        let _ = connection.write(bytes);
        connection.read_to_end().unwrap_or_default()
    }
}

/// The block with addresses and folders of the test, and a free port.
fn adapted_config(block: &str, dir: &Path, origin: &Origin) -> String {
    const LISTEN: &str = "[server]\nlisten = [\"127.0.0.1:0\"]\n";
    let at = dir.display();
    let text = block
        .replace("http://127.0.0.1:8080", &origin.url())
        .replace("/var/www/", &format!("{at}/www/"))
        .replace("/var/log/", &format!("{at}/log/"))
        .replace("/var/cache/galley", &format!("{at}/cache"))
        .replace("/etc/galley/", &format!("{at}/"));
    let text = text.replace("[server]\n", LISTEN);
    format!("{text}\n[admin]\nlisten = \"unix:{at}/galley/admin.sock\"\n")
}

/// An origin that discloses its software versions.
fn origin() -> Origin {
    Origin::start(|request, writer| {
        let path = request.path();
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
        writer.respond(status, &fields, body.as_bytes());
    })
    .unwrap()
}

#[test]
fn the_configuration_of_the_nginx_migration_guide_does_what_the_page_says() {
    let page =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorials/migrate-from-nginx.md");
    let text = fs::read_to_string(page).unwrap();
    let blocks: Vec<&str> = text.split("```toml\n").skip(1).collect();
    let [block] = blocks.as_slice() else {
        panic!(
            "one configuration has everything, and the page has {}",
            blocks.len()
        );
    };
    let block = block.split("```").next().unwrap();
    for (name, check) in &CHECKS {
        eprintln!("{name}");
        check(&RunningExample::start(block));
    }
}

const PAGE: &str = "this is not for you";
