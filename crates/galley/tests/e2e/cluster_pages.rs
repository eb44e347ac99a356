//! Pages that the nodes of a cluster share: one request to the upstream for all, and never an old page.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::{Signal, wait_for};

use serde_json::Value;

use crate::cluster::Cluster;

/// Nodes that share pages.
struct Sharing(Cluster);

impl Sharing {
    fn start(count: usize) -> Self {
        Self(Cluster::start(count, "key_file = KEY_FILE"))
    }

    /// Waits until the first node has rendered the part of the page alone.
    fn await_shared_part(&self) {
        wait_for("the part to be rendered alone", TIMEOUT, || {
            let why = self.0.nodes[0].cli(&["why", "http://a.test/sidebar", "--json"]);
            let why: Value = serde_json::from_slice(&why.unwrap().stdout).unwrap();
            why["entry"]["fragments"][0]["shared"] == true
        });
    }

    fn served(&self) -> u64 {
        self.0.served.load(Ordering::SeqCst)
    }

    fn pages(&self, node: usize, what: &str) -> u64 {
        let status = self.0.status(node);
        status["pages"][what]
            .as_u64()
            .unwrap_or_else(|| panic!("{status}"))
    }

    /// A new page that a node has fetched and that another can use: its point is as new as what that one has applied.
    fn share(&self, fetching: usize, reading: usize, name: &str) -> String {
        let mut number = 0;
        loop {
            number += 1;
            let probe = format!("/{name}-probe-{number}");
            self.fetch(fetching, &probe);
            if is_shared(&self.0.get(reading, &probe)) {
                break;
            }
            assert!(number < 60, "no page is shared");
        }
        let path = format!("/{name}");
        self.fetch(fetching, &path);
        path
    }

    /// Fetches a page, and waits until it is in the engine.
    fn fetch(&self, node: usize, path: &str) {
        let before = self.pages(node, "stored");
        // A node whose threads had no processor for two seconds has no lease, and passes requests.
        wait_for("a page that is stored", TIMEOUT, || {
            self.0.get(node, path).cache_status().contains("stored")
        });
        // A node that does not read the stream at the moment shares nothing.
        let until = Instant::now() + Duration::from_secs(1);
        while self.pages(node, "stored") == before && Instant::now() < until {}
    }

    /// A page that is stored asks the engine nothing, and a pause after failures ends with a question.
    fn wait_until_asked(&self, node: usize, round: usize) {
        let mut number = 0;
        wait_for("the engine to be asked", TIMEOUT, || {
            number += 1;
            self.0.get(node, &format!("/pause-{round}-{node}-{number}"));
            self.0.status(node)["pages"]["paused"] == false
        });
    }

    /// Whether something succeeds twice. Where this machine is too busy for the deadline of a reply, it may need many rounds.
    fn succeeds_twice(&self, mut is_done: impl FnMut(usize) -> bool) -> bool {
        let mut count = 0;
        (0..60).any(|round| {
            (0..2).for_each(|node| self.wait_until_asked(node, round));
            count += usize::from(is_done(round));
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
fn a_page_that_one_node_has_fetched_answers_at_the_other() {
    let nodes = Sharing::start(2);
    let why = |path: &str| {
        let url = format!("http://a.test{path}");
        let output = nodes.0.nodes[1].cli(&["why", &url]).unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let mut number = 0;
    // Again where this machine is too busy for the deadline of a reply.
    let (path, before) = loop {
        number += 1;
        let path = nodes.share(0, 1, &format!("page{number}"));
        let before = nodes.served();
        let text = why(&path);
        let is_foretold = text.contains("another node has fetched the page");
        let page = nodes.0.get(1, &path);
        if is_foretold && is_shared(&page) {
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
    assert_eq!(nodes.served(), before);
    assert!(nodes.pages(1, "hits") >= 2 && !why(&path).contains("another node"));
}

#[test]
fn a_purge_on_either_node_makes_a_shared_page_unusable() {
    let nodes = Sharing::start(2);
    for round in 0..6 {
        let (fetching, other) = (round % 2, (round + 1) % 2);
        let path = nodes.share(fetching, other, &format!("round{round}"));
        nodes
            .0
            .edit_until_final(if round % 3 == 0 { fetching } else { other });
        // The page is in the engine, and neither node uses it.
        nodes.0.assert_newest(other, &path);
        nodes.0.assert_newest(fetching, &path);
    }
    assert!(nodes.pages(0, "refused") + nodes.pages(1, "refused") > 0);
}

#[test]
fn a_refresh_takes_the_page_of_another_node() {
    let nodes = Sharing::start(2);
    // Where this machine is too busy, the reply of the engine may be late: then a node asks the upstream.
    let is_taken = |round: usize| {
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
        let before = nodes.served();
        let outdated = nodes.0.get(1, &path);
        assert!(outdated.is_hit(), "{}", outdated.cache_status());
        refresh(1);
        nodes.served() == before
    };
    assert!((0..10).any(is_taken), "each node asks the upstream");
}

/// A part of a page is rendered again on one node, and another one gets the page with it.
#[test]
fn a_page_that_was_patched_is_shared_and_never_with_a_part_from_before_its_purge() {
    let mut nodes = Sharing::start(2);
    let page = |nodes: &Sharing, node| nodes.0.get(node, "/sidebar");
    let newest = |nodes: &Sharing| {
        let version = nodes.0.version.load(Ordering::SeqCst);
        format!("<html><body>part {version:04}</body></html>")
    };
    nodes.share(0, 1, "warm");
    nodes.fetch(0, "/sidebar");
    nodes.await_shared_part();
    let before = nodes.served();
    wait_for("the page at the other node", TIMEOUT, || {
        is_shared(&page(&nodes, 1)) || page(&nodes, 1).is_hit()
    });
    assert!(nodes.served() <= before + 1);
    for round in 0..3 {
        wait_for("a final purge", TIMEOUT, || {
            nodes.0.version.fetch_add(1, Ordering::SeqCst);
            nodes.0.purge(round % 2, "part") == "cluster"
        });
        for node in 0..2 {
            assert_eq!(page(&nodes, node).text(), newest(&nodes), "node {node}");
        }
        // The page that was patched is in the engine, and a node that has just started takes it from there.
        let (mut tries, mut is_taken) = (0, false);
        while !is_taken {
            tries += 1;
            assert!(tries < 10, "no page that was patched is shared");
            let new = nodes.0.add("key_file = KEY_FILE");
            wait_for("the node to read the stream", TIMEOUT, || {
                nodes.0.get(new, "/other").is_hit()
            });
            let before = nodes.served();
            let taken = page(&nodes, new);
            assert_eq!(taken.text(), newest(&nodes));
            is_taken = is_shared(&taken) && nodes.served() == before;
        }
    }
}

/// After a purge of a fragment, each node that has the page needs the fragment, and one of them has it rendered.
#[test]
fn a_fragment_is_rendered_once_for_all_nodes() {
    let nodes = Sharing::start(2);
    nodes.share(0, 1, "warm");
    nodes.fetch(0, "/sidebar");
    nodes.await_shared_part();
    wait_for("the page at the other node", TIMEOUT, || {
        nodes.0.get(1, "/sidebar").is_hit()
    });
    let is_once = |round: usize| {
        let before = nodes.served();
        wait_for("a final purge", TIMEOUT, || {
            nodes.0.version.fetch_add(1, Ordering::SeqCst);
            nodes.0.purge(round % 2, "part") == "cluster"
        });
        let version = nodes.0.version.load(Ordering::SeqCst);
        for node in [0, 1, 0] {
            let page = nodes.0.get(node, "/sidebar");
            let wanted = format!("<html><body>part {version:04}</body></html>");
            assert_eq!(page.text(), wanted, "{}", page.cache_status());
        }
        nodes.served() == before + 1
    };
    let is_rendered_once = nodes.succeeds_twice(is_once);
    assert!(is_rendered_once, "each node has fragments rendered");
}

#[test]
fn a_page_with_includes_is_shared_and_not_used_after_a_purge_of_a_part() {
    let nodes = Sharing::start(2);
    nodes.share(0, 1, "warm");
    let is_used = |round: usize| {
        let (fetching, other) = (round % 2, (round + 1) % 2);
        let path = format!("/assembled{round}");
        let newest = || format!("<html>{}</html>", nodes.0.newest("/part"));
        nodes.fetch(fetching, &path);
        let before = nodes.served();
        let page = nodes.0.get(other, &path);
        assert_eq!(page.text(), newest(), "{}", page.cache_status());
        let is_used = is_shared(&page) && nodes.served() == before;
        // The page itself is as it was, and only its part is purged.
        nodes.0.edit_until_final(fetching);
        for node in [other, fetching] {
            let page = nodes.0.get(node, &path);
            assert_eq!(page.text(), newest(), "{}", page.cache_status());
        }
        is_used
    };
    let are_shared = nodes.succeeds_twice(is_used);
    assert!(are_shared, "no page with includes is shared");
}

#[test]
fn a_node_that_starts_uses_pages_from_before_its_start() {
    let mut nodes = Sharing::start(2);
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
fn a_page_that_is_purged_while_it_is_fetched_is_not_used() {
    let nodes = Sharing::start(2);
    nodes.0.delay_ms.store(400, Ordering::SeqCst);
    for round in 0..3 {
        let path = format!("/slow{round}");
        let before = nodes.served();
        std::thread::scope(|scope| {
            scope.spawn(|| nodes.0.get(0, &path));
            wait_for("the request", TIMEOUT, || nodes.served() > before);
            nodes.0.edit_until_final(1);
            nodes.0.assert_newest(1, &path);
        });
        nodes.0.assert_newest(0, &path);
        nodes.0.assert_newest(1, &path);
    }
}

#[test]
fn three_hundred_visitors_of_three_nodes_make_one_request() {
    let nodes = Sharing::start(3);
    for (fetching, reading) in [(0, 1), (0, 2), (1, 0)] {
        nodes.share(fetching, reading, &format!("warm{fetching}{reading}"));
    }
    nodes.0.delay_ms.store(200, Ordering::SeqCst);
    // Where this machine is too busy, the first reply of the engine may be late: then a node fetches the page itself.
    let mut requests = Vec::new();
    while !requests.contains(&1) {
        assert!(requests.len() < 40, "{requests:?}");
        requests.push(crowd_of(&nodes, requests.len()));
        assert!(requests.iter().all(|count| *count <= 3), "{requests:?}");
    }
}

/// The requests to the upstream that 300 visitors of one page make, who all have come before one has the page.
fn crowd_of(nodes: &Sharing, crowd: usize) -> u64 {
    (0..3).for_each(|node| nodes.wait_until_asked(node, crowd));
    let path = format!("/crowd{crowd}");
    let request = Request::get(&path).host("a.test");
    let before = nodes.served();
    let open = |visitor: usize| Connection::open(nodes.0.addr(visitor % 3)).unwrap();
    let mut visitors: Vec<Connection> = (0..300).map(open).collect();
    for visitor in &mut visitors {
        visitor.send(&request).unwrap();
    }
    for visitor in &mut visitors {
        let page = visitor.receive("GET").unwrap();
        assert_eq!(page.text(), nodes.0.newest(&path));
    }
    nodes.served() - before
}

#[test]
fn a_node_that_dies_while_it_fetches_holds_nobody_up() {
    let mut nodes = Sharing::start(2);
    nodes.share(0, 1, "warm");
    nodes.0.delay_ms.store(1000, Ordering::SeqCst);
    let before = nodes.served();
    let request = Request::get("/token").host("a.test");
    let addr = nodes.0.addr(0);
    let visitor = std::thread::spawn(move || drop(request.send(addr)));
    wait_for("the request", TIMEOUT, || nodes.served() > before);
    nodes.0.nodes[0].kill();
    nodes.0.delay_ms.store(0, Ordering::SeqCst);
    let began = Instant::now();
    nodes.0.assert_newest(1, "/token");
    // Half a second of waiting for the other node's page; the rest is what else this machine does.
    assert!(began.elapsed() < Duration::from_secs(3));
    visitor.join().unwrap();
}

/// What is killed: the node that publishes a purge, before the purge is in the stream, before it is final, and when it is.
#[test]
fn a_node_that_is_killed_in_any_phase_of_a_purge_leaves_no_old_page() {
    for phase in ["unsent", "sent", "final"] {
        let mut nodes = Sharing::start(3);
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
                // No acknowledgment came, so the publisher publishes it again.
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
fn a_record_that_somebody_has_changed_is_a_miss() {
    let nodes = Sharing::start(2);
    // Where this machine is too busy, the changed record comes too late to be looked at.
    let is_seen = |round: usize| {
        let path = nodes.share(0, 1, &format!("record{round}"));
        for key in nodes.keys() {
            nodes
                .0
                .redis
                .run(&["SETRANGE", &key, "200", "zzzz"])
                .unwrap();
        }
        let before = nodes.served();
        let page = nodes.0.get(1, &path);
        assert!(!page.is_hit(), "{}", page.cache_status());
        assert_eq!(
            (page.text(), nodes.served()),
            (nodes.0.newest(&path), before + 1)
        );
        nodes.pages(1, "foreign") > 0
    };
    assert!((0..10).any(is_seen), "no changed record was seen");
}

#[test]
fn an_engine_that_does_not_reply_or_lost_its_data_costs_no_page() {
    let nodes = Sharing::start(2);
    nodes.share(0, 1, "before");
    nodes.0.redis.signal(Signal::STOP);
    let began = Instant::now();
    for number in 0..40 {
        nodes.0.assert_newest(1, &format!("/stopped{number}"));
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
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

const TIMEOUT: Duration = Duration::from_secs(60);
