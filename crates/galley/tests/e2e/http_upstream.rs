//! HTTP upstreams: a real Apache, and origins that violate HTTP, time out or close connections.

use galley_testkit::client::Request;
use galley_testkit::origin::{Gate, Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::{Apache, ApacheOptions, wait_for};

use crate::support::{
    AssertStatus, HOST, SiteBuilder, TEST_PAGE, TIMEOUT, TestSite, page_value, run_concurrently,
    with_host,
};

fn with_origin(origin: &Origin, lines: &str) -> TestSite {
    SiteBuilder::upstream_line(&format!("upstream = [\"{}\"]", origin.url()))
        .site(lines)
        .start()
}

/// A site with Apache as its upstream.
pub struct ApacheSite {
    pub site: TestSite,
    pub apache: Apache,
}

/// Starts Apache with PHP as a module, and Galley in front of it.
pub fn apache() -> ApacheSite {
    let builder = SiteBuilder::files();
    builder.scratch.write("web/index.php", TEST_PAGE).unwrap();
    builder
        .scratch
        .write(
            "web/.htaccess",
            "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /index.php [L]\n",
        )
        .unwrap();
    builder.scratch.write("web/own.txt", "of Apache").unwrap();
    let options = ApacheOptions {
        extra: "UseCanonicalName Off".to_owned(),
        ..ApacheOptions::default()
    };
    let apache = Apache::start(
        &builder.scratch.join("apache"),
        &builder.scratch.join("web"),
        &options,
    )
    .unwrap();
    let site = builder
        .site(&format!("upstream = [\"{}\"]", apache.url()))
        .start();
    ApacheSite { site, apache }
}

#[test]
fn pages_of_apache_are_cached() {
    let ApacheSite { site, apache } = apache();
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
fn apache_restarts_cause_no_errors() {
    let ApacheSite { site, mut apache } = apache();
    site.get("/kept").assert_status(200);
    for round in 0..3 {
        site.get(&format!("/before{round}")).assert_status(200);
        apache.restart().unwrap();
        site.get(&format!("/after{round}")).assert_status(200);
        apache.restart().unwrap();
        // An unsafe request cannot be retried, so it must get an open connection.
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
fn more_clients_than_apache_children_are_served() {
    let ApacheSite { site, apache } = apache();
    let responses = run_concurrently(30, |n| {
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
    assert!(responses.into_iter().all(|fine| fine));
    drop(apache);
}

const PAGE: &str = "<html><body>a whole page</body></html>";

fn send_broken(request: &ReceivedRequest, writer: &mut ResponseWriter<'_>) {
    let rest = match request.path() {
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
        _ => return send_unusual(request, writer),
    };
    writer.write(format!("{HEAD}{rest}").as_bytes());
    writer.close();
}

/// Unusual responses, some of which Galley accepts.
fn send_unusual(request: &ReceivedRequest, writer: &mut ResponseWriter<'_>) {
    let whole = |rest: &str| format!("{HEAD}{rest}");
    match request.path() {
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
            send_page(writer);
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
        _ => send_page(writer),
    }
}

fn send_page(writer: &mut ResponseWriter<'_>) {
    let fields = [
        ("Content-Type", "text/html"),
        ("Cache-Control", "max-age=600"),
    ];
    writer.respond(200, &fields, PAGE.as_bytes());
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nCache-Control: max-age=600\r\n";

#[test]
fn broken_http_responses_get_502_or_are_truncated_and_never_stored() {
    let origin = Origin::start(send_broken).unwrap();
    let site = with_origin(
        &origin,
        "first_byte_timeout = \"3s\"\nread_timeout = \"3s\"",
    );
    // An invalid head gets 502. An error in the body gets 502, or a truncated response if its head was sent already.
    for (path, has_valid_head) in [
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
                Ok(response) => assert_eq!(
                    response.status,
                    502,
                    "{method} {path}: {}",
                    response.excerpt()
                ),
                Err(error) => assert!(has_valid_head, "{method} {path}: {error}"),
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
fn interim_responses_and_close_delimited_bodies_are_accepted() {
    let origin = Origin::start(send_broken).unwrap();
    let site = with_origin(&origin, "");
    for path in ["/interims", "/until-close", "/http10"] {
        let response = site.get(path).expect_status(200);
        assert_eq!(response.text(), PAGE, "{path}");
        assert!(
            response.interim.is_empty(),
            "{path}: {:?}",
            response.interim
        );
        assert!(!response.has("link"), "{path}");
    }
}

#[test]
fn extra_bytes_after_a_response_are_discarded() {
    let origin = Origin::start(send_broken).unwrap();
    let site = with_origin(&origin, "");
    for round in 0..10 {
        let response = site.get(&format!("/long?{round}")).expect_status(200);
        assert_eq!(response.text(), PAGE);
        let victim = site.get(&format!("/victim?{round}")).expect_status(200);
        assert_eq!(victim.text(), PAGE, "{round}");
        let posted = site
            .send(Request::form(&format!("/victim?{round}"), &[("a", "b")]))
            .expect_status(200);
        assert_eq!(posted.text(), PAGE, "{round}");
    }
}

#[test]
fn requests_are_normalized_before_they_are_forwarded() {
    let origin = Origin::start(|_, writer| {
        writer.body();
        writer.respond(
            200,
            &[
                ("Content-Type", "text/plain"),
                ("Cache-Control", "no-store"),
            ],
            b"ok",
        );
    })
    .unwrap();
    let site = with_origin(&origin, "");
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
    let received = origin.requests().remove(0);
    assert_eq!(received.target, "/a%2Fb//c?q=1&&z=%41");
    assert_eq!(received.body, b"onetwo");
    assert_eq!(received.field("content-length"), Some("6"));
    assert_eq!(received.field("transfer-encoding"), None);
    assert_eq!(received.field("host"), Some(HOST));
    assert_eq!(
        received.field("cookie"),
        Some("wordpress_logged_in_x=1"),
        "Connection cannot remove cookies"
    );
    assert_eq!(received.field("x-forwarded-for"), Some("127.0.0.1"));
    for removed in ["x-secret-hop", "x_under", "proxy", "te", "expect"] {
        assert_eq!(received.field(removed), None, "{removed}");
    }
}

/// NTLM and Negotiate authenticate a connection (RFC 4559 section 6), so another client's request must not follow on it.
#[test]
fn a_connection_that_a_client_has_authenticated_is_not_reused() {
    let origin = Origin::start(|request, writer| {
        let schemes = request.target.strip_prefix("/challenge/").unwrap_or("");
        let schemes = schemes.replace("%20", " ").replace('+', ",");
        let mut fields = vec![
            ("Content-Type", "text/plain"),
            ("Cache-Control", "no-store"),
        ];
        if !schemes.is_empty() {
            fields.push(("WWW-Authenticate", &schemes));
        }
        let status = if schemes.is_empty() { 200 } else { 401 };
        writer.respond(status, &fields, b"page");
    })
    .unwrap();
    let site = with_origin(&origin, "");
    let connections = |request: Request| {
        site.get("/warm-up").assert_status(200);
        let before = origin.connections();
        site.send(request);
        site.get("/of-another-client").assert_status(200);
        origin.connections() - before
    };
    let sent = |value: &str| Request::get("/page").field("Authorization", value);
    let challenge = |target: &str| Request::get(&format!("/challenge/{target}"));
    for request in [
        sent("NTLM TlRMTVNTUAABAAAA"),
        sent("negotiate YII="),
        sent("Negotiate"),
        challenge("NTLM"),
        challenge("Basic%20realm=x+Negotiate"),
        challenge("nEgOtIaTe%20YII="),
    ] {
        let name = format!("{request:?}");
        // A 401 is requested again with the client's whole request, over a further connection.
        assert!(connections(request) > 0, "{name}");
    }
    for request in [sent("Basic YTpi"), challenge("Basic%20realm=NTLM")] {
        let name = format!("{request:?}");
        assert_eq!(connections(request), 0, "{name}");
    }
}

#[test]
fn connections_closed_by_the_origin_cause_no_errors() {
    let origin = Origin::start(|_, writer| {
        writer.respond(
            200,
            &[
                ("Content-Type", "text/plain"),
                ("Cache-Control", "no-store"),
            ],
            b"ok",
        );
    })
    .unwrap();
    let site = with_origin(&origin, "");
    for round in 0..10 {
        site.get(&format!("/a{round}")).assert_status(200);
        origin.drop_connections();
        site.get(&format!("/b{round}")).assert_status(200);
    }
    assert!(
        origin.connections() < 40,
        "connections are not reused: {}",
        origin.connections()
    );
}

#[test]
fn unsafe_requests_are_never_retried() {
    let origin = Origin::start(|request, writer| {
        writer.body();
        if request.method == "POST" {
            writer.close();
        } else {
            writer.respond(200, &[("Content-Type", "text/plain")], b"ok");
        }
    })
    .unwrap();
    let site = with_origin(&origin, "");
    for round in 0..5 {
        site.get(&format!("/{round}")).assert_status(200);
        site.send(Request::form("/once", &[("a", "b")]))
            .assert_status(502);
    }
    assert_eq!(origin.count("/once"), 5);
}

#[test]
fn slow_origins_time_out() {
    let origin = Origin::start(|request, writer| {
        if request.path() == "/half" {
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100\r\n\r\n<html>",
            );
        }
        writer.wait_for_close();
    })
    .unwrap();
    let site = with_origin(
        &origin,
        "first_byte_timeout = \"400ms\"\nread_timeout = \"400ms\"",
    );
    site.get("/never").assert_status(504);
    assert!(
        with_host(Request::get("/half"))
            .send(site.addr())
            .map_or(true, |response| response.status == 502
                || response.status == 504)
    );
}

#[test]
fn a_disconnected_client_frees_its_slot() {
    let origin = Origin::start(|request, writer| {
        if request.path() == "/endless" {
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
            writer.respond(200, &[("Content-Type", "text/plain")], b"ok");
        }
    })
    .unwrap();
    let site = with_origin(&origin, "in_flight = 1");
    for _ in 0..2 {
        let mut connection = site.connect();
        connection
            .send(&with_host(
                Request::get("/endless").cookie("wordpress_logged_in_x=1"),
            ))
            .unwrap();
        let mut first_bytes = [0; 16];
        std::io::Read::read_exact(&mut connection.stream(), &mut first_bytes).unwrap();
        drop(connection);
        site.get("/next").assert_status(200);
    }
}

#[test]
fn the_next_upstream_is_used_if_one_is_down() {
    let origin = Origin::constant(
        &[
            ("Content-Type", "text/plain"),
            ("Cache-Control", "no-store"),
        ],
        "ok",
    )
    .unwrap();
    // A port on which no process listens.
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
fn uploads_are_forwarded_completely() {
    let origin = Origin::start(|_, writer| {
        let body = writer.body();
        let text = format!("{} {}", body.len(), crate::support::sha256(&body));
        writer.respond(200, &[("Content-Type", "text/plain")], text.as_bytes());
    })
    .unwrap();
    let site = with_origin(&origin, "");
    for length in [0, 10, 100_000, 5_000_000] {
        let body = crate::support::random_bytes(length);
        let expected = format!("{length} {}", crate::support::sha256(&body));
        let response = site
            .send(Request::post("/up", "application/octet-stream", body))
            .expect_status(200);
        assert_eq!(response.text(), expected);
    }
}

#[test]
fn a_truncated_response_resets_http_1_0_connections() {
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
    let site = with_origin(&origin, "");
    let mut client = site.connect();
    client
        .write(format!("GET /download HTTP/1.0\r\nHost: {HOST}\r\n\r\n").as_bytes())
        .unwrap();
    // Before the head is sent, the error would be a 502.
    client.stream().peek(&mut [0]).unwrap();
    gate.open();
    let error = client
        .read_to_end()
        .expect_err("the response looks complete");
    assert!(error.to_string().contains("reset"), "{error}");
}
