//! Purges of real pages: each scope for the very next request, nothing else touched, and no page that was under way.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use galley_testkit::client::{Browser, Request, Response};
use galley_testkit::wait_for;

use super::stack::{
    HIT, HOST, STORED, Stack, TIMEOUT, WHOLE, assert_no_text, assert_refetched, assert_text,
    assert_way, between, run_of,
};

both! {
    a_purge_by_address,
    a_purge_by_tag,
    a_purge_by_prefix_and_pattern,
    a_purge_of_a_whole_site,
    a_purge_by_method,
    a_purge_ordered_by_php,
    a_soft_purge_serves_the_old_page_once_more,
    a_page_under_way_before_its_head_is_not_served_after_a_purge,
    a_page_under_way_behind_its_head_is_not_served_after_a_purge,
    two_hundred_first_visits_are_one_request,
    nobody_gets_what_was_purged_before_asking,
}

/// Visits pages until all are hits.
fn warm(stack: &Stack, paths: &[&str]) {
    for path in paths {
        let _ = stack.get(path).expect_status(200);
        assert_way(&stack.get(path), HIT);
    }
}

/// Which of the pages are generated again now; the others are hits.
#[track_caller]
fn assert_anew(stack: &Stack, anew: &[&str], kept: &[&str]) {
    for target in anew {
        let path = target.split('?').next().unwrap_or_default();
        let before = stack.runs(path);
        let answer = stack.get(target).expect_status(200);
        assert_refetched(&answer);
        assert_eq!(run_of(&answer), before + 1, "{target}");
    }
    for path in kept {
        assert_way(&stack.get(path), HIT);
    }
}

fn a_purge_by_address(stack: &Stack) {
    let [id, _] = stack.publish(["by-address", "by-address-other"]);
    let pages = ["/by-address/", "/by-address-other/", "/by-address/?v=1"];
    warm(stack, &pages);
    stack.rewrite(id, "Changed text.");
    assert_text(&stack.get("/by-address/"), "Text of by-address.");
    stack.purge(&["--url", "http://wp.test/by-address/"]);
    assert_anew(stack, &pages[..1], &pages[1..]);
    assert_text(&stack.get("/by-address/"), "Changed text.");
    // Written in another way it is the same page.
    for url in [
        "http://WP.test/by-address/?utm_source=mail",
        "http://wp.test:80/x/../by-address/#comment-1",
        "https://wp.test/by%2Daddress/",
    ] {
        stack.purge(&["--url", url]);
        assert_anew(stack, &pages[..1], &pages[1..]);
    }
    stack.purge(&["--site", HOST, "--url", "/by-address/?v=1"]);
    assert_anew(stack, &pages[2..], &pages[..2]);
}

fn a_purge_by_tag(stack: &Stack) {
    stack.publish(["tag-one", "tag-two", "tag-none"]);
    stack.set("head", "/tag-one/", "Surrogate-Key: lab-one lab-both");
    stack.set("head", "/tag-two/", "Galley-Tags: lab-two, lab-both");
    let (one, two, none) = ("/tag-one/", "/tag-two/", "/tag-none/");
    warm(stack, &[one, two, none]);
    for name in ["surrogate-key", "galley-tags"] {
        assert!(!stack.get(one).has(name) && !stack.get(two).has(name));
    }
    stack.purge(&["--site", HOST, "--tag", "lab-one"]);
    assert_anew(stack, &[one], &[two, none]);
    stack.purge(&["--site", HOST, "--tag", "lab-two"]);
    assert_anew(stack, &[two], &[one, none]);
    stack.purge(&["--site", HOST, "--tag", "lab-both"]);
    assert_anew(stack, &[one, two], &[none]);
    stack.purge(&["--site", HOST, "--tag", "lab"]);
    assert_anew(stack, &[], &[one, two, none]);
}

fn a_purge_by_prefix_and_pattern(stack: &Stack) {
    stack.php(
        "$page = fn($name, $parent) => wp_insert_post(['post_type' => 'page', 'post_name' => $name, 'post_title' => $name, \
         'post_content' => 'x', 'post_status' => 'publish', 'post_author' => 1, 'post_parent' => $parent]);
         $tree = $page('tree', 0); $page('leaf-1', $tree); $page('leaf-2', $tree); $page('tree-other', 0);",
    );
    let (tree, one, two, other) = ("/tree/", "/tree/leaf-1/", "/tree/leaf-2/", "/tree-other/");
    warm(stack, &[tree, one, two, other]);
    stack.purge(&["--site", HOST, "--prefix", "/tree/"]);
    assert_anew(stack, &[tree, one, two], &[other]);
    stack.purge(&["--site", HOST, "--prefix", "/tree/leaf-1"]);
    assert_anew(stack, &[one], &[tree, two, other]);
    stack.purge(&["--site", HOST, "--pattern", r"^/tree/leaf-\d/$"]);
    assert_anew(stack, &[one, two], &[tree, other]);
}

fn a_purge_of_a_whole_site(stack: &Stack) {
    stack.publish(["whole-one", "whole-two"]);
    let pages = ["/whole-one/", "/whole-two/"];
    let visit_both = |check: fn(&Response)| {
        for path in pages {
            check(&stack.get_from(WHOLE, path).expect_status(200));
        }
    };
    warm(stack, &pages);
    visit_both(|page| assert_way(page, STORED));
    visit_both(|page| assert_way(page, HIT));
    let missing = stack.get_from(WHOLE, "/whole-nothing/").expect_status(404);
    assert_way(&missing, STORED);
    stack.purge(&["--site", WHOLE, "--all"]);
    visit_both(assert_refetched);
    assert_refetched(&stack.get_from(WHOLE, "/whole-nothing/"));
    visit_both(|page| assert_way(page, HIT));
    assert_anew(stack, &[], &pages);
}

/// As plugins for other caches send it.
fn a_purge_by_method(stack: &Stack) {
    stack.publish(["by-method", "by-method-other"]);
    let pages = ["/by-method/", "/by-method-other/"];
    warm(stack, &pages);
    let _ = stack
        .send(Request::new("PURGE", "/by-method/"))
        .expect_status(200);
    assert_anew(stack, &pages[..1], &pages[1..]);
    let pattern = Request::new("PURGE", "/by-method.*").field("X-Purge-Method", "regex");
    let _ = stack.send(pattern).expect_status(200);
    assert_anew(stack, &pages, &[]);
}

fn a_purge_ordered_by_php(stack: &Stack) {
    stack.publish(["ordered", "ordered-other"]);
    stack.set("head", "/ordered/", "X-LiteSpeed-Tag: lab-ordered");
    warm(stack, &["/ordered/", "/ordered-other/"]);
    stack.set(
        "head",
        "/wp-admin/admin-post.php",
        "X-LiteSpeed-Purge: lab-ordered",
    );
    let answer = stack.get("/wp-admin/admin-post.php?action=nothing");
    assert!(!answer.has("x-litespeed-purge"), "{}", answer.beginning());
    assert_anew(stack, &["/ordered/"], &["/ordered-other/"]);
    stack.unset("head", "/wp-admin/admin-post.php");
}

fn a_soft_purge_serves_the_old_page_once_more(stack: &Stack) {
    let [id] = stack.publish(["softly"]);
    warm(stack, &["/softly/"]);
    stack.rewrite(id, "Changed softly.");
    stack.purge(&["--soft", "--url", "http://wp.test/softly/"]);
    let old = stack.get("/softly/").expect_status(200);
    assert!(
        old.cache_status().contains("detail=revalidating"),
        "{}",
        old.beginning()
    );
    assert_text(&old, "Text of softly.");
    wait_for("the new page", TIMEOUT, || {
        stack.get("/softly/").text().contains("Changed softly.")
    });
    assert_way(&stack.get("/softly/"), HIT);
    assert_eq!(stack.runs("/softly/"), 2);
}

fn a_page_under_way_before_its_head_is_not_served_after_a_purge(stack: &Stack) {
    let path = "/under-way/";
    let [id] = stack.publish(["under-way"]);
    stack.set("hold", path, "");
    thread::scope(|scope| {
        let early = scope.spawn(|| stack.get(path));
        stack.wait_for_note("held", path);
        stack.rewrite(id, "Changed under way.");
        stack.purge(&["--url", "http://wp.test/under-way/"]);
        stack.unset("hold", path);
        // Its fetch began before the purge, so no later request may get it.
        let late = stack.get(path).expect_status(200);
        assert_text(&late, "Changed under way.");
        assert_no_text(&late, "Text of under-way.");
        stack.set("go", path, "");
        let early = early.join().unwrap().expect_status(200);
        assert_text(&early, "Text of under-way.");
    });
    let now = stack.get(path);
    assert_way(&now, HIT);
    assert_text(&now, "Changed under way.");
    assert_eq!(stack.runs(path), 2);
}

fn a_page_under_way_behind_its_head_is_not_served_after_a_purge(stack: &Stack) {
    let path = "/under-way-too/";
    let [id] = stack.publish(["under-way-too"]);
    stack.set("head", path, "Surrogate-Key: lab-under-way");
    stack.set("pause", path, "");
    thread::scope(|scope| {
        let early = scope.spawn(|| stack.get(path));
        stack.wait_for_note("paused", path);
        // Who comes before the order shares it.
        let sharing = scope.spawn(|| stack.get(path));
        stack.rewrite(id, "Changed under way.");
        stack.purge(&["--site", HOST, "--tag", "lab-under-way"]);
        stack.unset("pause", path);
        let late = stack.get(path).expect_status(200);
        assert_text(&late, "Changed under way.");
        stack.set("resume", path, "");
        assert_text(&early.join().unwrap(), "Text of under-way-too.");
        let _ = sharing.join().unwrap().expect_status(200);
    });
    let now = stack.get(path);
    assert_way(&now, HIT);
    assert_text(&now, "Changed under way.");
}

fn two_hundred_first_visits_are_one_request(stack: &Stack) {
    let path = "/two-hundred/";
    stack.publish(["two-hundred"]);
    stack.set("hold", path, "");
    let asked = AtomicUsize::new(0);
    thread::scope(|scope| {
        let visitors: Vec<_> = (0..VISITORS)
            .map(|_| {
                scope.spawn(|| {
                    let mut connection = stack.connect();
                    let request = stack.named(Request::get(path));
                    connection.send(&request).unwrap();
                    asked.fetch_add(1, Ordering::Relaxed);
                    connection.receive("GET").unwrap().expect_status(200)
                })
            })
            .collect();
        stack.wait_for_note("held", path);
        wait_for("all to have asked", TIMEOUT, || {
            asked.load(Ordering::Relaxed) == VISITORS
        });
        stack.set("go", path, "");
        let mut leaders = 0;
        for visitor in visitors {
            let answer = visitor.join().unwrap();
            assert_eq!(run_of(&answer), 1);
            assert_text(&answer, "Text of two-hundred.");
            leaders += usize::from(answer.cache_status() == STORED);
        }
        assert_eq!(leaders, 1);
    });
    assert_eq!(stack.runs(path), 1);
}

/// The first promise, while a page is read, written and purged at the same time.
fn nobody_gets_what_was_purged_before_asking(stack: &Stack) {
    let path = "/promise/";
    let [id] = stack.publish(["promise"]);
    stack.set("head", path, "Surrogate-Key: lab-promise");
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
    // What readers that ask from now on must get at least.
    let floor = AtomicUsize::new(0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut hits = 0;
                    while !done.load(Ordering::Acquire) {
                        let least = floor.load(Ordering::Acquire);
                        let page = stack.get(path).expect_status(200);
                        let text = page.text();
                        let version: usize = between(&text, "Version ", ".").parse().unwrap();
                        assert!(version >= least, "{version} after the purge of {least}");
                        hits += usize::from(page.is_hit());
                    }
                    hits
                })
            })
            .collect();
        for version in 1..=VERSIONS {
            write(&mut editor, version);
            let order = match version % 3 {
                0 => Request::new("PURGE", path),
                1 => Request::new("PURGE", "/").field("Surrogate-Key", "lab-promise"),
                _ => Request::new("PURGE", "/promise.*").field("X-Purge-Method", "regex"),
            };
            let _ = stack.send(order).expect_status(200);
            floor.store(version, Ordering::Release);
            // Generated here at the latest, so that there are hits until the next purge.
            stack.get(path);
        }
        done.store(true, Ordering::Release);
        let hits: usize = readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .sum();
        assert!(hits > 0, "it was read from the store too");
    });
    let last = stack.get(path);
    assert_text(&last, &format!("Version {VERSIONS}."));
}

const VISITORS: usize = 200;
const READERS: usize = 4;
const VERSIONS: usize = 15;
