//! Pages shared between the nodes of a cluster: one request to the upstream for all nodes, and never a stale page.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::{Signal, wait_for};
use serde_json::Value;

use crate::test_cluster::{TIMEOUT, TestCluster};

/// A cluster whose nodes share pages.
struct SharingCluster(TestCluster);

impl SharingCluster {
    fn start(count: usize) -> Self {
        Self(TestCluster::start(count, "key_file = KEY_FILE"))
    }

    /// Waits until the first node has rendered the sidebar's fragment separately.
    fn wait_for_shared_fragment(&self) {
        wait_for("the fragment to be rendered separately", TIMEOUT, || {
            let why = self.0.nodes[0].cli(&["why", "http://a.test/sidebar", "--json"]);
            let why: Value = serde_json::from_slice(&why.unwrap().stdout).unwrap();
            why["entry"]["fragments"][0]["shared"] == true
        });
    }

    fn origin_requests(&self) -> u64 {
        self.0.origin_requests.load(Ordering::SeqCst)
    }

    /// A counter of shared pages in the status of a node.
    fn pages(&self, node: usize, counter: &str) -> u64 {
        let status = self.0.status(node);
        status["pages"][counter]
            .as_u64()
            .unwrap_or_else(|| panic!("{status}"))
    }

    /// Fetches a new page through one node that another can use, because its point is as new as the purges applied there. After a gap
    /// a node uses pages only from a mark behind it on.
    fn share(&self, fetching: usize, reading: usize, name: &str) -> String {
        let mut number = 0;
        wait_for("a shared page", TIMEOUT, || {
            number += 1;
            let probe = format!("/{name}-probe-{number}");
            self.fetch(fetching, &probe);
            is_shared(&self.0.get(reading, &probe))
        });
        let path = format!("/{name}");
        self.fetch(fetching, &path);
        path
    }

    /// Fetches a page and waits until it is in the engine.
    fn fetch(&self, node: usize, path: &str) {
        let before = self.pages(node, "stored");
        // A node whose threads did not run for two seconds loses its lease and passes requests.
        wait_for("a stored page", TIMEOUT, || {
            self.0.get(node, path).cache_status().contains("stored")
        });
        // A node that is not reading the stream at this moment shares nothing.
        let until = Instant::now() + Duration::from_secs(1);
        while self.pages(node, "stored") == before && Instant::now() < until {}
    }

    /// Waits until lookups in the engine are not paused. Only a lookup of a new page ends a pause.
    fn wait_for_lookups(&self, node: usize, round: usize) {
        let mut number = 0;
        wait_for("lookups in the engine", TIMEOUT, || {
            number += 1;
            self.0.get(node, &format!("/pause-{round}-{node}-{number}"));
            self.0.status(node)["pages"]["paused"] == false
        });
    }

    /// Repeats a check until it has succeeded twice, for up to 60 rounds: on a busy machine, replies of the engine can exceed their deadline.
    fn succeeds_twice(&self, mut check: impl FnMut(usize) -> bool) -> bool {
        let mut count = 0;
        (0..60).any(|round| {
            (0..2).for_each(|node| self.wait_for_lookups(node, round));
            count += usize::from(check(round));
            count == 2
        })
    }

    fn keys(&self) -> Vec<String> {
        let keys = self.0.redis.run(&["KEYS", "galley:galley:page:*"]);
        keys.unwrap().lines().map(str::to_owned).collect()
    }
}

fn is_shared(page: &Response) -> bool {
    page.is_hit() && page.cache_status().ends_with("; detail=cluster")
}

#[test]
fn a_page_fetched_by_one_node_is_a_hit_on_the_other() {
    let nodes = SharingCluster::start(2);
    let why = |path: &str| {
        let url = format!("http://a.test{path}");
        let output = nodes.0.nodes[1].cli(&["why", &url]).unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let mut number = 0;
    // On a busy machine, replies of the engine can exceed their deadline: try again.
    let (path, before) = loop {
        number += 1;
        let path = nodes.share(0, 1, &format!("page{number}"));
        let before = nodes.origin_requests();
        let text = why(&path);
        let is_predicted = text.contains("another node has fetched the page");
        let page = nodes.0.get(1, &path);
        if is_predicted && is_shared(&page) {
            assert_eq!(page.text(), nodes.0.newest(&path));
            break (path, before);
        }
        assert!(number < 40, "{text}{}", page.cache_status());
    };
    let again = nodes.0.get(1, &path);
    assert!(
        again.is_hit() && !is_shared(&again),
        "{}",
        again.cache_status()
    );
    assert_eq!(nodes.origin_requests(), before);
    assert!(nodes.pages(1, "hits") >= 2 && !why(&path).contains("another node"));
}

#[test]
fn a_purge_on_either_node_makes_a_shared_page_unusable() {
    let nodes = SharingCluster::start(2);
    for round in 0..6 {
        let (fetching, other) = (round % 2, (round + 1) % 2);
        let path = nodes.share(fetching, other, &format!("round{round}"));
        nodes
            .0
            .edit_until_final(if round % 3 == 0 { fetching } else { other });
        // The page is still in the engine, but neither node uses it.
        nodes.0.assert_newest(other, &path);
        nodes.0.assert_newest(fetching, &path);
    }
    assert!(nodes.pages(0, "refused") + nodes.pages(1, "refused") > 0);
}

#[test]
fn a_background_refresh_uses_the_page_of_another_node() {
    let nodes = SharingCluster::start(2);
    // On a busy machine, the reply of the engine can be late; the node then fetches the page from the upstream.
    let is_page_used = |round: usize| {
        let path = nodes.share(0, 1, &format!("soft{round}"));
        wait_for("the page on both nodes", TIMEOUT, || {
            nodes.0.get(1, &path).cache_status() == "galley; hit"
        });
        nodes.0.version.fetch_add(1, Ordering::SeqCst);
        let purge = ["purge", "--soft", "--tag", "p1", "--json"];
        let output = nodes.0.nodes[0].cli(&purge).unwrap();
        assert!(output.status.success(), "{output:?}");
        let refresh = |node: usize| {
            wait_for("a refreshed page", TIMEOUT, || {
                nodes.0.get(node, &path).text() == nodes.0.newest(&path)
            });
        };
        refresh(0);
        let before = nodes.origin_requests();
        let outdated = nodes.0.get(1, &path);
        assert!(outdated.is_hit(), "{}", outdated.cache_status());
        refresh(1);
        nodes.origin_requests() == before
    };
    assert!(
        (0..10).any(is_page_used),
        "each node fetches from the upstream"
    );
}

/// One node renders a purged fragment again and patches its page; another node gets the patched page.
#[test]
fn a_patched_page_is_shared_and_never_contains_a_purged_fragment() {
    let mut nodes = SharingCluster::start(2);
    let page = |nodes: &SharingCluster, node| nodes.0.get(node, "/sidebar");
    let newest = |nodes: &SharingCluster| {
        let version = nodes.0.version.load(Ordering::SeqCst);
        format!("<html><body>part {version:04}</body></html>")
    };
    nodes.share(0, 1, "warm");
    nodes.fetch(0, "/sidebar");
    nodes.wait_for_shared_fragment();
    let before = nodes.origin_requests();
    wait_for("the page at the other node", TIMEOUT, || {
        is_shared(&page(&nodes, 1)) || page(&nodes, 1).is_hit()
    });
    assert!(nodes.origin_requests() <= before + 1);
    for round in 0..3 {
        wait_for("a final purge", TIMEOUT, || {
            nodes.0.version.fetch_add(1, Ordering::SeqCst);
            nodes.0.purge(round % 2, "part") == "cluster"
        });
        for node in 0..2 {
            assert_eq!(page(&nodes, node).text(), newest(&nodes), "node {node}");
        }
        // The patched page is in the engine. A new node uses it.
        let (mut attempts, mut is_used) = (0, false);
        while !is_used {
            attempts += 1;
            assert!(attempts < 10, "no patched page is shared");
            let new = nodes.0.add("key_file = KEY_FILE");
            wait_for("the node to read the stream", TIMEOUT, || {
                nodes.0.get(new, "/other").is_hit()
            });
            let before = nodes.origin_requests();
            let shared = page(&nodes, new);
            assert_eq!(shared.text(), newest(&nodes));
            is_used = is_shared(&shared) && nodes.origin_requests() == before;
        }
    }
}

/// After a purge of a fragment, every node with the page needs the fragment, but only one of them renders it.
#[test]
fn a_purged_fragment_is_rendered_once_for_all_nodes() {
    let nodes = SharingCluster::start(2);
    nodes.share(0, 1, "warm");
    nodes.fetch(0, "/sidebar");
    nodes.wait_for_shared_fragment();
    wait_for("the page at the other node", TIMEOUT, || {
        nodes.0.get(1, "/sidebar").is_hit()
    });
    let is_rendered_once = |round: usize| {
        let before = nodes.origin_requests();
        wait_for("a final purge", TIMEOUT, || {
            nodes.0.version.fetch_add(1, Ordering::SeqCst);
            nodes.0.purge(round % 2, "part") == "cluster"
        });
        let version = nodes.0.version.load(Ordering::SeqCst);
        for node in [0, 1, 0] {
            let page = nodes.0.get(node, "/sidebar");
            let expected = format!("<html><body>part {version:04}</body></html>");
            assert_eq!(page.text(), expected, "{}", page.cache_status());
        }
        nodes.origin_requests() == before + 1
    };
    let succeeded = nodes.succeeds_twice(is_rendered_once);
    assert!(succeeded, "each node renders the fragment");
}

#[test]
fn a_page_with_esi_includes_is_shared_until_an_include_is_purged() {
    let nodes = SharingCluster::start(2);
    nodes.share(0, 1, "warm");
    let is_used = |round: usize| {
        let (fetching, other) = (round % 2, (round + 1) % 2);
        let path = format!("/assembled{round}");
        let newest = || format!("<html>{}</html>", nodes.0.newest("/part"));
        nodes.fetch(fetching, &path);
        let before = nodes.origin_requests();
        let page = nodes.0.get(other, &path);
        assert_eq!(page.text(), newest(), "{}", page.cache_status());
        let is_used = is_shared(&page) && nodes.origin_requests() == before;
        // Only the include is purged, not the page.
        nodes.0.edit_until_final(fetching);
        for node in [other, fetching] {
            let page = nodes.0.get(node, &path);
            assert_eq!(page.text(), newest(), "{}", page.cache_status());
        }
        is_used
    };
    let succeeded = nodes.succeeds_twice(is_used);
    assert!(succeeded, "no page with includes is shared");
}

#[test]
fn a_new_node_uses_pages_shared_before_its_start() {
    let mut nodes = SharingCluster::start(2);
    nodes.share(0, 1, "warm");
    let mut number = 0;
    loop {
        number += 1;
        assert!(number < 10, "no page from before the start is used");
        let (old, purged) = (format!("/sidebar-{number}"), format!("/purged-{number}"));
        nodes.fetch(0, &old);
        nodes.fetch(0, &purged);
        nodes.0.edit_until_final(1);
        let new = nodes.0.add("key_file = KEY_FILE");
        wait_for("the node to read the stream", TIMEOUT, || {
            nodes.0.get(new, "/other").is_hit()
        });
        nodes.0.assert_newest(new, &purged);
        if is_shared(&nodes.0.get(new, &old)) {
            break;
        }
    }
}

#[test]
fn a_page_purged_during_its_fetch_is_not_used() {
    let nodes = SharingCluster::start(2);
    nodes.0.delay_ms.store(400, Ordering::SeqCst);
    for round in 0..3 {
        let path = format!("/slow{round}");
        let before = nodes.origin_requests();
        std::thread::scope(|scope| {
            scope.spawn(|| nodes.0.get(0, &path));
            wait_for("the request", TIMEOUT, || nodes.origin_requests() > before);
            nodes.0.edit_until_final(1);
            nodes.0.assert_newest(1, &path);
        });
        nodes.0.assert_newest(0, &path);
        nodes.0.assert_newest(1, &path);
    }
}

#[test]
fn concurrent_requests_to_three_nodes_cause_one_upstream_request() {
    let nodes = SharingCluster::start(3);
    for (fetching, reading) in [(0, 1), (0, 2), (1, 0)] {
        nodes.share(fetching, reading, &format!("warm{fetching}{reading}"));
    }
    nodes.0.delay_ms.store(200, Ordering::SeqCst);
    // On a busy machine, the first reply of the engine can be late; the node then fetches the page itself.
    let mut requests = Vec::new();
    while !requests.contains(&1) {
        assert!(requests.len() < 40, "{requests:?}");
        requests.push(request_concurrently(&nodes, requests.len()));
        assert!(requests.iter().all(|count| *count <= 3), "{requests:?}");
    }
}

/// Sends 300 requests for a new page before the first response is generated; returns the number of upstream requests.
fn request_concurrently(nodes: &SharingCluster, round: usize) -> u64 {
    (0..3).for_each(|node| nodes.wait_for_lookups(node, round));
    let path = format!("/crowd{round}");
    let request = Request::get(&path).host("a.test");
    let before = nodes.origin_requests();
    let open = |client: usize| Connection::open(nodes.0.addr(client % 3)).unwrap();
    let mut clients: Vec<Connection> = (0..300).map(open).collect();
    for client in &mut clients {
        client.send(&request).unwrap();
    }
    for client in &mut clients {
        let page = client.receive("GET").unwrap();
        assert_eq!(page.text(), nodes.0.newest(&path));
    }
    nodes.origin_requests() - before
}

#[test]
fn a_node_that_dies_during_a_fetch_delays_other_nodes_only_briefly() {
    let mut nodes = SharingCluster::start(2);
    nodes.share(0, 1, "warm");
    nodes.0.delay_ms.store(1000, Ordering::SeqCst);
    let before = nodes.origin_requests();
    let request = Request::get("/token").host("a.test");
    let addr = nodes.0.addr(0);
    let client = std::thread::spawn(move || drop(request.send(addr)));
    wait_for("the request", TIMEOUT, || nodes.origin_requests() > before);
    nodes.0.nodes[0].kill();
    nodes.0.delay_ms.store(0, Ordering::SeqCst);
    let started = Instant::now();
    nodes.0.assert_newest(1, "/token");
    // The node waits half a second for the page of the other node; the rest is a margin for a busy machine.
    assert!(started.elapsed() < Duration::from_secs(3));
    client.join().unwrap();
}

/// The publishing node is killed before its purge is in the stream, before it is final, and after it is final.
#[test]
fn killing_the_publishing_node_in_any_phase_of_a_purge_causes_no_stale_page() {
    for phase in ["unsent", "sent", "final"] {
        let mut nodes = SharingCluster::start(3);
        let path = nodes.share(0, 1, phase);
        nodes.0.get(2, &path);
        nodes.0.version.fetch_add(1, Ordering::SeqCst);
        let request = Request::new("PURGE", &path).host("a.test");
        let addr = nodes.0.addr(0);
        let publish = move || std::thread::spawn(move || drop(request.send(addr)));
        match phase {
            "unsent" => {
                nodes.0.redis.signal(Signal::STOP);
                let publisher = publish();
                std::thread::sleep(Duration::from_millis(300));
                nodes.0.nodes[0].kill();
                nodes.0.redis.signal(Signal::CONT);
                publisher.join().unwrap();
                // Without an acknowledgment, the client must send the purge again.
                wait_for("a final purge", TIMEOUT, || {
                    nodes.0.purge(1, "p1") == "cluster"
                });
            }
            "sent" => {
                nodes.0.nodes[2].signal(Signal::STOP);
                let publisher = publish();
                wait_for("the purge in the stream", TIMEOUT, || {
                    let newest = ["XREVRANGE", "galley:galley:purges", "+", "-", "COUNT", "1"];
                    nodes.0.redis.run(&newest).unwrap().contains(phase)
                });
                nodes.0.nodes[0].kill();
                nodes.0.nodes[2].signal(Signal::CONT);
                publisher.join().unwrap();
                for node in 1..3 {
                    wait_for("the purge on each node", TIMEOUT, || {
                        nodes.0.get(node, &path).text() == nodes.0.newest(&path)
                    });
                }
            }
            _ => {
                wait_for("a final purge", TIMEOUT, || {
                    nodes.0.purge(0, "p1") == "cluster"
                });
                nodes.0.nodes[0].kill();
            }
        }
        let new = nodes.0.add("key_file = KEY_FILE");
        for node in [1, 2, new] {
            nodes.0.assert_newest(node, &path);
        }
    }
}

#[test]
fn a_modified_record_in_the_engine_is_a_miss() {
    let nodes = SharingCluster::start(2);
    // On a busy machine, the reply with the modified record can be too late to be examined.
    let is_detected = |round: usize| {
        let path = nodes.share(0, 1, &format!("record{round}"));
        for key in nodes.keys() {
            nodes
                .0
                .redis
                .run(&["SETRANGE", &key, "200", "zzzz"])
                .unwrap();
        }
        let before = nodes.origin_requests();
        let page = nodes.0.get(1, &path);
        assert!(!page.is_hit(), "{}", page.cache_status());
        assert_eq!(
            (page.text(), nodes.origin_requests()),
            (nodes.0.newest(&path), before + 1)
        );
        nodes.pages(1, "foreign") > 0
    };
    assert!((0..10).any(is_detected), "no modified record was detected");
}

#[test]
fn requests_succeed_while_the_engine_hangs_and_after_it_lost_its_data() {
    let nodes = SharingCluster::start(2);
    nodes.share(0, 1, "before");
    nodes.0.redis.signal(Signal::STOP);
    let started = Instant::now();
    for number in 0..40 {
        nodes.0.assert_newest(1, &format!("/stopped{number}"));
    }
    let elapsed = started.elapsed();
    assert!(elapsed < Duration::from_secs(4), "{elapsed:?}");
    assert!(nodes.pages(1, "timeouts") > 0);
    nodes.0.redis.signal(Signal::CONT);
    nodes.0.redis.run(&["FLUSHALL"]).unwrap();
    for node in 0..2 {
        wait_for("stored pages to be used", TIMEOUT, || {
            nodes.0.get(node, "/").is_hit()
        });
    }
    nodes.0.assert_newest(1, "/flushed");
    nodes.share(0, 1, "after");
}
