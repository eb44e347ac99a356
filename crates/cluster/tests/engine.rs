//! Purges between cluster nodes over a real `redis-server`. The nodes run without the web server.

#![expect(clippy::unwrap_used, reason = "tests, their helpers too")]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use galley_cluster::{
    Cluster, ClusterPublisher, ClusterSettings, NotePoint, PurgeReach, PurgeSink, RemotePurge,
    RunningCluster,
};
use galley_policy::purge::{Purge, Scope, Strength};
use galley_policy::time::Tick;
use galley_testkit::{Redis, Scratch, Signal, wait_for};

/// The purges that a node has applied.
#[derive(Default)]
struct RecordingSink {
    applied: Mutex<Vec<String>>,
    /// The strengths of purges of everything.
    applied_to_all: Mutex<Vec<Strength>>,
    has_earlier_pages: bool,
    /// While a test holds this lock, the node applies no purge.
    gate: Mutex<()>,
}

impl PurgeSink for RecordingSink {
    fn apply(&self, purges: &[RemotePurge]) {
        if purges.is_empty() {
            return;
        }
        let _open = self.gate.lock().unwrap();
        let scopes = purges.iter().map(|purge| purge.purge.scope.to_string());
        self.applied.lock().unwrap().extend(scopes);
    }

    fn apply_to_all(&self, strength: Strength) {
        self.applied_to_all.lock().unwrap().push(strength);
    }

    fn has_earlier_pages(&self) -> bool {
        self.has_earlier_pages
    }

    fn has_earlier_purges(&self) -> bool {
        false
    }

    fn numbers(&self) -> NotePoint {
        Box::new(|_point| {})
    }
}

struct Node {
    sink: Arc<RecordingSink>,
    publisher: ClusterPublisher,
    running: RunningCluster,
}

impl Node {
    fn start(redis: &Redis, name: &str, folder: Option<&Path>) -> Self {
        Self::start_with(redis, name, folder, RecordingSink::default(), None)
    }

    fn start_with(
        redis: &Redis,
        name: &str,
        folder: Option<&Path>,
        sink: RecordingSink,
        inherited: Option<&str>,
    ) -> Self {
        let settings = ClusterSettings {
            engine: redis.url(),
            password_file: None,
            name: "test".to_owned(),
            node: name.to_owned(),
            serve_through_partitions: false,
            folder: folder.map(Path::to_owned),
            key_file: None,
            pages: None,
            page_thread_start: || {},
        };
        let cluster = Cluster::new(settings).unwrap();
        let publisher = cluster.publisher();
        let sink = Arc::new(sink);
        let started = Instant::now();
        let tick_at = move |at: Instant| {
            Tick(
                u64::try_from(at.saturating_duration_since(started).as_nanos()).unwrap_or(u64::MAX),
            )
        };
        let running = cluster
            .start(Arc::clone(&sink) as Arc<dyn PurgeSink>, tick_at, inherited)
            .unwrap();
        let node = Self {
            sink,
            publisher,
            running,
        };
        wait_for("the node to read the stream", TIMEOUT, || {
            node.publisher.status().has_read
        });
        node
    }

    fn publish(&self, tag: &str) -> PurgeReach {
        let pending = self
            .publisher
            .publish("a.test", &purge(tag), self.publisher.begin());
        block_on(pending.reach())
    }

    /// Publishes until a purge is final: a node that has just started does not yet treat missing keys as absent nodes.
    fn publish_until_final(&self, tag: &str) {
        wait_for("an acknowledged purge", TIMEOUT, || {
            self.publish(tag) == PurgeReach::Cluster
        });
    }

    /// Asserts that a purge waits until the lease of a blocked node expires.
    fn assert_waits_for_lease(&self, tag: &str) {
        let started = Instant::now();
        self.publish(tag);
        let elapsed = started.elapsed();
        assert!(elapsed > Duration::from_secs(1), "{elapsed:?}");
    }

    fn has_applied(&self, tag: &str) -> bool {
        let applied = self.sink.applied.lock().unwrap();
        applied.iter().any(|scope| scope.contains(tag))
    }
}

fn purge(tag: &str) -> Purge {
    Purge {
        scope: Scope::Tag(tag.to_owned()),
        strength: Strength::Hard,
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(future)
}

struct Engine {
    redis: Redis,
    scratch: Scratch,
}

fn engine() -> Engine {
    let scratch = Scratch::new().unwrap();
    let redis = Redis::start(&scratch.join("redis")).unwrap();
    Engine { redis, scratch }
}

#[test]
fn a_purge_is_acknowledged_when_all_nodes_have_applied_it() {
    let engine = engine();
    let one = Node::start(&engine.redis, "n1", None);
    let other = Node::start(&engine.redis, "n2", None);
    one.publish_until_final("first");
    assert!(other.has_applied("first") && !one.has_applied("first"));
    let gate = other.sink.gate.lock().unwrap();
    one.assert_waits_for_lease("second");
    drop(gate);
    one.publish_until_final("third");
    assert!(other.has_applied("second"));
}

/// One site's long purges fill the engine: it rejects whatever takes memory.
#[test]
fn a_full_engine_ends_no_lease_and_costs_only_the_site_that_filled_it() {
    let engine = engine();
    let one = Node::start(&engine.redis, "n1", None);
    let other = Node::start(&engine.redis, "n2", None);
    one.publish_until_final("first");
    let publish = |site: &str, tag: &str| {
        let begun = one.publisher.begin();
        one.publisher.publish(site, &purge(tag), begun)
    };
    let long = "t".repeat(1_000);
    let flood = |word: &str| {
        let pending: Vec<_> = (0..2_000)
            .map(|number| publish("flood.test", &format!("{word}{number}{long}")))
            .collect();
        pending
    };
    let last = flood("a").pop().unwrap();
    assert_eq!(block_on(last.reach()), PurgeReach::Cluster);
    engine
        .redis
        .run(&["CONFIG", "SET", "maxmemory", "1mb"])
        .unwrap();
    let rejected = engine.redis.run(&["SET", "x", "y"]);
    assert!(!rejected.is_ok_and(|text| text.contains("OK")));
    let flooded = flood("b");
    let exact = publish("a.test", "exact");
    assert_eq!(block_on(exact.reach()), PurgeReach::Cluster);
    assert!(other.has_applied("tag exact") && other.has_applied("all"));
    assert!(!other.has_applied("b1999"), "the site is purged whole");
    for pending in flooded {
        assert_eq!(block_on(pending.reach()), PurgeReach::Cluster);
    }
    // Longer than a lease: both nodes renew theirs.
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        assert_eq!(one.publish("later"), PurgeReach::Cluster);
        let status = other.publisher.status();
        assert!(status.is_connected, "{:?}", status.error);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(other.sink.applied_to_all.lock().unwrap().is_empty());
}

#[test]
fn a_purge_waits_for_both_nodes_with_the_same_name() {
    let engine = engine();
    let one = Node::start(&engine.redis, "n1", None);
    let same = Node::start(&engine.redis, "n2", None);
    let also_same = Node::start(&engine.redis, "n2", None);
    one.publish_until_final("first");
    // Both renew the lease, but only one of them can apply purges.
    let gate = same.sink.gate.lock().unwrap();
    one.assert_waits_for_lease("second");
    assert!(also_same.has_applied("second"));
    drop(gate);
}

#[test]
fn a_local_purge_survives_a_crash() {
    let mut engine = engine();
    let (before, after) = (
        engine.scratch.dir("before").unwrap(),
        engine.scratch.dir("after").unwrap(),
    );
    let one = Node::start(&engine.redis, "n1", Some(&before));
    engine.redis.kill();
    wait_for("a local purge", TIMEOUT, || {
        matches!(one.publish("first"), PurgeReach::Local(_))
    });
    // The state after a crash at this moment.
    let outbox = "cluster-outbox";
    std::fs::copy(before.join(outbox), after.join(outbox)).unwrap();
    drop(one.running);
    engine.redis.restart().unwrap();
    let other = Node::start(&engine.redis, "n2", None);
    let restarted = Node::start(&engine.redis, "n1", Some(&after));
    wait_for("the purge on the other node", TIMEOUT, || {
        other.has_applied("first")
    });
    wait_for("an empty outbox", TIMEOUT, || !after.join(outbox).exists());
    drop(restarted);
}

#[test]
fn a_node_sends_queued_purges_before_it_leaves() {
    let engine = engine();
    let one = Node::start(&engine.redis, "n1", None);
    let other = Node::start(&engine.redis, "n2", None);
    let pending = one
        .publisher
        .publish("a.test", &purge("last"), one.publisher.begin());
    assert!(one.running.leave().is_some());
    drop(pending);
    wait_for("the purge on the other node", TIMEOUT, || {
        other.has_applied("last")
    });
}

#[test]
fn purges_are_republished_after_the_engine_lost_its_data() {
    let engine = engine();
    let one = Node::start(&engine.redis, "n1", None);
    one.publish_until_final("first");
    // The publisher is idle, so it appends the next purge before it notices the new epoch.
    engine.redis.run(&["FLUSHALL"]).unwrap();
    one.publish("second");
    wait_for("both purges in the stream", TIMEOUT, || {
        let entries = ["XRANGE", "galley:test:purges", "-", "+"];
        let output = engine.redis.run(&entries).unwrap();
        ["first", "second"].iter().all(|tag| output.contains(tag))
    });
}

/// The deleted stream may have contained entries that no node had read, and the new stream does not show that. No node has created
/// the new stream, so publishers do not notice.
#[test]
fn an_immediately_recreated_stream_purges_everything() {
    let Engine { redis, .. } = engine();
    let nodes = [
        Node::start(&redis, "a", None),
        Node::start(&redis, "b", None),
    ];
    nodes[0].publish_until_final("first");
    redis.run(&["EVAL", RECREATE_STREAM, "1", PURGES]).unwrap();
    wait_for("both nodes to report a gap", TIMEOUT, || {
        nodes.iter().all(|node| node.publisher.status().gaps > 0)
    });
    for node in &nodes {
        assert_eq!(*node.sink.applied_to_all.lock().unwrap(), [Strength::Hard]);
    }
    nodes[1].publish_until_final("second");
    assert!(nodes[0].has_applied("second"));
}

/// While a node is blocked, the stream is deleted, recreated, and deleted again with a purge that the node never reads.
#[test]
fn a_purge_in_a_stream_deleted_twice_is_final_only_when_applied() {
    let Engine { redis, .. } = engine();
    let one = Node::start(&redis, "n1", None);
    let other = Node::start(&redis, "n2", None);
    one.publish_until_final("first");
    let started = Instant::now();
    let gate = other.sink.gate.lock().unwrap();
    let second = one
        .publisher
        .publish("a.test", &purge("second"), one.publisher.begin());
    let delete = || redis.run(&["DEL", PURGES]).unwrap();
    let has = |tag: &str| {
        let output = redis.run(&["XRANGE", PURGES, "-", "+"]).unwrap();
        output.contains(tag)
    };
    wait_for("the purge in the stream", TIMEOUT, || has("second"));
    delete();
    let joined_between = Node::start(&redis, "n3", None);
    let third = one
        .publisher
        .publish("a.test", &purge("third"), one.publisher.begin());
    wait_for("the purge in the next stream", TIMEOUT, || has("third"));
    delete();
    let joined_last = Node::start(&redis, "n4", None);
    drop(gate);
    for (tag, pending) in [("second", second), ("third", third)] {
        let is_final = block_on(pending.reach()) == PurgeReach::Cluster;
        // On a slow machine the lease of the blocked node may expire, which also makes a purge final.
        let may_have_lease = started.elapsed() < Duration::from_secs(2);
        assert!(
            !is_final || !may_have_lease || other.has_applied(tag),
            "{tag}"
        );
    }
    wait_for("all purges on all nodes", TIMEOUT, || {
        let nodes = [&other, &joined_between, &joined_last];
        let has_both = |node: &&Node| node.has_applied("second") && node.has_applied("third");
        nodes.iter().all(has_both)
    });
}

/// An entry is deleted from the stream before a node has read it.
#[test]
fn a_missing_stream_entry_purges_everything() {
    let Engine { redis, .. } = engine();
    let one = Node::start(&redis, "n1", None);
    let other = Node::start(&redis, "n2", None);
    one.publish_until_final("first");
    let gate = other.sink.gate.lock().unwrap();
    let second = one
        .publisher
        .publish("a.test", &purge("second"), one.publisher.begin());
    let newest = || redis.run(&["XREVRANGE", PURGES, "+", "-", "COUNT", "1"]);
    wait_for("the purge in the stream", TIMEOUT, || {
        newest().unwrap().contains("second")
    });
    // The node is still applying the second purge, so it has not read the third.
    let third = one
        .publisher
        .publish("a.test", &purge("third"), one.publisher.begin());
    wait_for("the next purge in the stream", TIMEOUT, || {
        newest().unwrap().contains("third")
    });
    let id = newest().unwrap().lines().next().unwrap().to_owned();
    redis.run(&["XDEL", PURGES, &id]).unwrap();
    drop(gate);
    drop((second, third));
    one.publish_until_final("fourth");
    assert!(other.has_applied("fourth"));
    assert_eq!(*other.sink.applied_to_all.lock().unwrap(), [Strength::Hard]);
}

const PURGES: &str = "galley:test:purges";

const RECREATE_STREAM: &str = "\
redis.call('DEL', KEYS[1])
redis.call('XADD', KEYS[1], '*', 'begin', 1)";

#[test]
fn a_purge_is_acknowledged_as_local_within_five_seconds_if_the_engine_hangs() {
    let engine = engine();
    let one = Node::start(&engine.redis, "n1", None);
    one.publish_until_final("first");
    engine.redis.signal(Signal::STOP);
    for tag in ["second", "third", "fourth"] {
        let started = Instant::now();
        assert!(matches!(one.publish(tag), PurgeReach::Local(_)));
        let elapsed = started.elapsed();
        assert!(elapsed < Duration::from_millis(5_500), "{elapsed:?}");
    }
    engine.redis.signal(Signal::CONT);
    one.publish_until_final("fifth");
}

#[test]
fn a_successor_process_resumes_at_the_stream_position_of_its_predecessor() {
    let engine = engine();
    let one = Node::start(&engine.redis, "n1", None);
    let other = Node::start(&engine.redis, "n2", None);
    other.publish_until_final("before");
    let position = one.running.leave().unwrap();
    // No process of the first node runs while this purge is published.
    other.publish("between");
    let with_pages = || RecordingSink {
        has_earlier_pages: true,
        ..RecordingSink::default()
    };
    let next = Node::start_with(&engine.redis, "n1", None, with_pages(), Some(&position));
    wait_for("the purge published in between", TIMEOUT, || {
        next.has_applied("between")
    });
    assert!(!next.has_applied("before"));
    assert_eq!(*next.sink.applied_to_all.lock().unwrap(), []);
    // Without a position from its predecessor, a process purges everything.
    let uninformed = Node::start_with(&engine.redis, "n1", None, with_pages(), None);
    assert_eq!(
        *uninformed.sink.applied_to_all.lock().unwrap(),
        [Strength::Hard]
    );
}

#[test]
fn member_timestamps_use_the_clock_of_the_engine() {
    let engine = engine();
    let one = Node::start(&engine.redis, "n1", None);
    let members = || {
        let set = ["ZRANGE", "galley:test:members", "0", "-1", "WITHSCORES"];
        engine.redis.run(&set).unwrap()
    };
    let score: u64 = members().lines().nth(1).unwrap().trim().parse().unwrap();
    let time = engine.redis.run(&["TIME"]).unwrap();
    let now: u64 = time.lines().next().unwrap().trim().parse().unwrap();
    assert!(now.abs_diff(score) < 60, "{score} and {now}");
    let old = (now - 100_000).to_string();
    let add = ["ZADD", "galley:test:members", &old, "n9 gone"];
    engine.redis.run(&add).unwrap();
    wait_for("the removal of an old member", TIMEOUT, || {
        !members().contains("n9 gone")
    });
    drop(one);
}

const TIMEOUT: Duration = Duration::from_secs(60);
