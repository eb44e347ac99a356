//! Request collapsing: concurrent requests for a page share one fetch; requests for private responses do not wait for each other.

use std::fs;
use std::sync::Barrier;

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, page_value, run_concurrently, with_host};

#[test]
fn two_hundred_concurrent_misses_share_one_fetch() {
    let site = SiteBuilder::php().workers(4).start();
    site.hold("/page");
    let all_sent = Barrier::new(200);
    let responses = run_concurrently(200, |n| {
        let mut connection = site.connect();
        let request = Request::get(&format!("/page?utm_source={n}")).cookie(&format!("_ga={n}"));
        connection.send(&with_host(request)).unwrap();
        if all_sent.wait().is_leader() {
            site.wait_until_held("/page");
            site.release("/page");
        }
        connection.receive("GET").unwrap()
    });
    assert_eq!(site.runs("/page"), 1);
    for response in &responses {
        assert_eq!(response.status, 200);
        assert_eq!(response.body, responses[0].body);
        let status = response.cache_status();
        assert!(
            [
                "galley; hit",
                "galley; fwd=uri-miss; stored",
                "galley; fwd=uri-miss; collapsed; stored"
            ]
            .contains(&status),
            "{status}"
        );
    }
    assert_eq!(
        responses
            .iter()
            .filter(|response| response.cache_status() == "galley; fwd=uri-miss; stored")
            .count(),
        1
    );
    assert!(site.get("/page").is_hit());
}

#[test]
fn collapsed_requests_receive_bytes_while_the_fetch_runs() {
    let site = SiteBuilder::php().start();
    site.pause("/page");
    let mut first = site.connect();
    first.send(&with_host(Request::get("/page"))).unwrap();
    site.wait_until_paused("/page");
    let mut second = site.connect();
    second.send(&with_host(Request::get("/page"))).unwrap();
    for connection in [&first, &second] {
        let mut received = String::new();
        let mut buffer = [0; 4096];
        while !received.contains("run=1") {
            connection.stream().set_read_timeout(Some(TIMEOUT)).unwrap();
            let count = std::io::Read::read(&mut connection.stream(), &mut buffer).unwrap();
            assert!(count > 0, "closed after {received}");
            received.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        assert!(!received.contains("</html>"), "{received}");
    }
    site.resume("/page");
    for connection in [&mut first, &mut second] {
        let mut rest = Vec::new();
        wait_for("the end of the page", TIMEOUT, || {
            let mut buffer = [0; 4096];
            let count = std::io::Read::read(&mut connection.stream(), &mut buffer).unwrap();
            rest.extend_from_slice(&buffer[..count]);
            rest.windows(7).any(|window| window == b"</html>")
        });
    }
    assert_eq!(site.runs("/page"), 1);
    assert!(site.get("/page").is_hit());
}

#[test]
fn a_fetch_continues_after_the_first_client_disconnects() {
    let site = SiteBuilder::php().start();
    site.pause("/page");
    let mut first = site.connect();
    first.send(&with_host(Request::get("/page"))).unwrap();
    site.wait_until_paused("/page");
    std::thread::scope(|scope| {
        let second = scope.spawn(|| site.get("/page"));
        drop(first);
        site.resume("/page");
        let response = second.join().unwrap().expect_status(200);
        assert!(response.text().ends_with("</html>\n"));
    });
    assert_eq!(site.runs("/page"), 1);
    assert!(site.get("/page").is_hit());
}

#[test]
fn a_fetch_is_stored_after_its_only_client_disconnects() {
    let site = SiteBuilder::php().start();
    site.hold("/page");
    let mut only = site.connect();
    only.send(&with_host(Request::get("/page"))).unwrap();
    site.wait_until_held("/page");
    drop(only);
    site.release("/page");
    wait_for("the page to be stored", TIMEOUT, || {
        site.send(Request::get("/page").field("Cache-Control", "only-if-cached"))
            .status
            == 200
    });
    assert_eq!(site.runs("/page"), 1);
}

#[test]
fn php_runs_to_its_end_if_the_response_is_discarded() {
    // PHP stops at its next output if the connection is closed, and skips what plugins do at shutdown.
    let script = "<?php setcookie('a', '1'); while (ob_get_level()) { ob_end_flush(); } for ($i = 0; $i < 20; $i++) { echo 'line'; flush(); usleep(10000); } \
                  file_put_contents(dirname($_SERVER['DOCUMENT_ROOT']) . '/notes/ends', 'end,', FILE_APPEND);";
    let site = SiteBuilder::php().file("index.php", script).start();
    site.get("/").assert_status(200);
    let ends = site.notes().join("ends");
    let ended = || fs::read_to_string(&ends).unwrap_or_default();
    // Galley sends the request without client data, then the client's complete request, because the response is private.
    wait_for("both requests to end", TIMEOUT, || ended() == "end,end,");
}

#[test]
fn requests_for_private_responses_run_in_parallel() {
    // The first run shows that the response is private. Each further run ends after eight have run at the same time, or after
    // a minute. Serialized requests never reach eight.
    let script = "<?php $notes = dirname($_SERVER['DOCUMENT_ROOT']) . '/notes/'; $mine = $notes . 'run-' . getmypid(); \
                  if (!@mkdir($notes . 'first')) { touch($mine); for ($i = 0; $i < 6000 && !file_exists($notes . 'met'); $i++) { \
                      if (count(glob($notes . 'run-*')) >= 8) { touch($notes . 'met'); } usleep(10000); } unlink($mine); } \
                  header('Cache-Control: private'); header('Set-Cookie: id=' . bin2hex(random_bytes(8))); \
                  echo '<html>', $_SERVER['HTTP_COOKIE'] ?? '-', '</html>';";
    let site = SiteBuilder::php()
        .file("index.php", script)
        .workers(16)
        .site("in_flight = 16")
        .start();
    let responses = run_concurrently(50, |n| {
        site.send(Request::get("/mine").cookie(&format!("visitor=v{n}")))
    });
    assert!(
        site.notes().join("met").exists(),
        "the requests were serialized"
    );
    let mut cookies: Vec<String> = responses
        .iter()
        .map(|response| response.field("set-cookie").unwrap().to_owned())
        .collect();
    for (n, response) in responses.iter().enumerate() {
        assert_eq!(response.text(), format!("<html>visitor=v{n}</html>"));
    }
    cookies.sort();
    cookies.dedup();
    assert_eq!(cookies.len(), 50, "two visitors share a cookie");
}

#[test]
fn a_failed_fetch_fails_waiting_requests_and_no_later_ones() {
    let site = SiteBuilder::php().workers(4).start();
    site.hold("/page");
    site.head("/page", &["Status: 500"]);
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..10)
            .map(|_| scope.spawn(|| site.get("/page").status))
            .collect();
        site.wait_until_held("/page");
        site.release("/page");
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), 500);
        }
    });
    site.head("/page", &[]);
    let response = site.get("/page").expect_status(200);
    assert_eq!(response.cache_status(), "galley; fwd=uri-miss; stored");
}

#[test]
fn a_php_crash_during_a_page_truncates_it_for_all_clients() {
    let mut site = SiteBuilder::php().workers(2).start();
    site.pause("/page");
    let addr = site.addr();
    let send = move || with_host(Request::get("/page").timeout(TIMEOUT)).send(addr);
    let threads: Vec<_> = (0..5).map(|_| std::thread::spawn(send)).collect();
    site.wait_until_paused("/page");
    wait_for("the fetch to run", TIMEOUT, || {
        site.status_number("in_flight") >= 1
    });
    site.fpm.as_mut().unwrap().kill();
    for thread in threads {
        let outcome = thread.join().unwrap();
        assert!(
            outcome
                .as_ref()
                .map_or(true, |response| response.status == 502),
            "{:?}",
            outcome.map(|response| response.text())
        );
    }
    site.unpause("/page");
    site.fpm.as_mut().unwrap().restart().unwrap();
    let response = site.get("/page").expect_status(200);
    assert!(!response.is_hit() && response.text().ends_with("</html>\n"));
    assert_eq!(
        page_value(&site.get("/page").text(), "run"),
        page_value(&response.text(), "run")
    );
    site.get("/page").assert_status(200);
}
