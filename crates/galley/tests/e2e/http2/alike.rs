//! The same requests by HTTP/1 and by HTTP/2: the same answers, but for framing.

use galley_testkit::client::{Request, Response};

use galley_testkit::wait_for;

use super::ask::Client;
use super::attacks::metrics;
use crate::fast_path::{FIELDS, PATHS, origin, settled};
use crate::support::{SiteBuilder, TIMEOUT, TestSite, with_host};

/// Everything of an answer that must not depend on the protocol.
fn comparable(answer: &Response) -> String {
    let is_error_page = answer.field("cache-control") == Some("no-store");
    let boundary = answer
        .field("content-type")
        .and_then(|value| value.split_once("boundary="))
        .map(|(_, boundary)| boundary.to_owned());
    let plain = |bytes: &[u8]| {
        let text = bytes.escape_ascii().to_string();
        match &boundary {
            Some(boundary) => text.replace(boundary.as_str(), "BOUNDARY"),
            None => text,
        }
    };
    let mut fields: Vec<String> = answer
        .fields
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), plain(value)))
        .filter(|(name, value)| match name.as_str() {
            // The length: where HTTP/1 sends chunks, and where a page holds the request's id.
            "age" | "connection" | "transfer-encoding" | "content-length" => false,
            "date" => value.contains("21 Nov 2026 10:00:00"),
            _ => true,
        })
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    fields.sort();
    let body = plain(&answer.body);
    let body = if is_error_page {
        body.split("<small>").next().unwrap_or_default()
    } else {
        &body
    };
    format!("{}\n{}\n\n{body}", answer.status, fields.join("\n"))
}

fn agree(site: &TestSite, client: &Client, request: &Request) {
    let by_http_1 = with_host(request.clone()).field("Connection", "close");
    // The first may be the one that has it generated.
    site.send(by_http_1.clone());
    let by_1 = site.send(by_http_1);
    let by_2 = client.send(request);
    let (one, two) = (comparable(&by_1), comparable(&by_2));
    assert!(
        one == two,
        "{} {} {:?}\n--- HTTP/1:\n{one}\n--- HTTP/2:\n{two}",
        request.method,
        request.target,
        request.fields
    );
    if request.method != "HEAD"
        && let Some(length) = by_2.field("content-length")
        && by_2.status != 304
    {
        assert_eq!(length, by_2.body.len().to_string());
    }
}

fn start(lane: &str) -> (TestSite, galley_testkit::origin::Origin) {
    let origin = origin();
    let site = SiteBuilder::upstream_line(&format!("upstream = [\"{}\"]", origin.url()))
        .server(&format!("h2c = true\nfast_path = {lane}"))
        .site("compress = [\"gzip\"]\ncompress_passed = false\ndense_after = 0")
        .more("[site.ttl]\ndefault = \"1h\"\n\"404\" = \"1h\"")
        .file("file.txt", "a file ".repeat(2000))
        .start();
    settled(&site);
    wait_for("the file to be coded", TIMEOUT, || {
        let asked = Request::get("/file.txt").field("Accept-Encoding", "gzip");
        site.send(asked).has("content-encoding")
    });
    (site, origin)
}

#[test]
fn requests_of_every_kind_are_answered_alike_by_both_protocols() {
    for lane in ["true", "false"] {
        let (site, _origin) = start(lane);
        let client = Client::open(site.addr());
        for method in ["GET", "HEAD", "OPTIONS", "DELETE", "NONSENSE"] {
            for path in PATHS.iter().chain(&["/file.txt", "/file.txt?x"]) {
                let request = Request::new(method, path);
                agree(&site, &client, &request);
                let is_plain = matches!(method, "GET" | "HEAD");
                for field in FIELDS.iter().filter(|_| is_plain) {
                    let (name, value) = field.split_once(": ").unwrap();
                    // These two belong to HTTP/1.
                    if name != "Upgrade" && name != "Content-Length" {
                        agree(&site, &client, &request.clone().field(name, value));
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
            agree(&site, &client, &Request::get(target));
        }
        for host in ["elsewhere.test", "EXAMPLE.test.:8080", "example.test:80"] {
            agree(&site, &client, &Request::get("/tagged").host(host));
        }
        for body in ["", "a", "name=value"] {
            let type_ = "application/x-www-form-urlencoded";
            agree(&site, &client, &Request::post("/form", type_, body));
        }
    }
}

#[test]
fn a_stream_is_logged_and_counted_as_a_request_is() {
    let (site, _origin) = start("true");
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
    // Counted with its connection, at its end.
    drop(client);
    wait_for("the connection to be counted", TIMEOUT, || {
        metrics(&site).contains("galley_http2_streams_total 2\n")
    });
}
