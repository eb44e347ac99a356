//! One fetch per page, however many clients request it; and no client that may not share it waits for the others.

use std::fs;
use std::sync::Barrier;

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{Is, PATIENCE, Plan, hosted, said, together};

#[test]
fn two_hundred_first_visits_are_one_fetch() {
    let stage = Plan::php().workers(4).start();
    stage.hold("/page");
    let all_have_asked = Barrier::new(200);
    let answers = together(200, |n| {
        let mut connection = stage.connect();
        let request = Request::get(&format!("/page?utm_source={n}")).cookie(&format!("_ga={n}"));
        connection.send(&hosted(request)).unwrap();
        if all_have_asked.wait().is_leader() {
            stage.wait_until_held("/page");
            stage.release("/page");
        }
        connection.receive("GET").unwrap()
    });
    assert_eq!(stage.runs("/page"), 1);
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
    assert!(stage.get("/page").is_hit());
}

#[test]
fn waiters_get_bytes_while_the_page_is_still_coming() {
    let stage = Plan::php().start();
    stage.pause("/page");
    let mut first = stage.connect();
    first.send(&hosted(Request::get("/page"))).unwrap();
    stage.wait_until_paused("/page");
    let mut second = stage.connect();
    second.send(&hosted(Request::get("/page"))).unwrap();
    for connection in [&first, &second] {
        let mut got = String::new();
        let mut piece = [0; 4096];
        while !got.contains("run=1") {
            connection
                .stream()
                .set_read_timeout(Some(PATIENCE))
                .unwrap();
            let count = std::io::Read::read(&mut connection.stream(), &mut piece).unwrap();
            assert!(count > 0, "closed after {got}");
            got.push_str(&String::from_utf8_lossy(&piece[..count]));
        }
        assert!(!got.contains("</html>"), "{got}");
    }
    stage.resume("/page");
    for connection in [&mut first, &mut second] {
        let mut rest = Vec::new();
        wait_for("the end of the page", PATIENCE, || {
            let mut piece = [0; 4096];
            let count = std::io::Read::read(&mut connection.stream(), &mut piece).unwrap();
            rest.extend_from_slice(&piece[..count]);
            rest.windows(7).any(|window| window == b"</html>")
        });
    }
    assert_eq!(stage.runs("/page"), 1);
    assert!(stage.get("/page").is_hit());
}

#[test]
fn the_first_client_may_leave() {
    let stage = Plan::php().start();
    stage.pause("/page");
    let mut first = stage.connect();
    first.send(&hosted(Request::get("/page"))).unwrap();
    stage.wait_until_paused("/page");
    std::thread::scope(|scope| {
        let second = scope.spawn(|| stage.get("/page"));
        drop(first);
        stage.resume("/page");
        let answer = second.join().unwrap().expect_status(200);
        assert!(answer.text().ends_with("</html>\n"));
    });
    assert_eq!(stage.runs("/page"), 1);
    assert!(stage.get("/page").is_hit());
}

#[test]
fn a_page_whose_only_client_left_is_kept_all_the_same() {
    let stage = Plan::php().start();
    stage.hold("/page");
    let mut only = stage.connect();
    only.send(&hosted(Request::get("/page"))).unwrap();
    stage.wait_until_held("/page");
    drop(only);
    stage.release("/page");
    wait_for("the page to be kept", PATIENCE, || {
        stage
            .ask(Request::get("/page").field("Cache-Control", "only-if-cached"))
            .status
            == 200
    });
    assert_eq!(stage.runs("/page"), 1);
}

#[test]
fn php_comes_to_its_end_though_nobody_gets_the_answer() {
    // Who is left by its reader stops at its next output, and what plugins do last is not done.
    let script = "<?php setcookie('a', '1'); while (ob_get_level()) { ob_end_flush(); } for ($i = 0; $i < 20; $i++) { echo 'line'; flush(); usleep(10000); } \
                  file_put_contents(dirname($_SERVER['DOCUMENT_ROOT']) . '/notes/ends', 'end,', FILE_APPEND);";
    let stage = Plan::php().file("index.php", script).start();
    stage.get("/").is(200);
    let ends = stage.notes().join("ends");
    let ended = || fs::read_to_string(&ends).unwrap_or_default();
    // Asked as for everybody, then for this visitor alone.
    wait_for("both requests to end", PATIENCE, || ended() == "end,end,");
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
    let stage = Plan::php()
        .file("index.php", script)
        .workers(16)
        .site("in_flight = 16")
        .start();
    let answers = together(50, |n| {
        stage.ask(Request::get("/mine").cookie(&format!("visitor=v{n}")))
    });
    assert!(stage.notes().join("met").exists(), "one behind another");
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
    let stage = Plan::php().workers(4).start();
    stage.hold("/page");
    stage.head("/page", &["Status: 500"]);
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..10)
            .map(|_| scope.spawn(|| stage.get("/page").status))
            .collect();
        stage.wait_until_held("/page");
        stage.release("/page");
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), 500);
        }
    });
    stage.head("/page", &[]);
    let answer = stage.get("/page").expect_status(200);
    assert_eq!(answer.cache_status(), "galley; fwd=uri-miss; stored");
}

#[test]
fn php_that_dies_amid_a_page_breaks_it_off_for_all() {
    let mut stage = Plan::php().workers(2).start();
    stage.pause("/page");
    let addr = stage.addr();
    let ask = move || hosted(Request::get("/page").patience(PATIENCE)).send(addr);
    let threads: Vec<_> = (0..5).map(|_| std::thread::spawn(ask)).collect();
    stage.wait_until_paused("/page");
    wait_for("five to be served", PATIENCE, || {
        stage.status_number("in_flight") >= 1
    });
    stage.fpm.as_mut().unwrap().kill();
    for thread in threads {
        let outcome = thread.join().unwrap();
        assert!(
            outcome.as_ref().map_or(true, |answer| answer.status == 502),
            "{:?}",
            outcome.map(|answer| answer.text())
        );
    }
    stage.unpause("/page");
    stage.fpm.as_mut().unwrap().restart().unwrap();
    let answer = stage.get("/page").expect_status(200);
    assert!(!answer.is_hit() && answer.text().ends_with("</html>\n"));
    assert_eq!(
        said(&stage.get("/page").text(), "run"),
        said(&answer.text(), "run")
    );
    stage.get("/page").is(200);
}
