//! Responses of upstreams are read as strictly as requests of clients: what two readers could take for different responses is
//! refused with 502, logged with its reason, and never stored. What Apache and PHP really send is accepted.

use galley_testkit::client::Request;
use galley_testkit::origin::{FastCgiOrigin, Origin};
use galley_testkit::wait_for;

use crate::http_upstream::apache;
use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, with_host};

const HTML: &str = "Content-Type: text/html\r\nCache-Control: max-age=600\r\n";

/// Name, what follows `HTTP/1.1 `, and a word of the reason that is logged; `None`: accepted, with this body.
struct Row {
    name: &'static str,
    bytes: String,
    reason: Result<&'static str, &'static str>,
}

fn row(
    name: &'static str,
    bytes: impl Into<String>,
    reason: Result<&'static str, &'static str>,
) -> Row {
    let bytes = bytes.into();
    Row {
        name,
        bytes,
        reason,
    }
}

fn whole(fields: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{HTML}{fields}\r\n")
}

const FIVE: &str = "5\r\nhello\r\n0\r\n\r\n";
const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

fn lengths(fields: &str) -> String {
    format!("{}hello", whole(fields))
}

fn coded(fields: &str) -> String {
    format!("{}{FIVE}", whole(fields))
}

fn http_rows() -> Vec<Row> {
    [
        rows_of_lengths_and_codings(),
        rows_of_chunks_and_fields(),
        rows_of_the_rest(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn rows_of_lengths_and_codings() -> Vec<Row> {
    vec![
        row(
            "coding",
            coded("Transfer-Encoding: gzip, chunked\r\n"),
            Err("transfer coding"),
        ),
        row(
            "identity",
            coded("Transfer-Encoding: identity\r\n"),
            Err("transfer coding"),
        ),
        row(
            "chunked-twice",
            coded(&format!("{CHUNKED}{CHUNKED}")),
            Err("transfer coding"),
        ),
        row(
            "both",
            coded(&format!("{CHUNKED}Content-Length: 5\r\n")),
            Err("content length"),
        ),
        row(
            "two-lengths",
            lengths("Content-Length: 5\r\nContent-Length: 5\r\n"),
            Err("content length"),
        ),
        row(
            "list",
            lengths("Content-Length: 5, 5\r\n"),
            Err("content length"),
        ),
        row(
            "sign",
            lengths("Content-Length: +5\r\n"),
            Err("content length"),
        ),
        row(
            "old-chunked",
            coded(CHUNKED).replace("HTTP/1.1", "HTTP/1.0"),
            Err(""),
        ),
        row(
            "status-line-lf",
            lengths("Content-Length: 5\r\n").replacen("OK\r\n", "OK\n", 1),
            Err("line feed"),
        ),
        row(
            "field-lf",
            lengths("X: y\nContent-Length: 5\r\n"),
            Err("line feed"),
        ),
        row(
            "end-lf",
            format!("HTTP/1.1 200 OK\r\n{HTML}Content-Length: 5\r\n\nhello"),
            Err("line feed"),
        ),
        row(
            "cr",
            lengths("X: a\rb\r\nContent-Length: 5\r\n"),
            Err("carriage return"),
        ),
    ]
}

fn rows_of_chunks_and_fields() -> Vec<Row> {
    vec![
        row(
            "fold",
            lengths("X: a\r\n b\r\nContent-Length: 5\r\n"),
            Err("folded"),
        ),
        row(
            "empty-line",
            format!("\r\n{}", lengths("Content-Length: 5\r\n")),
            Err("status line"),
        ),
        row("nul", lengths("X: a\0b\r\nContent-Length: 5\r\n"), Err("")),
        row("space", lengths("X : a\r\nContent-Length: 5\r\n"), Err("")),
        row(
            "interim-lf",
            format!(
                "HTTP/1.1 103 Early Hints\nLink: </a>\n\n{}",
                lengths("Content-Length: 5\r\n")
            ),
            Err("line feed"),
        ),
        row(
            "large",
            lengths(&format!(
                "X: {}\r\nContent-Length: 5\r\n",
                "x".repeat(70_000)
            )),
            Err("too large"),
        ),
        row(
            "status-600",
            format!("HTTP/1.1 600 What\r\n{HTML}Content-Length: 5\r\n\r\nhello"),
            Err("status"),
        ),
        row(
            "status-999",
            format!("HTTP/1.1 999 What\r\n{HTML}Content-Length: 5\r\n\r\nhello"),
            Err("status"),
        ),
        row(
            "reset-length",
            format!("HTTP/1.1 205 Reset\r\n{HTML}Content-Length: 5\r\n\r\nhello"),
            Err("does not allow content"),
        ),
        row(
            "reset-chunked",
            format!("HTTP/1.1 205 Reset\r\n{HTML}{CHUNKED}\r\n{FIVE}"),
            Err("does not allow content"),
        ),
        row(
            "none-length",
            format!("HTTP/1.1 204 None\r\n{HTML}Content-Length: 5\r\n\r\nhello"),
            Err("does not allow content"),
        ),
        row(
            "none-chunked",
            format!("HTTP/1.1 204 None\r\n{HTML}{CHUNKED}\r\n{FIVE}"),
            Err("does not allow content"),
        ),
    ]
}

fn rows_of_the_rest() -> Vec<Row> {
    vec![
        row(
            "chunk-lf",
            format!("{}5\nhello\n0\n\n", whole(CHUNKED)),
            Err(""),
        ),
        row(
            "chunk-size",
            format!("{}0x5\r\nhello\r\n0\r\n\r\n", whole(CHUNKED)),
            Err(""),
        ),
        row("fine", lengths("Content-Length: 5\r\n"), Ok("hello")),
        row(
            "fine-chunked",
            coded("Transfer-Encoding: Chunked\r\n"),
            Ok("hello"),
        ),
        row(
            "fine-extension",
            format!("{}5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n", whole(CHUNKED)),
            Ok("hello"),
        ),
        row(
            "fine-none",
            "HTTP/1.1 204 None\r\nContent-Length: 0\r\n\r\n",
            Ok(""),
        ),
        row(
            "fine-reset",
            "HTTP/1.1 205 Reset\r\nContent-Length: 0\r\n\r\n",
            Ok(""),
        ),
        row(
            "fine-reset-chunked",
            format!("HTTP/1.1 205 Reset\r\n{CHUNKED}\r\n0\r\n\r\n"),
            Ok(""),
        ),
        row(
            "fine-interim",
            format!(
                "HTTP/1.1 100 Continue\r\n\r\n{}",
                lengths("Content-Length: 5\r\n")
            ),
            Ok("hello"),
        ),
        row(
            "fine-large",
            lengths(&format!(
                "X: {}\r\nContent-Length: 5\r\n",
                "x".repeat(30_000)
            )),
            Ok("hello"),
        ),
    ]
}

/// Asks for a page twice: a refused one is a 502 each time, with its reason in the log.
fn check(site: &TestSite, row: &Row) {
    let path = format!("/{}", row.name);
    for _ in 0..2 {
        let answer = site.get(&path);
        if let Ok(body) = row.reason {
            assert_eq!(answer.text(), body, "{}: {}", row.name, answer.beginning());
        } else {
            assert_eq!(answer.status, 502, "{}: {}", row.name, answer.beginning());
            assert!(!answer.text().contains("hello"), "{}", row.name);
        }
    }
    if let Err(reason) = row.reason
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
        row.name
    );
}

#[test]
fn http_responses_that_can_be_read_in_two_ways_are_refused() {
    let origin = Origin::start(|seen, writer| {
        let rows = http_rows();
        let row = rows
            .iter()
            .find(|row| seen.path() == format!("/{}", row.name));
        writer.write(row.unwrap().bytes.as_bytes());
        if row.unwrap().name.starts_with("fine") {
            return;
        }
        writer.close();
    })
    .unwrap();
    let site = SiteBuilder::upstream_line(&format!("upstream = [\"{}\"]", origin.url())).start();
    for row in http_rows() {
        check(&site, &row);
    }
}

#[test]
fn a_response_that_is_refused_gives_way_to_the_stale_one() {
    let origin = Origin::start(|seen, writer| {
        let body = "<html><body>a whole page</body></html>";
        let coding = if seen.number == 0 { "" } else { "gzip, " };
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
    wait_for("a refresh that is refused", TIMEOUT, || {
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
fn fastcgi_responses_without_content_have_none() {
    let responder = FastCgiOrigin::start(|asked, app| {
        let uri = asked.param("REQUEST_URI").to_owned();
        let (head, body) = match uri.as_str() {
            "/none" => ("Status: 204 No Content\r\nContent-Length: 4", "null"),
            "/not-modified" => ("Status: 304 Not Modified\r\nETag: \"a\"", "null"),
            "/reset" => ("Status: 205 Reset Content", "null"),
            "/600" => ("Status: 600 What\r\nContent-Type: text/html", "hello"),
            "/999" => ("Status: 999\r\nContent-Type: text/html", "hello"),
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
            // RFC 3875 section 6.2 has lines end with what the server's system ends them with.
            "/lf" => ("Content-Type: text/html\nX: y", "hello"),
            // The records say where the response ends: nothing of its framing depends on these fields.
            "/coded" => (
                "Content-Type: text/html\r\nTransfer-Encoding: gzip, chunked",
                "hello",
            ),
            _ => ("Content-Type: text/html", "fine"),
        };
        app.answer(head, body.as_bytes());
    })
    .unwrap();
    let site = SiteBuilder::upstream_line(&format!("php = \"{}\"", responder.address()))
        .file("index.php", "")
        .start();
    for (path, status) in [("/none", 204), ("/not-modified", 304), ("/reset", 205)] {
        let mut connection = site.connect();
        for _ in 0..3 {
            let answer = connection.exchange(&with_host(Request::get(path))).unwrap();
            assert_eq!(
                (answer.status, answer.text().as_str()),
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
    for path in [
        "/600", "/999", "/interim", "/lengths", "/fold", "/cr", "/nul",
    ] {
        site.get(path).assert_status(502);
        site.get(path).assert_status(502);
    }
    assert!(
        site.galley.log().contains("rejected a response"),
        "{}",
        site.galley.log()
    );
    for path in ["/lf", "/coded", "/list"] {
        let answer = site.get(path).expect_status(200);
        assert_eq!(answer.text(), "hello", "{path}");
        assert!(
            !answer.has("transfer-encoding")
                || !answer.field("transfer-encoding").unwrap().contains("gzip")
        );
    }
}

#[test]
fn an_upstream_does_not_speak_for_this_cache() {
    let origin = Origin::start(|seen, writer| {
        let status = match seen.path() {
            "/own" => "galley; hit; ttl=100",
            "/text" => "\"galley\"; hit",
            "/among" => "origin; hit, GALLEY;hit, galley; hit, \"a, galley\"; fwd=miss",
            _ => "galley; detail=\"",
        };
        let control = match seen.field("cookie") {
            Some(_) => "no-store",
            None => "max-age=600",
        };
        writer.answer(
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
                let answer = site.send(request).expect_status(200);
                let lines: Vec<String> = answer
                    .fields
                    .iter()
                    .filter(|(name, _)| name.eq_ignore_ascii_case("cache-status"))
                    .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
                    .collect();
                let all = lines.join(", ");
                assert_eq!(all.matches("galley;").count(), 1, "{path}: {all}");
                assert_eq!(
                    all.contains("origin; hit"),
                    path == "/among",
                    "{path}: {all}"
                );
                assert!(!all.contains("GALLEY") || path == "/among", "{all}");
                assert!(
                    !all.contains("ttl=100") && !all.contains("\"galley\""),
                    "{path}: {all}"
                );
            }
        }
    }
}

#[test]
fn what_apache_and_php_really_send_is_accepted() {
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
    let behind_apache = apache();
    let with_fpm = SiteBuilder::php().file("real.php", SCRIPT).start();
    behind_apache
        .site
        .scratch
        .write("web/real.php", SCRIPT)
        .unwrap();
    for site in [&behind_apache.site, &with_fpm] {
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
                let answer = connection.exchange(&with_host(request)).unwrap();
                let wanted = if method == "HEAD" { "" } else { body };
                assert_eq!(
                    (answer.status, answer.text().as_str()),
                    (status, wanted),
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
    drop(behind_apache);
}
