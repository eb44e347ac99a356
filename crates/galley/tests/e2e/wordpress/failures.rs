//! Failures of the upstream, the database and WordPress: stored pages are served stale, other requests get an error, and error
//! responses are not stored.

use std::fs;
use std::thread::{self, JoinHandle};

use galley_testkit::client::{Request, Response};
use galley_testkit::{TestkitError, wait_for};

use super::stack::{
    STORED, StackOptions, TIMEOUT, UpstreamKind, WordPressStack, assert_cache_status,
    assert_no_text, assert_text, php_run,
};

test_with_own_stack! {
    stale_pages_are_served_while_the_upstream_is_down,
    stale_pages_are_served_while_the_database_is_down,
    stale_pages_are_served_while_wordpress_fails,
}

/// Pages are stale after a second, and the next request waits for the fetch.
const NO_SWR_HOST: &str = "brief.test";

/// Pages are stale after a second and are refreshed in the background.
const SWR_HOST: &str = "calm.test";

fn stack_options() -> StackOptions {
    let ttl = |revalidate: &str| {
        format!(
            "connect_timeout = \"2s\"\n[site.ttl]\ndefault = \"1s\"\n\
             stale_while_revalidate = \"{revalidate}\"\nstale_if_error = \"1d\""
        )
    };
    StackOptions::new([(NO_SWR_HOST, ttl("0s")), (SWR_HOST, ttl("1d"))])
}

/// Sends requests until `is_expected` accepts a response. Prints all distinct responses if the test fails.
fn poll_responses(
    stack: &WordPressStack,
    (host, path): (&str, &str),
    what: &str,
    is_expected: impl Fn(&Response) -> bool,
) {
    let mut received = ReceivedStatuses(Vec::new());
    wait_for(&format!("{host}{path} to be {what}"), TIMEOUT, || {
        let response = stack.get_from(host, path);
        let line = format!("{} {}", response.status, response.cache_status());
        if received.0.last() != Some(&line) {
            received.0.push(line);
        }
        is_expected(&response)
    });
}

/// Distinct response statuses in order, printed when the test fails.
struct ReceivedStatuses(Vec<String>);

impl Drop for ReceivedStatuses {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("responses, in order: {:#?}", self.0);
        }
    }
}

/// Waits until the stale page is served. Every response until then must have the same body.
fn wait_until_stale(stack: &WordPressStack, host: &str, path: &str, body: &[u8], detail: &str) {
    poll_responses(stack, (host, path), "stale", |response| {
        assert!(
            response.status == 200 && response.body == body,
            "not the stored page: {}",
            response.excerpt()
        );
        response.is_hit() && response.cache_status().contains(detail)
    });
}

/// The responses for `/bridged/` of both sites before the failure.
struct StoredPages {
    without_swr: Response,
    with_swr: Response,
}

impl StoredPages {
    fn fetch(stack: &WordPressStack) -> Self {
        let page = |host| stack.get_from(host, "/bridged/").expect_status(200);
        Self {
            without_swr: page(NO_SWR_HOST),
            with_swr: page(SWR_HOST),
        }
    }

    /// Waits until both sites serve the page stale.
    fn wait_until_stale(&self, stack: &WordPressStack) {
        for (host, page, detail) in [
            (NO_SWR_HOST, &self.without_swr, "detail=upstream-error"),
            (SWR_HOST, &self.with_swr, "detail=revalidating"),
        ] {
            wait_until_stale(stack, host, "/bridged/", &page.body, detail);
        }
    }
}

/// Waits until PHP generates a page of the site without stale-while-revalidate.
fn wait_until_generated(stack: &WordPressStack, path: &str) {
    poll_responses(stack, (NO_SWR_HOST, path), "generated", |response| {
        is_generated(response) && response.cache_status().ends_with("stored")
    });
}

/// Waits until the site with stale-while-revalidate has refreshed the page.
fn wait_until_refreshed(stack: &WordPressStack, path: &str, before: u32) {
    poll_responses(stack, (SWR_HOST, path), "refreshed", |response| {
        php_run(response) > before
    });
}

fn is_generated(response: &Response) -> bool {
    response.status == 200 && response.text().contains("</html>")
}

fn stale_pages_are_served_while_the_upstream_is_down(kind: UpstreamKind) {
    let mut stack = WordPressStack::start(kind, &stack_options());
    stack.publish(["bridged", "unseen", "cut-short"]);
    let stored = StoredPages::fetch(&stack);
    assert_cache_status(&stored.without_swr, STORED);
    let runs = stack.php_runs("/bridged/");

    // The upstream dies while it generates a page that was never stored: the client must not get status 200.
    stack.set_note("pause", "/cut-short/", "");
    let interrupted = spawn_requests(&stack, "/cut-short/", |_| true);
    stack.wait_for_note("paused", "/cut-short/");
    stack.upstream.kill();
    if let Ok(response) = interrupted.join().unwrap() {
        assert!(response.status >= 500, "{}", response.excerpt());
    }
    stack.remove_note("pause", "/cut-short/");

    stored.wait_until_stale(&stack);
    for path in ["/unseen/", "/cut-short/", "/wp-login.php"] {
        let response = stack.get_from(NO_SWR_HOST, path);
        // The upstream has failed many times, and the circuit breaker may be open.
        match response.cache_status() {
            "galley; detail=upstream-down" => assert_eq!(response.status, 502),
            "galley; detail=upstream-paused" => assert_eq!(response.status, 503),
            _ => panic!("{}", response.excerpt()),
        }
        assert_text(&response, "did not respond");
    }
    assert_eq!(stack.php_runs("/bridged/"), runs);

    stack.upstream.restart();
    for path in ["/unseen/", "/cut-short/", "/bridged/"] {
        wait_until_generated(&stack, path);
    }
    wait_until_refreshed(&stack, "/bridged/", runs);

    // The upstream dies while it generates a page of which a stale copy is stored: the stale copy is served.
    stack.set_note("hold", "/bridged/", "");
    let held = spawn_requests(&stack, "/bridged/", |response| {
        response.cache_status() != "galley; hit"
    });
    stack.wait_for_note("held", "/bridged/");
    stack.upstream.kill();
    let held = held.join().unwrap().unwrap();
    assert_eq!(held.status, 200, "{}", held.excerpt());
    assert!(
        held.cache_status().contains("detail=upstream-error"),
        "{}",
        held.excerpt()
    );
}

/// Sends requests to the site without stale-while-revalidate, in a thread, until `is_expected` accepts a response or one fails.
fn spawn_requests(
    stack: &WordPressStack,
    path: &str,
    is_expected: fn(&Response) -> bool,
) -> JoinHandle<Result<Response, TestkitError>> {
    let (addr, request) = (stack.addr(), stack.with_default_host(Request::get(path)));
    thread::spawn(move || {
        loop {
            match request.send(addr) {
                Ok(response) if !is_expected(&response) => {}
                last => return last,
            }
        }
    })
}

fn stale_pages_are_served_while_the_database_is_down(kind: UpstreamKind) {
    let mut stack = WordPressStack::start(kind, &stack_options());
    // Commits must survive the kill.
    let flush = "SET GLOBAL innodb_flush_log_at_trx_commit = 1";
    stack.database.sql(flush).unwrap();
    stack.publish(["bridged", "unseen"]);
    let stored = StoredPages::fetch(&stack);
    stack.database.kill();
    stored.wait_until_stale(&stack);
    for _ in 0..2 {
        let response = stack.get_from(NO_SWR_HOST, "/unseen/").expect_status(500);
        assert_text(&response, "establishing a database connection");
        assert!(!response.is_hit() && !response.cache_status().contains("stored"));
    }
    stored.wait_until_stale(&stack);
    // The drop-in is a custom error page that is sent with status 200.
    let drop_in = stack.wordpress.root.join("wp-content/db-error.php");
    fs::write(&drop_in, DROP_IN).unwrap();
    for _ in 0..2 {
        let response = stack.get_from(NO_SWR_HOST, "/unseen/").expect_status(200);
        assert_text(&response, "Back in a minute");
        assert!(!response.is_hit(), "{}", response.excerpt());
    }
    stored.wait_until_stale(&stack);
    fs::remove_file(drop_in).unwrap();
    stack.database.restart().unwrap();
    for path in ["/unseen/", "/bridged/"] {
        wait_until_generated(&stack, path);
    }
    wait_until_refreshed(&stack, "/bridged/", php_run(&stored.with_swr));
}

const DROP_IN: &str = "<!DOCTYPE html><html><head><title>Sorry</title><style>body { font: 16px/1.5 sans-serif; margin: 15vh auto; \
    max-width: 40em; padding: 0 1em; color: #222; background: #fff }</style></head><body><h1>Back in a minute</h1>\
    <p>Error establishing a database connection. Please come again.</p></body></html>";

/// Tests maintenance mode, fatal errors, and pages that end early.
fn stale_pages_are_served_while_wordpress_fails(kind: UpstreamKind) {
    let stack = WordPressStack::start(kind, &stack_options());
    stack.publish(["bridged", "unseen", "crashes", "breaks"]);
    let stored = StoredPages::fetch(&stack);
    let crashes = stack.get_from(NO_SWR_HOST, "/crashes/").expect_status(200);
    stack.set_note("crash", "/crashes/", "");
    let wait_for_stale = |path: &str, page: &Response| {
        wait_until_stale(
            &stack,
            NO_SWR_HOST,
            path,
            &page.body,
            "detail=upstream-error",
        );
    };
    wait_for_stale("/crashes/", &crashes);
    stack.set_note("crash", "/unseen/", "");
    for _ in 0..2 {
        let response = stack.get_from(NO_SWR_HOST, "/unseen/").expect_status(500);
        assert_text(&response, "critical error");
        assert!(!response.is_hit() && !response.cache_status().contains("stored"));
    }

    let maintenance = stack.wordpress.root.join(".maintenance");
    fs::write(&maintenance, "<?php $upgrading = time();").unwrap();
    stored.wait_until_stale(&stack);
    let response = stack.get_from(NO_SWR_HOST, "/about/").expect_status(503);
    assert_eq!(response.field("retry-after"), Some("600"));
    assert!(!response.cache_status().contains("stored"));
    fs::remove_file(maintenance).unwrap();
    stack.remove_note("crash", "/unseen/");
    stack.remove_note("crash", "/crashes/");
    for path in ["/about/", "/unseen/", "/crashes/", "/bridged/"] {
        wait_until_generated(&stack, path);
    }

    // A truncated page with status 200 is not stored, and does not replace a complete stored page.
    for path in ["/breaks/", "/bridged/"] {
        stack.set_note("break", path, "");
    }
    let truncated = stack.get("/breaks/").expect_status(200);
    assert_no_text(&truncated, "</html>");
    poll_responses(
        &stack,
        (NO_SWR_HOST, "/bridged/"),
        "stale after a truncated response",
        |response| {
            assert!(is_generated(response), "{}", response.excerpt());
            response.cache_status().contains("detail=upstream-error")
        },
    );
    for path in ["/breaks/", "/bridged/"] {
        stack.remove_note("break", path);
        wait_until_generated(&stack, path);
    }
}
