//! Responses that are not quite valid, as nginx lets them pass: more body than `Content-Length`, headers with names and values that
//! no recipient understands, statuses above 599. The client gets what is valid; what two parsers could read differently stays
//! rejected (`invalid_upstream_responses`).

use galley_testkit::client::Request;
use galley_testkit::origin::{FastCgiOrigin, Origin};
use galley_testkit::wait_for;

use crate::support::{SiteBuilder, TIMEOUT, TestSite, with_host};

/// Waits until `text` is in the log, and checks in how many lines.
fn assert_logged(site: &TestSite, text: &str, times: usize) {
    let lines = || {
        let log = site.galley.log();
        log.lines().filter(|line| line.contains(text)).count()
    };
    wait_for("the lines of the log", TIMEOUT, || lines() >= times);
    assert_eq!(lines(), times, "{}", site.galley.log());
}

const PAGE: &str = "<html><body>hello</body></html>";

/// `/PADDING/MORE/`: a page with its length, and what is printed after it.
const LONG: &str = "<?php header('Cache-Control: max-age=600'); header('Content-Type: text/html');\
    [, $padding, $more] = explode('/', $_SERVER['REQUEST_URI']);\
    $body = '<html><body>' . str_repeat('b', (int) $padding) . '</body></html>';\
    header('Content-Length: ' . strlen($body));\
    echo $body, str_repeat(\"\\nfooter\", (int) $more);";

#[test]
fn more_body_than_announced_is_cut_off_and_not_stored() {
    let site = SiteBuilder::php().file("index.php", LONG).start();
    let mut connection = site.connect();
    for (padding, more) in [
        (5, 1),
        (5, 100_000),
        (300_000, 1),
        (300_000, 100_000),
        (5, 0),
    ] {
        let path = format!("/{padding}/{more}/");
        for cookie in ["", "wordpress_logged_in_x=1"] {
            for round in 0..2 {
                let request = with_host(Request::get(&path)).cookie(cookie);
                let response = connection.exchange(&request).unwrap();
                let response = response.expect_status(200);
                let expected = format!("<html><body>{}</body></html>", "b".repeat(padding));
                assert!(
                    response.text() == expected,
                    "{path}: {}",
                    response.excerpt()
                );
                let length = expected.len().to_string();
                assert_eq!(response.field("content-length"), Some(length.as_str()));
                let is_stored = round == 1 && cookie.is_empty() && more == 0;
                assert_eq!(
                    response.is_hit(),
                    is_stored,
                    "{path}: {}",
                    response.excerpt()
                );
            }
        }
    }
    assert_logged(&site, "bytes that `Content-Length` announces", 1);
    let why = site.why("/5/1/");
    assert!(why.contains("more than its `Content-Length`"), "{why}");
}

#[test]
fn a_script_that_closes_its_connection_early_goes_on() {
    let script = "<?php header('Connection: close'); header('Content-Type: text/html'); header('Content-Length: 5');\
        echo 'hello'; while (ob_get_level()) { ob_end_flush(); } flush();\
        for ($i = 0; $i < 20; $i++) { usleep(20000); echo 'late'; flush(); }\
        file_put_contents(__DIR__ . '/../notes/done' . $_GET['n'], '');";
    let site = SiteBuilder::php().file("early.php", script).start();
    for (number, cookie) in ["", "wordpress_logged_in_x=1"].into_iter().enumerate() {
        let request = Request::get(&format!("/early.php?n={number}")).cookie(cookie);
        let response = site.send(request).expect_status(200);
        assert_eq!(response.text(), "hello");
        site.wait_for_note(&format!("done{number}"));
    }
}

#[test]
fn what_follows_a_response_over_http_belongs_to_no_other() {
    let origin = Origin::start(|request, writer| {
        let injected = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nCache-Control: max-age=600\r\nContent-Length: 4\r\n\r\nEVIL";
        let more = if request.path().starts_with("/long") {
            injected
        } else {
            ""
        };
        writer.write(
            format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nCache-Control: max-age=600\r\nContent-Length: {}\r\n\r\n{PAGE}{more}", PAGE.len())
                .as_bytes(),
        );
    })
    .unwrap();
    for preset in ["wordpress", "none"] {
        let site = SiteBuilder::origin(&origin, preset).start();
        for number in 0..5 {
            for path in [format!("/long/{number}/"), format!("/other/{number}/")] {
                for _ in 0..2 {
                    assert_eq!(site.get(&path).expect_status(200).text(), PAGE, "{path}");
                }
                let is_hit = site.get(&path).is_hit();
                assert_eq!(is_hit, path.starts_with("/other"), "{path}");
            }
        }
        assert_logged(&site, "bytes that `Content-Length` announces", 1);
    }
}

/// A name that no recipient understands, a value with a control character, and a valid header.
const FLAWED: [&str; 4] = [
    "X-Gr\u{f6}\u{df}e: 5",
    "X-(a): 5",
    "X-Control: a\u{1}b",
    "X-Valid: yes",
];

#[test]
fn flawed_headers_are_dropped_and_the_rest_is_sent() {
    let head = |path: &str| {
        let flawed: &[&str] = match path {
            "/name" => &FLAWED[..2],
            "/value" => &FLAWED[2..3],
            _ => &[],
        };
        [
            flawed,
            &FLAWED[3..],
            &["Content-Type: text/html", "Cache-Control: max-age=600"],
        ]
        .concat()
    };
    let origin = Origin::start(move |request, writer| {
        let lines = head(request.path()).join("\r\n");
        writer.write(
            format!(
                "HTTP/1.1 200 OK\r\n{lines}\r\nContent-Length: {}\r\n\r\n{PAGE}",
                PAGE.len()
            )
            .as_bytes(),
        );
    })
    .unwrap();
    let responder = FastCgiOrigin::start(move |request, writer| {
        writer.respond(
            &head(request.param("REQUEST_URI")).join("\r\n"),
            PAGE.as_bytes(),
        );
    })
    .unwrap();
    let http = SiteBuilder::origin(&origin, "wordpress").start();
    let fastcgi = SiteBuilder::upstream_line(&format!("php = \"{}\"", responder.address()))
        .file("index.php", "")
        .start();
    for site in [&http, &fastcgi] {
        for path in ["/name", "/value"] {
            for round in 0..2 {
                let response = site.get(path).expect_status(200);
                assert_eq!(response.text(), PAGE, "{path}");
                assert_eq!(response.field("x-valid"), Some("yes"), "{path}");
                assert!(!response.has("x-control"), "{path}");
                let text = response.excerpt();
                assert!(!text.contains("X-Gr") && !text.contains("x-gr"), "{text}");
                assert!(!text.contains("(a)"), "{text}");
                // The dropped value may have been a directive.
                let is_stored = round == 1 && path == "/name";
                assert_eq!(response.is_hit(), is_stored, "{path}: {text}");
            }
        }
        assert_logged(site, "dropped a header of the response", 2);
    }
}

#[test]
fn flawed_headers_and_statuses_of_php_reach_the_client_as_behind_nginx() {
    let script = "<?php header('X-Gr\u{f6}\u{df}e: 5'); header(\"X-Control: a\\x01b\"); header('X-Valid: yes');\
        http_response_code((int) $_GET['status']); echo 'hello';";
    let site = SiteBuilder::php().file("odd.php", script).start();
    for status in [200, 404, 600, 799, 999] {
        let response = site.get(&format!("/odd.php?status={status}"));
        let response = response.expect_status(status);
        assert_eq!(
            (response.text().as_str(), response.field("x-valid")),
            ("hello", Some("yes"))
        );
        assert!(!response.has("x-control") && !response.is_hit());
    }
    wait_for("the lines of the access log", TIMEOUT, || {
        site.access().contains(" 999 ")
    });
}
