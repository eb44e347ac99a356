//! HTTP/1 with clients: persistent connections, pipelining, HEAD, HTTP/1.0, `Expect`, and refused methods.

use std::net::Shutdown;
use std::process::Command;

use galley_testkit::client::{Request, Response};

use crate::support::{HOST, SiteBuilder, TIMEOUT, TestSite, with_host};

fn site() -> TestSite {
    SiteBuilder::php()
        .file("a.txt", "a file\n")
        .file("dir/index.html", "<html>dir</html>")
        .start()
}

#[test]
fn a_connection_is_reused_for_many_requests() {
    let site = site();
    let mut connection = site.connect();
    for round in 0..3 {
        for target in [
            "/a.txt",
            "/page",
            "/wp-login.php",
            "/missing.txt?x=1",
            "/dir",
        ] {
            let response = connection
                .exchange(&with_host(Request::get(target)))
                .unwrap();
            assert!(
                response.status < 500,
                "{round} {target}: {}",
                response.excerpt()
            );
            assert!(
                !response.has("connection"),
                "{target}: HTTP/1.1 is persistent by default: {}",
                response.excerpt()
            );
        }
        let form = with_host(Request::form("/form", &[("a", "b")]));
        assert!(
            connection
                .exchange(&form)
                .unwrap()
                .text()
                .contains("body=a=b")
        );
        let chunked = with_host(Request::new("POST", "/form").chunked(&[b"one", b"two"]));
        assert!(
            connection
                .exchange(&chunked)
                .unwrap()
                .text()
                .contains("body=onetwo")
        );
    }
    let last = connection
        .exchange(&with_host(Request::get("/a.txt")).field("Connection", "close"))
        .unwrap();
    assert_eq!(last.field("connection"), Some("close"));
    assert!(connection.is_closed_within(TIMEOUT));
}

#[test]
fn http_1_0_connections_persist_with_keep_alive() {
    let site = site();
    site.get("/cached");
    for target in ["/a.txt", "/cached", "/page?cart=1", "/wp-login.php", "/dir"] {
        let mut connection = site.connect();
        for _ in 0..2 {
            let head =
                format!("GET {target} HTTP/1.0\r\nHost: {HOST}\r\nConnection: Keep-Alive\r\n\r\n");
            connection.write(head.as_bytes()).unwrap();
            let response = connection.receive("GET").unwrap();
            let connection_field = response
                .field("connection")
                .unwrap_or_default()
                .to_ascii_lowercase();
            assert_eq!(
                connection_field,
                "keep-alive",
                "{target}: {}",
                response.excerpt()
            );
            assert!(
                response.has("content-length") && !response.has("transfer-encoding"),
                "{target}"
            );
        }
        let head = format!("GET {target} HTTP/1.0\r\nHost: {HOST}\r\n\r\n");
        connection.write(head.as_bytes()).unwrap();
        connection.receive("GET").unwrap();
        assert!(
            connection.is_closed_within(TIMEOUT),
            "{target}: HTTP/1.0 without keep-alive"
        );
    }
}

#[test]
fn ab_reuses_connections_with_keep_alive() {
    let site = site();
    site.get("/cached");
    for target in ["/a.txt", "/cached", "/wp-login.php"] {
        if target == "/wp-login.php" {
            site.scratch
                .write("root/wp-login.php", "<?php echo 'always the same';")
                .unwrap();
        }
        let ab = Command::new("ab")
            .args([
                "-q",
                "-k",
                "-n",
                "500",
                "-c",
                "10",
                "-H",
                &format!("Host: {HOST}"),
            ])
            .arg(format!("http://{}{target}", site.addr()))
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&ab.stdout).into_owned();
        let number = |name: &str| {
            let line = output.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_whitespace().last()?.parse::<u32>().ok())
        };
        assert_eq!(
            number("Complete requests:"),
            Some(500),
            "{target}\n{output}"
        );
        assert_eq!(number("Failed requests:"), Some(0), "{target}\n{output}");
        assert_eq!(
            number("Keep-Alive requests:"),
            Some(500),
            "{target}\n{output}"
        );
        assert!(!output.contains("Non-2xx"), "{target}\n{output}");
    }
}

#[test]
fn fifty_pipelined_requests_get_responses_in_order() {
    let site = site();
    for number in 0..50 {
        site.scratch
            .write(&format!("root/s{number}.txt"), format!("static {number}"))
            .unwrap();
    }
    site.get("/cached");
    let mut bytes = Vec::new();
    for number in 0..50 {
        let request = match number % 5 {
            0 => Request::get(&format!("/s{number}.txt")),
            1 => Request::get("/cached"),
            2 => Request::get(&format!("/wp-json/wc/store/x{number}")),
            3 => Request::head(&format!("/s{number}.txt")),
            _ => Request::form(
                &format!("/form{number}"),
                &[("number", &number.to_string())],
            ),
        };
        bytes.extend_from_slice(&with_host(request).to_bytes(""));
    }
    let mut connection = site.connect();
    connection.write(&bytes).unwrap();
    for number in 0..50 {
        let method = if number % 5 == 3 { "HEAD" } else { "GET" };
        let response = connection.receive(method).unwrap().expect_status(200);
        let text = response.text();
        let expected = match number % 5 {
            0 => format!("static {number}"),
            1 => "path=/cached\n".to_owned(),
            2 => format!("path=/wp-json/wc/store/x{number}\n"),
            3 => String::new(),
            _ => format!("body=number={number}\n"),
        };
        assert!(text.contains(&expected), "{number}: {text}");
    }
}

#[test]
fn requests_split_at_any_byte_are_parsed() {
    let site = site();
    site.get("/cached");
    let post =
        with_host(Request::new("POST", "/form").chunked(&[b"hello ", b"world"])).to_bytes("");
    let whole = [
        with_host(Request::get("/cached")).to_bytes(""),
        post,
        with_host(Request::get("/a.txt")).to_bytes(""),
    ]
    .concat();
    for step in [1, 7] {
        let mut connection = site.connect();
        for piece in whole.chunks(step) {
            connection.write(piece).unwrap();
        }
        assert!(connection.receive("GET").unwrap().is_hit());
        assert!(
            connection
                .receive("POST")
                .unwrap()
                .text()
                .contains("body=hello world\n")
        );
        assert_eq!(connection.receive("GET").unwrap().text(), "a file\n");
    }
}

/// The header fields, without those that depend on time or on whether the length is known.
fn comparable(response: &Response) -> Vec<(String, String)> {
    let skipped = [
        "date",
        "age",
        "cache-status",
        "transfer-encoding",
        "content-length",
    ];
    let mut fields: Vec<(String, String)> = response
        .fields
        .iter()
        .map(|(name, value)| {
            (
                name.to_ascii_lowercase(),
                String::from_utf8_lossy(value).into_owned(),
            )
        })
        .filter(|(name, _)| !skipped.contains(&name.as_str()))
        .collect();
    fields.sort();
    fields
}

#[test]
fn head_gets_the_header_fields_of_get_and_no_body() {
    let site = SiteBuilder::php()
        .file("a.txt", "a file\n")
        .file("dir/index.html", "<html>dir</html>")
        .file(".secret", "x")
        .start();
    site.head("/gone", &["Status: 404"]);
    site.head("/moved", &["Location: /elsewhere", "Status: 301"]);
    site.head("/found", &["Location: /elsewhere", "Status: 302"]);
    site.head("/nothing", &["Status: 204"]);
    site.head("/error", &["Status: 500"]);
    site.get("/hit");
    let targets = [
        "/a.txt",
        "/dir",
        "/dir/",
        "/.secret",
        "/hit",
        "/wp-login.php",
        "/gone",
        "/moved",
        "/found",
        "/nothing",
        "/error",
        "/%zz",
    ];
    let mut connection = site.connect();
    for target in targets {
        // Stores the page if it is cacheable: a stored page has an ETag, which its first, streamed response does not have.
        site.get(target);
        let get = connection
            .exchange(&with_host(Request::get(target)))
            .unwrap();
        // If a body follows the response to HEAD, the next `receive` fails.
        let head = connection
            .exchange(&with_host(Request::head(target)))
            .unwrap();
        assert_eq!(head.status, get.status, "{target}");
        assert_eq!(comparable(&head), comparable(&get), "{target}");
        if get.has("content-length") && head.has("content-length") {
            assert_eq!(
                head.field("content-length"),
                get.field("content-length"),
                "{target}"
            );
        }
    }
    let unknown = |request: Request| site.send(request.host("nobody.test"));
    assert_eq!(
        comparable(&unknown(Request::head("/"))),
        comparable(&unknown(Request::get("/")))
    );
}

#[test]
fn head_on_a_miss_stores_the_complete_page() {
    let site = site();
    let head = site.send(Request::head("/new")).expect_status(200);
    assert!(head.body.is_empty());
    assert_eq!(head.cache_status(), "galley; fwd=uri-miss; stored");
    let get = site.get("/new");
    assert!(
        get.is_hit() && get.text().ends_with("</html>\n"),
        "{}",
        get.excerpt()
    );
    assert_eq!(site.runs("/new"), 1);
    assert!(get.text().contains("method=GET"), "{}", get.text());
}

#[test]
fn expect_100_continue_gets_an_interim_response() {
    let site = site();
    let mut connection = site.connect();
    let head = format!(
        "POST /form HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    );
    connection.write(head.as_bytes()).unwrap();
    // The client sends the body after the interim response.
    let mut interim = [0; 25];
    std::io::Read::read_exact(&mut connection.stream(), &mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    connection.write(b"hello").unwrap();
    assert!(
        connection
            .receive("POST")
            .unwrap()
            .text()
            .contains("body=hello\n")
    );
    // A body without waiting is accepted as well.
    connection.write(head.as_bytes()).unwrap();
    connection.write(b"again").unwrap();
    assert!(
        connection
            .receive("POST")
            .unwrap()
            .text()
            .contains("body=again\n")
    );
}

#[test]
fn unknown_expectations_get_417() {
    let site = site();
    let head = format!(
        "POST /form HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 5\r\nExpect: a-miracle\r\n\r\n"
    );
    let mut connection = site.connect();
    connection.write(head.as_bytes()).unwrap();
    let response = connection.receive("POST").unwrap().expect_status(417);
    assert!(response.interim.is_empty());
    assert!(connection.is_closed_within(TIMEOUT));
}

#[test]
fn a_body_above_the_limit_is_refused_before_it_is_sent() {
    let site = SiteBuilder::php().server("request_body = \"1KiB\"").start();
    let head = format!(
        "POST /form HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 1025\r\nExpect: 100-continue\r\n\r\n"
    );
    let mut connection = site.connect();
    connection.write(head.as_bytes()).unwrap();
    let response = connection.receive("POST").unwrap().expect_status(413);
    assert!(
        response.interim.is_empty(),
        "an interim response before 413: {:?}",
        response.interim
    );
    assert!(connection.is_closed_within(TIMEOUT));
    assert_eq!(site.runs("/form"), 0);
}

#[test]
fn trace_and_connect_are_refused() {
    let site = site();
    for head in [
        "TRACE / HTTP/1.1\r\nX-Secret: canary",
        "CONNECT example.test:80 HTTP/1.1",
        "CONNECT / HTTP/1.1",
    ] {
        let mut connection = site.connect();
        connection
            .write(format!("{head}\r\nHost: {HOST}\r\n\r\n").as_bytes())
            .unwrap();
        let response = connection.receive("TRACE").unwrap();
        assert!(
            [400, 405, 421, 501].contains(&response.status),
            "{head}: {}",
            response.excerpt()
        );
        assert!(!response.text().contains("canary"), "{head}");
    }
    assert_eq!(site.runs("/"), 0, "neither method is forwarded to PHP");
}

#[test]
fn options_star_gets_a_response_from_galley() {
    let site = site();
    let response = site.send(Request::new("OPTIONS", "*"));
    assert!(
        [200, 204].contains(&response.status),
        "{}",
        response.excerpt()
    );
    assert!(
        response
            .field("allow")
            .is_some_and(|allow| allow.contains("GET")),
        "{}",
        response.excerpt()
    );
    let get = site.send(Request::get("*"));
    assert_eq!(get.status, 400, "the target `*` is valid for OPTIONS only");
    // OPTIONS for a page goes to PHP.
    let page = site
        .send(Request::new("OPTIONS", "/wp-json/x"))
        .expect_status(200);
    assert!(page.text().contains("method=OPTIONS"));
}

#[test]
fn a_half_closed_client_gets_its_response() {
    let site = site();
    site.get("/cached");
    for target in ["/a.txt", "/cached", "/fresh", "/wp-login.php"] {
        let mut connection = site.connect();
        connection.send(&with_host(Request::get(target))).unwrap();
        connection.stream().shutdown(Shutdown::Write).unwrap();
        let response = connection
            .receive("GET")
            .unwrap_or_else(|error| panic!("{target}: {error}"));
        assert!(
            response.status == 200 || target == "/wp-login.php",
            "{target}"
        );
        assert!(connection.is_closed_within(TIMEOUT), "{target}");
    }
}

#[test]
fn odd_header_fields_of_php_do_not_break_the_connection() {
    let site = site();
    // PHP refuses line breaks in header(). The remaining cases are unusual names, hop-by-hop fields and non-ASCII bytes.
    site.head(
        "/odd",
        &[
            "X-Bytes: \u{e4}\u{f6}",
            "X-Empty:",
            "Connection: close, X-Gone",
            "X-Gone: 1",
            "Keep-Alive: x",
        ],
    );
    let response = site.get("/odd").expect_status(200);
    assert!(
        !response.has("x-gone") && !response.has("keep-alive"),
        "{}",
        response.excerpt()
    );
    let mut connection = site.connect();
    for _ in 0..2 {
        connection
            .exchange(&with_host(Request::get("/odd")))
            .unwrap();
    }
}
