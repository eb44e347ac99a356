//! A FastCGI application that breaks the protocol on command: the client gets 502 or a broken connection, nothing is
//! kept, and the server lives on.

use galley_testkit::client::Request;
use galley_testkit::origin::{FastCgiOrigin, FastCgiRequest, FastCgiWriter};

use crate::support::{AssertStatus, SiteBuilder, TestSite, with_host};

const STDOUT: u8 = 6;
const GOOD: &str = "Content-Type: text/html\r\nCache-Control: max-age=600";
const BODY: &[u8] = b"<html><body>whole</body></html>";

fn behind(responder: &FastCgiOrigin, lines: &str) -> TestSite {
    SiteBuilder::upstream_line(&format!("php = \"{}\"", responder.address()))
        .file("index.php", "")
        .site(lines)
        .start()
}

/// A record with any id.
fn record(kind: u8, id: u16, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    let mut bytes = vec![1, kind];
    bytes.extend_from_slice(&id.to_be_bytes());
    bytes.extend_from_slice(&length);
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(content);
    bytes
}

fn broken(path: &str, app: &mut FastCgiWriter<'_>) {
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
            app.answer(GOOD, BODY);
            app.close();
        }
        "/failed" => {
            app.answer(GOOD, BODY);
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
        _ => broken_response(path, app),
    }
}

/// Records as they should be, and a response in them that is not.
fn broken_response(path: &str, app: &mut FastCgiWriter<'_>) {
    match path {
        "/half-body" => {
            app.answer(&format!("{GOOD}\r\nContent-Length: 5000"), BODY);
        }
        "/long-body" => {
            app.answer(&format!("{GOOD}\r\nContent-Length: 5"), BODY);
        }
        "/no-head" => {
            app.stdout(b"no head at all");
        }
        "/empty" => {}
        "/bad-line" => {
            app.answer(&format!("{GOOD}\r\nno colon here"), BODY);
        }
        "/bad-status" => {
            app.answer(&format!("Status: 99\r\n{GOOD}"), BODY);
        }
        "/bad-name" => {
            app.answer(&format!("X Y: 1\r\n{GOOD}"), BODY);
        }
        "/control" => {
            app.answer(&format!("X-Y: a\x01b\r\n{GOOD}"), BODY);
        }
        "/large-head" => {
            app.answer(
                &format!("X-Large: {}\r\n{GOOD}", "x".repeat(5_000_000)),
                BODY,
            );
        }
        "/many-fields" => {
            let fields: String = (0..20_000).map(|n| format!("X-{n}: 1\r\n")).collect();
            app.answer(&format!("{fields}{GOOD}"), BODY);
        }
        _ => {
            app.answer(GOOD, BODY);
        }
    }
}

fn path_of(asked: &FastCgiRequest) -> String {
    asked
        .param("REQUEST_URI")
        .split('?')
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn broken_answers_are_refused_or_broken_off_and_never_kept() {
    let responder = FastCgiOrigin::start(|asked, app| {
        broken(&path_of(asked), app);
    })
    .unwrap();
    let site = behind(
        &responder,
        "read_timeout = \"3s\"\nfirst_byte_timeout = \"3s\"",
    );
    // Before the head: 502 for certain. After it: the client sees an end before the end.
    for (path, wanted) in [
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
        ("/long-body", None),
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
            let answer = with_host(request).send(site.addr());
            match (answer, wanted) {
                (Ok(answer), Some(status)) => {
                    assert_eq!(
                        answer.status,
                        status,
                        "{method} {path}: {}",
                        answer.beginning()
                    );
                    assert!(!answer.is_hit(), "{path}");
                }
                (Ok(answer), None) if answer.status == 502 => {}
                (Ok(answer), None) => {
                    panic!("{method} {path} passed for whole: {}", answer.beginning())
                }
                (Err(_), None) => {}
                (Err(trouble), Some(_)) => panic!("{method} {path}: {trouble}"),
            }
        }
        let fine = site.get("/fine").expect_status(200);
        assert_eq!(fine.body, BODY, "after {path}");
    }
    assert!(!site.galley.has_ended());
}

#[test]
fn a_page_whose_program_failed_is_sent_and_not_kept() {
    let responder = FastCgiOrigin::start(|asked, app| broken(&path_of(asked), app)).unwrap();
    let site = behind(&responder, "");
    for _ in 0..2 {
        let answer = site.get("/failed").expect_status(200);
        assert_eq!(answer.body, BODY);
        assert!(!answer.is_hit());
    }
}

#[test]
fn a_safe_request_is_tried_once_more_and_an_unsafe_one_never() {
    let responder = FastCgiOrigin::start(|asked, app| match asked.param("REQUEST_METHOD") {
        "GET" if asked.number == 0 => app.close(),
        "GET" => {
            app.answer(GOOD, BODY);
        }
        _ => app.close(),
    })
    .unwrap();
    let site = behind(&responder, "");
    assert_eq!(site.get("/once").expect_status(200).body, BODY);
    assert_eq!(responder.count(), 2);
    site.send(Request::form("/once", &[("a", "b")]))
        .assert_status(502);
    assert_eq!(
        responder.count(),
        3,
        "an unsafe request may have been carried out"
    );
}

#[test]
fn records_in_any_pieces_make_the_same_page() {
    let responder = FastCgiOrigin::start(|asked, app| {
        let whole = [GOOD.as_bytes(), b"\r\n\r\n", BODY].concat();
        let step = if path_of(asked) == "/bytes" { 1 } else { 7 };
        for (number, piece) in whole.chunks(step).enumerate() {
            app.record(STDOUT, piece, u8::try_from(number % 9).unwrap());
            if number % 5 == 0 {
                app.stderr(b"a word\n");
            }
        }
    })
    .unwrap();
    let site = behind(&responder, "");
    for path in ["/bytes", "/sevens"] {
        assert_eq!(site.get(path).expect_status(200).body, BODY, "{path}");
        assert!(site.get(path).is_hit(), "{path}");
    }
}

#[test]
fn nothing_of_one_answer_reaches_the_next() {
    // Bytes after the end of a request, on a connection that would be kept.
    let responder = FastCgiOrigin::start(|asked, app| {
        if path_of(asked) == "/smuggler" {
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
            // What the kit adds to end the request comes on top.
        } else {
            app.answer(GOOD, BODY);
        }
    })
    .unwrap();
    let site = behind(&responder, "");
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
