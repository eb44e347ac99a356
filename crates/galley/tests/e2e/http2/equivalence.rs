//! The same requests over HTTP/1 and HTTP/2 get the same responses, except for the framing.

use galley_testkit::client::{Request, Response};

use galley_testkit::wait_for;

use super::client::Client;
use crate::fast_path::{FIELDS, PATHS, origin, settled};
use crate::support::{SiteBuilder, TIMEOUT, TestSite, with_host};

/// The parts of a response that must not depend on the protocol.
fn comparable(response: &Response) -> String {
    let is_error_page = response.field("cache-control") == Some("no-store");
    let boundary = response
        .field("content-type")
        .and_then(|value| value.split_once("boundary="))
        .map(|(_, boundary)| boundary.to_owned());
    let readable = |bytes: &[u8]| {
        let text = bytes.escape_ascii().to_string();
        match &boundary {
            Some(boundary) => text.replace(boundary.as_str(), "BOUNDARY"),
            None => text,
        }
    };
    let mut fields: Vec<String> = response
        .fields
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), readable(value)))
        .filter(|(name, value)| match name.as_str() {
            // The length differs where HTTP/1 sends chunks and where an error page contains the request ID.
            "age" | "connection" | "transfer-encoding" | "content-length" => false,
            "date" => value.contains("21 Nov 2026 10:00:00"),
            _ => true,
        })
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    fields.sort();
    let body = readable(&response.body);
    let body = if is_error_page {
        body.split("<small>").next().unwrap_or_default()
    } else {
        &body
    };
    format!("{}\n{}\n\n{body}", response.status, fields.join("\n"))
}

fn assert_same_response(site: &TestSite, client: &Client, request: &Request) {
    let over_http_1 = with_host(request.clone()).field("Connection", "close");
    // The first request may generate the page.
    site.send(over_http_1.clone());
    let response_1 = site.send(over_http_1);
    let response_2 = client.send(request);
    let (text_1, text_2) = (comparable(&response_1), comparable(&response_2));
    assert!(
        text_1 == text_2,
        "{} {} {:?}\n--- HTTP/1:\n{text_1}\n--- HTTP/2:\n{text_2}",
        request.method,
        request.target,
        request.fields
    );
    if request.method != "HEAD"
        && let Some(length) = response_2.field("content-length")
        && response_2.status != 304
    {
        assert_eq!(length, response_2.body.len().to_string());
    }
}

fn start_site(fast_path: &str) -> (TestSite, galley_testkit::origin::Origin) {
    let origin = origin();
    let site = SiteBuilder::upstream_line(&format!("upstream = [\"{}\"]", origin.url()))
        .server(&format!("h2c = true\nfast_path = {fast_path}"))
        .site("compress = [\"gzip\"]\ncompress_passed = false\ndense_after = 0")
        .more("[site.ttl]\ndefault = \"1h\"\n\"404\" = \"1h\"")
        .file("file.txt", "a file ".repeat(2000))
        .start();
    settled(&site);
    wait_for("the file to be compressed", TIMEOUT, || {
        let request = Request::get("/file.txt").field("Accept-Encoding", "gzip");
        site.send(request).has("content-encoding")
    });
    (site, origin)
}

#[test]
fn both_protocols_give_the_same_responses() {
    for fast_path in ["true", "false"] {
        let (site, _origin) = start_site(fast_path);
        let client = Client::open(site.addr());
        for method in ["GET", "HEAD", "OPTIONS", "DELETE", "NONSENSE"] {
            for path in PATHS.iter().chain(&["/file.txt", "/file.txt?x"]) {
                let request = Request::new(method, path);
                assert_same_response(&site, &client, &request);
                let is_retrieval = matches!(method, "GET" | "HEAD");
                for field in FIELDS.iter().filter(|_| is_retrieval) {
                    let (name, value) = field.split_once(": ").unwrap();
                    // These two concern connections and framing of HTTP/1.
                    if name != "Upgrade" && name != "Content-Length" {
                        assert_same_response(&site, &client, &request.clone().field(name, value));
                    }
                }
            }
        }
        for target in [
            "/tagged?utm_source=x&fbclid=y",
            "/a?utm_source=x&x=1",
            "/moved?utm_source=x",
            "/./x/../tagged",
            "/%74agged",
            "/%00",
            "/a%2fb",
            "/..%2f..%2fetc/passwd",
            "/.git/config",
            "//tagged",
            "/wp-login.php?a[]=b&c=%zz",
        ] {
            assert_same_response(&site, &client, &Request::get(target));
        }
        for host in ["elsewhere.test", "EXAMPLE.test.:8080", "example.test:80"] {
            assert_same_response(&site, &client, &Request::get("/tagged").host(host));
        }
        for body in ["", "a", "name=value"] {
            let type_ = "application/x-www-form-urlencoded";
            assert_same_response(&site, &client, &Request::post("/form", type_, body));
        }
    }
}

#[test]
fn a_stream_is_logged_and_counted_like_a_request() {
    let (site, _origin) = start_site("true");
    let client = Client::open(site.addr());
    let before = site.status_number("hit");
    client.send(
        &Request::get("/tagged")
            .field("User-Agent", "two")
            .field("Referer", "http://a.test/"),
    );
    let line = site.access_line("\"two\"");
    assert!(
        line.contains("\"GET /tagged HTTP/2.0\" 200")
            && line.contains("outcome=hit")
            && line.contains("\"http://a.test/\""),
        "{line}"
    );
    assert_eq!(site.status_number("hit"), before + 1);
    client.send(&Request::get("/private").field("User-Agent", "three"));
    let line = site.access_line("\"three\"");
    assert!(
        line.contains("\"GET /private HTTP/2.0\" 200") && line.contains("outcome=pass"),
        "{line}"
    );
    // Galley counts the streams of a connection when it closes.
    drop(client);
    wait_for("the connection to be counted", TIMEOUT, || {
        site.metrics().contains("galley_http2_streams_total 2\n")
    });
}
