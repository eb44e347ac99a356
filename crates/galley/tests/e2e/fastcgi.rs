//! PHP over FastCGI: real PHP-FPM, its variables, its limits, its failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use galley_testkit::client::Request;
use galley_testkit::origin::{Gate, Responder};
use galley_testkit::{FcgiWrap, wait_for};

use crate::support::{HOST, Is, PATIENCE, Plan, SHORT_PATIENCE, hosted, said, together};

#[test]
fn php_answers_over_a_unix_socket_and_over_tcp() {
    for plan in [Plan::php(), Plan::php().tcp()] {
        let stage = plan
            .file(
                "hello.php",
                "<?php header('X-Php: yes'); echo 'hello ', $_GET['name'];",
            )
            .start();
        let answer = stage.get("/hello.php?name=you").expect_status(200);
        assert_eq!(answer.text(), "hello you");
        assert_eq!(answer.field("x-php"), Some("yes"));
        // Kept connections and new ones alike.
        for _ in 0..5 {
            assert_eq!(
                stage.get("/hello.php?name=you").expect_status(200).text(),
                "hello you"
            );
        }
    }
}

#[test]
fn php_sees_what_wordpress_needs() {
    let dump = "<?php header('Content-Type: text/plain'); foreach ($_SERVER as $k => $v) { if (is_string($v)) { echo \"$k=$v\\n\"; } }";
    let stage = Plan::php().file("dump.php", dump).start();
    let mut connection = stage.connect();
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
    let root = std::fs::canonicalize(stage.scratch.join("root")).unwrap();
    for (name, wanted) in [
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
        assert_eq!(said(&text, name), wanted, "{name} in\n{text}");
    }
    assert!(said(&text, "SERVER_SOFTWARE").contains("nginx"), "{text}");
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
    let plain = stage.get("/dump.php").text();
    assert!(
        !plain.contains("\nPATH_INFO="),
        "never empty by accident: {plain}"
    );
    assert!(!plain.contains("\nCONTENT_LENGTH="), "{plain}");
}

#[test]
fn the_front_controller_gets_what_is_no_file() {
    let stage = Plan::php().file("a.txt", "a").start();
    for target in [
        "/",
        "/2020/hello/",
        "/a.txt/x",
        "/missing.css",
        "/missing.php",
        "/b%C3%A4r/?s=%26",
    ] {
        let answer = stage.get(target).expect_status(200);
        assert_eq!(said(&answer.text(), "uri"), target, "{target}");
    }
}

#[test]
fn statuses_and_fields_travel() {
    let stage = Plan::php().start();
    for (status, page) in [
        (201, "/s201"),
        (302, "/s302"),
        (403, "/s403"),
        (404, "/s404"),
        (418, "/s418"),
        (500, "/s500"),
        (503, "/s503"),
    ] {
        stage.head(
            page,
            &["X-Several: 1", "X-Several: 2", &format!("Status: {status}")],
        );
        let answer = stage
            .ask(Request::post(page, "text/plain", "x"))
            .expect_status(status);
        assert_eq!(answer.all("x-several"), ["1", "2"], "{page}");
        assert!(answer.has("date"), "{page}");
    }
    stage.head("/s204", &["Status: 204"]);
    let empty = stage
        .ask(Request::post("/s204", "text/plain", "x"))
        .expect_status(204);
    assert!(
        empty.body.is_empty() && !empty.has("content-length") && !empty.has("transfer-encoding"),
        "{}",
        empty.beginning()
    );
    // PHP that says `Location` alone means 302.
    stage.head("/l", &["Location: /there"]);
    assert_eq!(
        stage.get("/l").expect_status(302).field("location"),
        Some("/there")
    );
}

#[test]
fn no_more_at_php_than_it_has_workers() {
    let gate = Gate::new();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let script = {
        let (gate, now, most) = (gate.clone(), Arc::clone(&now), Arc::clone(&most));
        move |_: &_, app: &mut galley_testkit::origin::Application<'_>| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            gate.pass();
            now.fetch_sub(1, Ordering::SeqCst);
            app.answer("Content-Type: text/plain", b"done");
        }
    };
    let responder = Responder::start(script).unwrap();
    let stage = Plan::behind(&format!("php = \"{}\"", responder.address()))
        .file("index.php", "")
        .site("in_flight = 2\nqueue = 20")
        .start();
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..10)
            .map(|n| {
                let stage = &stage;
                scope.spawn(move || {
                    stage
                        .ask(Request::post(&format!("/{n}"), "text/plain", "x"))
                        .status
                })
            })
            .collect();
        wait_for("eight in the queue", PATIENCE, || {
            stage.status_number("waiting") == 8
        });
        // They have their slots, and may still be in transit.
        gate.wait_for_arrivals(2);
        assert_eq!(gate.arrivals(), 2);
        assert_eq!(stage.status_number("in_flight"), 2);
        gate.open();
        for thread in asking {
            assert_eq!(thread.join().unwrap(), 200);
        }
    });
    assert_eq!(most.load(Ordering::SeqCst), 2, "more at once than allowed");
    assert_eq!(responder.count(), 10);
}

#[test]
fn a_full_queue_rejects_at_once() {
    let stage = Plan::php()
        .workers(1)
        .site("in_flight = 1\nqueue = 1")
        .start();
    stage.hold("/slow");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| stage.ask(Request::post("/slow", "text/plain", "x")).status);
        stage.wait_until_held("/slow");
        let second = scope.spawn(|| {
            stage
                .ask(Request::post("/second", "text/plain", "x"))
                .status
        });
        wait_for("one in the queue", PATIENCE, || {
            stage.status_number("waiting") == 1
        });
        for request in [
            Request::post("/third", "text/plain", "x"),
            Request::get("/third"),
            Request::get("/wp-login.php"),
        ] {
            let third = stage.ask(request).expect_status(503);
            assert!(
                third
                    .field("retry-after")
                    .is_some_and(|after| after.parse::<u32>().is_ok()),
                "{}",
                third.beginning()
            );
            assert!(
                third.cache_status().contains("detail=overload"),
                "{}",
                third.cache_status()
            );
        }
        stage.release("/slow");
        assert_eq!((first.join().unwrap(), second.join().unwrap()), (200, 200));
    });
    assert_eq!(stage.runs("/third"), 0);
    stage.get("/third").is(200);
}

#[test]
fn waiting_has_an_end() {
    let stage = Plan::php()
        .workers(1)
        .site("in_flight = 1\nqueue_timeout = \"400ms\"")
        .start();
    stage.hold("/slow");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| stage.ask(Request::post("/slow", "text/plain", "x")).status);
        stage.wait_until_held("/slow");
        let began = Instant::now();
        stage.get("/second").is(503);
        assert!(
            (Duration::from_millis(350)..SHORT_PATIENCE).contains(&began.elapsed()),
            "{:?}",
            began.elapsed()
        );
        stage.release("/slow");
        assert_eq!(first.join().unwrap(), 200);
    });
    stage.get("/second").is(200);
}

#[test]
fn php_that_is_down_makes_a_page_that_tells_nothing() {
    let mut stage = Plan::php().start();
    stage.get("/").is(200);
    stage.fpm.as_mut().unwrap().kill();
    for request in [
        Request::get("/new"),
        Request::post("/new", "text/plain", "x"),
        Request::get("/wp-login.php"),
    ] {
        let answer = stage.ask(request).expect_status(502);
        let text = answer.text();
        let root = stage.scratch.path().to_str().unwrap().to_owned();
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
            answer
                .field("cache-control")
                .is_some_and(|value| value.contains("no-store")),
            "{}",
            answer.beginning()
        );
    }
    let text = stage.get("/who").expect_status(502).text();
    let line = stage.access_line("GET /who ");
    let id = text
        .split(" · ")
        .nth(1)
        .and_then(|rest| rest.split('<').next())
        .unwrap_or_else(|| panic!("no id in {text}"));
    assert!(
        line.contains(id),
        "the id on the page is that of the log: {id}\n{line}"
    );
    stage.galley.wait_for_log(id, PATIENCE);
    stage.fpm.as_mut().unwrap().restart().unwrap();
    stage.get("/new").is(200);
}

#[test]
fn php_that_takes_too_long_is_given_up() {
    let stage = Plan::php()
        .site("first_byte_timeout = \"400ms\"\nread_timeout = \"400ms\"")
        .start();
    stage.hold("/slow");
    for request in [
        Request::get("/slow"),
        Request::post("/slow", "text/plain", "x"),
    ] {
        let answer = stage.ask(request).expect_status(504);
        assert!(
            answer.cache_status().contains("detail=upstream-timeout"),
            "{}",
            answer.cache_status()
        );
    }
    stage.release("/slow");
    // Silence in the middle: what left stays short of its framing, and none of it is kept.
    stage.pause("/half");
    for request in [
        Request::get("/half"),
        Request::post("/half", "text/plain", "x"),
    ] {
        let broken = hosted(request).send(stage.addr());
        assert!(
            broken.is_err(),
            "half a page passed for a whole one: {:?}",
            broken.map(|answer| answer.text())
        );
    }
    stage.resume("/half");
    let whole = stage.get("/half").expect_status(200);
    assert!(!whole.is_hit() && whole.text().ends_with("</html>\n"));
}

#[test]
fn what_php_logs_stands_in_our_log_with_the_request() {
    let stage = Plan::php()
        .file(
            "log.php",
            "<?php error_log('canary-' . $_GET['n']); echo 'ok';",
        )
        .ini("log_errors", "1")
        .start();
    stage.get("/log.php?n=77").is(200);
    stage.galley.wait_for_log("canary-77", PATIENCE);
    let line = stage.access_line("/log.php?n=77");
    let log = stage.galley.log();
    let said = log.lines().find(|line| line.contains("canary-77")).unwrap();
    let id = said
        .split("request=")
        .nth(1)
        .and_then(|rest| rest.split([' ', '"']).find(|word| !word.is_empty()))
        .unwrap_or_else(|| panic!("no id in {said}"));
    assert!(line.contains(id), "{id}\n{line}");
}

#[test]
fn a_fatal_error_of_php_is_not_kept() {
    let fatal = "<?php header('Cache-Control: max-age=600'); echo str_repeat('x', 300); flush(); undefined_function();";
    let stage = Plan::php()
        .file("index.php", fatal)
        .ini("display_errors", "0")
        .start();
    let first = stage.get("/boom");
    let second = stage.get("/boom");
    assert!(
        !second.is_hit(),
        "{} then {}",
        first.beginning(),
        second.beginning()
    );
}

#[test]
fn a_client_that_leaves_frees_its_place() {
    let stage = Plan::php().workers(2).site("in_flight = 1").start();
    // In the middle of the answer, while PHP is silent.
    stage.pause("/silent");
    let mut connection = stage.connect();
    connection
        .send(&hosted(
            Request::get("/silent").cookie("wordpress_logged_in_x=1"),
        ))
        .unwrap();
    stage.wait_until_paused("/silent");
    drop(connection);
    stage.get("/next").is(200);
    stage.resume("/silent");
    // Before its head.
    stage.hold("/held");
    let mut connection = stage.connect();
    connection
        .send(&hosted(
            Request::get("/held").cookie("wordpress_logged_in_x=1"),
        ))
        .unwrap();
    stage.wait_until_held("/held");
    drop(connection);
    stage.get("/next2").is(200);
    stage.release("/held");
    wait_for("records of clients that left", PATIENCE, || {
        stage
            .access()
            .lines()
            .filter(|line| line.contains(" /silent ") || line.contains(" /held "))
            .count()
            == 2
    });
}

#[test]
fn a_client_that_leaves_amid_a_flood_frees_its_place() {
    let flood =
        "<?php while (true) { echo str_repeat('x', 65536); if (connection_aborted()) { break; } }";
    let stage = Plan::php()
        .workers(2)
        .site("in_flight = 1")
        .file("flood.php", flood)
        .ini("max_execution_time", "600")
        .start();
    let mut connection = stage.connect();
    connection
        .send(&hosted(Request::get("/flood.php")))
        .unwrap();
    let mut piece = vec![0; 300_000];
    std::io::Read::read_exact(&mut connection.stream(), &mut piece).unwrap();
    drop(connection);
    stage.get("/next").is(200);
}

#[test]
fn an_unsafe_request_goes_on_without_its_client() {
    let stage = Plan::php().workers(2).start();
    stage.get("/page");
    assert!(stage.get("/page").is_hit());
    stage.hold("/comment");
    stage.head("/comment", &["Location: /page", "Status: 302"]);
    let mut connection = stage.connect();
    connection
        .send(&hosted(
            Request::form("/comment", &[("text", "hello")])
                .cookie("wordpress_logged_in_0123=editor|1|x"),
        ))
        .unwrap();
    stage.wait_until_held("/comment");
    drop(connection);
    stage.release("/comment");
    // Its change is known: the page that it leads to is generated again.
    wait_for("the page to be purged", PATIENCE, || {
        !stage.get("/page").is_hit()
    });
}

#[test]
fn a_slow_reader_holds_little_memory() {
    let large = "<?php $n = __DIR__ . '/../notes/sent'; for ($i = 1; $i <= 64; $i++) { echo str_repeat(chr(64 + $i), 1048576); file_put_contents($n, $i); }";
    let stage = Plan::php()
        .file("large.php", large)
        .ini("output_buffering", "0")
        .server("spool_response = \"8MiB\"")
        .start();
    stage.get("/");
    let before = stage.peak_memory();
    let mut connection = stage.connect();
    connection
        .send(&hosted(Request::get("/large.php")))
        .unwrap();
    stage.wait_for_note("sent");
    let sent = || std::fs::read_to_string(stage.notes().join("sent")).unwrap();
    // PHP has been stopped by us: it has said nothing new for a while.
    let (mut last, mut since) = (sent(), Instant::now());
    wait_for("PHP to be held up", PATIENCE, || {
        let now = sent();
        if now != last {
            (last, since) = (now, Instant::now());
        }
        since.elapsed() > Duration::from_millis(400)
    });
    assert_ne!(last, "64", "PHP was let go: who holds its answer?");
    let answer = connection.receive("GET").unwrap().expect_status(200);
    assert_eq!(answer.body.len(), 64 * 1_048_576);
    assert!(
        answer
            .body
            .chunks(1_048_576)
            .zip(1_u8..)
            .all(|(piece, n)| piece.iter().all(|byte| *byte == 64 + n))
    );
    // Half of the answer: what the allocator and helper threads take beside it depends on the machine.
    let grown = stage.grown_since(before);
    assert!(
        grown < 32 * 1024 * 1024,
        "{grown} bytes for one slow reader"
    );
}

#[test]
fn a_rule_sends_paths_to_another_program() {
    let plan = Plan::php();
    let wrap = FcgiWrap::start(&plan.scratch.join("wrap"), 2).unwrap();
    let text = "#!/usr/bin/perl\nmy $in = do { local $/; <STDIN> };\nprint \"Content-Type: text/plain\\r\\n\\r\\nperl $ENV{REQUEST_METHOD} $ENV{QUERY_STRING} $ENV{SCRIPT_NAME} $in\";\n";
    let script = wrap.script("hello.pl", text).unwrap();
    plan.scratch.dir("root/cgi-bin").unwrap();
    let copied = std::process::Command::new("cp")
        .arg("-p")
        .arg(script)
        .arg(plan.scratch.join("root/cgi-bin/hello.pl"))
        .status()
        .unwrap();
    assert!(copied.success());
    let stage = plan
        .more(&format!(
            "[[site.rule]]\npath = \"/cgi-bin/*\"\nphp = \"{}\"\n",
            wrap.address()
        ))
        .start();
    assert_eq!(
        stage.get("/cgi-bin/hello.pl?a=b").expect_status(200).text(),
        "perl GET a=b /cgi-bin/hello.pl "
    );
    assert_eq!(
        stage
            .ask(Request::post("/cgi-bin/hello.pl", "text/plain", "in"))
            .expect_status(200)
            .text(),
        "perl POST  /cgi-bin/hello.pl in"
    );
    // Neither what is not there nor what is not below the folder reaches the program.
    for target in [
        "/cgi-bin/missing.pl",
        "/cgi-bin/../index.php",
        "/cgi-bin/%2e%2e/%2e%2e/wrap/scripts/hello.pl",
    ] {
        let text = stage.get(target).text();
        assert!(!text.contains("perl GET"), "{target}: {text}");
    }
    assert_eq!(said(&stage.get("/other").text(), "path"), "/other");
}

#[test]
fn a_rules_php_generates_pages_and_the_files_beside_them_are_sent() {
    let other = Responder::start(|asked, application| {
        let text = format!("other {}", asked.param("SCRIPT_NAME"));
        application.answer("Content-Type: text/plain\r\n", text.as_bytes());
    })
    .unwrap();
    let stage = Plan::php()
        .file("other/style.css", "body {}")
        .file("other/tool.pl", "secret source")
        .more(&format!(
            "[[site.rule]]\npath = \"/other*\"\nphp = \"{}\"\n",
            other.address()
        ))
        .start();
    let css = stage.get("/other/style.css").expect_status(200);
    assert_eq!((css.text().as_str(), other.count()), ("body {}", 0));
    for (target, script) in [
        ("/other/a-permalink/", "/index.php"),
        ("/other/tool.pl", "/other/tool.pl"),
        ("/other/tool.pl/info", "/other/tool.pl"),
    ] {
        let answer = stage.get(target).expect_status(200);
        assert_eq!(answer.text(), format!("other {script}"), "{target}");
    }
    assert_eq!(said(&stage.get("/elsewhere").text(), "path"), "/elsewhere");
}

#[test]
fn connections_that_php_closed_are_not_held_against_a_visitor() {
    let stage = Plan::php().site("in_flight = 2").start();
    let mut stage = stage;
    for round in 0..4 {
        stage.get(&format!("/a{round}")).is(200);
        stage.fpm.as_mut().unwrap().restart().unwrap();
        stage
            .ask(Request::post(&format!("/b{round}"), "text/plain", "x"))
            .is(200);
    }
}

#[test]
fn many_clients_at_few_workers() {
    let stage = Plan::php().workers(2).site("in_flight = 10").start();
    let statuses = together(20, |n| {
        let mut connection = stage.connect();
        (0..5)
            .map(|round| {
                connection
                    .exchange(&hosted(Request::post(
                        &format!("/x{n}_{round}"),
                        "text/plain",
                        "x",
                    )))
                    .unwrap()
                    .status
            })
            .all(|status| status == 200)
    });
    assert!(
        statuses.into_iter().all(|fine| fine),
        "more connections than workers must not wait for one another"
    );
}

#[test]
fn the_doctor_sees_opcodes_that_are_not_kept() {
    for (enabled, wanted) in [("1", "fine"), ("0", "wrong")] {
        let stage = Plan::php().ini("opcache.enable", enabled).start();
        let output = stage.galley.cli(&["doctor", "--json"]).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = value["findings"].as_array().unwrap();
        let opcache = findings
            .iter()
            .find(|finding| finding["check"] == "opcache");
        assert_eq!(opcache.unwrap()["level"], wanted, "{value}");
    }
}
