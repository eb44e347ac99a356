//! Purges of real pages: each scope takes effect on the next request, affects no other pages, and also applies to fetches in
//! progress.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use galley_testkit::client::{Browser, Request, Response};
use galley_testkit::wait_for;

use super::stack::{
    HIT, HOST, SITE_PURGE_HOST, STORED, TIMEOUT, WordPressStack, assert_cache_status,
    assert_no_text, assert_refetched, assert_text, php_run, text_between,
};

test_with_shared_stacks! {
    a_purge_by_url_affects_only_that_page,
    a_purge_by_tag_affects_only_pages_with_the_tag,
    purges_by_prefix_and_pattern_affect_only_matching_pages,
    a_purge_of_a_site_does_not_affect_other_sites,
    the_purge_method_purges_by_url_and_regex,
    a_purge_field_in_a_php_response_is_executed,
    a_soft_purge_serves_the_stale_page_while_revalidating,
    a_fetch_purged_before_its_response_head_is_not_reused,
    a_fetch_purged_while_its_body_streams_is_not_reused,
    concurrent_misses_are_collapsed_into_one_fetch,
    no_response_is_older_than_the_last_completed_purge,
}

/// Requests each page until it is a hit.
fn warm(stack: &WordPressStack, paths: &[&str]) {
    for path in paths {
        let _ = stack.get(path).expect_status(200);
        assert_cache_status(&stack.get(path), HIT);
    }
}

/// Asserts that the `purged` pages are generated again and that the others are hits.
#[track_caller]
fn assert_purged(stack: &WordPressStack, purged: &[&str], unaffected: &[&str]) {
    for target in purged {
        let path = target.split('?').next().unwrap_or_default();
        let before = stack.php_runs(path);
        let response = stack.get(target).expect_status(200);
        assert_refetched(&response);
        assert_eq!(php_run(&response), before + 1, "{target}");
    }
    for path in unaffected {
        assert_cache_status(&stack.get(path), HIT);
    }
}

fn a_purge_by_url_affects_only_that_page(stack: &WordPressStack) {
    let [id, _] = stack.publish(["by-address", "by-address-other"]);
    let pages = ["/by-address/", "/by-address-other/", "/by-address/?v=1"];
    warm(stack, &pages);
    stack.update_post(id, "Changed text.");
    assert_text(&stack.get("/by-address/"), "Text of by-address.");
    stack.purge(&["--url", "http://wp.test/by-address/"]);
    assert_purged(stack, &pages[..1], &pages[1..]);
    assert_text(&stack.get("/by-address/"), "Changed text.");
    // Equivalent URLs purge the same page.
    for url in [
        "http://WP.test/by-address/?utm_source=mail",
        "http://wp.test:80/x/../by-address/#comment-1",
        "https://wp.test/by%2Daddress/",
    ] {
        stack.purge(&["--url", url]);
        assert_purged(stack, &pages[..1], &pages[1..]);
    }
    stack.purge(&["--site", HOST, "--url", "/by-address/?v=1"]);
    assert_purged(stack, &pages[2..], &pages[..2]);
}

fn a_purge_by_tag_affects_only_pages_with_the_tag(stack: &WordPressStack) {
    stack.publish(["tag-one", "tag-two", "tag-none"]);
    stack.set_note("head", "/tag-one/", "Surrogate-Key: lab-one lab-both");
    stack.set_note("head", "/tag-two/", "Galley-Tags: lab-two, lab-both");
    let (one, two, none) = ("/tag-one/", "/tag-two/", "/tag-none/");
    warm(stack, &[one, two, none]);
    for name in ["surrogate-key", "galley-tags"] {
        assert!(!stack.get(one).has(name) && !stack.get(two).has(name));
    }
    stack.purge(&["--site", HOST, "--tag", "lab-one"]);
    assert_purged(stack, &[one], &[two, none]);
    stack.purge(&["--site", HOST, "--tag", "lab-two"]);
    assert_purged(stack, &[two], &[one, none]);
    stack.purge(&["--site", HOST, "--tag", "lab-both"]);
    assert_purged(stack, &[one, two], &[none]);
    stack.purge(&["--site", HOST, "--tag", "lab"]);
    assert_purged(stack, &[], &[one, two, none]);
}

fn purges_by_prefix_and_pattern_affect_only_matching_pages(stack: &WordPressStack) {
    stack.php(
        "$page = fn($name, $parent) => wp_insert_post(['post_type' => 'page', 'post_name' => $name, 'post_title' => $name, \
         'post_content' => 'x', 'post_status' => 'publish', 'post_author' => 1, 'post_parent' => $parent]);
         $tree = $page('tree', 0); $page('leaf-1', $tree); $page('leaf-2', $tree); $page('tree-other', 0);",
    );
    let (tree, one, two, other) = ("/tree/", "/tree/leaf-1/", "/tree/leaf-2/", "/tree-other/");
    warm(stack, &[tree, one, two, other]);
    stack.purge(&["--site", HOST, "--prefix", "/tree/"]);
    assert_purged(stack, &[tree, one, two], &[other]);
    stack.purge(&["--site", HOST, "--prefix", "/tree/leaf-1"]);
    assert_purged(stack, &[one], &[tree, two, other]);
    stack.purge(&["--site", HOST, "--pattern", r"^/tree/leaf-\d/$"]);
    assert_purged(stack, &[one, two], &[tree, other]);
}

fn a_purge_of_a_site_does_not_affect_other_sites(stack: &WordPressStack) {
    stack.publish(["whole-one", "whole-two"]);
    let pages = ["/whole-one/", "/whole-two/"];
    let visit_both = |check: fn(&Response)| {
        for path in pages {
            check(&stack.get_from(SITE_PURGE_HOST, path).expect_status(200));
        }
    };
    warm(stack, &pages);
    visit_both(|page| assert_cache_status(page, STORED));
    visit_both(|page| assert_cache_status(page, HIT));
    let missing = stack
        .get_from(SITE_PURGE_HOST, "/whole-nothing/")
        .expect_status(404);
    assert_cache_status(&missing, STORED);
    stack.purge(&["--site", SITE_PURGE_HOST, "--all"]);
    visit_both(assert_refetched);
    assert_refetched(&stack.get_from(SITE_PURGE_HOST, "/whole-nothing/"));
    visit_both(|page| assert_cache_status(page, HIT));
    assert_purged(stack, &[], &pages);
}

/// Purge plugins for other caches send this request.
fn the_purge_method_purges_by_url_and_regex(stack: &WordPressStack) {
    stack.publish(["by-method", "by-method-other"]);
    let pages = ["/by-method/", "/by-method-other/"];
    warm(stack, &pages);
    let _ = stack
        .send(Request::new("PURGE", "/by-method/"))
        .expect_status(200);
    assert_purged(stack, &pages[..1], &pages[1..]);
    let pattern = Request::new("PURGE", "/by-method.*").field("X-Purge-Method", "regex");
    let _ = stack.send(pattern).expect_status(200);
    assert_purged(stack, &pages, &[]);
}

fn a_purge_field_in_a_php_response_is_executed(stack: &WordPressStack) {
    stack.publish(["ordered", "ordered-other"]);
    stack.set_note("head", "/ordered/", "X-LiteSpeed-Tag: lab-ordered");
    warm(stack, &["/ordered/", "/ordered-other/"]);
    stack.set_note(
        "head",
        "/wp-admin/admin-post.php",
        "X-LiteSpeed-Purge: lab-ordered",
    );
    let response = stack.get("/wp-admin/admin-post.php?action=nothing");
    assert!(!response.has("x-litespeed-purge"), "{}", response.excerpt());
    assert_purged(stack, &["/ordered/"], &["/ordered-other/"]);
    stack.remove_note("head", "/wp-admin/admin-post.php");
}

fn a_soft_purge_serves_the_stale_page_while_revalidating(stack: &WordPressStack) {
    let [id] = stack.publish(["softly"]);
    warm(stack, &["/softly/"]);
    stack.update_post(id, "Changed softly.");
    stack.purge(&["--soft", "--url", "http://wp.test/softly/"]);
    let old = stack.get("/softly/").expect_status(200);
    assert!(
        old.cache_status().contains("detail=revalidating"),
        "{}",
        old.excerpt()
    );
    assert_text(&old, "Text of softly.");
    wait_for("the new page", TIMEOUT, || {
        stack.get("/softly/").text().contains("Changed softly.")
    });
    assert_cache_status(&stack.get("/softly/"), HIT);
    assert_eq!(stack.php_runs("/softly/"), 2);
}

fn a_fetch_purged_before_its_response_head_is_not_reused(stack: &WordPressStack) {
    let path = "/under-way/";
    let [id] = stack.publish(["under-way"]);
    stack.set_note("hold", path, "");
    thread::scope(|scope| {
        let early = scope.spawn(|| stack.get(path));
        stack.wait_for_note("held", path);
        stack.update_post(id, "Changed under way.");
        stack.purge(&["--url", "http://wp.test/under-way/"]);
        stack.remove_note("hold", path);
        // The fetch began before the purge, so later requests must not share it.
        let late = stack.get(path).expect_status(200);
        assert_text(&late, "Changed under way.");
        assert_no_text(&late, "Text of under-way.");
        stack.set_note("go", path, "");
        let early = early.join().unwrap().expect_status(200);
        assert_text(&early, "Text of under-way.");
    });
    let now = stack.get(path);
    assert_cache_status(&now, HIT);
    assert_text(&now, "Changed under way.");
    assert_eq!(stack.php_runs(path), 2);
}

fn a_fetch_purged_while_its_body_streams_is_not_reused(stack: &WordPressStack) {
    let path = "/under-way-too/";
    let [id] = stack.publish(["under-way-too"]);
    stack.set_note("head", path, "Surrogate-Key: lab-under-way");
    stack.set_note("pause", path, "");
    thread::scope(|scope| {
        let early = scope.spawn(|| stack.get(path));
        stack.wait_for_note("paused", path);
        // A request before the purge shares the fetch.
        let sharing = scope.spawn(|| stack.get(path));
        stack.update_post(id, "Changed under way.");
        stack.purge(&["--site", HOST, "--tag", "lab-under-way"]);
        stack.remove_note("pause", path);
        let late = stack.get(path).expect_status(200);
        assert_text(&late, "Changed under way.");
        stack.set_note("resume", path, "");
        assert_text(&early.join().unwrap(), "Text of under-way-too.");
        let _ = sharing.join().unwrap().expect_status(200);
    });
    let now = stack.get(path);
    assert_cache_status(&now, HIT);
    assert_text(&now, "Changed under way.");
}

fn concurrent_misses_are_collapsed_into_one_fetch(stack: &WordPressStack) {
    let path = "/two-hundred/";
    stack.publish(["two-hundred"]);
    stack.set_note("hold", path, "");
    let sent = AtomicUsize::new(0);
    thread::scope(|scope| {
        let visitors: Vec<_> = (0..VISITORS)
            .map(|_| {
                scope.spawn(|| {
                    let mut connection = stack.connect();
                    let request = stack.with_default_host(Request::get(path));
                    connection.send(&request).unwrap();
                    sent.fetch_add(1, Ordering::Relaxed);
                    connection.receive("GET").unwrap().expect_status(200)
                })
            })
            .collect();
        stack.wait_for_note("held", path);
        wait_for("all requests to be sent", TIMEOUT, || {
            sent.load(Ordering::Relaxed) == VISITORS
        });
        stack.set_note("go", path, "");
        let mut fetches = 0;
        for visitor in visitors {
            let response = visitor.join().unwrap();
            assert_eq!(php_run(&response), 1);
            assert_text(&response, "Text of two-hundred.");
            fetches += usize::from(response.cache_status() == STORED);
        }
        assert_eq!(fetches, 1);
    });
    assert_eq!(stack.php_runs(path), 1);
}

/// Reads, edits and purges a page concurrently.
fn no_response_is_older_than_the_last_completed_purge(stack: &WordPressStack) {
    let path = "/promise/";
    let [id] = stack.publish(["promise"]);
    stack.set_note("head", path, "Surrogate-Key: lab-promise");
    let mut editor = stack.editor();
    let nonce = editor
        .get("/wp-admin/admin-ajax.php?action=rest-nonce")
        .unwrap()
        .text();
    let write = |editor: &mut Browser, version: usize| {
        let body = format!("{{\"content\": \"Version {version}.\"}}");
        let target = format!("/wp-json/wp/v2/posts/{id}");
        let request =
            Request::post(&target, "application/json", body).field("X-WP-Nonce", nonce.as_bytes());
        let _ = editor.send(request).unwrap().expect_status(200);
    };
    write(&mut editor, 0);
    // The oldest version that new requests may get.
    let oldest_valid = AtomicUsize::new(0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut hits = 0;
                    while !done.load(Ordering::Acquire) {
                        let oldest = oldest_valid.load(Ordering::Acquire);
                        let page = stack.get(path).expect_status(200);
                        let text = page.text();
                        let version: usize = text_between(&text, "Version ", ".").parse().unwrap();
                        assert!(version >= oldest, "{version} after the purge for {oldest}");
                        hits += usize::from(page.is_hit());
                    }
                    hits
                })
            })
            .collect();
        for version in 1..=VERSIONS {
            write(&mut editor, version);
            let purge = match version % 3 {
                0 => Request::new("PURGE", path),
                1 => Request::new("PURGE", "/").field("Surrogate-Key", "lab-promise"),
                _ => Request::new("PURGE", "/promise.*").field("X-Purge-Method", "regex"),
            };
            let _ = stack.send(purge).expect_status(200);
            oldest_valid.store(version, Ordering::Release);
            // Stores the page, so that there are hits before the next purge.
            stack.get(path);
        }
        done.store(true, Ordering::Release);
        let hits: usize = readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .sum();
        assert!(hits > 0, "no request was a hit");
    });
    let last = stack.get(path);
    assert_text(&last, &format!("Version {VERSIONS}."));
}

const VISITORS: usize = 200;
const READERS: usize = 4;
const VERSIONS: usize = 15;
