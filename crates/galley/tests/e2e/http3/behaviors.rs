//! Behaviors that tests of other servers check: handshakes, keys, moves, names, redirects, bodies in pieces, limits, and upstreams that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use galley_testkit::client::Request;
use galley_testkit::origin::Origin;
use galley_testkit::wait_for;
use serde_json::{Value, json};

use super::client::{fields, get, run, start, streams};
use crate::support::{HOST, SiteBuilder, TIMEOUT, TestSite, sha256};
use crate::tls_support::{Authority, over_tls};

/// A handshake fails with this code and the number of an alert of TLS.
const CRYPTO_ERROR: u64 = 0x100;
const ACCESS_DENIED: u64 = 49;

const INTERNAL_ERROR: u64 = 0x102;
const REQUEST_CANCELLED: u64 = 0x10c;

const OTHER: &str = "other.test";

/// The bytes that an upstream writes at a time.
const PIECE: usize = 16_384;

const COUNT: &str = "<?php echo strlen(file_get_contents('php://input'));";

fn statuses(found: &Value) -> Vec<u64> {
    let all = found["streams"].as_array().unwrap().iter();
    all.map(|one| one["status"].as_u64().unwrap_or(0)).collect()
}

#[test]
fn handshakes_of_all_kinds_succeed() {
    let site = start(SiteBuilder::files().file("page.html", "a page"));
    for (mut scenario, cipher, is_resumed) in [
        (
            json!({ "ciphers": ["AES_128_GCM_SHA256"] }),
            "AES_128_GCM_SHA256",
            false,
        ),
        (
            json!({ "ciphers": ["AES_256_GCM_SHA384"] }),
            "AES_256_GCM_SHA384",
            false,
        ),
        (
            json!({ "ciphers": ["CHACHA20_POLY1305_SHA256"] }),
            "CHACHA20_POLY1305_SHA256",
            false,
        ),
        (json!({ "sni": "" }), "AES_256_GCM_SHA384", false),
        (
            json!({ "token": "00".repeat(40) }),
            "AES_256_GCM_SHA384",
            false,
        ),
        (json!({ "resume": true }), "AES_256_GCM_SHA384", true),
    ] {
        scenario["streams"] = vec![get("/page.html"); 3].into();
        let found = run(&site, scenario.clone()).result();
        assert_eq!(statuses(&found), [200; 3], "{scenario}: {found}");
        assert_eq!(found["cipher"], cipher, "{scenario}");
        assert_eq!(found["resumed"], is_resumed, "{scenario}");
    }
}

#[test]
fn requests_continue_when_keys_change_and_the_client_moves() {
    let site = start(SiteBuilder::php().file("page.html", "a page"));
    let mut plans: Vec<Value> = ["/page.html", "/stored", "/one", "/two", "/three"]
        .map(get)
        .to_vec();
    for (number, plan) in plans.iter_mut().enumerate().skip(1) {
        plan["after"] = (number - 1).into();
        plan["keys"] = (number < 3).into();
    }
    plans[3]["from"] = "127.0.0.20".into();
    let found = run(&site, json!({ "streams": plans })).result();
    assert_eq!(statuses(&found), [200; 5], "{found}");
    // The new address is not validated yet when the first request comes from it.
    for page in ["/one", "/two", "/three"] {
        let line = site.access_line(&format!("\"GET {page} HTTP/3.0"));
        assert!(line.starts_with("127.0.0.1 "), "{line}");
    }
}

#[test]
fn a_connection_serves_the_sites_of_its_certificate() {
    let authority = Authority::new();
    let builder = SiteBuilder::files()
        .file("page.html", "a page")
        .server("listen_quic = [\"127.0.0.1:0\"]");
    authority.issue(builder.scratch.path(), "other", &[OTHER]);
    let more = format!(
        "[[site]]\nhosts = [\"{OTHER}\"]\nroot = \"{{root}}\"\nhttps_redirect = false\n\
         tls = {{ cert = \"{{dir}}/other.pem\", key = \"{{dir}}/other.key\" }}"
    );
    let site = over_tls(builder.more(&more), &authority).start();
    let of = |host: &str, name: &str| {
        let mut list = fields("GET", "/page.html");
        list.retain(|(known, _)| known != ":authority");
        list.insert(0, (name.to_owned(), host.to_owned()));
        list.sort_by_key(|(name, _)| !name.starts_with(':'));
        json!({ "fields": list })
    };
    let plans = json!([
        of(HOST, ":authority"),
        of(OTHER, ":authority"),
        of(HOST, "host"),
        of("unknown.test", ":authority")
    ]);
    for (sni, expected) in [
        (HOST, [200, 421, 200, 421]),
        (OTHER, [421, 200, 421, 421]),
        ("", [200, 421, 200, 421]),
    ] {
        let found = run(&site, json!({ "sni": sni, "streams": plans })).result();
        assert_eq!(statuses(&found), expected, "{sni}: {found}");
    }
    let found = run(&site, json!({ "sni": "unknown.test", "streams": plans })).result();
    assert_eq!(found["refused"], CRYPTO_ERROR + ACCESS_DENIED);
}

#[test]
fn responses_are_those_of_http_1() {
    let site = start(
        SiteBuilder::php()
            .file("page.html", "a page")
            .file("dir/index.html", "a folder")
            .file("a dir/index.html", "a folder")
            .more("[[site.rule]]\npath = \"/old*\"\nredirect = \"/new\""),
    );
    for (method, path) in [
        ("GET", "/page.html"),
        ("HEAD", "/page.html"),
        ("GET", "/dir"),
        ("GET", "/dir?a=b"),
        ("GET", "/a%20dir"),
        ("GET", "/old"),
    ] {
        let expected = site.send(Request::new(method, path).host(HOST));
        let found = &streams(&site, &[json!({ "fields": fields(method, path) })])[0];
        assert_eq!(found["status"], expected.status, "{method} {path}: {found}");
        for name in ["location", "server", "content-type"] {
            let wanted = expected.all(name).join(", ");
            let value = found["fields"][name].as_str().unwrap_or("");
            assert_eq!(value, wanted, "{name} of {method} {path}");
        }
        let length = expected.field("content-length").unwrap_or("");
        let found_length = found["fields"]["content-length"].as_str();
        assert_eq!(found_length.unwrap_or(""), length, "{method} {path}");
        assert_eq!(found["sha256"], sha256(&expected.body), "{method} {path}");
    }
}

#[test]
fn bodies_in_pieces_are_complete_and_have_a_limit() {
    let site = start(
        SiteBuilder::php()
            .file("count.php", COUNT)
            .site("request_body = \"1KiB\""),
    );
    let upload = |pieces: &[usize], is_sized: bool| {
        let mut head = fields("POST", "/count.php");
        if is_sized {
            let length: usize = pieces.iter().sum();
            head.push(("content-length".to_owned(), length.to_string()));
        }
        let data = pieces.iter().map(|length| json!([0, "61".repeat(*length)]));
        let frames: Vec<Value> = std::iter::once(json!([1, head])).chain(data).collect();
        json!({ "frames": frames })
    };
    let all: [(&[usize], u64); 6] = [
        (&[0], 200),
        (&[1, 2, 3], 200),
        (&[0, 500, 0, 500, 0], 200),
        (&[1024], 200),
        (&[1024, 1], 413),
        (&[600, 600], 413),
    ];
    for (pieces, status) in all {
        let plans = [true, false].map(|is_sized| upload(pieces, is_sized));
        for found in streams(&site, &plans) {
            assert_eq!(found["status"], status, "{pieces:?}: {found}");
            let length: usize = pieces.iter().sum();
            let text = found["text"].as_str().unwrap();
            let is_complete = status != 200 || text.parse() == Ok(length);
            assert!(is_complete, "{pieces:?}: {found}");
        }
    }
}

#[test]
fn clients_over_their_limit_get_429() {
    let limit = "limit = { rate = \"1/d\", burst = 2 }";
    let site = start(
        SiteBuilder::files()
            .file("page.html", "a page")
            .site(limit)
            .server("limit_exempt = []"),
    );
    let mut found: Vec<u64> = Vec::new();
    for _ in 0..2 {
        let result = run(&site, json!({ "streams": vec![get("/page.html"); 3] })).result();
        found.extend(statuses(&result));
    }
    // The request that asks for the port counts, too.
    found.sort_unstable();
    assert!(
        found[..2] != [429; 2] && found[2..] == [429; 4],
        "{found:?}"
    );
}

/// An upstream that ends some responses early, sends trailers, or much. It notes when the endless response has ended.
fn origin(has_ended: &Arc<AtomicBool>) -> Origin {
    let has_ended = Arc::clone(has_ended);
    let origin = Origin::start(move |request, writer| match request.path() {
        "/truncated" => {
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
            writer.write(&[b'a'; PIECE]);
            writer.close();
        }
        "/cut" => {
            writer.chunked(200, &[]);
            writer.chunk(&[b'a'; PIECE]);
            writer.close();
        }
        "/trailers" => {
            writer.chunked(200, &[("Trailer", "X-Sum")]);
            writer.chunk(b"SEE");
            writer.write(b"0\r\nX-Sum: 1\r\n\r\n");
        }
        "/large" => {
            writer.chunked(200, &[]);
            for _ in 0..64 {
                writer.chunk(&[b'x'; PIECE]);
            }
            writer.last_chunk();
        }
        "/endless" => {
            writer.chunked(200, &[]);
            while writer.chunk(&[b'x'; PIECE]) {}
            has_ended.store(true, Ordering::Release);
        }
        _ => {
            writer.respond(200, &[], b"");
        }
    });
    origin.unwrap()
}

fn behind(origin: &Origin) -> TestSite {
    start(SiteBuilder::origin(origin, "none"))
}

#[test]
fn a_response_is_complete_or_its_stream_is_reset() {
    let origin = origin(&Arc::default());
    let site = behind(&origin);
    let all = streams(
        &site,
        &["/truncated", "/cut", "/trailers", "/large", "/"].map(get),
    );
    for one in &all[..2] {
        // The failure may show before the head has left.
        let is_refused = one["status"] == 502 && one["ended"] == true;
        let is_reset = one["ended"] == false && one["reset"] == INTERNAL_ERROR;
        assert!(is_refused || is_reset, "{one}");
    }
    assert_eq!(
        (&all[2]["text"], &all[2]["ended"]),
        (&json!("SEE"), &json!(true)),
        "{}",
        all[2]
    );
    assert_eq!(
        (&all[3]["bytes"], &all[3]["ended"]),
        (&json!(1 << 20), &json!(true)),
        "{}",
        all[3]
    );
    assert_eq!(
        (&all[4]["status"], &all[4]["bytes"]),
        (&json!(200), &json!(0))
    );
}

#[test]
fn a_client_that_gives_up_ends_the_request_of_the_upstream() {
    let has_ended = Arc::default();
    let origin = origin(&has_ended);
    let site = behind(&origin);
    let mut stopped = get("/endless");
    stopped["stop"] = REQUEST_CANCELLED.into();
    let found = streams(&site, &[stopped, get("/")]);
    assert_eq!(found[1]["status"], 200, "{found:?}");
    wait_for("the end of the request", TIMEOUT, || {
        has_ended.load(Ordering::Acquire)
    });
}
