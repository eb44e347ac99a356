//! Several Galleys and one Redis: a purge is final on every node, whatever fails.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::origin::Origin;
use galley_testkit::{Galley, Redis, Scratch, Signal, wait_for};
use serde_json::Value;

/// Nodes in front of one site, whose pages show a version.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Galley>,
    pub(crate) redis: Redis,
    pub(crate) version: Arc<AtomicU64>,
    pub(crate) scratch: Scratch,
    origin: Origin,
    /// Requests that the origin has received.
    pub(crate) served: Arc<AtomicU64>,
    /// How many milliseconds the origin takes, once it has read the version.
    pub(crate) delay_ms: Arc<AtomicU64>,
}

impl Cluster {
    pub(crate) fn start(count: usize, lines: &str) -> Self {
        let scratch = Scratch::new().unwrap();
        let redis = Redis::start(&scratch.join("redis")).unwrap();
        let version = Arc::new(AtomicU64::new(1));
        let shown = Arc::clone(&version);
        let (served, delay_ms) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (counted, delay) = (Arc::clone(&served), Arc::clone(&delay_ms));
        let origin = Origin::start_unrecorded(move |seen, writer| {
            let long = (
                "Cache-Control",
                "public, max-age=3600, stale-while-revalidate=600",
            );
            if seen.path().starts_with("/assembled") {
                counted.fetch_add(1, Ordering::SeqCst);
                let tags = ("Surrogate-Control", "content=\"ESI/1.0\"");
                let body = "<html><esi:include src=\"/part\"/></html>";
                writer.answer(
                    200,
                    &[("Content-Type", "text/html"), long, tags],
                    body.as_bytes(),
                );
                return;
            }
            if seen.path().starts_with("/sidebar") {
                counted.fetch_add(1, Ordering::SeqCst);
                let part = format!("part {:04}", shown.load(Ordering::SeqCst));
                let is_alone = seen.field("galley-fragment").is_some();
                let (kind, place, body) = if is_alone {
                    ("text/plain", "alone 0 9 - 0 part", part)
                } else {
                    let page = format!("<html><body>{part}</body></html>");
                    ("text/html", "widget/x 12 9 - d.m part", page)
                };
                let tags = [("Galley-Tags", "own"), ("Galley-Fragment", place)];
                let fields = [&[("Content-Type", kind), long], &tags[..]].concat();
                writer.answer(200, &fields, body.as_bytes());
                return;
            }
            let fields = [("Content-Type", "text/plain"), long, ("Galley-Tags", "p1")];
            let body = format!("{} version {}.", seen.path(), shown.load(Ordering::SeqCst));
            counted.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(delay.load(Ordering::SeqCst)));
            writer.answer(200, &fields, body.as_bytes());
        })
        .unwrap();
        let mut cluster = Self {
            nodes: Vec::new(),
            redis,
            version,
            scratch,
            origin,
            served,
            delay_ms,
        };
        for number in 0..count {
            let node = cluster.launch(number, lines);
            cluster.nodes.push(node);
        }
        for node in 0..count {
            wait_for("a hit", TIMEOUT, || cluster.get(node, "/").is_hit());
        }
        cluster.wait_until_acknowledged();
        cluster
    }

    /// A further node, with what the others have in their configuration.
    pub(crate) fn add(&mut self, lines: &str) -> usize {
        let node = self.launch(self.nodes.len(), lines);
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn launch(&self, number: usize, lines: &str) -> Galley {
        let dir = self.scratch.dir(&format!("node{number}")).unwrap();
        let key = dir.join("cluster.key");
        std::fs::write(&key, "0123456789abcdef".repeat(4)).unwrap();
        std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        let lines = lines.replace("KEY_FILE", &format!("\"{}\"", key.display()));
        let config = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"unix:{dir}/admin.sock\"\n\
             [cluster]\nengine = \"{}\"\nnode = \"n{number}\"\n{lines}\n\
             [[site]]\nhosts = [\"a.test\"]\nupstream = [\"{}\"]\nesi = true\n",
            self.redis.url(),
            self.origin.url(),
            dir = dir.display(),
        );
        Galley::start(&dir, &config).unwrap()
    }

    pub(crate) fn addr(&self, node: usize) -> SocketAddr {
        self.nodes[node].addr()
    }

    pub(crate) fn get(&self, node: usize, path: &str) -> Response {
        let request = Request::get(path).host("a.test");
        request.send(self.addr(node)).unwrap()
    }

    pub(crate) fn status(&self, node: usize) -> Value {
        let output = self.nodes[node].cli(&["status", "--json"]).unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["cluster"].clone()
    }

    /// Changes the page, and purges it through a node; how far the purge got.
    pub(crate) fn edit(&self, node: usize) -> String {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.purge(node, "p1")
    }

    /// Purges a tag through a node; how far the purge got.
    pub(crate) fn purge(&self, node: usize, tag: &str) -> String {
        let purge = ["purge", "--tag", tag, "--json"];
        let output = self.nodes[node].cli(&purge).unwrap();
        assert!(output.status.success(), "{output:?}");
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        value["reach"].as_str().unwrap().to_owned()
    }

    /// Edits until a purge is final: on a busy machine a node may need more than the five seconds of a receipt.
    pub(crate) fn edit_until_final(&self, node: usize) {
        wait_for("an acknowledged purge", TIMEOUT, || {
            self.edit(node) == "cluster"
        });
    }

    /// A node that has just started believes an absent key only after a while.
    fn wait_until_acknowledged(&self) {
        for node in 0..self.nodes.len() {
            self.edit_until_final(node);
        }
    }

    /// The page as a node sends it must be the newest.
    pub(crate) fn assert_newest(&self, node: usize, path: &str) {
        let page = self.get(node, path);
        let wanted = self.newest(path);
        assert_eq!(page.text(), wanted, "node {node}: {}", page.cache_status());
    }

    pub(crate) fn newest(&self, path: &str) -> String {
        format!("{path} version {}.", self.version.load(Ordering::SeqCst))
    }

    fn wait_for_hits(&self, node: usize) {
        wait_for("hits", TIMEOUT, || self.get(node, "/").is_hit());
    }
}

#[test]
fn a_purge_on_one_node_is_final_on_all() {
    let cluster = Cluster::start(3, "");
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
fn purges_of_other_nodes_reach_the_sites_of_a_reloaded_configuration() {
    let cluster = Cluster::start(2, "");
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
        let wanted = format!("/ version {}.", cluster.version.load(Ordering::SeqCst));
        for node in 0..2 {
            cluster.assert_newest(node, "/");
            let page = second(node);
            assert_eq!(page.text(), wanted, "node {node}: {}", page.cache_status());
        }
        reload(&cluster.nodes[1]);
    }
}

#[test]
fn without_the_engine_no_stored_page_is_sent_and_no_purge_is_lost() {
    let mut cluster = Cluster::start(2, "");
    cluster.wait_for_hits(0);
    cluster.wait_for_hits(1);
    let assembled = |cluster: &Cluster, node| cluster.get(node, "/assembled").text();
    let newest = |cluster: &Cluster| format!("<html>{}</html>", cluster.newest("/part"));
    assert_eq!(assembled(&cluster, 1), newest(&cluster));
    cluster.redis.kill();
    wait_for("the end of the leases", TIMEOUT, || {
        let pages = [cluster.get(0, "/"), cluster.get(1, "/")];
        let is_passed = |page: &Response| page.cache_status() == PARTITION;
        pages.iter().all(is_passed)
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

/// A page is generated for all who have come before its request is sent, and never for one who comes later.
#[test]
fn visitors_of_a_node_that_is_cut_off_share_fetches_that_begin_after_they_have_come() {
    let mut cluster = Cluster::start(1, "");
    cluster.wait_for_hits(0);
    cluster.redis.kill();
    wait_for("the end of the lease", TIMEOUT, || {
        cluster.get(0, "/").cache_status() == PARTITION
    });
    for (path, delay) in [("/", 500), ("/crowd", 200)] {
        cluster.delay_ms.store(delay, Ordering::SeqCst);
        let request = Request::get(path).host("a.test");
        let before = cluster.served.load(Ordering::SeqCst);
        let mut visitors = Vec::new();
        for _ in 0..300 {
            let mut visitor = Connection::open(cluster.addr(0)).unwrap();
            let oldest = cluster.version.fetch_add(1, Ordering::SeqCst) + 1;
            visitor.send(&request).unwrap();
            visitors.push((visitor, oldest));
        }
        for (mut visitor, oldest) in visitors {
            let page = visitor.receive("GET").unwrap();
            assert_eq!(page.cache_status(), PARTITION);
            let shown = version_of(&page.text());
            assert!(shown >= oldest, "{shown} for a visitor of {oldest}");
        }
        let requests = cluster.served.load(Ordering::SeqCst) - before;
        assert!((2..30).contains(&requests), "{requests} requests");
    }
    // What was fetched meanwhile is not stored.
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
fn a_purge_beside_a_dead_node_is_acknowledged_when_its_lease_is_over() {
    let mut cluster = Cluster::start(2, "");
    cluster.nodes[1].kill();
    let began = Instant::now();
    cluster.edit_until_final(0);
    let took = began.elapsed();
    assert!(took > Duration::from_secs(1), "{took:?}");
    cluster.assert_newest(0, "/");
}

#[test]
fn a_node_that_was_paused_does_not_send_what_was_purged_meanwhile() {
    let cluster = Cluster::start(2, "");
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
fn an_engine_that_lost_its_data_loses_no_purge() {
    let cluster = Cluster::start(3, "");
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
                let wanted = format!("/ version {}.", cluster.version.load(Ordering::SeqCst));
                cluster.get(node, "/").text() == wanted
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
fn a_paused_engine_never_lets_an_old_page_through() {
    let cluster = Cluster::start(2, "");
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
fn a_node_may_serve_through_a_partition_and_purges_say_so() {
    let mut cluster = Cluster::start(2, "on_partition = \"serve\"");
    cluster.wait_for_hits(1);
    cluster.redis.kill();
    std::thread::sleep(Duration::from_secs(4));
    assert!(cluster.get(1, "/").is_hit());
    assert_eq!(cluster.edit(0), "local");
    cluster.assert_newest(0, "/");
    cluster.redis.restart().unwrap();
    wait_for("the purge on the other node", TIMEOUT, || {
        let wanted = format!("/ version {}.", cluster.version.load(Ordering::SeqCst));
        cluster.get(1, "/").text() == wanted
    });
    // A node that serves without a lease may have old pages as long as it is away.
    cluster.nodes[1].kill();
    assert_eq!(cluster.edit(0), "local");
}

/// Every read that begins after a purge was acknowledged must show that edit or a newer one, whatever fails meanwhile.
#[test]
fn no_read_after_an_acknowledged_purge_is_older_than_it() {
    read_while_all_fails(Cluster::start(3, ""));
}

/// The same, with pages that nodes share.
#[test]
fn no_shared_page_is_older_than_an_acknowledged_purge() {
    read_while_all_fails(Cluster::start(3, "key_file = KEY_FILE"));
}

fn read_while_all_fails(mut cluster: Cluster) {
    let acknowledged = Arc::new(AtomicU64::new(0));
    let is_over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|node| {
            let addr = cluster.addr(node);
            let (acknowledged, is_over) = (Arc::clone(&acknowledged), Arc::clone(&is_over));
            std::thread::spawn(move || {
                let (mut reads, mut hits) = (0_u32, 0_u32);
                while !is_over.load(Ordering::SeqCst) {
                    let oldest = acknowledged.load(Ordering::SeqCst);
                    let page = Request::get("/").host("a.test").send(addr).unwrap();
                    let shown = version_of(&page.text());
                    assert!(
                        shown >= oldest,
                        "node {node}: {shown} after {oldest}: {}",
                        page.cache_status()
                    );
                    reads += 1;
                    hits += u32::from(page.is_hit());
                }
                (reads, hits)
            })
        })
        .collect();
    let mut finals = 0;
    let mut edit = |cluster: &Cluster, node: usize| {
        let version = cluster.version.load(Ordering::SeqCst) + 1;
        if cluster.edit(node) == "cluster" {
            acknowledged.store(version, Ordering::SeqCst);
            finals += 1;
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
    assert!(finals > 20, "{finals} acknowledged purges");
}

/// While one process of a node takes over from another, purges of and through this node are as final as ever.
#[test]
fn an_upgrade_of_a_node_loses_no_purge() {
    let cluster = Cluster::start(2, "");
    let mut serving = cluster.nodes[0].pid();
    for round in 0..3 {
        cluster.wait_for_hits(0);
        cluster.wait_for_hits(1);
        // A connection of the process before.
        let request = || Request::new("PURGE", "/").host("a.test");
        let mut kept = Connection::open(cluster.addr(0)).unwrap();
        let _ = kept.exchange(&request()).unwrap().expect_status(200);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The memory of the new process has pages that the old one has fetched.
                while !is_over.load(Ordering::SeqCst) {
                    if cluster.edit(1) == "cluster" {
                        cluster.assert_newest(0, "/");
                    }
                }
            });
            let output = cluster.nodes[0].cli(&["upgrade", "--json"]).unwrap();
            is_over.store(true, Ordering::SeqCst);
            assert!(output.status.success(), "{output:?}");
            let said: Value = serde_json::from_slice(&output.stdout).unwrap();
            serving = u32::try_from(said["pid"].as_u64().unwrap()).unwrap();
        });
        cluster.wait_for_hits(1);
        cluster.version.fetch_add(1, Ordering::SeqCst);
        // The process before may have closed it by now.
        if kept.exchange(&request()).is_err() {
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
    let pid = rustix::process::Pid::from_raw(i32::try_from(serving).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
}

fn version_of(text: &str) -> u64 {
    let digits = text.rsplit(' ').next().unwrap().trim_end_matches('.');
    digits.parse().unwrap_or_else(|_| panic!("{text}"))
}

#[test]
fn unsuitable_engines_are_named() {
    let cluster = Cluster::start(1, "");
    for (setting, value) in [("maxmemory-policy", "allkeys-lru"), ("appendonly", "no")] {
        cluster
            .redis
            .run(&["CONFIG", "SET", setting, value])
            .unwrap();
    }
    let nobody = ["REPLICAOF", "127.0.0.1", "1"];
    cluster.redis.run(&nobody).unwrap();
    let output = cluster.nodes[0].cli(&["check"]).unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let problems = [
        "eviction policy `allkeys-lru`",
        "does not write to a disk",
        "is a replica",
    ];
    for wanted in problems {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
}

const TIMEOUT: Duration = Duration::from_secs(60);
