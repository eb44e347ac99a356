//! PHP over FastCGI with a real PHP-FPM: CGI variables, responses, failures, and rules for other programs.

use galley_testkit::FcgiWrap;
use galley_testkit::client::Request;
use galley_testkit::origin::FastCgiOrigin;

use crate::support::{AssertStatus, HOST, SiteBuilder, TIMEOUT, doctor_finding, page_value};

#[test]
fn php_is_reached_over_a_unix_socket_and_tcp() {
    for builder in [SiteBuilder::php(), SiteBuilder::php().tcp()] {
        let site = builder
            .file(
                "hello.php",
                "<?php header('X-Php: yes'); echo 'hello ', $_GET['name'];",
            )
            .start();
        let response = site.get("/hello.php?name=you").expect_status(200);
        assert_eq!(response.text(), "hello you");
        assert_eq!(response.field("x-php"), Some("yes"));
        // Over new and reused connections.
        for _ in 0..5 {
            assert_eq!(
                site.get("/hello.php?name=you").expect_status(200).text(),
                "hello you"
            );
        }
    }
}

#[test]
fn php_gets_cgi_variables_and_no_forged_fields() {
    let dump = "<?php header('Content-Type: text/plain'); foreach ($_SERVER as $k => $v) { if (is_string($v)) { echo \"$k=$v\\n\"; } }";
    let site = SiteBuilder::php().file("dump.php", dump).start();
    let mut connection = site.connect();
    let request = Request::get("/dump.php/some%20path/x?b=2&a=%31")
        .host(&format!("{HOST}:8080"))
        .field("Proxy", "http://evil.test")
        .field("X_Forwarded_For", "6.6.6.6")
        .field("X-Forwarded-For", "7.7.7.7")
        .field("X-Real-Ip", "7.7.7.7")
        .field("X-Forwarded-Proto", "https")
        .field("X-Forwarded-Host", "evil.test")
        .field("Forwarded", "for=7.7.7.7")
        .field("X-Original-URL", "/wp-admin/")
        .field("Content_Length", "5")
        .field("X-Plain", "kept")
        .field("Connection", "X-Listed, keep-alive")
        .field("X-Listed", "gone")
        .cookie("a=1");
    let port = connection.local_addr().unwrap().port();
    let text = connection
        .exchange(&request)
        .unwrap()
        .expect_status(200)
        .text();
    let root = std::fs::canonicalize(site.scratch.join("root")).unwrap();
    for (name, expected) in [
        ("SCRIPT_NAME", "/dump.php"),
        ("PATH_INFO", "/some path/x"),
        ("REQUEST_URI", "/dump.php/some%20path/x?b=2&a=%31"),
        ("QUERY_STRING", "b=2&a=%31"),
        ("REQUEST_METHOD", "GET"),
        ("SERVER_NAME", HOST),
        ("SERVER_PORT", "8080"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("HTTP_HOST", "example.test:8080"),
        ("HTTP_COOKIE", "a=1"),
        ("HTTP_X_PLAIN", "kept"),
        ("HTTP_X_FORWARDED_FOR", "127.0.0.1"),
        ("HTTP_X_REAL_IP", "127.0.0.1"),
        ("HTTP_X_FORWARDED_PROTO", "http"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("REMOTE_PORT", port.to_string().as_str()),
        ("DOCUMENT_ROOT", root.to_str().unwrap()),
        ("SCRIPT_FILENAME", root.join("dump.php").to_str().unwrap()),
    ] {
        assert_eq!(page_value(&text, name), expected, "{name} in\n{text}");
    }
    assert!(
        page_value(&text, "SERVER_SOFTWARE").contains("nginx"),
        "{text}"
    );
    for absent in [
        "\nHTTPS=",
        "\nHTTP_PROXY=",
        "6.6.6.6",
        "7.7.7.7",
        "evil.test",
        "HTTP_X_ORIGINAL_URL",
        "HTTP_X_LISTED",
        "HTTP_CONTENT_LENGTH",
    ] {
        assert!(!text.contains(absent), "{absent} in\n{text}");
    }
    let plain = site.get("/dump.php").text();
    assert!(
        !plain.contains("\nPATH_INFO="),
        "no empty PATH_INFO: {plain}"
    );
    assert!(!plain.contains("\nCONTENT_LENGTH="), "{plain}");
}

#[test]
fn paths_without_a_file_go_to_the_front_controller() {
    let site = SiteBuilder::php().file("a.txt", "a").start();
    for target in [
        "/",
        "/2020/hello/",
        "/a.txt/x",
        "/missing.css",
        "/missing.php",
        "/b%C3%A4r/?s=%26",
    ] {
        let response = site.get(target).expect_status(200);
        assert_eq!(page_value(&response.text(), "uri"), target, "{target}");
    }
}

#[test]
fn status_and_fields_of_php_are_forwarded() {
    let site = SiteBuilder::php().start();
    for (status, page) in [
        (201, "/s201"),
        (302, "/s302"),
        (403, "/s403"),
        (404, "/s404"),
        (418, "/s418"),
        (500, "/s500"),
        (503, "/s503"),
    ] {
        site.head(
            page,
            &["X-Several: 1", "X-Several: 2", &format!("Status: {status}")],
        );
        let response = site
            .send(Request::post(page, "text/plain", "x"))
            .expect_status(status);
        assert_eq!(response.all("x-several"), ["1", "2"], "{page}");
        assert!(response.has("date"), "{page}");
    }
    site.head("/s204", &["Status: 204"]);
    let empty = site
        .send(Request::post("/s204", "text/plain", "x"))
        .expect_status(204);
    assert!(
        empty.body.is_empty() && !empty.has("content-length") && !empty.has("transfer-encoding"),
        "{}",
        empty.excerpt()
    );
    // A `Location` without a status means 302.
    site.head("/l", &["Location: /there"]);
    assert_eq!(
        site.get("/l").expect_status(302).field("location"),
        Some("/there")
    );
}

#[test]
fn the_error_page_of_a_php_failure_discloses_no_details() {
    let mut site = SiteBuilder::php().start();
    site.get("/").assert_status(200);
    site.fpm.as_mut().unwrap().kill();
    for request in [
        Request::get("/new"),
        Request::post("/new", "text/plain", "x"),
        Request::get("/wp-login.php"),
    ] {
        let response = site.send(request).expect_status(502);
        let text = response.text();
        let root = site.scratch.path().to_str().unwrap().to_owned();
        for word in [
            root.as_str(),
            "php",
            "sock",
            "panic",
            "refused",
            "No such file",
            "os error",
        ] {
            assert!(!text.contains(word), "`{word}` in {text}");
        }
        assert!(
            response
                .field("cache-control")
                .is_some_and(|value| value.contains("no-store")),
            "{}",
            response.excerpt()
        );
    }
    let text = site.get("/who").expect_status(502).text();
    let line = site.access_line("GET /who ");
    let id = text
        .split(" · ")
        .nth(1)
        .and_then(|rest| rest.split('<').next())
        .unwrap_or_else(|| panic!("no id in {text}"));
    assert!(
        line.contains(id),
        "the access log has no request with the id of the page: {id}\n{line}"
    );
    site.galley.wait_for_log(id, TIMEOUT);
    site.fpm.as_mut().unwrap().restart().unwrap();
    site.get("/new").assert_status(200);
}

#[test]
fn stderr_of_php_is_logged_with_the_request_id() {
    let site = SiteBuilder::php()
        .file(
            "log.php",
            "<?php error_log('canary-' . $_GET['n']); echo 'ok';",
        )
        .ini("log_errors", "1")
        .start();
    site.get("/log.php?n=77").assert_status(200);
    site.galley.wait_for_log("canary-77", TIMEOUT);
    let line = site.access_line("/log.php?n=77");
    let log = site.galley.log();
    let record = log.lines().find(|line| line.contains("canary-77")).unwrap();
    let id = record
        .split("request=")
        .nth(1)
        .and_then(|rest| rest.split([' ', '"']).find(|word| !word.is_empty()))
        .unwrap_or_else(|| panic!("no id in {record}"));
    assert!(line.contains(id), "{id}\n{line}");
}

#[test]
fn a_page_with_a_fatal_php_error_is_not_stored() {
    let fatal = "<?php header('Cache-Control: max-age=600'); echo str_repeat('x', 300); flush(); undefined_function();";
    let site = SiteBuilder::php()
        .file("index.php", fatal)
        .ini("display_errors", "0")
        .start();
    let first = site.get("/boom");
    let second = site.get("/boom");
    assert!(
        !second.is_hit(),
        "{} then {}",
        first.excerpt(),
        second.excerpt()
    );
}

#[test]
fn a_rule_sends_paths_to_another_fastcgi_program() {
    let builder = SiteBuilder::php();
    let wrap = FcgiWrap::start(&builder.scratch.join("wrap"), 2).unwrap();
    let text = "#!/usr/bin/perl\nmy $in = do { local $/; <STDIN> };\nprint \"Content-Type: text/plain\\r\\n\\r\\nperl $ENV{REQUEST_METHOD} $ENV{QUERY_STRING} $ENV{SCRIPT_NAME} $in\";\n";
    let script = wrap.script("hello.pl", text).unwrap();
    builder.scratch.dir("root/cgi-bin").unwrap();
    let copied = std::process::Command::new("cp")
        .arg("-p")
        .arg(script)
        .arg(builder.scratch.join("root/cgi-bin/hello.pl"))
        .status()
        .unwrap();
    assert!(copied.success());
    let site = builder
        .more(&format!(
            "[[site.rule]]\npath = \"/cgi-bin/*\"\nphp = \"{}\"\n",
            wrap.address()
        ))
        .start();
    assert_eq!(
        site.get("/cgi-bin/hello.pl?a=b").expect_status(200).text(),
        "perl GET a=b /cgi-bin/hello.pl "
    );
    assert_eq!(
        site.send(Request::post("/cgi-bin/hello.pl", "text/plain", "in"))
            .expect_status(200)
            .text(),
        "perl POST  /cgi-bin/hello.pl in"
    );
    // Missing files and paths outside the folder do not reach the program.
    for target in [
        "/cgi-bin/missing.pl",
        "/cgi-bin/../index.php",
        "/cgi-bin/%2e%2e/%2e%2e/wrap/scripts/hello.pl",
    ] {
        let text = site.get(target).text();
        assert!(!text.contains("perl GET"), "{target}: {text}");
    }
    assert_eq!(page_value(&site.get("/other").text(), "path"), "/other");
}

#[test]
fn a_rule_with_php_still_serves_static_files() {
    let other = FastCgiOrigin::start(|request, app| {
        let text = format!("other {}", request.param("SCRIPT_NAME"));
        app.respond("Content-Type: text/plain\r\n", text.as_bytes());
    })
    .unwrap();
    let site = SiteBuilder::php()
        .file("other/style.css", "body {}")
        .file("other/tool.pl", "secret source")
        .more(&format!(
            "[[site.rule]]\npath = \"/other*\"\nphp = \"{}\"\n",
            other.address()
        ))
        .start();
    let css = site.get("/other/style.css").expect_status(200);
    assert_eq!((css.text().as_str(), other.count()), ("body {}", 0));
    for (target, script) in [
        ("/other/a-permalink/", "/index.php"),
        ("/other/tool.pl", "/other/tool.pl"),
        ("/other/tool.pl/info", "/other/tool.pl"),
    ] {
        let response = site.get(target).expect_status(200);
        assert_eq!(response.text(), format!("other {script}"), "{target}");
    }
    assert_eq!(
        page_value(&site.get("/elsewhere").text(), "path"),
        "/elsewhere"
    );
}

#[test]
fn connections_closed_by_php_cause_no_errors() {
    let mut site = SiteBuilder::php().site("in_flight = 2").start();
    for round in 0..4 {
        site.get(&format!("/a{round}")).assert_status(200);
        site.fpm.as_mut().unwrap().restart().unwrap();
        site.send(Request::post(&format!("/b{round}"), "text/plain", "x"))
            .assert_status(200);
    }
}

#[test]
fn doctor_reports_a_disabled_opcache() {
    for (enabled, expected) in [("1", "fine"), ("0", "wrong")] {
        let site = SiteBuilder::php().ini("opcache.enable", enabled).start();
        let finding = doctor_finding(&site, "opcache");
        assert_eq!(finding["level"], expected, "{finding}");
    }
}
