//! The fast path sends the same bytes as the slow path: two servers, one with `fast_path = false`, receive the same requests.

use std::fmt::Write as _;

use galley_testkit::client::Request;
use galley_testkit::origin::Origin;

use crate::support::{SiteBuilder, TIMEOUT, TestSite, json_number};

/// An origin with a constant page for each of [`PATHS`].
pub fn origin() -> Origin {
    Origin::start(|request, writer| {
        let mut fields = vec![
            ("Date", "Sat, 21 Nov 2026 10:00:00 GMT"),
            ("Content-Type", "text/html; charset=utf-8"),
            ("X-Powered-By", "origin"),
        ];
        // Disables purges by unsafe requests, so that all pages stay stored.
        if !["GET", "HEAD"].contains(&request.method.as_str()) {
            fields.push(("Galley-Plugin", "0.3.0"));
        }
        let mut status = 200;
        match request.path() {
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
            format!("<p>{}</p>", request.path()).repeat(300)
        );
        writer.respond(status, &fields, body.as_bytes());
    })
    .unwrap()
}

pub const PATHS: [&str; 10] = [
    "/", "/dated", "/tagged", "/weak", "/missing", "/moved", "/private", "/cookie", "/passed",
    "/a?x=1",
];

/// A server with the fast path and a server without it, with the same origin.
pub struct ServerPair {
    enabled: TestSite,
    disabled: TestSite,
    _origin: Origin,
}

impl ServerPair {
    pub fn start() -> Self {
        Self::with_option("preset = \"wordpress\"")
    }

    /// Starts both servers with a further option of the site.
    pub fn with_option(line: &str) -> Self {
        let origin = origin();
        let site = |server: &str| {
            SiteBuilder::upstream_line(&format!("upstream = [\"{}\"]", origin.url()))
                .server(server)
                .site(line)
                // With one coding, both servers have the same compressed copies after `settled`.
                .site("compress = [\"gzip\"]\ncompress_passed = false\ndense_after = 0")
                .site("remove_headers = [\"Server\"]\nadd_headers = [\"X-Site: 1\"]")
                .more("[[site.rule]]\npath = \"/dated\"\nset_headers = [\"Cache-Control: max-age=9\", \"Date-Of: now\"]\n")
                .more("[[site.rule]]\npattern = \"^/(weak|a)$\"\nremove_headers = [\"X-Powered-By\", \"ETag\"]\n")
                .more("[[site.rule]]\npath = \"/passed\"\nredirect = \"/tagged\"\n")
                // The `Date` of the origin is in the past. Without a preset it counts toward the age.
                .more("[site.ttl]\ndefault = \"8760h\"\n\"404\" = \"8760h\"")
                .start()
        };
        let pair = Self {
            enabled: site("fast_path = true"),
            disabled: site("fast_path = false"),
            _origin: origin,
        };
        for site in [&pair.enabled, &pair.disabled] {
            settled(site);
        }
        pair
    }

    /// Sends the same bytes to both servers, and compares all bytes that they send until the connection closes. Repeats this three
    /// times, since an earlier request may change the state that a later one finds.
    pub fn assert_same_response(&self, bytes: &[u8]) {
        for attempt in 1..=3 {
            let [enabled, disabled] =
                [&self.enabled, &self.disabled].map(|site| comparable(&site.send_raw(bytes)));
            assert!(
                enabled == disabled,
                "{}\n--- with the fast path, attempt {attempt}:\n{enabled}\n--- without:\n{disabled}",
                bytes.escape_ascii()
            );
            assert!(!enabled.is_empty(), "{}", bytes.escape_ascii());
        }
    }
}

/// Waits until every page is stored and compressed, as HTML and as JSON.
pub fn settled(site: &TestSite) {
    for path in PATHS {
        for accept in ["text/html", "application/json"] {
            let request = Request::get(path).field("Accept", accept);
            site.send(request.clone());
            galley_testkit::wait_for("the page to be stored and compressed", TIMEOUT, || {
                let again = site.send(request.clone().field("Accept-Encoding", "gzip"));
                !again.is_hit() || again.has("content-encoding") || path == "/moved"
            });
        }
    }
}

/// A response without `Age`, the current date, request ids of error pages and multipart boundaries.
pub fn comparable(response: &[u8]) -> String {
    let mut text = String::new();
    let mut boundary = String::new();
    let mut skips_length = false;
    for line in response.split_inclusive(|byte| *byte == b'\n') {
        let line = line.escape_ascii().to_string();
        let lower = line.to_ascii_lowercase();
        // Error pages contain the request id, whose length grows with the number of requests. They are recognized by their
        // `Cache-Control`, which a rule may replace, or by their status, which no page of the origin has.
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

/// Removes the request id at the end of an error page.
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
    assert_same_responses(&ServerPair::start(), &PATHS);
}

#[test]
fn requests_of_every_kind_get_the_same_response_without_a_preset() {
    assert_same_responses(
        &ServerPair::with_option("preset = \"none\""),
        STORED_BY_RFC9111,
    );
}

/// Paths whose responses stay fresh without a preset. The two servers fetch other responses at different times, and remember for two
/// seconds that a response is not cacheable, so their responses differ.
const STORED_BY_RFC9111: &[&str] = &["/", "/tagged", "/weak", "/missing", "/a?x=1"];

fn assert_same_responses(pair: &ServerPair, paths: &[&str]) {
    for method in ["GET", "HEAD"] {
        for path in paths {
            pair.assert_same_response(&request(method, path, &["Connection: close"]));
            for field in FIELDS {
                pair.assert_same_response(&request(method, path, &[field, "Connection: close"]));
            }
        }
    }
    for bytes in ODD {
        pair.assert_same_response(bytes);
    }
}

pub const ODD: &[&[u8]] = &[
    b"GET / HTTP/1.0\r\n\r\n",
    // Requests of `ab`, with and without `-k`.
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
    let pair = ServerPair::start();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..150 {
        let mut bytes = Vec::new();
        for _ in 0..=random.below(5) {
            let method = ["GET", "HEAD", "GET"][random.below(3)];
            let count = random.below(4);
            // Fields that end the pipeline early are covered by the other tests.
            let fields: Vec<&str> = (0..count)
                .map(|_| FIELDS[random.below(FIELDS.len())])
                .filter(|field| !field.starts_with("Transfer") && !field.starts_with("Content"))
                .collect();
            bytes.extend(request(method, PATHS[random.below(PATHS.len())], &fields));
        }
        bytes.extend(request("GET", "/tagged", &["Connection: close"]));
        pair.assert_same_response(&bytes);
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
fn a_pipelined_request_after_a_hit_is_looked_up_once() {
    let pair = ServerPair::start();
    let site = &pair.enabled;
    let hits = || json_number(&site.why("/moved"), "hits");
    // The fast path finds the entry and hands it to the slow path, because it sends only status 200.
    for before in 0..3 {
        let requests = [
            request("GET", "/tagged", &[]).repeat(before),
            request("GET", "/moved", &["Connection: close"]),
        ];
        let hits_before = hits();
        let text = site.send_raw(&requests.concat());
        let text = String::from_utf8_lossy(&text);
        assert_eq!(
            text.matches("cache-status: galley; hit").count(),
            before + 1,
            "{text}"
        );
        assert_eq!(text.matches("HTTP/1.1 301").count(), 1, "{text}");
        assert_eq!(hits(), hits_before + 1, "after {before} hits");
    }
}

#[test]
fn a_hit_of_the_fast_path_is_counted_and_logged() {
    let pair = ServerPair::start();
    let before = pair.enabled.status_number("hit");
    for _ in 0..4 {
        pair.enabled.send_raw(&request(
            "GET",
            "/tagged",
            &["User-Agent: fast-path", "Connection: close"],
        ));
    }
    let line = pair.enabled.access_line("\"fast-path\"");
    assert!(
        line.contains("outcome=hit") && line.contains("GET /tagged"),
        "{line}"
    );
    assert_eq!(pair.enabled.status_number("hit"), before + 4);
}

#[test]
fn an_endless_pipeline_does_not_block_other_clients() {
    use std::io::{Read, Write};
    let pair = ServerPair::start();
    let site = &pair.enabled;
    // One core of the server handles all connections.
    let mut sender = std::net::TcpStream::connect(site.addr()).unwrap();
    let mut receiver = sender.try_clone().unwrap();
    let requests = request("GET", "/tagged", &[]).repeat(2000);
    std::thread::scope(|scope| {
        scope.spawn(move || while sender.write_all(&requests).is_ok() {});
        scope.spawn(move || {
            let mut sink = vec![0; 1 << 16];
            let mut remaining = 64_usize << 20;
            while remaining > 0 {
                match receiver.read(&mut sink) {
                    Ok(count) if count > 0 => remaining = remaining.saturating_sub(count),
                    _ => break,
                }
            }
            let _ = receiver.shutdown(std::net::Shutdown::Both);
        });
        for _ in 0..20 {
            assert!(site.get("/dated").is_hit());
        }
    });
}
