//! Pages that nodes share over a real `redis-server`. The nodes run without the web server.

#![expect(clippy::unwrap_used, reason = "tests, their helpers too")]

mod node;

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use galley_cluster::{PageSearch, PageToShare, SharedWait};
use galley_policy::purge::Scope;
use galley_testkit::{Signal, wait_for};

use self::node::{
    Node, OTHER, OTHER_SITE, PAGE, Pair, PurgeTable, TAG, TIMEOUT, TableSink, block_on, key_file,
};

#[test]
fn a_shared_page_is_found_by_the_other_node_until_it_is_purged() {
    let pair = Pair::start();
    block_on(async {
        pair.one.share(PAGE, b"first").await;
        assert_eq!(pair.other.find_eventually(PAGE).await, b"first");
        pair.one.purge_until_final("another").await;
        assert_eq!(pair.other.find_record(PAGE).await.unwrap(), b"first");
        for (purging, reading) in [(&pair.other, &pair.one), (&pair.one, &pair.other)] {
            purging.purge_until_final(TAG).await;
            for node in [purging, reading] {
                assert_eq!(node.find_record(PAGE).await, None);
            }
            // The page can be replaced as soon as the fetching node has read its purge in the stream.
            while reading.find_record(PAGE).await.is_none() {
                purging.share(PAGE, b"next").await;
            }
        }
        assert!(pair.one.status().refused > 0);
    });
}

#[test]
fn a_page_stored_after_a_purge_but_fetched_before_it_is_not_accepted() {
    let pair = Pair::start();
    block_on(async {
        for round in 0..20 {
            let (fetching, purging) = if round % 2 == 0 {
                (&pair.one, &pair.other)
            } else {
                (&pair.other, &pair.one)
            };
            // The fetch starts, then the purge is acknowledged, then the page is stored.
            let token = fetching.token(PAGE).await;
            let point = fetching.point();
            purging.purge_until_final(TAG).await;
            fetching.store(PAGE, point, b"old", Some(token)).await;
            for node in [fetching, purging] {
                assert_eq!(node.find_record(PAGE).await, None, "round {round}");
            }
        }
    });
}

#[test]
fn a_purge_between_the_lookup_and_the_comparison_is_respected() {
    let pair = Pair::start();
    block_on(async {
        pair.one.share(PAGE, b"page").await;
        pair.other.find_eventually(PAGE).await;
        let mut is_read = false;
        while !is_read {
            let search = pair.other.pages.find(PAGE, SharedWait::Waits, |found| {
                // The page was read from the engine; now a purge of the other node is applied.
                let mut table = pair.other.sink.0.lock().unwrap();
                assert!(table.accepts(TAG, found.points));
                table.add(Scope::Tag(TAG.to_owned()));
                is_read = true;
                table.accepts(TAG, found.points).then_some(())
            });
            assert!(matches!(search.await, PageSearch::Fetch(_)));
        }
    });
}

#[test]
fn values_that_no_node_has_stored_under_a_key_are_not_used() {
    let pair = Pair::start();
    block_on(async {
        pair.one.share(PAGE, b"first").await;
        assert_eq!(pair.other.find_eventually(PAGE).await, b"first");
        let [page] = pair.keys().try_into().unwrap();
        pair.one.share(OTHER, b"second").await;
        let other = pair.keys().into_iter().find(|key| *key != page).unwrap();
        // A valid value under another key.
        let copy = ["COPY", page.as_str(), other.as_str(), "REPLACE"];
        pair.redis.run(&copy).unwrap();
        assert_eq!(pair.other.find_record(OTHER).await, None);
        assert!(pair.other.status().foreign > 0);
        assert_eq!(pair.other.find_record(PAGE).await.unwrap(), b"first");
        // A value with a changed byte, one with an additional byte, and an empty one.
        for change in [
            ["SETRANGE", page.as_str(), "40", "x"].as_slice(),
            &["APPEND", page.as_str(), "x"],
        ] {
            pair.one.share(PAGE, b"first").await;
            pair.redis.run(change).unwrap();
            let before = pair.other.status().foreign;
            assert_eq!(pair.other.find_record(PAGE).await, None);
            assert!(pair.other.status().foreign > before);
        }
        pair.redis.run(&["SET", &page, ""]).unwrap();
        assert_eq!(pair.other.find_record(PAGE).await, None);
        // Another secret.
        let file = key_file(&pair.scratch, "another", 'b');
        let foreign = Node::start(&pair.redis, "stranger", &file);
        let token = foreign.token(PAGE).await;
        let point = foreign.point();
        foreign.store(PAGE, point, b"x", Some(token)).await;
        pair.one.share(PAGE, b"again").await;
        assert_eq!(pair.other.find_record(PAGE).await.unwrap(), b"again");
    });
}

#[test]
fn one_node_fetches_and_the_others_wait_for_it() {
    let pair = Pair::start();
    block_on(async {
        pair.one.share(OTHER_SITE, b"x").await;
        pair.other.find_eventually(OTHER_SITE).await;
        let token = pair.one.token(PAGE).await;
        let point = pair.one.point();
        let (found, ()) = tokio::join!(pair.other.find_record(PAGE), async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            pair.one.store(PAGE, point, b"page", Some(token)).await;
        });
        assert_eq!(found.unwrap(), b"page");
        // A node whose fetch fails releases the token.
        drop(pair.one.token(OTHER).await);
        let search = pair.other.find(OTHER).await;
        assert!(matches!(search, PageSearch::Fetch(Some(_))));
        drop(search);
        // A node that dies does not: a lookup waits for a limited time, and the token expires.
        let token = pair.one.token(OTHER).await;
        std::mem::forget(token);
        let started = Instant::now();
        assert!(matches!(
            pair.other.find_once(OTHER).await,
            PageSearch::Fetch(None)
        ));
        assert!(started.elapsed() < Duration::from_secs(2));
        drop(pair.other.token(OTHER).await);
        assert!(started.elapsed() > Duration::from_secs(5));
    });
}

#[test]
fn an_engine_that_hangs_delays_lookups_by_at_most_three_deadlines() {
    let pair = Pair::start();
    block_on(async {
        pair.one.share(PAGE, b"page").await;
        assert_eq!(pair.other.find_eventually(PAGE).await, b"page");
        pair.redis.signal(Signal::STOP);
        let started = Instant::now();
        for _ in 0..100 {
            assert!(matches!(
                pair.other.find_once(PAGE).await,
                PageSearch::Fetch(None)
            ));
        }
        let elapsed = started.elapsed();
        let status = pair.other.status();
        assert!(status.is_paused && status.timeouts >= 3, "{status:?}");
        // Three deadlines of 5 ms, plus a margin for a busy machine.
        assert!(elapsed < Duration::from_millis(250), "{elapsed:?}");
        pair.redis.signal(Signal::CONT);
        assert_eq!(pair.other.find_eventually(PAGE).await, b"page");
        assert!(!pair.other.status().is_paused);
    });
}

#[test]
fn pages_from_before_a_data_loss_are_not_used() {
    let pair = Pair::start();
    block_on(async {
        pair.one.share(PAGE, b"old").await;
        assert_eq!(pair.other.find_eventually(PAGE).await, b"old");
        let [page] = pair.keys().try_into().unwrap();
        // The state after a failover that lost the stream but not the page.
        let backup = ["RENAME", page.as_str(), "kept"];
        pair.redis.run(&backup).unwrap();
        pair.redis
            .run(&["EVAL", FLUSH_ALL_EXCEPT_PAGE, "2", "kept", &page])
            .unwrap();
        pair.wait_for_gaps();
        assert_eq!(pair.other.find_record(PAGE).await, None);
        assert!(pair.other.status().refused > 0);
        let next = loop {
            pair.one.share(PAGE, b"new").await;
            if let Some(next) = pair.other.find_record(PAGE).await {
                break next;
            }
        };
        assert_eq!(next, b"new");
    });
}

#[test]
fn pages_from_before_a_purge_are_not_used_after_the_stream_is_deleted() {
    let pair = Pair::start();
    block_on(async {
        // A page fetched before a purge and stored after it.
        let token = pair.one.token(PAGE).await;
        let point = pair.one.point();
        pair.other.purge_until_final(TAG).await;
        pair.redis.run(&["DEL", "galley:test:purges"]).unwrap();
        pair.one.store(PAGE, point, b"old", Some(token)).await;
        pair.wait_for_gaps();
        let file = pair.scratch.join("key");
        let fresh = Node::start(&pair.redis, "fresh", &file);
        for node in [&pair.one, &pair.other, &fresh] {
            assert_eq!(node.find_record(PAGE).await, None);
        }
        let next = loop {
            pair.one.share(PAGE, b"new").await;
            if let Some(next) = fresh.find_record(PAGE).await {
                break next;
            }
        };
        assert_eq!(next, b"new");
    });
}

const FLUSH_ALL_EXCEPT_PAGE: &str = "\
local page, left = redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])
redis.call('FLUSHALL')
redis.call('SET', KEYS[2], page, 'PX', left)";

#[test]
fn a_new_node_uses_older_pages_unless_they_were_purged() {
    let pair = Pair::start();
    let key = pair.scratch.join("key");
    block_on(async {
        pair.one.share(PAGE, b"page").await;
        for purged in ["another", "a third"] {
            pair.other.purge_until_final(purged).await;
        }
        let fresh = Node::start(&pair.redis, "fresh", &key);
        assert_eq!(fresh.find_eventually(PAGE).await, b"page");
        pair.one.purge_until_final(TAG).await;
        assert_eq!(fresh.find_record(PAGE).await, None);
        let fresh = Node::start(&pair.redis, "fresher", &key);
        // This node has read the stream: it accepts a page shared after the purge.
        fresh.share(OTHER, b"other").await;
        pair.one.find_eventually(OTHER).await;
        pair.one.purge_until_final("another").await;
        assert_eq!(fresh.find_eventually(OTHER).await, b"other");
        assert_eq!(fresh.find_record(PAGE).await, None);
        // The point of purges from an earlier run of the node is unknown.
        let table = PurgeTable {
            has_earlier_purges: true,
            ..PurgeTable::default()
        };
        let sink = TableSink(Arc::new(Mutex::new(table)));
        let aged = Node::start_with(&pair.redis, "aged", &key, None, sink);
        aged.share(OTHER_SITE, b"x").await;
        assert_eq!(aged.find_record(OTHER).await, None);
    });
}

#[test]
fn a_restarted_node_uses_pages_shared_while_it_was_down() {
    let pair = Pair::start();
    let key = pair.scratch.join("key");
    let start = |folder: &Path| {
        Node::start_with(
            &pair.redis,
            "third",
            &key,
            Some(folder),
            TableSink::default(),
        )
    };
    let [folder, later] = ["position", "later"].map(|name| pair.scratch.dir(name).unwrap());
    block_on(async {
        pair.one.share(OTHER, b"before").await;
        let third = start(&folder);
        pair.other.purge_until_final("another").await;
        let file = folder.join("cluster-position");
        wait_for("the position to be written", TIMEOUT, || file.exists());
        drop(third);
        // Unlike a process that exits, a dropped node reads one more entry and saves its position. Use a copy from before.
        fs::copy(&file, later.join("cluster-position")).unwrap();
        pair.one.share(PAGE, b"page").await;
        pair.other.purge_until_final("another").await;
        let third = start(&later);
        assert_eq!(third.find_eventually(PAGE).await, b"page");
        pair.one.purge_until_final(TAG).await;
        drop(third);
        let third = start(&later);
        third.share(OTHER_SITE, b"x").await;
        for page in [PAGE, OTHER] {
            assert_eq!(third.find_record(page).await, None);
        }
    });
}

#[test]
fn large_and_short_lived_pages_are_not_shared() {
    let pair = Pair::start();
    let point = pair.one.point();
    let page = |bytes, fresh| PageToShare {
        name: PAGE,
        points: vec![point.clone()],
        bytes,
        fresh,
        record: Box::new(|| Some(Vec::new())),
    };
    let minute = Duration::from_secs(60);
    assert!(!pair.one.pages.store(page((1 << 20) + 1, minute), None));
    assert!(
        !pair
            .one
            .pages
            .store(page(1, Duration::from_millis(999)), None)
    );
    assert!(pair.one.pages.store(page(1 << 20, minute), None));
}
