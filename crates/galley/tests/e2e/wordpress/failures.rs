//! Dead parts: what is stored answers, what is not says so, and nothing of a failure is kept.

use std::fs;
use std::thread::{self, JoinHandle};

use galley_testkit::client::{Request, Response};
use galley_testkit::{TestkitError, wait_for};

use super::stack::{
    Kind, STORED, SiteBuilder, Stack, TIMEOUT, assert_no_text, assert_text, assert_way, run_of,
};

both_alone! {
    a_dead_upstream_is_bridged,
    a_dead_database_is_bridged,
    a_broken_wordpress_is_bridged,
}

/// Stale after a second; asked for anew by the visitor who waits.
const BRIEF: &str = "brief.test";

/// The same, asked for anew behind the visitor's back.
const CALM: &str = "calm.test";

fn plan() -> SiteBuilder {
    let ttl = |revalidate: &str| {
        format!(
            "connect_timeout = \"2s\"\n[site.ttl]\ndefault = \"1s\"\n\
             stale_while_revalidate = \"{revalidate}\"\nstale_if_error = \"1d\""
        )
    };
    SiteBuilder::new([(BRIEF, ttl("0s")), (CALM, ttl("1d"))])
}

/// Asks until an answer is as wanted. All that came are shown where none is, and where a look at one fails.
fn ask_until(
    stack: &Stack,
    (host, path): (&str, &str),
    what: &str,
    is_wanted: impl Fn(&Response) -> bool,
) {
    let mut seen = Seen(Vec::new());
    wait_for(&format!("{host}{path} to be {what}"), TIMEOUT, || {
        let answer = stack.get_from(host, path);
        let line = format!("{} {}", answer.status, answer.cache_status());
        if seen.0.last() != Some(&line) {
            seen.0.push(line);
        }
        is_wanted(&answer)
    });
}

/// What answered, told when the test fails.
struct Seen(Vec<String>);

impl Drop for Seen {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("what answered, in order: {:#?}", self.0);
        }
    }
}

/// Asks until a stale copy answers; until then, and then, it is the same page.
fn wait_until_stale(stack: &Stack, host: &str, path: &str, body: &[u8], detail: &str) {
    ask_until(stack, (host, path), "stale", |answer| {
        assert!(
            answer.status == 200 && answer.body == body,
            "the page as it was: {}",
            answer.beginning()
        );
        answer.is_hit() && answer.cache_status().contains(detail)
    });
}

/// `/bridged/` as both sites send it while everything works.
struct Bridged {
    brief: Response,
    calm: Response,
}

impl Bridged {
    fn of(stack: &Stack) -> Self {
        let page = |host| stack.get_from(host, "/bridged/").expect_status(200);
        Self {
            brief: page(BRIEF),
            calm: page(CALM),
        }
    }

    /// Waits until both sites send it as a stale copy.
    fn wait_until_stale(&self, stack: &Stack) {
        for (host, page, detail) in [
            (BRIEF, &self.brief, "detail=upstream-error"),
            (CALM, &self.calm, "detail=revalidating"),
        ] {
            wait_until_stale(stack, host, "/bridged/", &page.body, detail);
        }
    }
}

/// Asks the brief site until a page comes fresh from PHP.
fn wait_until_generated(stack: &Stack, path: &str) {
    ask_until(stack, (BRIEF, path), "composed", |answer| {
        is_generated(answer) && answer.cache_status().ends_with("stored")
    });
}

/// Asks the calm site until the page has been refreshed.
fn wait_until_refreshed(stack: &Stack, path: &str, before: u32) {
    ask_until(stack, (CALM, path), "refreshed", |answer| {
        run_of(answer) > before
    });
}

fn is_generated(answer: &Response) -> bool {
    answer.status == 200 && answer.text().contains("</html>")
}

fn a_dead_upstream_is_bridged(kind: Kind) {
    let mut stack = Stack::start(kind, &plan());
    stack.publish(["bridged", "unseen", "cut-short"]);
    let bridged = Bridged::of(&stack);
    assert_way(&bridged.brief, STORED);
    let runs = stack.runs("/bridged/");

    // Dies while it generates the page: a page that was never stored is not taken for a whole one.
    stack.set("pause", "/cut-short/", "");
    let cut = asking(&stack, "/cut-short/", |_| true);
    stack.wait_for_note("paused", "/cut-short/");
    stack.upstream.kill();
    if let Ok(answer) = cut.join().unwrap() {
        assert!(answer.status >= 500, "{}", answer.beginning());
    }
    stack.unset("pause", "/cut-short/");

    bridged.wait_until_stale(&stack);
    for path in ["/unseen/", "/cut-short/", "/wp-login.php"] {
        let answer = stack.get_from(BRIEF, path);
        // It has failed many times by now, and the circuit breaker may be open.
        match answer.cache_status() {
            "galley; detail=upstream-down" => assert_eq!(answer.status, 502),
            "galley; detail=upstream-paused" => assert_eq!(answer.status, 503),
            _ => panic!("{}", answer.beginning()),
        }
        assert_text(&answer, "did not respond");
    }
    assert_eq!(stack.runs("/bridged/"), runs);

    stack.upstream.restart();
    for path in ["/unseen/", "/cut-short/", "/bridged/"] {
        wait_until_generated(&stack, path);
    }
    wait_until_refreshed(&stack, "/bridged/", runs);

    // Dies while it generates a page of which there is a stale copy: that copy answers.
    stack.set("hold", "/bridged/", "");
    let held = asking(&stack, "/bridged/", |answer| {
        answer.cache_status() != "galley; hit"
    });
    stack.wait_for_note("held", "/bridged/");
    stack.upstream.kill();
    let held = held.join().unwrap().unwrap();
    assert_eq!(held.status, 200, "{}", held.beginning());
    assert!(
        held.cache_status().contains("detail=upstream-error"),
        "{}",
        held.beginning()
    );
}

/// Asks the brief site aside until an answer is the wanted one, or none comes.
fn asking(
    stack: &Stack,
    path: &str,
    is_wanted: fn(&Response) -> bool,
) -> JoinHandle<Result<Response, TestkitError>> {
    let (addr, request) = (stack.addr(), stack.named(Request::get(path)));
    thread::spawn(move || {
        loop {
            match request.send(addr) {
                Ok(answer) if !is_wanted(&answer) => {}
                last => return last,
            }
        }
    })
}

fn a_dead_database_is_bridged(kind: Kind) {
    let mut stack = Stack::start(kind, &plan());
    // What is written from now on survives the kill.
    let keep = "SET GLOBAL innodb_flush_log_at_trx_commit = 1";
    stack.database.sql(keep).unwrap();
    stack.publish(["bridged", "unseen"]);
    let bridged = Bridged::of(&stack);
    stack.database.kill();
    bridged.wait_until_stale(&stack);
    for _ in 0..2 {
        let answer = stack.get_from(BRIEF, "/unseen/").expect_status(500);
        assert_text(&answer, "establishing a database connection");
        assert!(!answer.is_hit() && !answer.cache_status().contains("stored"));
    }
    bridged.wait_until_stale(&stack);
    // A page of the site's own for that, whose author did not think of a status.
    let drop_in = stack.wordpress.root.join("wp-content/db-error.php");
    fs::write(&drop_in, DROP_IN).unwrap();
    for _ in 0..2 {
        let answer = stack.get_from(BRIEF, "/unseen/").expect_status(200);
        assert_text(&answer, "Back in a minute");
        assert!(!answer.is_hit(), "{}", answer.beginning());
    }
    bridged.wait_until_stale(&stack);
    fs::remove_file(drop_in).unwrap();
    stack.database.restart().unwrap();
    for path in ["/unseen/", "/bridged/"] {
        wait_until_generated(&stack, path);
    }
    wait_until_refreshed(&stack, "/bridged/", run_of(&bridged.calm));
}

const DROP_IN: &str = "<!DOCTYPE html><html><head><title>Sorry</title><style>body { font: 16px/1.5 sans-serif; margin: 15vh auto; \
    max-width: 40em; padding: 0 1em; color: #222; background: #fff }</style></head><body><h1>Back in a minute</h1>\
    <p>Error establishing a database connection. Please come again.</p></body></html>";

/// An update under way, and a plugin that ends PHP.
fn a_broken_wordpress_is_bridged(kind: Kind) {
    let stack = Stack::start(kind, &plan());
    stack.publish(["bridged", "unseen", "crashes", "breaks"]);
    let bridged = Bridged::of(&stack);
    let crashes = stack.get_from(BRIEF, "/crashes/").expect_status(200);
    stack.set("crash", "/crashes/", "");
    let is_bridged = |path: &str, page: &Response| {
        wait_until_stale(&stack, BRIEF, path, &page.body, "detail=upstream-error");
    };
    is_bridged("/crashes/", &crashes);
    stack.set("crash", "/unseen/", "");
    for _ in 0..2 {
        let answer = stack.get_from(BRIEF, "/unseen/").expect_status(500);
        assert_text(&answer, "critical error");
        assert!(!answer.is_hit() && !answer.cache_status().contains("stored"));
    }

    let sign = stack.wordpress.root.join(".maintenance");
    fs::write(&sign, "<?php $upgrading = time();").unwrap();
    bridged.wait_until_stale(&stack);
    let answer = stack.get_from(BRIEF, "/about/").expect_status(503);
    assert_eq!(answer.field("retry-after"), Some("600"));
    assert!(!answer.cache_status().contains("stored"));
    fs::remove_file(sign).unwrap();
    stack.unset("crash", "/unseen/");
    stack.unset("crash", "/crashes/");
    for path in ["/about/", "/unseen/", "/crashes/", "/bridged/"] {
        wait_until_generated(&stack, path);
    }

    // Half a page under a status of success is nobody's next page, and nobody's instead of a whole one.
    for path in ["/breaks/", "/bridged/"] {
        stack.set("break", path, "");
    }
    let half = stack.get("/breaks/").expect_status(200);
    assert_no_text(&half, "</html>");
    ask_until(&stack, (BRIEF, "/bridged/"), "composed in vain", |answer| {
        assert!(is_generated(answer), "{}", answer.beginning());
        answer.cache_status().contains("detail=upstream-error")
    });
    for path in ["/breaks/", "/bridged/"] {
        stack.unset("break", path);
        wait_until_generated(&stack, path);
    }
}
