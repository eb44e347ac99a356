//! Purges in a cluster: several Galley nodes with one Redis, under faults of the nodes and of Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::{Galley, Signal, wait_for};
use serde_json::Value;

use crate::test_cluster::{TIMEOUT, TestCluster};
use crate::tls_support::Authority;

#[test]
fn a_purge_on_one_node_is_final_on_all() {
    let cluster = TestCluster::start(3, "");
    for round in 0..30 {
        for node in 0..3 {
            cluster.get(node, "/");
            assert!(cluster.get(node, "/").is_hit());
        }
        cluster.edit_until_final(round % 3);
        for node in 0..3 {
            cluster.assert_newest(node, "/");
        }
    }
    let status = cluster.status(0);
    assert_eq!(status["connected"], true);
    assert_eq!(status["members"].as_array().unwrap().len(), 2);
    assert!(status["purges_of_others"].as_u64().unwrap() >= 20);
}

#[test]
fn nodes_reach_the_engine_over_tls() {
    let mut cluster = TestCluster::start(1, "");
    let second = cluster.add_over_tls(&Authority::new());
    cluster.wait_until_acknowledged();
    for editor in [second, 0, second] {
        cluster.wait_for_hits(0);
        cluster.wait_for_hits(second);
        cluster.edit_until_final(editor);
        cluster.assert_newest(0, "/");
        cluster.assert_newest(second, "/");
    }
}

#[test]
fn purges_of_other_nodes_apply_to_sites_added_by_a_reload() {
    let cluster = TestCluster::start(2, "");
    let reload = |node: &Galley| {
        let output = node.cli(&["reload"]).unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    for node in &cluster.nodes {
        let config = std::fs::read_to_string(node.config()).unwrap();
        let origin = cluster.origin.url();
        let more = format!("[[site]]\nhosts = [\"b.test\"]\nupstream = [\"{origin}\"]\n");
        std::fs::write(node.config(), config + &more).unwrap();
        reload(node);
    }
    let second = |node: usize| {
        let request = Request::get("/").host("b.test");
        request.send(cluster.addr(node)).unwrap()
    };
    for round in 0..4 {
        for node in 0..2 {
            cluster.wait_for_hits(node);
            wait_for("hits of the new site", TIMEOUT, || second(node).is_hit());
        }
        cluster.edit_until_final(round % 2);
        let expected = format!("/ version {}.", cluster.version.load(Ordering::SeqCst));
        for node in 0..2 {
            cluster.assert_newest(node, "/");
            let page = second(node);
            assert_eq!(
                page.text(),
                expected,
                "node {node}: {}",
                page.cache_status()
            );
        }
        reload(&cluster.nodes[1]);
    }
}

#[test]
fn a_node_without_the_engine_serves_no_stored_page_and_loses_no_purge() {
    let mut cluster = TestCluster::start(2, "");
    cluster.wait_for_hits(0);
    cluster.wait_for_hits(1);
    let assembled = |cluster: &TestCluster, node| cluster.get(node, "/assembled").text();
    let newest = |cluster: &TestCluster| format!("<html>{}</html>", cluster.newest("/part"));
    assert_eq!(assembled(&cluster, 1), newest(&cluster));
    cluster.redis.kill();
    wait_for("the end of the leases", TIMEOUT, || {
        let pages = [cluster.get(0, "/"), cluster.get(1, "/")];
        let is_bypass = |page: &Response| page.cache_status() == PARTITION;
        pages.iter().all(is_bypass)
    });
    assert_eq!(cluster.edit(0), "local");
    assert_eq!(cluster.status(0)["purges_unsent"], 1);
    cluster.assert_newest(1, "/");
    assert_eq!(assembled(&cluster, 1), newest(&cluster));
    let why = cluster.nodes[0].cli(&["why", "http://a.test/"]).unwrap();
    let why = String::from_utf8_lossy(&why.stdout).into_owned();
    assert!(
        why.contains("cannot read the purges of the other nodes"),
        "{why}"
    );
    cluster.redis.restart().unwrap();
    wait_for("the purge to be sent", TIMEOUT, || {
        cluster.status(0)["purges_unsent"] == 0
    });
    for node in 0..2 {
        cluster.wait_for_hits(node);
        cluster.assert_newest(node, "/");
    }
    cluster.wait_until_acknowledged();
}

/// A fetch serves the requests received before it was started, and never a later one.
#[test]
fn requests_to_a_partitioned_node_share_only_fetches_that_start_after_them() {
    let mut cluster = TestCluster::start(1, "");
    cluster.wait_for_hits(0);
    cluster.redis.kill();
    wait_for("the end of the lease", TIMEOUT, || {
        cluster.get(0, "/").cache_status() == PARTITION
    });
    for (path, delay) in [("/", 500), ("/crowd", 200)] {
        cluster.delay_ms.store(delay, Ordering::SeqCst);
        let request = Request::get(path).host("a.test");
        let before = cluster.origin_requests.load(Ordering::SeqCst);
        let mut clients = Vec::new();
        for _ in 0..300 {
            let mut client = Connection::open(cluster.addr(0)).unwrap();
            let minimum = cluster.version.fetch_add(1, Ordering::SeqCst) + 1;
            client.send(&request).unwrap();
            clients.push((client, minimum));
        }
        for (mut client, minimum) in clients {
            let page = client.receive("GET").unwrap();
            assert_eq!(page.cache_status(), PARTITION);
            let version = version_of(&page.text());
            assert!(version >= minimum, "version {version}, minimum {minimum}");
        }
        let requests = cluster.origin_requests.load(Ordering::SeqCst) - before;
        assert!((2..30).contains(&requests), "{requests} requests");
    }
    // Pages fetched during the partition are not stored.
    cluster.delay_ms.store(0, Ordering::SeqCst);
    cluster.redis.restart().unwrap();
    wait_for("the lease", TIMEOUT, || {
        cluster.get(0, "/crowd").cache_status() != PARTITION
    });
    cluster.edit_until_final(0);
    cluster.assert_newest(0, "/crowd");
}

const PARTITION: &str = "galley; fwd=bypass; detail=partition";

#[test]
fn a_purge_is_acknowledged_after_the_lease_of_a_dead_node_has_expired() {
    let mut cluster = TestCluster::start(2, "");
    cluster.nodes[1].kill();
    let started = Instant::now();
    cluster.edit_until_final(0);
    let elapsed = started.elapsed();
    assert!(elapsed > Duration::from_secs(1), "{elapsed:?}");
    cluster.assert_newest(0, "/");
}

#[test]
fn a_resumed_node_does_not_serve_pages_purged_during_its_pause() {
    let cluster = TestCluster::start(2, "");
    for _ in 0..3 {
        cluster.get(1, "/");
        assert!(cluster.get(1, "/").is_hit());
        cluster.nodes[1].signal(Signal::STOP);
        cluster.edit_until_final(0);
        cluster.nodes[1].signal(Signal::CONT);
        cluster.assert_newest(1, "/");
        cluster.wait_for_hits(1);
    }
}

#[test]
fn no_purge_is_lost_when_the_engine_loses_its_data() {
    let cluster = TestCluster::start(3, "");
    for round in 0..5 {
        for node in 0..3 {
            cluster.wait_for_hits(node);
        }
        cluster.redis.run(&["FLUSHALL"]).unwrap();
        let reach = cluster.edit(round % 3);
        if reach == "cluster" {
            for node in 0..3 {
                cluster.assert_newest(node, "/");
            }
        }
        for node in 0..3 {
            wait_for("the newest page", TIMEOUT, || {
                let expected = format!("/ version {}.", cluster.version.load(Ordering::SeqCst));
                cluster.get(node, "/").text() == expected
            });
        }
    }
    let gaps: u64 = (0..3)
        .map(|node| cluster.status(node)["gaps"].as_u64().unwrap())
        .sum();
    assert!(gaps > 0);
    cluster.wait_until_acknowledged();
}

#[test]
fn no_stale_page_is_served_while_the_engine_is_paused() {
    let cluster = TestCluster::start(2, "");
    for seconds in [1, 4] {
        cluster.wait_for_hits(0);
        cluster.wait_for_hits(1);
        cluster.redis.signal(Signal::STOP);
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end {
            let reach = cluster.edit(0);
            assert_eq!(reach, "local");
            cluster.assert_newest(0, "/");
        }
        cluster.redis.signal(Signal::CONT);
        wait_for("an acknowledged purge", TIMEOUT, || {
            let is_final = cluster.edit(0) == "cluster";
            if is_final {
                cluster.assert_newest(1, "/");
            }
            is_final
        });
    }
}

#[test]
fn with_on_partition_serve_hits_continue_and_purges_are_local() {
    let mut cluster = TestCluster::start(2, "on_partition = \"serve\"");
    cluster.wait_for_hits(1);
    cluster.redis.kill();
    std::thread::sleep(Duration::from_secs(4));
    assert!(cluster.get(1, "/").is_hit());
    assert_eq!(cluster.edit(0), "local");
    cluster.assert_newest(0, "/");
    cluster.redis.restart().unwrap();
    wait_for("the purge on the other node", TIMEOUT, || {
        let expected = format!("/ version {}.", cluster.version.load(Ordering::SeqCst));
        cluster.get(1, "/").text() == expected
    });
    // A node that serves without a lease may serve stale pages until it is connected again.
    cluster.nodes[1].kill();
    assert_eq!(cluster.edit(0), "local");
}

/// Every read that starts after the acknowledgement of a purge must return that edit or a newer one, under all faults.
#[test]
fn no_read_is_older_than_a_purge_acknowledged_before_it() {
    read_during_faults(TestCluster::start(3, ""));
}

#[test]
fn no_shared_page_is_older_than_a_purge_acknowledged_before_the_read() {
    read_during_faults(TestCluster::start(3, "key_file = KEY_FILE"));
}

fn read_during_faults(mut cluster: TestCluster) {
    let acknowledged = Arc::new(AtomicU64::new(0));
    let is_over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|node| {
            let addr = cluster.addr(node);
            let (acknowledged, is_over) = (Arc::clone(&acknowledged), Arc::clone(&is_over));
            std::thread::spawn(move || {
                let (mut reads, mut hits) = (0_u32, 0_u32);
                while !is_over.load(Ordering::SeqCst) {
                    let minimum = acknowledged.load(Ordering::SeqCst);
                    let page = Request::get("/").host("a.test").send(addr).unwrap();
                    let version = version_of(&page.text());
                    assert!(
                        version >= minimum,
                        "node {node}: version {version} after {minimum} was acknowledged: {}",
                        page.cache_status()
                    );
                    reads += 1;
                    hits += u32::from(page.is_hit());
                }
                (reads, hits)
            })
        })
        .collect();
    let mut final_purges = 0;
    let mut edit = |cluster: &TestCluster, node: usize| {
        let version = cluster.version.load(Ordering::SeqCst) + 1;
        if cluster.edit(node) == "cluster" {
            acknowledged.store(version, Ordering::SeqCst);
            final_purges += 1;
        }
    };
    for round in 0..8 {
        let (editor, other) = (round % 3, (round + 1) % 3);
        match round % 4 {
            0 => cluster.nodes[other].signal(Signal::STOP),
            1 => cluster.redis.signal(Signal::STOP),
            2 => drop(cluster.redis.run(&["FLUSHALL"]).unwrap()),
            _ => cluster.redis.restart().unwrap(),
        }
        edit(&cluster, editor);
        cluster.nodes[other].signal(Signal::CONT);
        cluster.redis.signal(Signal::CONT);
        for _ in 0..10 {
            edit(&cluster, editor);
        }
    }
    is_over.store(true, Ordering::SeqCst);
    for reader in readers {
        let (reads, hits) = reader.join().unwrap();
        assert!(reads > 100 && hits > 50, "{reads} reads, {hits} hits");
    }
    assert!(final_purges > 20, "{final_purges} acknowledged purges");
}

/// Purges sent to a node, and received by it from others, must be final during the upgrade of its process.
#[test]
fn no_purge_is_lost_during_an_upgrade_of_a_node() {
    let cluster = TestCluster::start(2, "");
    let mut serving_pid = cluster.nodes[0].pid();
    for round in 0..3 {
        cluster.wait_for_hits(0);
        cluster.wait_for_hits(1);
        // A connection to the old process.
        let request = || Request::new("PURGE", "/").host("a.test");
        let mut old_connection = Connection::open(cluster.addr(0)).unwrap();
        let _ = old_connection
            .exchange(&request())
            .unwrap()
            .expect_status(200);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The new process takes over pages that the old one has fetched.
                while !is_over.load(Ordering::SeqCst) {
                    if cluster.edit(1) == "cluster" {
                        cluster.assert_newest(0, "/");
                    }
                }
            });
            let output = cluster.nodes[0].cli(&["upgrade", "--json"]).unwrap();
            is_over.store(true, Ordering::SeqCst);
            assert!(output.status.success(), "{output:?}");
            let result: Value = serde_json::from_slice(&output.stdout).unwrap();
            serving_pid = u32::try_from(result["pid"].as_u64().unwrap()).unwrap();
        });
        cluster.wait_for_hits(1);
        cluster.version.fetch_add(1, Ordering::SeqCst);
        // The old process may have closed the connection by now.
        if old_connection.exchange(&request()).is_err() {
            Request::new("PURGE", "/")
                .host("a.test")
                .send(cluster.addr(0))
                .unwrap();
        }
        wait_for("the purge on the other node", TIMEOUT, || {
            cluster.get(1, "/").text() == cluster.newest("/")
        });
        assert_eq!(cluster.get(0, "/").text(), cluster.newest("/"), "{round}");
    }
    let pid = rustix::process::Pid::from_raw(i32::try_from(serving_pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
}

fn version_of(text: &str) -> u64 {
    let digits = text.rsplit(' ').next().unwrap().trim_end_matches('.');
    digits.parse().unwrap_or_else(|_| panic!("{text}"))
}

#[test]
fn check_warns_about_unsuitable_engine_settings() {
    let cluster = TestCluster::start(1, "");
    for (setting, value) in [("maxmemory-policy", "allkeys-lru"), ("appendonly", "no")] {
        cluster
            .redis
            .run(&["CONFIG", "SET", setting, value])
            .unwrap();
    }
    let follow_missing_primary = ["REPLICAOF", "127.0.0.1", "1"];
    cluster.redis.run(&follow_missing_primary).unwrap();
    let output = cluster.nodes[0].cli(&["check"]).unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let problems = [
        "eviction policy `allkeys-lru`",
        "does not write to a disk",
        "is a replica",
    ];
    for expected in problems {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}
