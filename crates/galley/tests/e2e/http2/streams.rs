//! Concurrent streams of a connection: uploads, interim responses, streamed responses, priorities, and shutdown.

use galley_testkit::client::Request;
use galley_testkit::client::frames::kinds::{DATA, GOAWAY, HEADERS, RST_STREAM, WINDOW_UPDATE};
use galley_testkit::client::frames::{END_STREAM, Frame, bytes_of, head_frame};
use galley_testkit::origin::Origin;
use galley_testkit::wait_for;

use super::client::Client;
use super::frames::{fields, file_site, get, open, reset};
use crate::support::{HOST, SiteBuilder, TIMEOUT, TestSite, json_number, random_bytes, sha256};

const HASH: &str =
    "<?php $in = file_get_contents('php://input'); echo strlen($in), ' ', hash('sha256', $in);";

#[test]
fn concurrent_uploads_are_complete() {
    let site = SiteBuilder::php()
        .server("h2c = true")
        .file("hash.php", HASH)
        .start();
    assert_uploads_complete(&site, &[0, 1, 65_535, 65_536, 1_000_000, 3_000_000]);
}

/// Uploads bodies of these sizes concurrently on one connection, without and with `Expect: 100-continue`.
fn assert_uploads_complete(site: &TestSite, sizes: &[usize]) {
    let client = Client::open(site.addr());
    let bodies: Vec<_> = sizes.iter().copied().map(random_bytes).collect();
    let requests: Vec<Request> = bodies
        .iter()
        .flat_map(|body| {
            let post = Request::new("POST", "/hash.php");
            let waits = post.clone().field("Expect", "100-continue");
            [post.body(body.clone()), waits.chunked(&[body])]
        })
        .collect();
    for (number, response) in client.send_concurrently(&requests).into_iter().enumerate() {
        let body = &bodies[number / 2];
        let expected = format!("{} {}", body.len(), sha256(body));
        assert_eq!(response.unwrap().text(), expected, "upload {number}");
    }
}

#[test]
fn concurrent_streamed_uploads_are_complete() {
    let origin = Origin::start(|_, writer| {
        let body = writer.body();
        let text = format!("{} {}", body.len(), sha256(&body));
        writer.respond(200, &[], text.as_bytes());
    })
    .unwrap();
    let rule = "[[site.rule]]\npath = \"/*\"\nstream_request = true";
    let php = SiteBuilder::php().file("hash.php", HASH);
    for builder in [php, SiteBuilder::origin(&origin, "wordpress")] {
        let site = builder.server("h2c = true").more(rule).start();
        assert_uploads_complete(&site, &[1, 65_535, 1_000_000, 3_000_000]);
    }
}

#[test]
fn a_body_over_the_limit_gets_a_413_before_its_end() {
    let site = SiteBuilder::php()
        .server("h2c = true\nrequest_body = \"100KiB\"")
        .start();
    let client = Client::open(site.addr());
    for request in [
        Request::new("POST", "/form").body(random_bytes(5_000_000)),
        Request::new("POST", "/form").chunked(&[&random_bytes(5_000_000)]),
    ] {
        assert_eq!(client.send(&request).status, 413);
    }
    // Only the stream was rejected, not the connection.
    assert_eq!(client.get("/after").status, 200);
    assert_eq!(site.runs("/form"), 0);
}

#[test]
fn request_trailers_are_not_forwarded() {
    let site = SiteBuilder::php().server("h2c = true").start();
    let mut frames = open(&site);
    frames
        .write(&head_frame(1, 0, &fields("POST", "/form")))
        .unwrap();
    frames.write(&bytes_of(DATA, 0, 1, b"the body")).unwrap();
    let trailers = [("x-trailer", "evil"), ("cookie", "evil")];
    frames.write(&head_frame(1, END_STREAM, &trailers)).unwrap();
    let response = frames
        .until(|frame| frame.stream == 1 && frame.ends_stream())
        .unwrap();
    let body: Vec<u8> = response
        .iter()
        .filter(|frame| frame.kind == DATA)
        .flat_map(|frame| frame.payload.clone())
        .collect();
    let body = String::from_utf8(body).unwrap();
    assert!(
        body.contains("body=the body") && !body.contains("evil"),
        "{body}"
    );
}

#[test]
fn split_cookie_fields_are_joined() {
    let site = SiteBuilder::php().server("h2c = true").start();
    let client = Client::open(site.addr());
    let split_cookies = Request::get("/page")
        .field("Cookie", "a=1")
        .field("Cookie", "wordpress_logged_in_x=me")
        .field("Cookie", "b=2");
    for _ in 0..2 {
        let response = client.send(&split_cookies);
        let text = response.text();
        assert!(!response.is_hit(), "the user is logged in");
        let expected = "HTTP_COOKIE=a=1; wordpress_logged_in_x=me; b=2\n";
        assert!(text.contains(expected), "{text}");
    }
    let anonymous = Request::get("/page")
        .field("Cookie", "_ga=1")
        .field("Cookie", "_gid=2");
    client.send(&anonymous);
    assert!(client.send(&anonymous).is_hit());
}

fn origin() -> Origin {
    Origin::start(|request, writer| match request.path() {
        "/hints" => {
            writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nConnection: x\r\n\r\n");
            writer.respond(200, &[("Content-Type", "text/html")], b"<html></html>");
        }
        "/hinted" => {
            let links = "</a.css>; rel=preload; as=style, </?p=1>; rel=shortlink";
            writer.respond(200, &[("Content-Type", "text/html"), ("Link", links)], b"<html></html>");
        }
        "/broken" => {
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nCache-Control: private\r\nContent-Length: 1000000\r\n\r\n");
            writer.write(&random_bytes(500_000));
            writer.close();
        }
        "/pieces" => {
            writer.chunked(200, &[("Content-Type", "text/html"), ("Connection", "keep-alive"), ("Keep-Alive", "5")]);
            for number in 0..200 {
                writer.chunk(format!("piece {number} ").repeat(100).as_bytes());
            }
            writer.last_chunk();
        }
        _ => {
            writer.respond(200, &[("Content-Type", "text/html")], b"<html></html>");
        }
    })
    .unwrap()
}

#[test]
fn a_navigation_that_misses_gets_early_hints_of_the_previous_response() {
    let origin = origin();
    let start_site = |options: &str| {
        SiteBuilder::origin(&origin, "wordpress")
            .server("h2c = true")
            .site(options)
            .start()
    };
    let site = start_site("early_hints = true");
    let client = Client::open(site.addr());
    let navigation = Request::get("/hinted").field("Sec-Fetch-Mode", "navigate");
    let purged = |request: &Request| {
        site.purge(&["--prefix", "/hinted"]);
        let response = client.send(request);
        assert!(!response.is_hit());
        (response.interim, response.status)
    };
    let no_interim = vec![];
    let first = client.send(&navigation);
    assert_eq!(first.interim, no_interim, "there is no previous response");
    assert_eq!(purged(&navigation), (vec![103], 200));
    let hit = client.send(&navigation);
    assert!(hit.is_hit() && hit.interim.is_empty());
    for other in [
        Request::get("/hinted"),
        Request::get("/hinted").field("Sec-Fetch-Mode", "cors"),
        navigation.clone().field("Sec-Purpose", "prefetch"),
    ] {
        assert_eq!(purged(&other), (no_interim.clone(), 200));
    }
    // Galley sends no early hints over HTTP/1.1.
    site.purge(&["--prefix", "/hinted"]);
    assert_eq!(site.send(navigation.clone()).interim, no_interim);
    let without_hints = start_site("");
    let client = Client::open(without_hints.addr());
    client.send(&navigation);
    without_hints.purge(&["--prefix", "/hinted"]);
    assert_eq!(client.send(&navigation).interim, no_interim);
}

#[test]
fn upstream_responses_are_streamed_and_a_broken_one_resets_its_stream() {
    let origin = origin();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .server("h2c = true")
        .start();
    let client = Client::open(site.addr());
    // Interim responses are forwarded only for a request that bypasses the cache.
    let authenticated = Request::get("/hints").field("Cookie", "wordpress_logged_in_x=me");
    let hints = client.send(&authenticated);
    assert_eq!((hints.status, hints.interim), (200, vec![103]));
    let expected: String = (0..200)
        .map(|number| format!("piece {number} ").repeat(100))
        .collect();
    for _ in 0..3 {
        let pieces = client.get("/pieces");
        assert_eq!(pieces.text(), expected);
        assert!(!pieces.has("connection") && !pieces.has("keep-alive"));
    }
    let broken = client.try_send(&Request::get("/broken"));
    assert_eq!(
        broken.unwrap_err().reason(),
        Some(h2::Reason::INTERNAL_ERROR)
    );
    assert_eq!(
        client.get("/hints").status,
        200,
        "the connection was closed"
    );
}

#[test]
fn a_head_over_the_limit_is_a_431() {
    let site = file_site("head_size = \"8KiB\"");
    let client = Client::open(site.addr());
    let sized = |bytes: usize| Request::get("/page.html").field("X-Large", "v".repeat(bytes));
    assert_eq!(client.send(&sized(7_000)).status, 200);
    // The first sizes exceed Galley's limit, which is logged; the last one exceeds the limit of `h2`.
    for bytes in [8_200, 9_000, 14_000] {
        assert_eq!(client.send(&sized(bytes)).status, 431, "{bytes}");
    }
    let line = site.access_line(" 431 ");
    assert!(line.contains("refused:head-too-large"), "{line}");
    assert_eq!(client.get("/page.html").status, 200);
}

#[test]
fn hits_misses_and_posts_alternate_on_one_connection() {
    let site = SiteBuilder::php().server("h2c = true").start();
    site.get("/page");
    let mut frames = open(&site);
    // Flow-control window for the hits, in addition to the initial one.
    let window = bytes_of(WINDOW_UPDATE, 0, 0, &(1_u32 << 20).to_be_bytes());
    frames.write(&window).unwrap();
    for round in 0..10 {
        // A miss; two hits, during which `h2` is idle; then a request with a body.
        let (miss, stream) = (format!("/page?nocache={round}"), 1 + round * 8);
        let post = [
            head_frame(stream + 6, 0, &fields("POST", "/form")),
            bytes_of(DATA, END_STREAM, stream + 6, b"a=b"),
        ];
        for request in [
            get(stream, &miss),
            get(stream + 2, "/page"),
            get(stream + 4, "/page"),
            post.concat(),
        ] {
            frames.write(&request).unwrap();
            frames.until(Frame::ends_stream).unwrap();
        }
    }
    wait_for("the lines of twenty hits", TIMEOUT, || {
        let log = site.access();
        let is_hit = |line: &&str| line.contains("HTTP/2.0") && line.contains("outcome=hit ");
        log.lines().filter(is_hit).count() == 20
    });
}

#[test]
fn a_hit_that_is_sent_in_parts_is_counted_once() {
    // A body above the client's window, a body above one write, and a head of several frames.
    let origin = Origin::start(|request, writer| {
        let long = "x".repeat(20_000);
        let mut fields = vec![("Content-Type", "text/html")];
        if request.path() == "/head" {
            fields.push(("X-Long", &long));
        }
        let bytes = if request.path() == "/body" {
            100_000
        } else {
            2_000
        };
        writer.respond(200, &fields, &random_bytes(bytes));
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .server("h2c = true")
        .start();
    let client = Client::open(site.addr());
    let client_with_large_windows = Client::with_large_windows(site.addr());
    for (client, target) in [
        (&client, "/body"),
        (&client_with_large_windows, "/body"),
        (&client_with_large_windows, "/head"),
    ] {
        client.get(target);
        let hits = || json_number(&site.why(target), "hits");
        let before = hits();
        let response = client.get(target);
        assert!(response.is_hit(), "{target}: {}", response.cache_status());
        assert_eq!(hits(), before + 1, "{target}");
    }
}

#[test]
fn responses_are_sent_in_order_of_urgency() {
    let site = file_site("");
    wait_for("the file to be in memory", TIMEOUT, || {
        site.get("/page.html");
        site.status_small_files("entries") == 1
    });
    let mut frames = open(&site);
    let requests = [(3, "u=7"), (5, "u=5, i"), (7, "u=0"), (9, "u=3")].map(|(stream, priority)| {
        let mut fields = fields("GET", "/page.html");
        fields.push(("priority", priority));
        head_frame(stream, END_STREAM, &fields)
    });
    // In one write, so that Galley reads them together.
    frames.write(&requests.concat()).unwrap();
    let mut heads = Vec::new();
    while heads.len() < 4 {
        let frame = frames.receive().unwrap();
        if frame.kind == HEADERS {
            heads.push(frame.stream);
        }
    }
    assert_eq!(heads, [7, 9, 5, 3]);
}

#[test]
fn a_reset_frees_the_upstream_slot() {
    let site = SiteBuilder::php().server("h2c = true").start();
    site.hold("/slow");
    let mut frames = open(&site);
    frames.write(&get(1, "/slow?nocache=1")).unwrap();
    site.wait_until_held("/slow");
    frames.write(&reset(1)).unwrap();
    let line = site.access_line("/slow");
    assert!(line.contains("HTTP/2.0\" 499"), "{line}");
    site.release("/slow");
}

/// The first client of a shared fetch leaves before, while and after the others join (CVE-2026-23918): they get the page, and other
/// streams of the connection go on.
#[test]
fn a_reset_in_any_state_harms_no_other_stream() {
    let site = SiteBuilder::php().server("h2c = true").start();
    let other = Client::open(site.addr());
    for (round, others_join_first) in [(0, true), (1, false)] {
        let path = format!("/shared{round}");
        site.pause(&path);
        let mut frames = open(&site);
        frames.write(&get(1, &path)).unwrap();
        site.wait_until_paused(&path);
        if others_join_first {
            frames.write(&get(3, &path)).unwrap();
        }
        frames.write(&reset(1)).unwrap();
        if !others_join_first {
            frames.write(&get(3, &path)).unwrap();
        }
        // A second reset arrives on a closed stream (RFC 9113 section 5.1).
        frames.write(&reset(1)).unwrap();
        site.resume(&path);
        let received = frames
            .until(|frame| frame.stream == 3 && frame.ends_stream())
            .unwrap();
        // The stream that is reset may have got the beginning of the page.
        let page = received
            .iter()
            .filter(|frame| frame.kind == DATA && frame.stream == 3);
        let text: Vec<u8> = page.flat_map(|frame| frame.payload.clone()).collect();
        let text = String::from_utf8_lossy(&text);
        assert!(text.ends_with("</html>\n"), "{text}, {received:?}");
        assert_eq!(site.runs(&path), 1);
        assert_eq!(other.get(&path).status, 200);
    }
    // A stream with an unsent body, one that the client has half closed, and one whose response is held back by its window.
    let mut frames = open(&site);
    let post = head_frame(1, 0, &fields("POST", "/form"));
    let no_window = bytes_of(4, 0, 0, &[0, 4, 0, 0, 0, 0]);
    frames.write(&[no_window, post, reset(1)].concat()).unwrap();
    frames.write(&get(3, "/shared0")).unwrap();
    frames
        .until(|frame| frame.kind == HEADERS && frame.stream == 3)
        .unwrap();
    frames.write(&reset(3)).unwrap();
    frames.write(&get(5, "/shared1")).unwrap();
    let window = bytes_of(WINDOW_UPDATE, 0, 5, &100_000_u32.to_be_bytes());
    frames.write(&window).unwrap();
    frames
        .until(|frame| frame.stream == 5 && frame.ends_stream())
        .unwrap();
    // A stream that does not exist: a connection error (RFC 9113 section 5.1), which other connections do not notice.
    frames.write(&reset(99)).unwrap();
    frames.until(|frame| frame.kind == GOAWAY).unwrap();
    assert_eq!(other.get("/shared1").status, 200);
}

#[test]
fn shutdown_sends_goaway_and_completes_open_streams() {
    let mut site = SiteBuilder::php().server("h2c = true").start();
    site.hold("/slow");
    let mut frames = open(&site);
    frames.write(&get(1, "/slow")).unwrap();
    site.wait_until_held("/slow");
    let mut idle = open(&site);
    idle.write(&get(1, "/other")).unwrap();
    idle.until(Frame::ends_stream).unwrap();
    site.galley.signal(galley_testkit::Signal::TERM);
    let goaway = idle.until(|frame| frame.kind == GOAWAY).unwrap();
    assert_eq!(goaway.last().unwrap().code(), Some(0));
    frames.until(|frame| frame.kind == GOAWAY).unwrap();
    site.release("/slow");
    let rest = frames.until_closed().unwrap();
    assert!(
        rest.iter()
            .any(|frame| frame.stream == 1 && frame.ends_stream()),
        "the response is incomplete: {rest:?}"
    );
    assert!(!rest.iter().any(|frame| frame.kind == RST_STREAM));
    assert!(site.galley.stop().success());
}

#[test]
fn http_2_without_tls_needs_prior_knowledge_and_h2c() {
    let site = file_site("");
    assert_eq!(
        site.get("/page.html").status,
        200,
        "HTTP/1 on the same port"
    );
    let upgrade = Request::get("/page.html")
        .field("Connection", "Upgrade, HTTP2-Settings")
        .field("Upgrade", "h2c")
        .field("HTTP2-Settings", "AAMAAABkAAQAAP__");
    assert_eq!(
        site.send(upgrade).status,
        200,
        "the upgrade of HTTP/1.1 (RFC 7540) is ignored"
    );
    let response = site.send_raw(b"PRI * HTTP/2.0\r\nHost: a\r\n\r\n");
    assert!(response.starts_with(b"HTTP/1.1 505"));
    let off = SiteBuilder::files().file("page.html", "x").start();
    let response = off.send_raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert!(
        response.starts_with(b"HTTP/1.1 505"),
        "{}",
        response.escape_ascii()
    );
    assert_eq!(HOST, "example.test");
}
