//! One fetch per page, however many clients request it; and no client that may not share it waits for the others.

use std::fs;
use std::sync::Barrier;

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, page_value, run_concurrently, with_host};

#[test]
fn two_hundred_first_visits_are_one_fetch() {
    let site = SiteBuilder::php().workers(4).start();
    site.hold("/page");
    let all_have_asked = Barrier::new(200);
    let answers = run_concurrently(200, |n| {
        let mut connection = site.connect();
        let request = Request::get(&format!("/page?utm_source={n}")).cookie(&format!("_ga={n}"));
        connection.send(&with_host(request)).unwrap();
        if all_have_asked.wait().is_leader() {
            site.wait_until_held("/page");
            site.release("/page");
        }
        connection.receive("GET").unwrap()
    });
    assert_eq!(site.runs("/page"), 1);
    for answer in &answers {
        assert_eq!(answer.status, 200);
        assert_eq!(answer.body, answers[0].body);
        let status = answer.cache_status();
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
        answers
            .iter()
            .filter(|answer| answer.cache_status() == "galley; fwd=uri-miss; stored")
            .count(),
        1
    );
    assert!(site.get("/page").is_hit());
}

#[test]
fn waiters_get_bytes_while_the_page_is_still_coming() {
    let site = SiteBuilder::php().start();
    site.pause("/page");
    let mut first = site.connect();
    first.send(&with_host(Request::get("/page"))).unwrap();
    site.wait_until_paused("/page");
    let mut second = site.connect();
    second.send(&with_host(Request::get("/page"))).unwrap();
    for connection in [&first, &second] {
        let mut got = String::new();
        let mut piece = [0; 4096];
        while !got.contains("run=1") {
            connection.stream().set_read_timeout(Some(TIMEOUT)).unwrap();
            let count = std::io::Read::read(&mut connection.stream(), &mut piece).unwrap();
            assert!(count > 0, "closed after {got}");
            got.push_str(&String::from_utf8_lossy(&piece[..count]));
        }
        assert!(!got.contains("</html>"), "{got}");
    }
    site.resume("/page");
    for connection in [&mut first, &mut second] {
        let mut rest = Vec::new();
        wait_for("the end of the page", TIMEOUT, || {
            let mut piece = [0; 4096];
            let count = std::io::Read::read(&mut connection.stream(), &mut piece).unwrap();
            rest.extend_from_slice(&piece[..count]);
            rest.windows(7).any(|window| window == b"</html>")
        });
    }
    assert_eq!(site.runs("/page"), 1);
    assert!(site.get("/page").is_hit());
}

#[test]
fn the_first_client_may_leave() {
    let site = SiteBuilder::php().start();
    site.pause("/page");
    let mut first = site.connect();
    first.send(&with_host(Request::get("/page"))).unwrap();
    site.wait_until_paused("/page");
    std::thread::scope(|scope| {
        let second = scope.spawn(|| site.get("/page"));
        drop(first);
        site.resume("/page");
        let answer = second.join().unwrap().expect_status(200);
        assert!(answer.text().ends_with("</html>\n"));
    });
    assert_eq!(site.runs("/page"), 1);
    assert!(site.get("/page").is_hit());
}

#[test]
fn a_page_whose_only_client_left_is_kept_all_the_same() {
    let site = SiteBuilder::php().start();
    site.hold("/page");
    let mut only = site.connect();
    only.send(&with_host(Request::get("/page"))).unwrap();
    site.wait_until_held("/page");
    drop(only);
    site.release("/page");
    wait_for("the page to be kept", TIMEOUT, || {
        site.send(Request::get("/page").field("Cache-Control", "only-if-cached"))
            .status
            == 200
    });
    assert_eq!(site.runs("/page"), 1);
}

#[test]
fn php_comes_to_its_end_though_nobody_gets_the_answer() {
    // Who is left by its reader stops at its next output, and what plugins do last is not done.
    let script = "<?php setcookie('a', '1'); while (ob_get_level()) { ob_end_flush(); } for ($i = 0; $i < 20; $i++) { echo 'line'; flush(); usleep(10000); } \
                  file_put_contents(dirname($_SERVER['DOCUMENT_ROOT']) . '/notes/ends', 'end,', FILE_APPEND);";
    let site = SiteBuilder::php().file("index.php", script).start();
    site.get("/").assert_status(200);
    let ends = site.notes().join("ends");
    let ended = || fs::read_to_string(&ends).unwrap_or_default();
    // Asked as for everybody, then for this visitor alone.
    wait_for("both requests to end", TIMEOUT, || ended() == "end,end,");
}

#[test]
fn what_may_not_be_shared_is_not_queued_one_behind_another() {
    // The first run tells that nothing here is shared. Each further one ends once eight have been under way at one time, or
    // after a minute; one behind another they never are.
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
    let answers = run_concurrently(50, |n| {
        site.send(Request::get("/mine").cookie(&format!("visitor=v{n}")))
    });
    assert!(site.notes().join("met").exists(), "one behind another");
    let mut cookies: Vec<String> = answers
        .iter()
        .map(|answer| answer.field("set-cookie").unwrap().to_owned())
        .collect();
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer.text(), format!("<html>visitor=v{n}</html>"));
    }
    cookies.sort();
    cookies.dedup();
    assert_eq!(cookies.len(), 50, "two visitors share a cookie");
}

#[test]
fn a_failed_fetch_fails_for_all_waiters_and_for_no_later_request() {
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
    let answer = site.get("/page").expect_status(200);
    assert_eq!(answer.cache_status(), "galley; fwd=uri-miss; stored");
}

#[test]
fn php_that_dies_amid_a_page_breaks_it_off_for_all() {
    let mut site = SiteBuilder::php().workers(2).start();
    site.pause("/page");
    let addr = site.addr();
    let send = move || with_host(Request::get("/page").timeout(TIMEOUT)).send(addr);
    let threads: Vec<_> = (0..5).map(|_| std::thread::spawn(send)).collect();
    site.wait_until_paused("/page");
    wait_for("five to be served", TIMEOUT, || {
        site.status_number("in_flight") >= 1
    });
    site.fpm.as_mut().unwrap().kill();
    for thread in threads {
        let outcome = thread.join().unwrap();
        assert!(
            outcome.as_ref().map_or(true, |answer| answer.status == 502),
            "{:?}",
            outcome.map(|answer| answer.text())
        );
    }
    site.unpause("/page");
    site.fpm.as_mut().unwrap().restart().unwrap();
    let answer = site.get("/page").expect_status(200);
    assert!(!answer.is_hit() && answer.text().ends_with("</html>\n"));
    assert_eq!(
        page_value(&site.get("/page").text(), "run"),
        page_value(&answer.text(), "run")
    );
    site.get("/page").assert_status(200);
}
