//! The fast path answers as the slow path does: the same requests to two servers, one without it, byte for byte.

use std::fmt::Write as _;

use galley_testkit::client::Request;
use galley_testkit::origin::Origin;

use crate::support::{SiteBuilder, TIMEOUT, TestSite, json_number};

/// Pages of several kinds, always the same.
pub fn origin() -> Origin {
    Origin::start(|seen, writer| {
        let mut fields = vec![
            ("Date", "Sat, 21 Nov 2026 10:00:00 GMT"),
            ("Content-Type", "text/html; charset=utf-8"),
            ("X-Powered-By", "origin"),
        ];
        // Nothing is purged by what is sent: pages stay as they are.
        if !["GET", "HEAD"].contains(&seen.method.as_str()) {
            fields.push(("Galley-Plugin", "0.3.0"));
        }
        let mut status = 200;
        match seen.path() {
            "/dated" => fields.push(("Last-Modified", "Fri, 20 Nov 2026 10:00:00 GMT")),
            "/tagged" => fields.push(("ETag", "\"v1\"")),
            "/weak" => fields.push(("ETag", "W/\"v1\"")),
            "/missing" => status = 404,
            "/moved" => {
                status = 301;
                fields.push(("Location", "/tagged"));
            }
            "/private" => fields.push(("Cache-Control", "private")),
            "/cookie" => fields.push(("Set-Cookie", "a=b")),
            "/passed" => fields.push(("Cache-Control", "max-age=600, must-revalidate")),
            _ => {}
        }
        let body = format!(
            "<html><body>{}</body></html>",
            format!("<p>{}</p>", seen.path()).repeat(300)
        );
        writer.answer(status, &fields, body.as_bytes());
    })
    .unwrap()
}

pub const PATHS: [&str; 10] = [
    "/", "/dated", "/tagged", "/weak", "/missing", "/moved", "/private", "/cookie", "/passed",
    "/a?x=1",
];

/// A server with the fast path, and one without.
pub struct Both {
    with: TestSite,
    without: TestSite,
    _origin: Origin,
}

impl Both {
    pub fn start() -> Self {
        Self::with("preset = \"wordpress\"")
    }

    /// The same with a line for the site.
    pub fn with(line: &str) -> Self {
        let origin = origin();
        let site = |server: &str| {
            SiteBuilder::upstream_line(&format!("upstream = [\"{}\"]", origin.url()))
                .server(server)
                .site(line)
                // Codings come when they come; both have to have the same ones.
                .site("compress = [\"gzip\"]\ncompress_passed = false\ndense_after = 0")
                .site("remove_headers = [\"Server\"]\nadd_headers = [\"X-Site: 1\"]")
                .more("[[site.rule]]\npath = \"/dated\"\nset_headers = [\"Cache-Control: max-age=9\", \"Date-Of: now\"]\n")
                .more("[[site.rule]]\npattern = \"^/(weak|a)$\"\nremove_headers = [\"X-Powered-By\", \"ETag\"]\n")
                .more("[[site.rule]]\npath = \"/passed\"\nredirect = \"/tagged\"\n")
                // The origin's date is in the past, which counts without a preset.
                .more("[site.ttl]\ndefault = \"8760h\"\n\"404\" = \"8760h\"")
                .start()
        };
        let both = Self {
            with: site("fast_path = true"),
            without: site("fast_path = false"),
            _origin: origin,
        };
        for site in [&both.with, &both.without] {
            settled(site);
        }
        both
    }

    /// Sends the same bytes to both, and compares all that comes back until the connection closes: once where the heads are new,
    /// once where the fast path takes them in, and once where it knows them.
    pub fn agree_on(&self, bytes: &[u8]) {
        for time in 1..=3 {
            let [with, without] = [&self.with, &self.without].map(|site| site.send_raw(bytes));
            let (with, without) = (comparable(&with), comparable(&without));
            assert!(
                with == without,
                "{}\n--- with the lane, time {time}:\n{with}\n--- without:\n{without}",
                bytes.escape_ascii()
            );
            assert!(!with.is_empty(), "{}", bytes.escape_ascii());
        }
    }
}

/// Has every page generated and compressed, for browsers and for applications.
pub fn settled(site: &TestSite) {
    for path in PATHS {
        for accept in ["text/html", "application/json"] {
            let request = Request::get(path).field("Accept", accept);
            site.send(request.clone());
            galley_testkit::wait_for("the page to be kept and coded", TIMEOUT, || {
                let again = site.send(request.clone().field("Accept-Encoding", "gzip"));
                !again.is_hit() || again.has("content-encoding") || path == "/moved"
            });
        }
    }
}

/// Without ages, dates of this moment, the ids of error pages and random boundaries.
pub fn comparable(answer: &[u8]) -> String {
    let mut text = String::new();
    let mut boundary = String::new();
    let mut skips_length = false;
    for line in answer.split_inclusive(|byte| *byte == b'\n') {
        let line = line.escape_ascii().to_string();
        let lower = line.to_ascii_lowercase();
        // Error pages hold the request's id, which is longer with the number of requests.
        // A rule may have set another `Cache-Control`; no page of the origin has such a status.
        let is_error_page =
            lower.starts_with("cache-control: no-store") || lower.contains("http/1.1 5");
        if is_error_page {
            skips_length = true;
        }
        let is_length = lower.starts_with("content-length: ");
        let differs = lower.starts_with("age: ")
            || (is_length && std::mem::take(&mut skips_length))
            || (lower.starts_with("date: ") && !lower.contains("21 nov 2026 10:00:00"));
        if let Some((_, named)) = line.split_once("boundary=") {
            named.trim_end_matches("\\r\\n").clone_into(&mut boundary);
        }
        if !differs {
            let line = without_id(&line);
            let line = match boundary.as_str() {
                "" => line.to_owned(),
                boundary => line.replace(boundary, "BOUNDARY"),
            };
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

/// Error pages end with the request's id.
fn without_id(line: &str) -> &str {
    line.split("<small>").next().unwrap_or(line)
}

pub fn request(method: &str, target: &str, fields: &[&str]) -> Vec<u8> {
    let mut text = format!("{method} {target} HTTP/1.1\r\nHost: example.test\r\n");
    for field in fields {
        let _ = write!(text, "{field}\r\n");
    }
    text.push_str("\r\n");
    text.into_bytes()
}

pub const FIELDS: [&str; 33] = [
    "Accept-Encoding: gzip, deflate, br, zstd",
    "Accept-Encoding: gzip;q=0",
    "Accept-Encoding: identity;q=0, gzip",
    "Accept-Encoding: *",
    "If-None-Match: \"v1\"",
    "If-None-Match: \"v1-gzip\"",
    "If-None-Match: W/\"v1\"",
    "If-None-Match: \"other\", W/\"v1-gzip\"",
    "If-None-Match: *",
    "If-None-Match: nonsense",
    "If-Modified-Since: Fri, 20 Nov 2026 10:00:00 GMT",
    "If-Modified-Since: Sat, 21 Nov 2026 12:00:00 GMT",
    "If-Modified-Since: Thu, 19 Nov 2026 10:00:00 GMT",
    "If-Modified-Since: yesterday",
    "If-Match: \"v1\"",
    "If-Match: \"other\"",
    "If-Unmodified-Since: Thu, 19 Nov 2026 10:00:00 GMT",
    "Range: bytes=0-9",
    "Range: bytes=0-9, 20-29",
    "If-Range: \"v1\"",
    "Cookie: _ga=1; wordpress_test_cookie=x",
    "Cookie: wordpress_logged_in_1=me",
    "Authorization: Basic YTpi",
    "Cache-Control: no-cache",
    "Cache-Control: only-if-cached",
    "Cache-Control: max-age=0",
    "Accept: application/json",
    "Origin: https://elsewhere.test",
    "X-WP-Nonce: abc",
    "Expect: 100-continue",
    "Upgrade: h2c",
    "Content-Length: 0",
    "X-Forwarded-For: 1.2.3.4",
];

#[test]
fn requests_of_every_kind_get_the_same_response() {
    answers_alike(&Both::start(), &PATHS);
}

#[test]
fn requests_of_every_kind_get_the_same_response_without_a_preset() {
    answers_alike(&Both::with("preset = \"none\""), STORED_BY_RFC9111);
}

/// Paths whose responses stay fresh. Without a preset others are fetched again at moments of their own, and it is remembered for two
/// seconds that a response may not be stored: two servers cannot be compared on them.
const STORED_BY_RFC9111: &[&str] = &["/", "/tagged", "/weak", "/missing", "/a?x=1"];

fn answers_alike(both: &Both, paths: &[&str]) {
    for method in ["GET", "HEAD"] {
        for path in paths {
            both.agree_on(&request(method, path, &["Connection: close"]));
            for field in FIELDS {
                both.agree_on(&request(method, path, &[field, "Connection: close"]));
            }
        }
    }
    for bytes in ODD {
        both.agree_on(bytes);
    }
}

pub const ODD: &[&[u8]] = &[
    b"GET / HTTP/1.0\r\n\r\n",
    // As `ab` asks, with and without `-k`.
    b"GET /tagged HTTP/1.0\r\nHost: example.test\r\n\r\n",
    b"HEAD /tagged HTTP/1.0\r\nHost: example.test\r\n\r\n",
    b"GET /tagged HTTP/1.0\r\nConnection: Keep-Alive\r\nHost: example.test\r\n\r\nGET /a HTTP/1.0\r\nHost: example.test\r\n\r\n",
    b"GET /tagged HTTP/1.0\r\nHost: example.test\r\n\r\nGET /a HTTP/1.0\r\nHost: example.test\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: example.test\r\nHost: example.test\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: elsewhere.test\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: EXAMPLE.test.:8080\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: exa mple\r\nConnection: close\r\n\r\n",
    b"GET http://example.test/tagged HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n",
    b"GET /tagged?utm_source=x&fbclid=y HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n\r\n",
    b"GET /a?utm_source=x&x=1 HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n\r\n",
    b"GET /moved?utm_source=x HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n\r\n",
    b"GET /./x/../tagged HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n\r\n",
    b"GET /%74agged HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n\r\n",
    b"GET /tagged#x HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n\r\n",
    b"GET /tagged HTTP/1.1\r\nHost: example.test\r\nX: a\nb\r\nConnection: close\r\n\r\n",
    b"GET  /tagged HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n\r\n",
    b"\r\n\r\nGET /tagged HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n\r\n",
    b"get /tagged HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n\r\n",
    b"GET /tagged HTTP/1.1\r\nHost: example.test\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
    b"GET /tagged HTTP/1.1\r\nHost: example.test\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    b"GET /tagged HTTP/2.0\r\nHost: example.test\r\nConnection: close\r\n\r\n",
];

#[test]
fn pipelined_and_random_requests_get_the_same_response() {
    let both = Both::start();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..150 {
        let mut bytes = Vec::new();
        for _ in 0..=random.below(5) {
            let method = ["GET", "HEAD", "GET"][random.below(3)];
            let count = random.below(4);
            // What would end the pipeline early stands in the other test.
            let fields: Vec<&str> = (0..count)
                .map(|_| FIELDS[random.below(FIELDS.len())])
                .filter(|field| !field.starts_with("Transfer") && !field.starts_with("Content"))
                .collect();
            bytes.extend(request(method, PATHS[random.below(PATHS.len())], &fields));
        }
        bytes.extend(request("GET", "/tagged", &["Connection: close"]));
        both.agree_on(&bytes);
    }
}

/// xorshift64.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

#[test]
fn a_pipelined_request_behind_a_hit_is_looked_up_once() {
    let both = Both::start();
    let site = &both.with;
    let hits = || json_number(&site.why("/moved"), "hits");
    // What the fast path finds and hands to the slow path: it only answers with status 200.
    for before in 0..3 {
        let requests = [
            request("GET", "/tagged", &[]).repeat(before),
            request("GET", "/moved", &["Connection: close"]),
        ];
        let counted = hits();
        let text = site.send_raw(&requests.concat());
        let text = String::from_utf8_lossy(&text);
        assert_eq!(
            text.matches("cache-status: galley; hit").count(),
            before + 1,
            "{text}"
        );
        assert_eq!(text.matches("HTTP/1.1 301").count(), 1, "{text}");
        assert_eq!(hits(), counted + 1, "behind {before} hits");
    }
}

#[test]
fn a_hit_of_the_fast_path_is_counted_and_logged() {
    let both = Both::start();
    let before = both.with.status_number("hit");
    // From the third time on the head is known.
    for _ in 0..4 {
        both.with.send_raw(&request(
            "GET",
            "/tagged",
            &["User-Agent: lane", "Connection: close"],
        ));
    }
    let line = both.with.access_line("\"lane\"");
    assert!(
        line.contains("outcome=hit") && line.contains("GET /tagged"),
        "{line}"
    );
    assert_eq!(both.with.status_number("hit"), before + 4);
}

#[test]
fn an_endless_pipeline_starves_no_other_client() {
    use std::io::{Read, Write};
    let both = Both::start();
    let site = &both.with;
    // One core serves all connections here.
    let mut greedy = std::net::TcpStream::connect(site.addr()).unwrap();
    let mut reading = greedy.try_clone().unwrap();
    let many = request("GET", "/tagged", &[]).repeat(2000);
    std::thread::scope(|scope| {
        scope.spawn(move || while greedy.write_all(&many).is_ok() {});
        scope.spawn(move || {
            let mut sink = vec![0; 1 << 16];
            let mut left = 64_usize << 20;
            while left > 0 {
                match reading.read(&mut sink) {
                    Ok(count) if count > 0 => left = left.saturating_sub(count),
                    _ => break,
                }
            }
            let _ = reading.shutdown(std::net::Shutdown::Both);
        });
        for _ in 0..20 {
            assert!(site.get("/dated").is_hit());
        }
    });
}
