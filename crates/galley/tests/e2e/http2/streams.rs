//! Streams beside each other: uploads, interim responses, bodies that arrive, the end of the server.

use galley_testkit::client::Request;
use galley_testkit::client::frames::kinds::{DATA, GOAWAY, HEADERS, RST_STREAM, WINDOW_UPDATE};
use galley_testkit::client::frames::{END_STREAM, Frame, bytes_of, head_frame};
use galley_testkit::origin::Origin;
use galley_testkit::wait_for;

use super::ask::Client;
use super::attacks::{fields, files, get, open, reset};
use crate::support::{HOST, PATIENCE, Plan, Stage, noise, number_in, sha256};

const HASH: &str =
    "<?php $in = file_get_contents('php://input'); echo strlen($in), ' ', hash('sha256', $in);";

#[test]
fn uploads_beside_each_other_arrive_whole() {
    let stage = Plan::php()
        .server("h2c = true")
        .file("hash.php", HASH)
        .start();
    assert_arrive(&stage, &[0, 1, 65_535, 65_536, 1_000_000, 3_000_000]);
}

/// Bodies of these sizes arrive whole on one connection, at once and after `100 Continue`.
fn assert_arrive(stage: &Stage, sizes: &[usize]) {
    let client = Client::open(stage.addr());
    let bodies: Vec<_> = sizes.iter().copied().map(noise).collect();
    let requests: Vec<Request> = bodies
        .iter()
        .flat_map(|body| {
            let post = Request::new("POST", "/hash.php");
            let waits = post.clone().field("Expect", "100-continue");
            [post.body(body.clone()), waits.chunked(&[body])]
        })
        .collect();
    for (number, answer) in client.all(&requests).into_iter().enumerate() {
        let body = &bodies[number / 2];
        let wanted = format!("{} {}", body.len(), sha256(body));
        assert_eq!(answer.unwrap().text(), wanted, "upload {number}");
    }
}

#[test]
fn streamed_uploads_beside_each_other_arrive_whole() {
    let origin = Origin::start(|_, wire| {
        let body = wire.body();
        let text = format!("{} {}", body.len(), sha256(&body));
        wire.answer(200, &[], text.as_bytes());
    })
    .unwrap();
    let rule = "[[site.rule]]\npath = \"/*\"\nstream_request = true";
    let php = Plan::php().file("hash.php", HASH);
    for plan in [php, Plan::origin(&origin, "wordpress")] {
        let stage = plan.server("h2c = true").more(rule).start();
        assert_arrive(&stage, &[1, 65_535, 1_000_000, 3_000_000]);
    }
}

#[test]
fn a_body_beyond_the_limit_is_declined_before_its_end() {
    let stage = Plan::php()
        .server("h2c = true\nrequest_body = \"100KiB\"")
        .start();
    let client = Client::open(stage.addr());
    for request in [
        Request::new("POST", "/form").body(noise(5_000_000)),
        Request::new("POST", "/form").chunked(&[&noise(5_000_000)]),
    ] {
        assert_eq!(client.ask(&request).status, 413);
    }
    // It is the stream that was refused.
    assert_eq!(client.get("/after").status, 200);
    assert_eq!(stage.runs("/form"), 0);
}

#[test]
fn trailers_are_read_and_go_no_further() {
    let stage = Plan::php().server("h2c = true").start();
    let mut frames = open(&stage);
    frames
        .write(&head_frame(1, 0, &fields("POST", "/form")))
        .unwrap();
    frames.write(&bytes_of(DATA, 0, 1, b"the body")).unwrap();
    let trailers = [("x-trailer", "evil"), ("cookie", "evil")];
    frames.write(&head_frame(1, END_STREAM, &trailers)).unwrap();
    let answer = frames
        .until(|frame| frame.stream == 1 && frame.ends_stream())
        .unwrap();
    let body: Vec<u8> = answer
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
fn crumbs_of_cookies_are_one_cookie() {
    let stage = Plan::php().server("h2c = true").start();
    let client = Client::open(stage.addr());
    let in_crumbs = Request::get("/page")
        .field("Cookie", "a=1")
        .field("Cookie", "wordpress_logged_in_x=me")
        .field("Cookie", "b=2");
    for _ in 0..2 {
        let answer = client.ask(&in_crumbs);
        let text = answer.text();
        assert!(!answer.is_hit(), "somebody who is logged in");
        let wanted = "HTTP_COOKIE=a=1; wordpress_logged_in_x=me; b=2\n";
        assert!(text.contains(wanted), "{text}");
    }
    let anonymous = Request::get("/page")
        .field("Cookie", "_ga=1")
        .field("Cookie", "_gid=2");
    client.ask(&anonymous);
    assert!(client.ask(&anonymous).is_hit());
}

fn origin() -> Origin {
    Origin::start(|seen, wire| match seen.path() {
        "/hints" => {
            wire.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nConnection: x\r\n\r\n");
            wire.answer(200, &[("Content-Type", "text/html")], b"<html></html>");
        }
        "/hinted" => {
            let links = "</a.css>; rel=preload; as=style, </?p=1>; rel=shortlink";
            wire.answer(200, &[("Content-Type", "text/html"), ("Link", links)], b"<html></html>");
        }
        "/broken" => {
            wire.write(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nCache-Control: private\r\nContent-Length: 1000000\r\n\r\n");
            wire.write(&noise(500_000));
            wire.close();
        }
        "/pieces" => {
            wire.chunked(200, &[("Content-Type", "text/html"), ("Connection", "keep-alive"), ("Keep-Alive", "5")]);
            for number in 0..200 {
                wire.chunk(format!("piece {number} ").repeat(100).as_bytes());
            }
            wire.last_chunk();
        }
        _ => {
            wire.answer(200, &[("Content-Type", "text/html")], b"<html></html>");
        }
    })
    .unwrap()
}

#[test]
fn a_page_that_is_generated_again_is_hinted_at_to_who_navigates() {
    let origin = origin();
    let begin = |options: &str| {
        Plan::origin(&origin, "wordpress")
            .server("h2c = true")
            .site(options)
            .start()
    };
    let stage = begin("early_hints = true");
    let client = Client::open(stage.addr());
    let navigation = Request::get("/hinted").field("Sec-Fetch-Mode", "navigate");
    let purged = |request: &Request| {
        stage.purge(&["--prefix", "/hinted"]);
        let answer = client.ask(request);
        assert!(!answer.is_hit());
        (answer.interim, answer.status)
    };
    let bare = vec![];
    let first = client.ask(&navigation);
    assert_eq!(first.interim, bare, "nothing is known of it");
    assert_eq!(purged(&navigation), (vec![103], 200));
    let hit = client.ask(&navigation);
    assert!(hit.is_hit() && hit.interim.is_empty());
    for other in [
        Request::get("/hinted"),
        Request::get("/hinted").field("Sec-Fetch-Mode", "cors"),
        navigation.clone().field("Sec-Purpose", "prefetch"),
    ] {
        assert_eq!(purged(&other), (bare.clone(), 200));
    }
    // Over HTTP/1.1 nobody wants them.
    stage.purge(&["--prefix", "/hinted"]);
    assert_eq!(stage.ask(navigation.clone()).interim, bare);
    let silent = begin("");
    let client = Client::open(silent.addr());
    client.ask(&navigation);
    silent.purge(&["--prefix", "/hinted"]);
    assert_eq!(client.ask(&navigation).interim, bare);
}

#[test]
fn what_arrives_from_the_upstream_leaves_by_the_stream() {
    let origin = origin();
    let stage = Plan::origin(&origin, "wordpress")
        .server("h2c = true")
        .start();
    let client = Client::open(stage.addr());
    // Only on the way of one visitor's own request.
    let own = Request::get("/hints").field("Cookie", "wordpress_logged_in_x=me");
    let hints = client.ask(&own);
    assert_eq!((hints.status, hints.interim), (200, vec![103]));
    let wanted: String = (0..200)
        .map(|number| format!("piece {number} ").repeat(100))
        .collect();
    for _ in 0..3 {
        let pieces = client.get("/pieces");
        assert_eq!(pieces.text(), wanted);
        assert!(!pieces.has("connection") && !pieces.has("keep-alive"));
    }
    let broken = client.try_ask(&Request::get("/broken"));
    assert_eq!(
        broken.unwrap_err().reason(),
        Some(h2::Reason::INTERNAL_ERROR)
    );
    assert_eq!(client.get("/hints").status, 200, "the connection goes on");
}

#[test]
fn a_head_over_the_limit_is_a_431() {
    let stage = files("head_size = \"8KiB\"");
    let client = Client::open(stage.addr());
    let sized = |bytes: usize| Request::get("/page.html").field("X-Large", "v".repeat(bytes));
    assert_eq!(client.ask(&sized(7_000)).status, 200);
    // Ours, and logged; then the library's.
    for bytes in [8_200, 9_000, 14_000] {
        assert_eq!(client.ask(&sized(bytes)).status, 431, "{bytes}");
    }
    let line = stage.access_line(" 431 ");
    assert!(line.contains("refused:head-too-large"), "{line}");
    assert_eq!(client.get("/page.html").status, 200);
}

#[test]
fn hits_and_others_follow_each_other_on_one_connection() {
    let stage = Plan::php().server("h2c = true").start();
    stage.get("/page");
    let mut frames = open(&stage);
    // Room for hits beside what every client gives.
    let room = bytes_of(WINDOW_UPDATE, 0, 0, &(1_u32 << 20).to_be_bytes());
    frames.write(&room).unwrap();
    for round in 0..10 {
        // Generated for each; then from memory, twice, so that the library behind rests; then with a body.
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
    wait_for("the lines of twenty hits", PATIENCE, || {
        let log = stage.access();
        let is_hit = |line: &&str| line.contains("HTTP/2.0") && line.contains("outcome=hit ");
        log.lines().filter(is_hit).count() == 20
    });
}

#[test]
fn a_hit_that_is_sent_in_turns_is_looked_up_once() {
    // More than the client has room for, more than is sent at once, and a head of more than one frame.
    let origin = Origin::start(|seen, wire| {
        let long = "x".repeat(20_000);
        let mut fields = vec![("Content-Type", "text/html")];
        if seen.path() == "/head" {
            fields.push(("X-Long", &long));
        }
        let bytes = if seen.path() == "/body" {
            100_000
        } else {
            2_000
        };
        wire.answer(200, &fields, &noise(bytes));
    })
    .unwrap();
    let stage = Plan::origin(&origin, "wordpress")
        .server("h2c = true")
        .start();
    let client = Client::open(stage.addr());
    let wide = Client::wide(stage.addr());
    for (client, target) in [(&client, "/body"), (&wide, "/body"), (&wide, "/head")] {
        client.get(target);
        let hits = || number_in(&stage.why(target), "hits");
        let before = hits();
        let response = client.get(target);
        assert!(response.is_hit(), "{target}: {}", response.cache_status());
        assert_eq!(hits(), before + 1, "{target}");
    }
}

#[test]
fn what_is_urgent_leaves_first() {
    let stage = files("");
    wait_for("the file to be in memory", PATIENCE, || {
        stage.get("/page.html");
        stage.status_small_files("entries") == 1
    });
    let mut frames = open(&stage);
    let asked = [(3, "u=7"), (5, "u=5, i"), (7, "u=0"), (9, "u=3")].map(|(stream, priority)| {
        let mut fields = fields("GET", "/page.html");
        fields.push(("priority", priority));
        head_frame(stream, END_STREAM, &fields)
    });
    // In one write, so that they are read together.
    frames.write(&asked.concat()).unwrap();
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
fn a_reset_gives_the_place_at_the_upstream_back() {
    let stage = Plan::php().server("h2c = true").start();
    stage.hold("/slow");
    let mut frames = open(&stage);
    frames.write(&get(1, "/slow?nocache=1")).unwrap();
    stage.wait_until_held("/slow");
    frames.write(&reset(1)).unwrap();
    let line = stage.access_line("/slow");
    assert!(line.contains("HTTP/2.0\" 499"), "{line}");
    stage.release("/slow");
}

#[test]
fn the_end_of_the_server_lets_streams_end() {
    let mut stage = Plan::php().server("h2c = true").start();
    stage.hold("/slow");
    let mut frames = open(&stage);
    frames.write(&get(1, "/slow")).unwrap();
    stage.wait_until_held("/slow");
    let mut idle = open(&stage);
    idle.write(&get(1, "/other")).unwrap();
    idle.until(Frame::ends_stream).unwrap();
    stage.galley.signal(galley_testkit::Signal::TERM);
    let farewell = idle.until(|frame| frame.kind == GOAWAY).unwrap();
    assert_eq!(farewell.last().unwrap().code(), Some(0));
    frames.until(|frame| frame.kind == GOAWAY).unwrap();
    stage.release("/slow");
    let rest = frames.until_closed().unwrap();
    assert!(
        rest.iter()
            .any(|frame| frame.stream == 1 && frame.ends_stream()),
        "the answer is whole: {rest:?}"
    );
    assert!(!rest.iter().any(|frame| frame.kind == RST_STREAM));
    assert!(stage.galley.stop().success());
}

#[test]
fn only_who_begins_with_it_speaks_http_2_and_only_where_it_is_allowed() {
    let stage = files("");
    assert_eq!(
        stage.get("/page.html").status,
        200,
        "HTTP/1 on the same port"
    );
    let upgrade = Request::get("/page.html")
        .field("Connection", "Upgrade, HTTP2-Settings")
        .field("Upgrade", "h2c")
        .field("HTTP2-Settings", "AAMAAABkAAQAAP__");
    assert_eq!(
        stage.ask(upgrade).status,
        200,
        "the upgrade of old is not known"
    );
    let answer = stage.all_of(b"PRI * HTTP/2.0\r\nHost: a\r\n\r\n");
    assert!(answer.starts_with(b"HTTP/1.1 505"));
    let off = Plan::files().file("page.html", "x").start();
    let answer = off.all_of(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert!(
        answer.starts_with(b"HTTP/1.1 505"),
        "{}",
        answer.escape_ascii()
    );
    assert_eq!(HOST, "example.test");
}
