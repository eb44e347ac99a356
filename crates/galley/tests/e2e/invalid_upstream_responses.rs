//! Galley parses responses of upstreams as strictly as requests of clients. A response that two parsers could interpret differently
//! is rejected with 502, logged with a reason, and never stored. Responses that Apache and PHP send are accepted.

use galley_testkit::client::Request;
use galley_testkit::origin::{FastCgiOrigin, Origin};
use galley_testkit::wait_for;

use crate::http_upstream::apache;
use crate::invalid_upstream_cases::{ResponseCase, http_cases};
use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, with_host};

/// Requests the case twice: a rejected response gives a 502 each time, with its reason in the log.
fn assert_handled(site: &TestSite, case: &ResponseCase) {
    let path = format!("/{}", case.name);
    for _ in 0..2 {
        let response = site.get(&path);
        if let Ok(body) = case.expected {
            assert_eq!(
                response.text(),
                body,
                "{}: {}",
                case.name,
                response.excerpt()
            );
        } else {
            assert_eq!(
                response.status,
                502,
                "{}: {}",
                case.name,
                response.excerpt()
            );
            assert!(!response.text().contains("hello"), "{}", case.name);
        }
    }
    if let Err(reason) = case.expected
        && !reason.is_empty()
    {
        wait_for("the reason in the log", TIMEOUT, || {
            let log = site.galley.log();
            let mut lines = log
                .lines()
                .filter(|line| line.contains("rejected a response"));
            lines.any(|line| line.contains(reason))
        });
    }
    assert_eq!(
        site.get("/fine").expect_status(200).text(),
        "hello",
        "after {}",
        case.name
    );
}

#[test]
fn ambiguous_http_responses_are_rejected() {
    let origin = Origin::start(|request, writer| {
        let cases = http_cases();
        let case = cases
            .iter()
            .find(|case| request.path() == format!("/{}", case.name));
        writer.write(case.unwrap().bytes.as_bytes());
        if case.unwrap().name.starts_with("fine") {
            return;
        }
        writer.close();
    })
    .unwrap();
    let site = SiteBuilder::upstream_line(&format!("upstream = [\"{}\"]", origin.url())).start();
    for case in http_cases() {
        assert_handled(&site, &case);
    }
}

#[test]
fn a_stale_response_is_served_in_place_of_a_rejected_one() {
    let origin = Origin::start(|request, writer| {
        let body = "<html><body>a whole page</body></html>";
        let coding = if request.number == 0 { "" } else { "gzip, " };
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nCache-Control: max-age=600, stale-if-error=600\r\n";
        writer.write(
            format!("{head}Transfer-Encoding: {coding}chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
                .as_bytes(),
        );
    })
    .unwrap();
    let site = SiteBuilder::upstream_line(&format!("upstream = [\"{}\"]", origin.url())).start();
    wait_for("the page in memory", TIMEOUT, || site.get("/page").is_hit());
    site.purge(&["--soft", "--url", "/page"]);
    wait_for("the rejected refresh", TIMEOUT, || {
        site.get("/page").assert_status(200);
        site.galley.log().contains("rejected a response")
    });
    assert!(
        site.get("/page")
            .expect_status(200)
            .text()
            .contains("whole page")
    );
}

#[test]
fn fastcgi_responses_are_validated_and_sent_without_forbidden_content() {
    let responder = FastCgiOrigin::start(|request, writer| {
        let uri = request.param("REQUEST_URI").to_owned();
        let (head, body) = match uri.as_str() {
            "/none" => ("Status: 204 No Content\r\nContent-Length: 4", "null"),
            "/not-modified" => ("Status: 304 Not Modified\r\nETag: \"a\"", "null"),
            "/reset" => ("Status: 205 Reset Content", "null"),
            "/1000" => ("Status: 1000\r\nContent-Type: text/html", "hello"),
            "/interim" => (
                "Status: 103 Early Hints\r\nContent-Type: text/html",
                "hello",
            ),
            "/lengths" => (
                "Content-Type: text/html\r\nContent-Length: 5\r\nContent-Length: 6",
                "hello",
            ),
            "/list" => ("Content-Type: text/html\r\nContent-Length: 5, 5", "hello"),
            "/fold" => ("Content-Type: text/html\r\nX: a\r\n b", "hello"),
            "/cr" => ("Content-Type: text/html\r\nX: a\rb", "hello"),
            "/nul" => ("Content-Type: text/html\r\nX: a\0b", "hello"),
            // RFC 3875 section 6.2 permits the line endings of the server's system.
            "/lf" => ("Content-Type: text/html\nX: y", "hello"),
            // FastCGI records delimit the response, so these fields do not affect its framing.
            "/coded" => (
                "Content-Type: text/html\r\nTransfer-Encoding: gzip, chunked",
                "hello",
            ),
            _ => ("Content-Type: text/html", "fine"),
        };
        writer.respond(head, body.as_bytes());
    })
    .unwrap();
    let site = SiteBuilder::upstream_line(&format!("php = \"{}\"", responder.address()))
        .file("index.php", "")
        .start();
    for (path, status) in [("/none", 204), ("/not-modified", 304), ("/reset", 205)] {
        let mut connection = site.connect();
        for _ in 0..3 {
            let response = connection.exchange(&with_host(Request::get(path))).unwrap();
            assert_eq!(
                (response.status, response.text().as_str()),
                (status, ""),
                "{path}"
            );
            let after = connection
                .exchange(&with_host(Request::get("/fine")))
                .unwrap();
            assert_eq!(
                (after.status, after.text().as_str()),
                (200, "fine"),
                "after {path}"
            );
        }
    }
    for path in ["/1000", "/interim", "/lengths", "/fold", "/cr", "/nul"] {
        site.get(path).assert_status(502);
        site.get(path).assert_status(502);
    }
    assert!(
        site.galley.log().contains("rejected a response"),
        "{}",
        site.galley.log()
    );
    for path in ["/lf", "/coded", "/list"] {
        let response = site.get(path).expect_status(200);
        assert_eq!(response.text(), "hello", "{path}");
        assert!(
            !response.has("transfer-encoding")
                || !response
                    .field("transfer-encoding")
                    .unwrap()
                    .contains("gzip")
        );
    }
}

#[test]
fn cache_status_of_an_upstream_cannot_imitate_this_cache() {
    let origin = Origin::start(|request, writer| {
        let status = match request.path() {
            "/own" => "galley; hit; ttl=100",
            "/text" => "\"galley\"; hit",
            "/among" => "origin; hit, GALLEY;hit, galley; hit, \"a, galley\"; fwd=miss",
            _ => "galley; detail=\"",
        };
        let control = match request.field("cookie") {
            Some(_) => "no-store",
            None => "max-age=600",
        };
        writer.respond(
            200,
            &[
                ("Content-Type", "text/html"),
                ("Cache-Control", control),
                ("Cache-Status", status),
            ],
            b"<html><body>a whole page</body></html>",
        );
    })
    .unwrap();
    for preset in ["wordpress", "none"] {
        let site = SiteBuilder::upstream_line(&format!("upstream = [\"{}\"]", origin.url()))
            .site(&format!("preset = \"{preset}\""))
            .start();
        for path in ["/own", "/text", "/broken", "/among"] {
            for cookie in [None, None, Some("wordpress_logged_in_x=1")] {
                let mut request = Request::get(path);
                if let Some(cookie) = cookie {
                    request = request.cookie(cookie);
                }
                let response = site.send(request).expect_status(200);
                let values: Vec<String> = response
                    .fields
                    .iter()
                    .filter(|(name, _)| name.eq_ignore_ascii_case("cache-status"))
                    .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
                    .collect();
                let cache_status = values.join(", ");
                assert_eq!(
                    cache_status.matches("galley;").count(),
                    1,
                    "{path}: {cache_status}"
                );
                assert_eq!(
                    cache_status.contains("origin; hit"),
                    path == "/among",
                    "{path}: {cache_status}"
                );
                assert!(
                    !cache_status.contains("GALLEY") || path == "/among",
                    "{cache_status}"
                );
                assert!(
                    !cache_status.contains("ttl=100") && !cache_status.contains("\"galley\""),
                    "{path}: {cache_status}"
                );
            }
        }
    }
}

#[test]
fn responses_of_apache_and_php_are_accepted() {
    const SCRIPT: &str = r#"<?php
        switch ($_GET['case'] ?? '') {
            case 'none': http_response_code(204); echo 'null'; break;
            case 'not-modified': http_response_code(304); header('ETag: "a"'); echo 'null'; break;
            case 'reset': http_response_code(205); break;
            case 'length': header('Content-Length: 5'); echo 'hello'; break;
            case 'pieces': echo 'hel'; flush(); echo 'lo'; break;
            case 'reason': header('HTTP/1.1 418 Short and stout'); echo 'hello'; break;
            default: echo 'fine';
        }"#;
    let with_apache = apache();
    let with_fpm = SiteBuilder::php().file("real.php", SCRIPT).start();
    with_apache
        .site
        .scratch
        .write("web/real.php", SCRIPT)
        .unwrap();
    for site in [&with_apache.site, &with_fpm] {
        for (case, status, body) in [
            ("none", 204, ""),
            ("not-modified", 304, ""),
            ("reset", 205, ""),
            ("length", 200, "hello"),
            ("pieces", 200, "hello"),
            ("reason", 418, "hello"),
        ] {
            for method in ["GET", "HEAD"] {
                let mut connection = site.connect();
                let request = Request::new(method, &format!("/real.php?case={case}"));
                let response = connection.exchange(&with_host(request)).unwrap();
                let expected = if method == "HEAD" { "" } else { body };
                assert_eq!(
                    (response.status, response.text().as_str()),
                    (status, expected),
                    "{method} {case}"
                );
                let after = connection
                    .exchange(&with_host(Request::get("/real.php")))
                    .unwrap();
                assert_eq!(after.text(), "fine", "after {method} {case}");
            }
        }
        let log = site.galley.log();
        assert!(!log.contains("rejected a response"), "{log}");
    }
    drop(with_apache);
}
