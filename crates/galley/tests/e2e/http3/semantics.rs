//! Requests and responses over HTTP/3.

use std::net::TcpStream;

use galley_testkit::origin::Origin;
use galley_testkit::wait_for;
use serde_json::{Value, json};

use super::client::{fields, get, run, start, streams};
use crate::support::{SiteBuilder, TIMEOUT, random_bytes, sha256};
use crate::tls_support::tls_addr;

const NO_ERROR: u64 = 0x100;

const HASH: &str =
    "<?php $in = file_get_contents('php://input'); echo strlen($in), ' ', hash('sha256', $in);";

fn with(mut fields: Vec<(String, String)>, name: &str, value: &str) -> Vec<(String, String)> {
    fields.push((name.to_owned(), value.to_owned()));
    fields
}

#[test]
fn stored_pages_and_files_are_sent() {
    let page = "a page ".repeat(1500);
    let site = start(SiteBuilder::php().file("page.html", &page));
    let head = json!({ "fields": fields("HEAD", "/page.html") });
    let found = streams(&site, &[get("/page.html"), head, get("/stored")]);
    assert_eq!(found[0]["status"], 200);
    assert_eq!(found[0]["sha256"], sha256(page.as_bytes()));
    assert_eq!(
        (&found[1]["status"], &found[1]["bytes"]),
        (&json!(200), &json!(0))
    );
    assert_eq!(found[1]["fields"]["content-length"], page.len().to_string());
    assert!(
        found
            .iter()
            .all(|one| one["ended"] == true && one["reset"].is_null())
    );
    // Also a hit of a page that PHP made.
    let hit = streams(&site, &[get("/stored")]);
    let outcome = hit[0]["fields"]["cache-status"].as_str().unwrap();
    assert!(outcome.contains("hit"), "{outcome}");
    assert_eq!(hit[0]["sha256"], found[2]["sha256"]);
    assert_eq!(site.runs("/stored"), 1);
    let line = site.access_line("\"GET /page.html HTTP/3.0");
    assert!(
        line.contains("\"GET /page.html HTTP/3.0\" 200 10500"),
        "{line}"
    );
}

/// A request whose stream ends later than its head.
fn late(path: &str, until: impl Into<Value>) -> Value {
    // A stored page may exist compressed only.
    let fields = with(fields("GET", path), "accept-encoding", "gzip");
    json!({ "fields": fields, "late": until.into() })
}

#[test]
fn requests_whose_end_comes_later_use_the_cache() {
    let site = start(SiteBuilder::php().file("hash.php", HASH));
    let miss = streams(&site, &[late("/stored", 0.3)]);
    assert_eq!(miss[0]["status"], 200);
    let plans: Vec<Value> = (0..120)
        .map(|_| late("/stored", "response"))
        .chain([late("/stored", "stop")])
        .collect();
    // More than a client may open at a time: each is over for QUIC as well.
    let found = streams(&site, &plans);
    for one in &found {
        let outcome = one["fields"]["cache-status"].as_str().unwrap();
        assert!(outcome.contains("hit"), "{one}");
    }
    assert_eq!(site.runs("/stored"), 1);
    // Nearly all: while a writer holds a part of the memory, a hit takes the slow path, which waits for the end.
    let early = found.iter().filter(|one| one["early"] == true);
    assert!(early.count() > 110, "{found:?}");
    assert_eq!(found[120]["stopped"], NO_ERROR, "{}", found[120]);
    // A body that comes later reaches PHP.
    let with_body = json!({ "fields": fields("GET", "/hash.php"), "late": 0.3, "body": "abc" });
    let found = streams(&site, &[with_body]);
    assert_eq!(found[0]["text"], format!("3 {}", sha256(b"abc")));
    // Frames of reserved types are no body.
    let grease =
        json!({ "frames": [[0x21, "00"], [1, fields("GET", "/stored")], [0x40, "61"], [0, ""]] });
    let found = streams(&site, &[grease]);
    let outcome = found[0]["fields"]["cache-status"].as_str().unwrap();
    assert!(outcome.contains("hit"), "{found:?}");
}

#[test]
fn uploads_are_complete() {
    let site = start(SiteBuilder::php().file("hash.php", HASH));
    let sizes = [0_usize, 1, 65_535, 1_000_000];
    let post = || fields("POST", "/hash.php");
    let uploads: Vec<Value> = sizes
        .iter()
        .flat_map(|size| {
            let waits = with(post(), "expect", "100-continue");
            let sized = with(post(), "content-length", &size.to_string());
            [
                json!({ "fields": post(), "body": size, "trailers": [["x-sum", "1"]] }),
                json!({ "fields": waits, "body": size, "continue": true }),
                json!({ "fields": sized, "body": size }),
            ]
        })
        .collect();
    for (number, found) in streams(&site, &uploads).iter().enumerate() {
        let size = sizes[number / 3];
        let expected = format!("{size} {}", sha256(&vec![0; size]));
        assert_eq!(found["text"], expected, "upload {number}: {found}");
        let interim = usize::from(number % 3 == 1);
        assert_eq!(
            found["interim"].as_array().unwrap().len(),
            interim,
            "{found}"
        );
    }
}

#[test]
fn a_large_response_waits_for_the_windows() {
    let content = random_bytes(3_000_000);
    let site = start(
        SiteBuilder::files()
            .file("large.bin", &content)
            .file("small.html", "small"),
    );
    let plan = json!({
        "window": 40_000,
        "streams": [get("/large.bin"), get("/small.html"), get("/large.bin")],
    });
    let found = run(&site, plan).result();
    for large in [0, 2] {
        assert_eq!(found["streams"][large]["sha256"], sha256(&content));
    }
    assert_eq!(found["streams"][1]["text"], "small");
}

#[test]
fn urgent_responses_are_sent_first() {
    let body = random_bytes(1_000_000);
    let origin = Origin::start(move |_, writer| {
        let fields = [
            ("Content-Type", "application/octet-stream"),
            ("Cache-Control", "max-age=600"),
        ];
        writer.respond(200, &fields, &body);
    })
    .unwrap();
    let site = start(SiteBuilder::origin(&origin, "wordpress"));
    // Stored: no response waits for anything but its turn.
    wait_for("the response to be stored", TIMEOUT, || {
        let stored = streams(&site, &[get("/large.bin")]);
        let outcome = stored[0]["fields"]["cache-status"].as_str();
        outcome.is_some_and(|outcome| outcome.contains("hit"))
    });
    let plans = ["u=7", "u=5, i", "u=0", "u=3"].map(|priority| {
        let fields = with(fields("GET", "/large.bin"), "priority", priority);
        json!({ "fields": fields })
    });
    let places = streams(&site, &plans);
    let places: Vec<Value> = places.iter().map(|one| one["place"].clone()).collect();
    assert_eq!(places, [3, 2, 0, 1]);
}

#[test]
fn interim_responses_are_forwarded() {
    let origin = Origin::start(|_, writer| {
        writer.write(
            b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nConnection: x\r\n\r\n",
        );
        writer.respond(200, &[("Content-Type", "text/html")], b"<html></html>");
    })
    .unwrap();
    let site = start(SiteBuilder::origin(&origin, "wordpress"));
    // Only for a request that bypasses the cache. Cookies may be split.
    let split = with(fields("GET", "/hints"), "cookie", "a=1");
    let split = with(split, "cookie", "wordpress_logged_in_x=me");
    let found = streams(&site, &[json!({ "fields": split })]);
    assert_eq!(found[0]["status"], 200);
    let wanted = json!([[103, { ":status": "103", "link": "</a.css>; rel=preload" }]]);
    assert_eq!(found[0]["interim"], wanted);
}

#[test]
fn split_cookies_are_joined() {
    let site = start(SiteBuilder::php());
    let split = with(fields("GET", "/page"), "cookie", "a=1");
    let split = with(split, "cookie", "wordpress_logged_in_x=me");
    let found = streams(&site, &[json!({ "fields": split })]);
    let text = found[0]["text"].as_str().unwrap();
    assert!(
        text.contains("HTTP_COOKIE=a=1; wordpress_logged_in_x=me\n"),
        "{text}"
    );
}

#[test]
fn a_stream_that_is_reset_does_not_disturb_others() {
    let site = start(SiteBuilder::php());
    let reset = json!({ "fields": fields("POST", "/form"), "body": 100, "reset": 0x10c });
    let plans: Vec<Value> = (0..20)
        .map(|_| reset.clone())
        .chain([get("/other")])
        .collect();
    let found = streams(&site, &plans);
    assert_eq!(found[20]["status"], 200);
    assert_eq!(site.get("/other").status, 200);
}

#[test]
fn shutdown_sends_goaway_and_completes_open_streams() {
    let mut site = start(SiteBuilder::php());
    let advertised = |found: &Value| !found["fields"]["alt-svc"].is_null();
    assert!(advertised(&streams(&site, &[get("/other")])[0]));
    site.hold("/slow");
    let client = run(&site, json!({ "streams": [get("/slow")] }));
    site.wait_until_held("/slow");
    let tls = tls_addr(&site);
    site.galley.signal(galley_testkit::Signal::TERM);
    wait_for("the drain", TIMEOUT, || TcpStream::connect(tls).is_err());
    site.release("/slow");
    let found = client.result();
    assert_eq!(found["streams"][0]["status"], 200);
    assert_eq!(found["streams"][0]["ended"], true);
    assert!(!advertised(&found["streams"][0]), "{found}");
    // The first GOAWAY names the largest stream id, so that no request on its way is lost.
    let control = found["control"].to_string();
    assert!(control.contains("0708fffffffffffffffc"), "{control}");
    assert!(site.galley.stop().success());
}
