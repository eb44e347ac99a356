//! Nodes without a server, and a real `redis-server`.

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

/// What a node was told by the others.
#[derive(Default)]
struct Sink {
    applied: Mutex<Vec<String>>,
    to_all: Mutex<Vec<Strength>>,
    has_earlier_pages: bool,
    /// Held by a test: purges are not applied.
    gate: Mutex<()>,
}

impl PurgeSink for Sink {
    fn apply(&self, purges: &[RemotePurge]) {
        if purges.is_empty() {
            return;
        }
        let _open = self.gate.lock().unwrap();
        let texts = purges.iter().map(|one| one.purge.scope.to_string());
        self.applied.lock().unwrap().extend(texts);
    }

    fn apply_to_all(&self, strength: Strength) {
        self.to_all.lock().unwrap().push(strength);
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
    sink: Arc<Sink>,
    publisher: ClusterPublisher,
    running: RunningCluster,
}

impl Node {
    fn start(redis: &Redis, name: &str, folder: Option<&Path>) -> Self {
        Self::start_with(redis, name, folder, Sink::default(), None)
    }

    fn start_with(
        redis: &Redis,
        name: &str,
        folder: Option<&Path>,
        sink: Sink,
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
        let began = Instant::now();
        let tick_at = move |at: Instant| {
            Tick(u64::try_from(at.saturating_duration_since(began).as_nanos()).unwrap_or(u64::MAX))
        };
        let running = cluster
            .start(Arc::clone(&sink) as Arc<dyn PurgeSink>, tick_at, inherited)
            .unwrap();
        let node = Self {
            sink,
            publisher,
            running,
        };
        wait_for("the node to read the stream", PATIENCE, || {
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

    /// A publisher that has just started does not believe yet that a key is absent.
    fn publish_until_final(&self, tag: &str) {
        wait_for("an acknowledged purge", PATIENCE, || {
            self.publish(tag) == PurgeReach::Cluster
        });
    }

    /// A node cannot apply anything: its key has to expire.
    fn assert_waits_for_a_lease(&self, tag: &str) {
        let began = Instant::now();
        self.publish(tag);
        let took = began.elapsed();
        assert!(took > Duration::from_secs(1), "{took:?}");
    }

    fn has_applied(&self, tag: &str) -> bool {
        let applied = self.sink.applied.lock().unwrap();
        applied.iter().any(|one| one.contains(tag))
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
    let held = other.sink.gate.lock().unwrap();
    one.assert_waits_for_a_lease("second");
    drop(held);
    one.publish_until_final("third");
    assert!(other.has_applied("second"));
}

#[test]
fn nodes_with_one_name_wait_for_each_other() {
    let engine = engine();
    let one = Node::start(&engine.redis, "n1", None);
    let same = Node::start(&engine.redis, "n2", None);
    let also_same = Node::start(&engine.redis, "n2", None);
    one.publish_until_final("first");
    // Each renews its key again and again; only one of them can apply anything.
    let held = same.sink.gate.lock().unwrap();
    one.assert_waits_for_a_lease("second");
    assert!(also_same.has_applied("second"));
    drop(held);
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
    wait_for("a purge that the others do not have", PATIENCE, || {
        matches!(one.publish("first"), PurgeReach::Local(_))
    });
    // What a crash at this moment leaves.
    let outbox = "cluster-outbox";
    std::fs::copy(before.join(outbox), after.join(outbox)).unwrap();
    drop(one.running);
    engine.redis.restart().unwrap();
    let other = Node::start(&engine.redis, "n2", None);
    let again = Node::start(&engine.redis, "n1", Some(&after));
    wait_for("the purge on the other node", PATIENCE, || {
        other.has_applied("first")
    });
    wait_for("an empty outbox", PATIENCE, || !after.join(outbox).exists());
    drop(again);
}

#[test]
fn what_waits_is_sent_before_a_node_leaves() {
    let engine = engine();
    let one = Node::start(&engine.redis, "n1", None);
    let other = Node::start(&engine.redis, "n2", None);
    let pending = one
        .publisher
        .publish("a.test", &purge("last"), one.publisher.begin());
    assert!(one.running.leave().is_some());
    drop(pending);
    wait_for("the purge on the other node", PATIENCE, || {
        other.has_applied("last")
    });
}

#[test]
fn what_the_engine_forgets_is_published_again() {
    let engine = engine();
    let one = Node::start(&engine.redis, "n1", None);
    one.publish_until_final("first");
    // The publisher waits for purges: it appends the next one before it sees that the epoch is another.
    engine.redis.run(&["FLUSHALL"]).unwrap();
    one.publish("second");
    wait_for("both purges in the stream", PATIENCE, || {
        let entries = ["XRANGE", "galley:test:purges", "-", "+"];
        let printed = engine.redis.run(&entries).unwrap();
        ["first", "second"].iter().all(|tag| printed.contains(tag))
    });
}

/// Entries that no node has read yet may have been in the former stream, and nothing in the new one shows that. It was not begun by a
/// node, so publishers do not notice.
#[test]
fn a_stream_that_is_begun_anew_at_once_is_noticed() {
    let Engine { redis, .. } = engine();
    let nodes = [
        Node::start(&redis, "a", None),
        Node::start(&redis, "b", None),
    ];
    nodes[0].publish_until_final("first");
    redis.run(&["EVAL", BEGIN_ANEW, "1", PURGES]).unwrap();
    wait_for("both nodes to notice", PATIENCE, || {
        nodes.iter().all(|node| node.publisher.status().gaps > 0)
    });
    for node in &nodes {
        assert_eq!(*node.sink.to_all.lock().unwrap(), [Strength::Hard]);
    }
    nodes[1].publish_until_final("second");
    assert!(nodes[0].has_applied("second"));
}

/// While a node does nothing, the stream is deleted, begun anew, and deleted again with a purge that the node never reads.
#[test]
fn a_purge_of_a_stream_that_was_begun_and_deleted_again_is_not_acknowledged_without_its_effect() {
    let Engine { redis, .. } = engine();
    let one = Node::start(&redis, "n1", None);
    let other = Node::start(&redis, "n2", None);
    one.publish_until_final("first");
    let began = Instant::now();
    let held = other.sink.gate.lock().unwrap();
    let second = one
        .publisher
        .publish("a.test", &purge("second"), one.publisher.begin());
    let delete = || redis.run(&["DEL", PURGES]).unwrap();
    let has = |tag: &str| {
        let printed = redis.run(&["XRANGE", PURGES, "-", "+"]).unwrap();
        printed.contains(tag)
    };
    wait_for("the purge in the stream", PATIENCE, || has("second"));
    delete();
    let beginner = Node::start(&redis, "n3", None);
    let third = one
        .publisher
        .publish("a.test", &purge("third"), one.publisher.begin());
    wait_for("the purge in the next stream", PATIENCE, || has("third"));
    delete();
    let last = Node::start(&redis, "n4", None);
    drop(held);
    for (tag, pending) in [("second", second), ("third", third)] {
        let is_final = block_on(pending.reach()) == PurgeReach::Cluster;
        // On a slow machine its lease is over, which also makes a purge final.
        let may_have_lease = began.elapsed() < Duration::from_secs(2);
        assert!(
            !is_final || !may_have_lease || other.has_applied(tag),
            "{tag}"
        );
    }
    wait_for("all purges on all nodes", PATIENCE, || {
        let nodes = [&other, &beginner, &last];
        let has_both = |node: &&Node| node.has_applied("second") && node.has_applied("third");
        nodes.iter().all(has_both)
    });
}

/// An entry that somebody deletes before a node has read it.
#[test]
fn an_entry_that_is_missing_purges_everything() {
    let Engine { redis, .. } = engine();
    let one = Node::start(&redis, "n1", None);
    let other = Node::start(&redis, "n2", None);
    one.publish_until_final("first");
    let held = other.sink.gate.lock().unwrap();
    let second = one
        .publisher
        .publish("a.test", &purge("second"), one.publisher.begin());
    let newest = || redis.run(&["XREVRANGE", PURGES, "+", "-", "COUNT", "1"]);
    wait_for("the purge in the stream", PATIENCE, || {
        newest().unwrap().contains("second")
    });
    // The node applies the one before, and has not read this one.
    let third = one
        .publisher
        .publish("a.test", &purge("third"), one.publisher.begin());
    wait_for("the next purge in the stream", PATIENCE, || {
        newest().unwrap().contains("third")
    });
    let id = newest().unwrap().lines().next().unwrap().to_owned();
    redis.run(&["XDEL", PURGES, &id]).unwrap();
    drop(held);
    drop((second, third));
    one.publish_until_final("fourth");
    assert!(other.has_applied("fourth"));
    assert_eq!(*other.sink.to_all.lock().unwrap(), [Strength::Hard]);
}

const PURGES: &str = "galley:test:purges";

const BEGIN_ANEW: &str = "\
redis.call('DEL', KEYS[1])
redis.call('XADD', KEYS[1], '*', 'begin', 1)";

#[test]
fn a_publisher_is_told_within_five_seconds() {
    let engine = engine();
    let one = Node::start(&engine.redis, "n1", None);
    one.publish_until_final("first");
    engine.redis.signal(Signal::STOP);
    for tag in ["second", "third", "fourth"] {
        let began = Instant::now();
        assert!(matches!(one.publish(tag), PurgeReach::Local(_)));
        let took = began.elapsed();
        assert!(took < Duration::from_millis(5_500), "{took:?}");
    }
    engine.redis.signal(Signal::CONT);
    one.publish_until_final("fifth");
}

#[test]
fn a_process_that_takes_over_reads_on_where_the_other_stopped() {
    let engine = engine();
    let one = Node::start(&engine.redis, "n1", None);
    let other = Node::start(&engine.redis, "n2", None);
    other.publish_until_final("before");
    let position = one.running.leave().unwrap();
    // Nobody of the first node hears of it.
    other.publish("between");
    let with_pages = || Sink {
        has_earlier_pages: true,
        ..Sink::default()
    };
    let next = Node::start_with(&engine.redis, "n1", None, with_pages(), Some(&position));
    wait_for("the purge that came between", PATIENCE, || {
        next.has_applied("between")
    });
    assert!(!next.has_applied("before"));
    assert_eq!(*next.sink.to_all.lock().unwrap(), []);
    // Of one that says nothing, everything is purged.
    let blind = Node::start_with(&engine.redis, "n1", None, with_pages(), None);
    assert_eq!(*blind.sink.to_all.lock().unwrap(), [Strength::Hard]);
}

#[test]
fn members_are_kept_by_the_clock_of_the_engine() {
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
    wait_for("the removal of an old member", PATIENCE, || {
        !members().contains("n9 gone")
    });
    drop(one);
}

const PATIENCE: Duration = Duration::from_secs(60);
