//! Apache, and origins that break HTTP on command, behind Galley.

use galley_testkit::client::Request;
use galley_testkit::origin::{Gate, Origin, Seen, Wire};
use galley_testkit::{Apache, ApacheOptions, wait_for};

use crate::support::{HOST, Is, LAB, PATIENCE, Plan, Stage, hosted, said, together};

fn behind(origin: &Origin, lines: &str) -> Stage {
    Plan::behind(&format!("upstream = [\"{}\"]", origin.url()))
        .site(lines)
        .start()
}

/// A site behind Apache.
pub struct Legacy {
    pub stage: Stage,
    pub apache: Apache,
}

/// Apache with PHP as a module, and Galley in front of it.
pub fn apache() -> Legacy {
    let plan = Plan::files();
    plan.scratch.write("web/index.php", LAB).unwrap();
    plan.scratch
        .write(
            "web/.htaccess",
            "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /index.php [L]\n",
        )
        .unwrap();
    plan.scratch.write("web/own.txt", "of Apache").unwrap();
    let options = ApacheOptions {
        extra: "UseCanonicalName Off".to_owned(),
        ..ApacheOptions::default()
    };
    let apache = Apache::start(
        &plan.scratch.join("apache"),
        &plan.scratch.join("web"),
        &options,
    )
    .unwrap();
    let (scratch, fpm, config) = plan.prepare();
    let config = config.replace(
        &format!("hosts = [\"{HOST}\"]"),
        &format!("hosts = [\"{HOST}\"]\nupstream = [\"{}\"]", apache.url()),
    );
    let galley = galley_testkit::Galley::start_binary(
        crate::support::binary(),
        &scratch.join("galley"),
        &config,
    )
    .unwrap();
    Legacy {
        stage: Stage {
            galley,
            fpm,
            scratch,
        },
        apache,
    }
}

#[test]
fn apache_generates_and_galley_caches() {
    let Legacy { stage, apache } = apache();
    let first = stage
        .ask(Request::get("/page?utm_source=canary").cookie("_ga=canary"))
        .expect_status(200);
    assert_eq!(first.cache_status(), "galley; fwd=uri-miss; stored");
    let text = first.text();
    assert!(!text.contains("canary"), "{text}");
    assert_eq!(said(&text, "HTTP_HOST"), HOST);
    assert_eq!(said(&text, "HTTP_X_FORWARDED_FOR"), "127.0.0.1");
    assert_eq!(said(&text, "HTTP_X_FORWARDED_PROTO"), "http");
    let second = stage.get("/page");
    assert!(second.is_hit());
    assert_eq!(second.body, first.body);
    assert_eq!(stage.get("/own.txt").expect_status(200).text(), "of Apache");
    let form = stage
        .ask(Request::form("/form", &[("a", "b")]))
        .expect_status(200);
    assert!(form.text().contains("body=a=b\n"));
    stage.head("/mine", &["Set-Cookie: a={run}", "Status: 403"]);
    for run in ["1", "2"] {
        let mine = stage
            .ask(Request::get("/mine").cookie("wordpress_logged_in_x=1"))
            .expect_status(403);
        assert_eq!(mine.field("set-cookie"), Some(format!("a={run}").as_str()));
    }
    drop(apache);
}

#[test]
fn apache_may_restart() {
    let Legacy { stage, mut apache } = apache();
    stage.get("/kept").is(200);
    for round in 0..3 {
        stage.get(&format!("/before{round}")).is(200);
        apache.restart().unwrap();
        stage.get(&format!("/after{round}")).is(200);
        apache.restart().unwrap();
        // Also what may not be sent twice meets a living connection.
        stage
            .ask(Request::form(&format!("/form{round}"), &[("a", "b")]))
            .is(200);
    }
    apache.kill();
    stage.get("/down").is(502);
    assert!(stage.get("/kept").is_hit());
    apache.restart().unwrap();
    stage.get("/down").is(200);
}

#[test]
fn more_visitors_than_apache_has_children() {
    let Legacy { stage, apache } = apache();
    let answers = together(30, |n| {
        let mut connection = stage.connect();
        (0..4).all(|round| {
            connection
                .exchange(&hosted(Request::form(
                    &format!("/f{n}_{round}"),
                    &[("a", "b")],
                )))
                .unwrap()
                .status
                == 200
        })
    });
    assert!(answers.into_iter().all(|fine| fine));
    drop(apache);
}

const PAGE: &str = "<html><body>a whole page</body></html>";

fn broken(seen: &Seen, wire: &mut Wire<'_>) {
    let rest = match seen.path() {
        "/garbage" => {
            wire.write(b"\x00\x01\x02 what is this\r\n\r\n");
            return wire.close();
        }
        "/closes" => return wire.close(),
        "/resets" => return wire.reset(),
        "/half-head" => "",
        "/short" => "Content-Length: 500\r\n\r\n<html>",
        "/short-chunks" => "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "/bad-chunks" => "Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
        "/both" => "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "/two-lengths" => "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "/bad-length" => "Content-Length: +5\r\n\r\nhello",
        "/bad-field" => "Bad Field: 1\r\nContent-Length: 5\r\n\r\nhello",
        _ => return unusual(seen, wire),
    };
    wire.write(format!("{HEAD}{rest}").as_bytes());
    wire.close();
}

/// Responses that are unusual, and those that Galley accepts.
fn unusual(seen: &Seen, wire: &mut Wire<'_>) {
    let whole = |rest: &str| format!("{HEAD}{rest}");
    match seen.path() {
        "/large-head" => {
            wire.write(
                whole(&format!(
                    "X-Large: {}\r\nContent-Length: 5\r\n\r\nhello",
                    "x".repeat(3_000_000)
                ))
                .as_bytes(),
            );
            wire.close();
        }
        "/switch" => {
            wire.write(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
            );
            wire.close();
        }
        "/interims" => {
            wire.write(
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n",
            );
            page(wire);
        }
        "/long" => {
            wire.write(whole(&format!("Content-Length: {}\r\n\r\n{PAGE}HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\nevil", PAGE.len())).as_bytes());
        }
        "/until-close" => {
            wire.write(whole(&format!("\r\n{PAGE}")).as_bytes());
            wire.close();
        }
        "/http10" => {
            wire.write(
                format!("HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n{PAGE}").as_bytes(),
            );
            wire.close();
        }
        _ => page(wire),
    }
}

fn page(wire: &mut Wire<'_>) {
    let fields = [
        ("Content-Type", "text/html"),
        ("Cache-Control", "max-age=600"),
    ];
    wire.answer(200, &fields, PAGE.as_bytes());
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nCache-Control: max-age=600\r\n";

#[test]
fn broken_answers_are_refused_or_broken_off_and_never_kept() {
    let origin = Origin::start(broken).unwrap();
    let stage = behind(
        &origin,
        "first_byte_timeout = \"3s\"\nread_timeout = \"3s\"",
    );
    // Before the head: 502. After it: an end before the end, or 502 where nothing had left.
    for (path, head_is_fine) in [
        ("/garbage", false),
        ("/closes", false),
        ("/resets", false),
        ("/half-head", false),
        ("/short", true),
        ("/short-chunks", true),
        ("/bad-chunks", true),
        ("/two-lengths", false),
        ("/bad-length", false),
        ("/bad-field", false),
        ("/large-head", false),
        ("/switch", false),
    ] {
        for request in [
            Request::get(path),
            Request::get(path),
            Request::form(path, &[("a", "b")]),
        ] {
            let method = request.method.clone();
            match hosted(request).send(stage.addr()) {
                Ok(answer) => assert_eq!(
                    answer.status,
                    502,
                    "{method} {path}: {}",
                    answer.beginning()
                ),
                Err(trouble) => assert!(head_is_fine, "{method} {path}: {trouble}"),
            }
        }
        assert_eq!(
            stage.get("/fine").expect_status(200).text(),
            PAGE,
            "after {path}"
        );
    }
    stage.get("/both").is(502);
}

#[test]
fn odd_answers_that_are_whole() {
    let origin = Origin::start(broken).unwrap();
    let stage = behind(&origin, "");
    for path in ["/interims", "/until-close", "/http10"] {
        let answer = stage.get(path).expect_status(200);
        assert_eq!(answer.text(), PAGE, "{path}");
        assert!(answer.interim.is_empty(), "{path}: {:?}", answer.interim);
        assert!(!answer.has("link"), "{path}");
    }
}

#[test]
fn what_follows_an_answer_is_nobodys_answer() {
    let origin = Origin::start(broken).unwrap();
    let stage = behind(&origin, "");
    for round in 0..10 {
        let answer = stage.get(&format!("/long?{round}")).expect_status(200);
        assert_eq!(answer.text(), PAGE);
        let victim = stage.get(&format!("/victim?{round}")).expect_status(200);
        assert_eq!(victim.text(), PAGE, "{round}");
        let posted = stage
            .ask(Request::form(&format!("/victim?{round}"), &[("a", "b")]))
            .expect_status(200);
        assert_eq!(posted.text(), PAGE, "{round}");
    }
}

#[test]
fn requests_reach_the_origin_in_one_form() {
    let origin = Origin::start(|_, wire| {
        wire.body();
        wire.answer(
            200,
            &[
                ("Content-Type", "text/plain"),
                ("Cache-Control", "no-store"),
            ],
            b"ok",
        );
    })
    .unwrap();
    let stage = behind(&origin, "");
    let request = Request::new("POST", "/x/../a%2fb//c?q=1&&z=%41")
        .field("Connection", "close, X-Secret-Hop, Cookie, Host")
        .field("X-Secret-Hop", "1")
        .field("X_Under", "1")
        .field("Proxy", "1")
        .field("X-Forwarded-For", "6.6.6.6")
        .field("TE", "trailers")
        .field("Expect", "100-continue")
        .cookie("wordpress_logged_in_x=1")
        .chunked(&[b"one", b"two"]);
    stage.ask(request).is(200);
    let seen = origin.seen().remove(0);
    assert_eq!(seen.target, "/a%2Fb//c?q=1&&z=%41");
    assert_eq!(seen.body, b"onetwo");
    assert_eq!(seen.field("content-length"), Some("6"));
    assert_eq!(seen.field("transfer-encoding"), None);
    assert_eq!(seen.field("host"), Some(HOST));
    assert_eq!(
        seen.field("cookie"),
        Some("wordpress_logged_in_x=1"),
        "Connection cannot name a session away"
    );
    assert_eq!(seen.field("x-forwarded-for"), Some("127.0.0.1"));
    for gone in ["x-secret-hop", "x_under", "proxy", "te", "expect"] {
        assert_eq!(seen.field(gone), None, "{gone}");
    }
}

#[test]
fn a_connection_that_the_origin_closed_is_not_held_against_a_visitor() {
    let origin = Origin::start(|_, wire| {
        wire.answer(
            200,
            &[
                ("Content-Type", "text/plain"),
                ("Cache-Control", "no-store"),
            ],
            b"ok",
        );
    })
    .unwrap();
    let stage = behind(&origin, "");
    for round in 0..10 {
        stage.get(&format!("/a{round}")).is(200);
        origin.drop_connections();
        stage.get(&format!("/b{round}")).is(200);
    }
    assert!(
        origin.connections() < 40,
        "connections are kept: {}",
        origin.connections()
    );
}

#[test]
fn an_unsafe_request_is_never_sent_twice() {
    let origin = Origin::start(|seen, wire| {
        wire.body();
        if seen.method == "POST" {
            wire.close();
        } else {
            wire.answer(200, &[("Content-Type", "text/plain")], b"ok");
        }
    })
    .unwrap();
    let stage = behind(&origin, "");
    for round in 0..5 {
        stage.get(&format!("/{round}")).is(200);
        stage.ask(Request::form("/once", &[("a", "b")])).is(502);
    }
    assert_eq!(origin.count("/once"), 5);
}

#[test]
fn slow_origins_are_given_up() {
    let origin = Origin::start(|seen, wire| {
        if seen.path() == "/half" {
            wire.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100\r\n\r\n<html>",
            );
        }
        wire.wait_for_close();
    })
    .unwrap();
    let stage = behind(
        &origin,
        "first_byte_timeout = \"400ms\"\nread_timeout = \"400ms\"",
    );
    stage.get("/never").is(504);
    assert!(
        hosted(Request::get("/half"))
            .send(stage.addr())
            .map_or(true, |answer| answer.status == 502 || answer.status == 504)
    );
}

#[test]
fn a_client_that_leaves_ends_its_exchange() {
    let origin = Origin::start(|seen, wire| {
        if seen.path() == "/endless" {
            wire.chunked(
                200,
                &[
                    ("Content-Type", "text/plain"),
                    ("Cache-Control", "no-store"),
                ],
            );
            wire.chunk(b"first");
            wire.wait_for_close();
        } else {
            wire.answer(200, &[("Content-Type", "text/plain")], b"ok");
        }
    })
    .unwrap();
    let stage = behind(&origin, "in_flight = 1");
    for _ in 0..2 {
        let mut connection = stage.connect();
        connection
            .send(&hosted(
                Request::get("/endless").cookie("wordpress_logged_in_x=1"),
            ))
            .unwrap();
        let mut piece = [0; 16];
        std::io::Read::read_exact(&mut connection.stream(), &mut piece).unwrap();
        drop(connection);
        stage.get("/next").is(200);
    }
}

#[test]
fn the_next_server_answers_when_one_is_down() {
    let origin = Origin::constant(
        &[
            ("Content-Type", "text/plain"),
            ("Cache-Control", "no-store"),
        ],
        "ok",
    )
    .unwrap();
    // A port that was free a moment ago: nobody listens there.
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let stage = Plan::behind(&format!(
        "upstream = [\"http://{closed}\", \"{}\"]",
        origin.url()
    ))
    .start();
    for round in 0..6 {
        stage.get(&format!("/{round}")).is(200);
    }
    wait_for("access records", PATIENCE, || {
        stage.access().lines().count() == 6
    });
}

#[test]
fn uploads_pass_whole() {
    let origin = Origin::start(|_, wire| {
        let body = wire.body();
        let text = format!("{} {}", body.len(), crate::support::sha256(&body));
        wire.answer(200, &[("Content-Type", "text/plain")], text.as_bytes());
    })
    .unwrap();
    let stage = behind(&origin, "");
    for length in [0, 10, 100_000, 5_000_000] {
        let body = crate::support::noise(length);
        let wanted = format!("{length} {}", crate::support::sha256(&body));
        let answer = stage
            .ask(Request::post("/up", "application/octet-stream", body))
            .expect_status(200);
        assert_eq!(answer.text(), wanted);
    }
}

#[test]
fn a_long_answer_that_breaks_off_does_not_look_whole_to_http_10() {
    let gate = Gate::new();
    let origin = {
        let gate = gate.clone();
        Origin::start(move |_, wire| {
            wire.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n180000\r\n");
            wire.write(&vec![b'x'; 0x18_0000]);
            gate.pass();
            wire.write(b"\r\n10\r\nhalf");
            wire.close();
        })
        .unwrap()
    };
    let stage = behind(&origin, "");
    let mut client = stage.connect();
    client
        .write(format!("GET /download HTTP/1.0\r\nHost: {HOST}\r\n\r\n").as_bytes())
        .unwrap();
    // Broken off before the head has left, it would be a 502.
    client.stream().peek(&mut [0]).unwrap();
    gate.open();
    let end = client.read_to_end();
    let trouble = end.expect_err("the end looked like that of a whole answer");
    assert!(trouble.to_string().contains("reset"), "{trouble}");
}
