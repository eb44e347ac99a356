//! Apache, and origins that break HTTP on command, behind Galley.

use galley_testkit::client::Request;
use galley_testkit::origin::{Gate, Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::{Apache, ApacheOptions, wait_for};

use crate::support::{
    AssertStatus, HOST, SiteBuilder, TEST_PAGE, TIMEOUT, TestSite, page_value, run_concurrently,
    with_host,
};

fn behind(origin: &Origin, lines: &str) -> TestSite {
    SiteBuilder::upstream_line(&format!("upstream = [\"{}\"]", origin.url()))
        .site(lines)
        .start()
}

/// A site behind Apache.
pub struct Legacy {
    pub site: TestSite,
    pub apache: Apache,
}

/// Apache with PHP as a module, and Galley in front of it.
pub fn apache() -> Legacy {
    let plan = SiteBuilder::files();
    plan.scratch.write("web/index.php", TEST_PAGE).unwrap();
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
        site: TestSite {
            galley,
            fpm,
            scratch,
        },
        apache,
    }
}

#[test]
fn apache_generates_and_galley_caches() {
    let Legacy { site, apache } = apache();
    let first = site
        .send(Request::get("/page?utm_source=canary").cookie("_ga=canary"))
        .expect_status(200);
    assert_eq!(first.cache_status(), "galley; fwd=uri-miss; stored");
    let text = first.text();
    assert!(!text.contains("canary"), "{text}");
    assert_eq!(page_value(&text, "HTTP_HOST"), HOST);
    assert_eq!(page_value(&text, "HTTP_X_FORWARDED_FOR"), "127.0.0.1");
    assert_eq!(page_value(&text, "HTTP_X_FORWARDED_PROTO"), "http");
    let second = site.get("/page");
    assert!(second.is_hit());
    assert_eq!(second.body, first.body);
    assert_eq!(site.get("/own.txt").expect_status(200).text(), "of Apache");
    let form = site
        .send(Request::form("/form", &[("a", "b")]))
        .expect_status(200);
    assert!(form.text().contains("body=a=b\n"));
    site.head("/mine", &["Set-Cookie: a={run}", "Status: 403"]);
    for run in ["1", "2"] {
        let mine = site
            .send(Request::get("/mine").cookie("wordpress_logged_in_x=1"))
            .expect_status(403);
        assert_eq!(mine.field("set-cookie"), Some(format!("a={run}").as_str()));
    }
    drop(apache);
}

#[test]
fn apache_may_restart() {
    let Legacy { site, mut apache } = apache();
    site.get("/kept").assert_status(200);
    for round in 0..3 {
        site.get(&format!("/before{round}")).assert_status(200);
        apache.restart().unwrap();
        site.get(&format!("/after{round}")).assert_status(200);
        apache.restart().unwrap();
        // Also what may not be sent twice meets a living connection.
        site.send(Request::form(&format!("/form{round}"), &[("a", "b")]))
            .assert_status(200);
    }
    apache.kill();
    site.get("/down").assert_status(502);
    assert!(site.get("/kept").is_hit());
    apache.restart().unwrap();
    site.get("/down").assert_status(200);
}

#[test]
fn more_visitors_than_apache_has_children() {
    let Legacy { site, apache } = apache();
    let answers = run_concurrently(30, |n| {
        let mut connection = site.connect();
        (0..4).all(|round| {
            connection
                .exchange(&with_host(Request::form(
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

fn broken(seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>) {
    let rest = match seen.path() {
        "/garbage" => {
            writer.write(b"\x00\x01\x02 what is this\r\n\r\n");
            return writer.close();
        }
        "/closes" => return writer.close(),
        "/resets" => return writer.reset(),
        "/half-head" => "",
        "/short" => "Content-Length: 500\r\n\r\n<html>",
        "/short-chunks" => "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "/bad-chunks" => "Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
        "/both" => "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "/two-lengths" => "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "/bad-length" => "Content-Length: +5\r\n\r\nhello",
        "/bad-field" => "Bad Field: 1\r\nContent-Length: 5\r\n\r\nhello",
        _ => return unusual(seen, writer),
    };
    writer.write(format!("{HEAD}{rest}").as_bytes());
    writer.close();
}

/// Responses that are unusual, and those that Galley accepts.
fn unusual(seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>) {
    let whole = |rest: &str| format!("{HEAD}{rest}");
    match seen.path() {
        "/large-head" => {
            writer.write(
                whole(&format!(
                    "X-Large: {}\r\nContent-Length: 5\r\n\r\nhello",
                    "x".repeat(3_000_000)
                ))
                .as_bytes(),
            );
            writer.close();
        }
        "/switch" => {
            writer.write(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
            );
            writer.close();
        }
        "/interims" => {
            writer.write(
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n",
            );
            page(writer);
        }
        "/long" => {
            writer.write(whole(&format!("Content-Length: {}\r\n\r\n{PAGE}HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\nevil", PAGE.len())).as_bytes());
        }
        "/until-close" => {
            writer.write(whole(&format!("\r\n{PAGE}")).as_bytes());
            writer.close();
        }
        "/http10" => {
            writer.write(
                format!("HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n{PAGE}").as_bytes(),
            );
            writer.close();
        }
        _ => page(writer),
    }
}

fn page(writer: &mut ResponseWriter<'_>) {
    let fields = [
        ("Content-Type", "text/html"),
        ("Cache-Control", "max-age=600"),
    ];
    writer.answer(200, &fields, PAGE.as_bytes());
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nCache-Control: max-age=600\r\n";

#[test]
fn broken_answers_are_refused_or_broken_off_and_never_kept() {
    let origin = Origin::start(broken).unwrap();
    let site = behind(
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
            match with_host(request).send(site.addr()) {
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
            site.get("/fine").expect_status(200).text(),
            PAGE,
            "after {path}"
        );
    }
    site.get("/both").assert_status(502);
}

#[test]
fn odd_answers_that_are_whole() {
    let origin = Origin::start(broken).unwrap();
    let site = behind(&origin, "");
    for path in ["/interims", "/until-close", "/http10"] {
        let answer = site.get(path).expect_status(200);
        assert_eq!(answer.text(), PAGE, "{path}");
        assert!(answer.interim.is_empty(), "{path}: {:?}", answer.interim);
        assert!(!answer.has("link"), "{path}");
    }
}

#[test]
fn what_follows_an_answer_is_nobodys_answer() {
    let origin = Origin::start(broken).unwrap();
    let site = behind(&origin, "");
    for round in 0..10 {
        let answer = site.get(&format!("/long?{round}")).expect_status(200);
        assert_eq!(answer.text(), PAGE);
        let victim = site.get(&format!("/victim?{round}")).expect_status(200);
        assert_eq!(victim.text(), PAGE, "{round}");
        let posted = site
            .send(Request::form(&format!("/victim?{round}"), &[("a", "b")]))
            .expect_status(200);
        assert_eq!(posted.text(), PAGE, "{round}");
    }
}

#[test]
fn requests_reach_the_origin_in_one_form() {
    let origin = Origin::start(|_, writer| {
        writer.body();
        writer.answer(
            200,
            &[
                ("Content-Type", "text/plain"),
                ("Cache-Control", "no-store"),
            ],
            b"ok",
        );
    })
    .unwrap();
    let site = behind(&origin, "");
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
    site.send(request).assert_status(200);
    let seen = origin.requests().remove(0);
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
    let origin = Origin::start(|_, writer| {
        writer.answer(
            200,
            &[
                ("Content-Type", "text/plain"),
                ("Cache-Control", "no-store"),
            ],
            b"ok",
        );
    })
    .unwrap();
    let site = behind(&origin, "");
    for round in 0..10 {
        site.get(&format!("/a{round}")).assert_status(200);
        origin.drop_connections();
        site.get(&format!("/b{round}")).assert_status(200);
    }
    assert!(
        origin.connections() < 40,
        "connections are kept: {}",
        origin.connections()
    );
}

#[test]
fn an_unsafe_request_is_never_sent_twice() {
    let origin = Origin::start(|seen, writer| {
        writer.body();
        if seen.method == "POST" {
            writer.close();
        } else {
            writer.answer(200, &[("Content-Type", "text/plain")], b"ok");
        }
    })
    .unwrap();
    let site = behind(&origin, "");
    for round in 0..5 {
        site.get(&format!("/{round}")).assert_status(200);
        site.send(Request::form("/once", &[("a", "b")]))
            .assert_status(502);
    }
    assert_eq!(origin.count("/once"), 5);
}

#[test]
fn slow_origins_are_given_up() {
    let origin = Origin::start(|seen, writer| {
        if seen.path() == "/half" {
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100\r\n\r\n<html>",
            );
        }
        writer.wait_for_close();
    })
    .unwrap();
    let site = behind(
        &origin,
        "first_byte_timeout = \"400ms\"\nread_timeout = \"400ms\"",
    );
    site.get("/never").assert_status(504);
    assert!(
        with_host(Request::get("/half"))
            .send(site.addr())
            .map_or(true, |answer| answer.status == 502 || answer.status == 504)
    );
}

#[test]
fn a_client_that_leaves_ends_its_exchange() {
    let origin = Origin::start(|seen, writer| {
        if seen.path() == "/endless" {
            writer.chunked(
                200,
                &[
                    ("Content-Type", "text/plain"),
                    ("Cache-Control", "no-store"),
                ],
            );
            writer.chunk(b"first");
            writer.wait_for_close();
        } else {
            writer.answer(200, &[("Content-Type", "text/plain")], b"ok");
        }
    })
    .unwrap();
    let site = behind(&origin, "in_flight = 1");
    for _ in 0..2 {
        let mut connection = site.connect();
        connection
            .send(&with_host(
                Request::get("/endless").cookie("wordpress_logged_in_x=1"),
            ))
            .unwrap();
        let mut piece = [0; 16];
        std::io::Read::read_exact(&mut connection.stream(), &mut piece).unwrap();
        drop(connection);
        site.get("/next").assert_status(200);
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
    let site = SiteBuilder::upstream_line(&format!(
        "upstream = [\"http://{closed}\", \"{}\"]",
        origin.url()
    ))
    .start();
    for round in 0..6 {
        site.get(&format!("/{round}")).assert_status(200);
    }
    wait_for("access records", TIMEOUT, || {
        site.access().lines().count() == 6
    });
}

#[test]
fn uploads_pass_whole() {
    let origin = Origin::start(|_, writer| {
        let body = writer.body();
        let text = format!("{} {}", body.len(), crate::support::sha256(&body));
        writer.answer(200, &[("Content-Type", "text/plain")], text.as_bytes());
    })
    .unwrap();
    let site = behind(&origin, "");
    for length in [0, 10, 100_000, 5_000_000] {
        let body = crate::support::random_bytes(length);
        let wanted = format!("{length} {}", crate::support::sha256(&body));
        let answer = site
            .send(Request::post("/up", "application/octet-stream", body))
            .expect_status(200);
        assert_eq!(answer.text(), wanted);
    }
}

#[test]
fn a_long_answer_that_breaks_off_does_not_look_whole_to_http_10() {
    let gate = Gate::new();
    let origin = {
        let gate = gate.clone();
        Origin::start(move |_, writer| {
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n180000\r\n");
            writer.write(&vec![b'x'; 0x18_0000]);
            gate.pass();
            writer.write(b"\r\n10\r\nhalf");
            writer.close();
        })
        .unwrap()
    };
    let site = behind(&origin, "");
    let mut client = site.connect();
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
