//! FastCGI applications that violate the protocol: the client gets 502 or a truncated response, nothing is stored, and the server
//! keeps running.

use galley_testkit::client::Request;
use galley_testkit::origin::{FastCgiOrigin, FastCgiRequest, FastCgiWriter};

use crate::support::{AssertStatus, SiteBuilder, TestSite, with_host};

const STDOUT: u8 = 6;
const GOOD: &str = "Content-Type: text/html\r\nCache-Control: max-age=600";
const BODY: &[u8] = b"<html><body>whole</body></html>";

fn with_origin(origin: &FastCgiOrigin, lines: &str) -> TestSite {
    SiteBuilder::upstream_line(&format!("php = \"{}\"", origin.address()))
        .file("index.php", "")
        .site(lines)
        .start()
}

/// A FastCGI record.
fn record(kind: u8, id: u16, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    let mut bytes = vec![1, kind];
    bytes.extend_from_slice(&id.to_be_bytes());
    bytes.extend_from_slice(&length);
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(content);
    bytes
}

fn send_broken(path: &str, app: &mut FastCgiWriter<'_>) {
    let head = format!("{GOOD}\r\n\r\n");
    match path {
        "/garbage" => {
            app.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            app.close();
        }
        "/closes" => app.close(),
        "/resets" => app.reset(),
        "/mid-record-head" => {
            app.raw(&[1, STDOUT, 0]);
            app.close();
        }
        "/mid-record" => {
            let whole = record(STDOUT, 1, head.as_bytes());
            app.raw(&whole[..whole.len() - 5]);
            app.close();
        }
        "/wrong-id" => {
            app.raw(&record(
                STDOUT,
                77,
                [head.as_bytes(), BODY].concat().as_slice(),
            ));
            app.raw(&record(3, 77, &[0; 8]));
            app.close();
        }
        "/wrong-version" => {
            let mut bytes = record(STDOUT, 1, head.as_bytes());
            bytes[0] = 9;
            app.raw(&bytes);
            app.close();
        }
        "/unknown-type" => {
            app.raw(&record(99, 1, b"what"));
            app.close();
        }
        "/no-end" => {
            app.respond(GOOD, BODY);
            app.close();
        }
        "/failed" => {
            app.respond(GOOD, BODY);
            app.end(255, 0);
        }
        "/overloaded" => {
            app.end(0, 2);
        }
        "/stderr-flood" => {
            for _ in 0..200 {
                app.stderr(&vec![b'e'; 60_000]);
            }
            app.close();
        }
        _ => send_broken_response(path, app),
    }
}

/// Sends valid records that contain an invalid response.
fn send_broken_response(path: &str, app: &mut FastCgiWriter<'_>) {
    match path {
        "/half-body" => {
            app.respond(&format!("{GOOD}\r\nContent-Length: 5000"), BODY);
        }
        "/no-head" => {
            app.stdout(b"no head at all");
        }
        "/empty" => {}
        "/bad-line" => {
            app.respond(&format!("{GOOD}\r\nno colon here"), BODY);
        }
        "/bad-status" => {
            app.respond(&format!("Status: 99\r\n{GOOD}"), BODY);
        }
        "/bad-name" => {
            app.respond(&format!("X Y: 1\r\n{GOOD}"), BODY);
        }
        "/control" => {
            app.respond(&format!("X-Y: a\0b\r\n{GOOD}"), BODY);
        }
        "/large-head" => {
            app.respond(
                &format!("X-Large: {}\r\n{GOOD}", "x".repeat(5_000_000)),
                BODY,
            );
        }
        "/many-fields" => {
            let fields: String = (0..20_000).map(|n| format!("X-{n}: 1\r\n")).collect();
            app.respond(&format!("{fields}{GOOD}"), BODY);
        }
        _ => {
            app.respond(GOOD, BODY);
        }
    }
}

fn path_of(request: &FastCgiRequest) -> String {
    request
        .param("REQUEST_URI")
        .split('?')
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn broken_fastcgi_responses_get_502_or_are_truncated_and_never_stored() {
    let origin = FastCgiOrigin::start(|request, app| {
        send_broken(&path_of(request), app);
    })
    .unwrap();
    let site = with_origin(
        &origin,
        "read_timeout = \"3s\"\nfirst_byte_timeout = \"3s\"",
    );
    // 502 if the error precedes the end of the head. Otherwise the client gets 502 or a truncated response.
    for (path, expected) in [
        ("/garbage", Some(502)),
        ("/closes", Some(502)),
        ("/resets", Some(502)),
        ("/mid-record-head", Some(502)),
        ("/mid-record", Some(502)),
        ("/wrong-id", Some(502)),
        ("/wrong-version", Some(502)),
        ("/unknown-type", Some(502)),
        ("/no-end", None),
        ("/half-body", None),
        ("/no-head", Some(502)),
        ("/empty", Some(502)),
        ("/bad-line", Some(502)),
        ("/bad-status", Some(502)),
        ("/bad-name", Some(502)),
        ("/control", Some(502)),
        ("/large-head", Some(502)),
        ("/many-fields", Some(502)),
        ("/overloaded", Some(503)),
        ("/stderr-flood", Some(502)),
    ] {
        for request in [
            Request::get(path),
            Request::get(path),
            Request::form(path, &[("a", "b")]),
        ] {
            let method = request.method.clone();
            let response = with_host(request).send(site.addr());
            match (response, expected) {
                (Ok(response), Some(status)) => {
                    assert_eq!(
                        response.status,
                        status,
                        "{method} {path}: {}",
                        response.excerpt()
                    );
                    assert!(!response.is_hit(), "{path}");
                }
                (Ok(response), None) if response.status == 502 => {}
                (Ok(response), None) => {
                    panic!(
                        "{method} {path} got a complete response: {}",
                        response.excerpt()
                    )
                }
                (Err(_), None) => {}
                (Err(error), Some(_)) => panic!("{method} {path}: {error}"),
            }
        }
        let response = site.get("/fine").expect_status(200);
        assert_eq!(response.body, BODY, "after {path}");
    }
    assert!(!site.galley.has_ended());
}

#[test]
fn a_page_of_a_failed_program_is_sent_and_not_stored() {
    let origin = FastCgiOrigin::start(|request, app| send_broken(&path_of(request), app)).unwrap();
    let site = with_origin(&origin, "");
    for _ in 0..2 {
        let response = site.get("/failed").expect_status(200);
        assert_eq!(response.body, BODY);
        assert!(!response.is_hit());
    }
}

#[test]
fn safe_requests_are_retried_once_and_unsafe_ones_never() {
    let origin = FastCgiOrigin::start(|request, app| match request.param("REQUEST_METHOD") {
        "GET" if request.number == 0 => app.close(),
        "GET" => {
            app.respond(GOOD, BODY);
        }
        _ => app.close(),
    })
    .unwrap();
    let site = with_origin(&origin, "");
    assert_eq!(site.get("/once").expect_status(200).body, BODY);
    assert_eq!(origin.count(), 2);
    site.send(Request::form("/once", &[("a", "b")]))
        .assert_status(502);
    assert_eq!(
        origin.count(),
        3,
        "the application may have processed the unsafe request"
    );
}

#[test]
fn records_of_any_size_form_the_same_page() {
    let origin = FastCgiOrigin::start(|request, app| {
        let whole = [GOOD.as_bytes(), b"\r\n\r\n", BODY].concat();
        let step = if path_of(request) == "/bytes" { 1 } else { 7 };
        for (number, piece) in whole.chunks(step).enumerate() {
            app.record(STDOUT, piece, u8::try_from(number % 9).unwrap());
            if number % 5 == 0 {
                app.stderr(b"a word\n");
            }
        }
    })
    .unwrap();
    let site = with_origin(&origin, "");
    for path in ["/bytes", "/sevens"] {
        assert_eq!(site.get(path).expect_status(200).body, BODY, "{path}");
        assert!(site.get(path).is_hit(), "{path}");
    }
}

#[test]
fn extra_records_after_a_response_do_not_reach_the_next() {
    // The application sends a second response on the same connection.
    let origin = FastCgiOrigin::start(|request, app| {
        if path_of(request) == "/smuggler" {
            let mut bytes = record(
                STDOUT,
                1,
                [GOOD.as_bytes(), b"\r\n\r\n", BODY].concat().as_slice(),
            );
            bytes.extend(record(STDOUT, 1, b""));
            bytes.extend(record(3, 1, &[0; 8]));
            bytes.extend(record(STDOUT, 1, b"Content-Type: text/html\r\n\r\nevil"));
            bytes.extend(record(3, 1, &[0; 8]));
            app.raw(&bytes);
            // The test kit ends the request with further records.
        } else {
            app.respond(GOOD, BODY);
        }
    })
    .unwrap();
    let site = with_origin(&origin, "");
    for round in 0..5 {
        assert_eq!(
            site.get(&format!("/smuggler?{round}"))
                .expect_status(200)
                .body,
            BODY
        );
        let next = site.get(&format!("/victim?{round}")).expect_status(200);
        assert_eq!(next.body, BODY, "{round}: {}", next.text());
    }
}
