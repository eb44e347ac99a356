//! A program without the cluster's key that writes to the engine of nodes: it removes purges and puts older data back.

#![expect(clippy::unwrap_used, reason = "tests, their helpers too")]

#[expect(dead_code, reason = "the tests of shared pages use more of it")]
#[path = "../pages/node.rs"]
mod node;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use galley_policy::purge::Scope;
use galley_testkit::{Redis, Scratch, wait_for};

use self::node::{Node, OTHER, PAGE, Pair, PurgeTable, TAG, TIMEOUT, TableSink, block_on};

/// Two nodes that run, and a third one with stored pages, which was stopped after the old page was shared.
struct Victim {
    pair: Pair,
    folder: PathBuf,
}

impl Victim {
    fn stop_after_sharing() -> Self {
        let pair = Pair::start();
        let [folder, later] = ["before", "later"].map(|name| pair.scratch.dir(name).unwrap());
        let third = start(&pair, &folder);
        block_on(async {
            pair.one.purge_until_final("another").await;
            pair.one.share(PAGE, b"old").await;
            assert_eq!(third.find_eventually(PAGE).await, b"old");
        });
        wait_for_position(&pair.redis, &folder);
        let [file, copy] = [&folder, &later].map(|folder| folder.join("cluster-position"));
        fs::copy(file, copy).unwrap();
        drop(third);
        let [page] = pair.keys().try_into().unwrap();
        pair.redis.run(&["COPY", &page, "kept-page"]).unwrap();
        pair.redis.run(&["COPY", PURGES, "kept-purges"]).unwrap();
        Self {
            pair,
            folder: later,
        }
    }

    /// Purges the page at the nodes that run.
    fn purge(&self) {
        block_on(self.pair.one.purge_until_final(TAG));
    }

    /// Puts the old page back.
    fn replay_page(&self) {
        for page in self.pair.keys() {
            let copy = ["COPY", "kept-page", &page, "REPLACE"];
            self.pair.redis.run(&copy).unwrap();
        }
    }

    /// Starts the third node and asserts that it uses neither the shared page nor its own.
    fn assert_no_old_page(&self) {
        let third = start(&self.pair, &self.folder);
        assert_eq!(block_on(third.find_record(PAGE)), None);
        assert!(has_purged_everything(&third));
        // Also later, when other nodes have confirmed that nothing is missing.
        block_on(async {
            // The nodes that run have noticed the missing entry, too, and read each other's next entries.
            self.pair.one.purge_until_final("another").await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            third.share(OTHER, b"other").await;
            self.pair.one.find_eventually(OTHER).await;
            assert_eq!(third.find_record(PAGE).await, None);
        });
    }

    /// Starts the third node and asserts that it still has its pages.
    fn assert_pages_are_kept(&self) {
        let third = start(&self.pair, &self.folder);
        assert!(!has_purged_everything(&third));
        assert_eq!(third.publisher.status().gaps, 0);
    }
}

fn start(pair: &Pair, folder: &Path) -> Node {
    let key = pair.scratch.join("key");
    start_as(&pair.redis, "third", &key, folder)
}

/// Starts a node with stored pages.
fn start_as(redis: &Redis, name: &str, key: &Path, folder: &Path) -> Node {
    let table = PurgeTable {
        has_earlier_pages: true,
        ..PurgeTable::default()
    };
    let sink = TableSink(Arc::new(Mutex::new(table)));
    let node = Node::start_with(redis, name, key, Some(folder), sink);
    wait_for("the node to read the stream", TIMEOUT, || {
        node.publisher.status().has_read
    });
    node
}

/// Waits until a node has written the newest entry to its position, which it does each second.
fn wait_for_position(redis: &Redis, folder: &Path) {
    let (file, applied) = (folder.join("cluster-position"), newest(redis));
    wait_for("the position", TIMEOUT, || {
        fs::read_to_string(&file).is_ok_and(|text| text.contains(&applied))
    });
}

fn table(node: &Node) -> MutexGuard<'_, PurgeTable> {
    node.sink.0.lock().unwrap()
}

fn has_purged_everything(node: &Node) -> bool {
    table(node).scopes.contains(&Scope::Site)
}

fn newest(redis: &Redis) -> String {
    let output = redis.run(&["XREVRANGE", PURGES, "+", "-", "COUNT", "1"]);
    output.unwrap().lines().next().unwrap().to_owned()
}

fn eval(redis: &Redis, script: &str, arguments: &[&str]) {
    let command = [&["EVAL", script, "1", PURGES], arguments].concat();
    let output = redis.run(&command).unwrap();
    assert!(!output.contains("ERR"), "{output}");
}

/// Removes the entries with a value.
const REMOVE: &str = "\
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do
  for _, text in ipairs(entry[2]) do
    if text == ARGV[1] then redis.call('XDEL', KEYS[1], entry[1]) break end
  end
end";

/// Gives each of the entries with a value the fields of the entry before.
const REORDER: &str = "\
local entries = redis.call('XRANGE', KEYS[1], '-', '+')
for at = 3, #entries do
  local is_purge = false
  for _, text in ipairs(entries[at][2]) do is_purge = is_purge or text == ARGV[1] end
  if is_purge then entries[at][2], entries[at - 1][2] = entries[at - 1][2], entries[at][2] end
end
redis.call('DEL', KEYS[1])
for _, entry in ipairs(entries) do redis.call('XADD', KEYS[1], entry[1], unpack(entry[2])) end";

const PURGES: &str = "galley:test:purges";

#[test]
fn a_node_that_missed_nothing_keeps_its_pages() {
    let victim = Victim::stop_after_sharing();
    block_on(victim.pair.one.purge_until_final("another"));
    victim.assert_pages_are_kept();
}

#[test]
fn a_purge_removed_while_a_node_was_down_brings_no_old_page_back() {
    let victim = Victim::stop_after_sharing();
    victim.purge();
    eval(&victim.pair.redis, REMOVE, &[TAG]);
    victim.replay_page();
    victim.assert_no_old_page();
}

/// The entries before and after the purge stay.
#[test]
fn a_purge_removed_between_others_brings_no_old_page_back() {
    let victim = Victim::stop_after_sharing();
    block_on(victim.pair.one.purge_until_final("another"));
    victim.purge();
    block_on(victim.pair.one.purge_until_final("another"));
    eval(&victim.pair.redis, REMOVE, &[TAG]);
    victim.replay_page();
    victim.assert_no_old_page();
}

#[test]
fn an_earlier_stream_put_back_brings_no_old_page_back() {
    let victim = Victim::stop_after_sharing();
    victim.purge();
    let copy = ["COPY", "kept-purges", PURGES, "REPLACE"];
    victim.pair.redis.run(&copy).unwrap();
    victim.replay_page();
    victim.assert_no_old_page();
}

/// The heads of the time before the purge are put back again and again.
#[test]
fn earlier_heads_put_back_bring_no_old_page_back() {
    let victim = Victim::stop_after_sharing();
    let redis = &victim.pair.redis;
    let heads = redis.run(&["KEYS", "galley:test:head:*"]).unwrap();
    let heads: Vec<&str> = heads.lines().collect();
    assert_eq!(heads.len(), 3, "{heads:?}");
    for (at, head) in heads.iter().enumerate() {
        redis
            .run(&["COPY", head, &format!("kept-head-{at}")])
            .unwrap();
    }
    victim.purge();
    eval(redis, REMOVE, &[TAG]);
    victim.replay_page();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                for (at, head) in heads.iter().enumerate() {
                    let copy = ["COPY", &format!("kept-head-{at}"), head, "REPLACE"];
                    redis.run(&copy).unwrap();
                }
            }
        });
        let third = start(&victim.pair, &victim.folder);
        let found = block_on(third.find_record(PAGE));
        is_done.store(true, Ordering::Relaxed);
        assert_eq!(found, None);
        assert!(has_purged_everything(&third));
    });
}

#[test]
fn purges_in_another_order_bring_no_old_page_back() {
    let victim = Victim::stop_after_sharing();
    block_on(victim.pair.one.purge_until_final("another"));
    victim.purge();
    eval(&victim.pair.redis, REORDER, &[TAG]);
    victim.replay_page();
    victim.assert_no_old_page();
}

#[test]
fn without_another_node_only_a_node_that_was_always_alone_keeps_its_pages() {
    let Victim { pair, folder } = Victim::stop_after_sharing();
    let Pair {
        redis,
        scratch,
        one,
        other,
    } = pair;
    drop((one, other));
    // The keys of the others have expired.
    std::thread::sleep(Duration::from_secs(4));
    let key = scratch.join("key");
    let third = start_as(&redis, "third", &key, &folder);
    wait_for("a purge of everything", TIMEOUT, || {
        has_purged_everything(&third)
    });
    // From now on it is alone.
    let file = folder.join("cluster-position");
    wait_for("its position", TIMEOUT, || {
        let text = fs::read_to_string(&file).unwrap();
        text.split(' ').nth(5) == Some("1")
    });
    let alone = scratch.dir("alone").unwrap();
    fs::copy(&file, alone.join("cluster-position")).unwrap();
    drop(third);
    let third = start_as(&redis, "third", &key, &alone);
    assert!(!has_purged_everything(&third));
}

/// Each of them knows what it knew when it was stopped, and no more.
#[test]
fn two_nodes_that_start_at_once_do_not_confirm_each_other() {
    let pair = Pair::start();
    let names = ["third", "fourth"];
    let folders = names.map(|name| pair.scratch.dir(name).unwrap());
    let both = folders.each_ref().map(|folder| start(&pair, folder));
    block_on(pair.one.purge_until_final("another"));
    for folder in &folders {
        wait_for_position(&pair.redis, folder);
    }
    drop(both);
    std::thread::sleep(Duration::from_secs(1));
    block_on(pair.one.purge_until_final(TAG));
    let Pair {
        redis,
        scratch,
        one,
        other,
    } = pair;
    drop((one, other));
    // They do nothing any more, but their keys are still there.
    std::thread::sleep(Duration::from_secs(1));
    eval(&redis, REMOVE, &[TAG]);
    let key = scratch.join("key");
    std::thread::scope(|scope| {
        let [one, other] = [0, 1].map(|at| {
            let (redis, key, folder) = (&redis, &key, &folders[at]);
            scope.spawn(move || start_as(redis, names[at], key, folder))
        });
        let nodes = [one, other].map(|node| node.join().unwrap());
        assert!(nodes.iter().all(has_purged_everything));
    });
}

/// Its position tells the next run which entries are those of this one.
#[test]
fn a_run_writes_its_position_before_it_uses_pages() {
    let scratch = Scratch::new().unwrap();
    let redis = Redis::start(&scratch.join("redis")).unwrap();
    let key = node::key_file(&scratch, "key", 'a');
    let folder = scratch.dir("alone").unwrap();
    let file = folder.join("cluster-position");
    let run = || {
        let text = fs::read_to_string(&file).ok()?;
        text.split(' ').nth(4).map(str::to_owned)
    };
    let first = start_as(&redis, "alone", &key, &folder);
    wait_for("a position with a run", TIMEOUT, || run().is_some());
    let before = run();
    drop(first);
    std::thread::sleep(Duration::from_secs(1));
    let second = start_as(&redis, "alone", &key, &folder);
    assert_ne!(run(), before);
    drop(second);
}

/// The engine refuses the mark that is wanted after a gap, then takes it.
#[test]
fn a_node_shares_pages_again_after_its_mark_was_refused() {
    let pair = Pair::start();
    block_on(pair.one.purge_until_final("another"));
    let junk = pair.redis.run(&["XADD", PURGES, "*", "junk", "1"]);
    std::thread::sleep(Duration::from_millis(500));
    let allow = |command| {
        let user = ["ACL", "SETUSER", "default", command];
        pair.redis.run(&user).unwrap();
    };
    allow("-xadd");
    pair.redis
        .run(&["XDEL", PURGES, junk.unwrap().trim()])
        .unwrap();
    pair.wait_for_gaps();
    std::thread::sleep(Duration::from_millis(1500));
    allow("+xadd");
    std::thread::sleep(Duration::from_millis(1500));
    block_on(async {
        // Only a page that is born behind the marks is used.
        pair.one.purge_until_final("another").await;
        pair.other.purge_until_final("another").await;
        pair.one.share(PAGE, b"page").await;
        assert_eq!(pair.other.find_eventually(PAGE).await, b"page");
    });
}

#[test]
fn a_purge_removed_before_a_running_node_reads_it_is_noticed() {
    assert_removed_purge_is_noticed(|_| {});
}

/// So many members with later times that nodes are not among the newest ones any more.
#[test]
fn nodes_that_other_members_displace_are_still_heard() {
    assert_removed_purge_is_noticed(|redis| {
        let displace = "\
            for at = 1, 300 do
              local name = string.format('fake %032x', at)
              redis.call('ZADD', 'galley:test:members', 99999999999, name)
              redis.call('SET', 'galley:test:node:' .. name, '1-0')
              redis.call('SET', 'galley:test:head:' .. name, 'head')
            end";
        eval(redis, displace, &[]);
        std::thread::sleep(Duration::from_secs(2));
    });
}

/// The node runs, but has not read the purge yet. Nobody purges anything afterwards.
fn assert_removed_purge_is_noticed(prepare: impl Fn(&Redis)) {
    let pair = Pair::start();
    block_on(async {
        pair.one.share(PAGE, b"old").await;
        assert_eq!(pair.other.find_eventually(PAGE).await, b"old");
        pair.one.purge_until_final("another").await;
    });
    prepare(&pair.redis);
    // The node cannot apply anything while this lock is held.
    let gate = table(&pair.other);
    let pending = ["another", TAG].map(|tag| {
        let publisher = pair.one.publisher.clone();
        let purge = galley_policy::purge::Purge {
            scope: Scope::Tag(tag.to_owned()),
            strength: galley_policy::purge::Strength::Hard,
        };
        let before = newest(&pair.redis);
        let pending = publisher.publish("a.test", &purge, publisher.begin());
        wait_for("the purge in the stream", TIMEOUT, || {
            newest(&pair.redis) != before
        });
        // The node has read the first one, and waits for the lock.
        std::thread::sleep(Duration::from_millis(100));
        pending
    });
    // Its publisher goes on behind later entries, and does not miss it.
    for _ in 0..2 {
        pair.redis.run(&["XADD", PURGES, "*", "junk", "1"]).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    eval(&pair.redis, REMOVE, &[TAG]);
    drop(gate);
    let started = Instant::now();
    wait_for("a purge of everything", TIMEOUT, || {
        has_purged_everything(&pair.other)
    });
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(!has_purged_everything(&pair.one));
    drop(pending);
}

/// Entries that no node has written purge at most too much, and stop nothing.
#[test]
fn foreign_entries_and_copies_are_no_gap() {
    let pair = Pair::start();
    let redis = &pair.redis;
    block_on(async {
        pair.one.share(PAGE, b"page").await;
        pair.one.purge_until_final("another").await;
        let copy = "\
            local entry = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
            redis.call('XADD', KEYS[1], '*', unpack(entry[2]))";
        eval(redis, copy, &[]);
        for entry in [
            ["*", "junk", "1"].as_slice(),
            &["*", "node", "x", "seq", "7"],
            &["*", "node", "x", "seq", "1", "seal", "y"],
            // Later than any entry of a node, for a minute.
            &["9999999999999-0", "junk", "1"],
        ] {
            redis.run(&[&["XADD", PURGES], entry].concat()).unwrap();
            pair.one.purge_until_final("another").await;
            pair.other.purge_until_final("another").await;
        }
        pair.one.share(OTHER, b"other").await;
        assert_eq!(pair.other.find_eventually(OTHER).await, b"other");
        pair.other.purge_until_final(TAG).await;
        for node in [&pair.one, &pair.other] {
            assert_eq!(node.find_record(PAGE).await, None);
            assert_eq!(node.publisher.status().gaps, 0);
        }
    });
}

/// The size of this process with its nodes, in MiB: the largest one since the last call.
fn largest_size() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
    fs::write("/proc/self/clear_refs", "5").unwrap();
    kilobytes.parse::<u64>().unwrap() / 1024
}

#[test]
fn a_long_entry_takes_no_memory_and_stops_nothing() {
    let pair = Pair::start();
    block_on(pair.one.purge_until_final("another"));
    largest_size();
    let before = largest_size();
    let long = "redis.call('XADD', KEYS[1], '*', 'value', string.rep('x', 200000000))";
    eval(&pair.redis, long, &[]);
    // The first one removes the entry, and the other may not see it.
    wait_for("a node to notice", TIMEOUT, || {
        has_purged_everything(&pair.one) || has_purged_everything(&pair.other)
    });
    for node in [&pair.one, &pair.other] {
        block_on(node.purge_until_final("another"));
    }
    let size = largest_size();
    assert!(size < before + 64, "{before} and {size} MiB");
    let length = pair.redis.run(&["MEMORY", "USAGE", PURGES]).unwrap();
    assert!(
        length.trim().parse::<u64>().unwrap() < 1_000_000,
        "{length}"
    );
}

#[test]
fn a_long_page_or_epoch_takes_no_memory() {
    let pair = Pair::start();
    block_on(async {
        pair.one.share(PAGE, b"page").await;
        pair.other.find_eventually(PAGE).await;
        let [page] = pair.keys().try_into().unwrap();
        largest_size();
        let before = largest_size();
        for key in [page.as_str(), "galley:test:epoch"] {
            pair.redis
                .run(&["SETRANGE", key, "200000000", "x"])
                .unwrap();
        }
        assert_eq!(pair.other.find_record(PAGE).await, None);
        pair.one.purge_until_final("another").await;
        let size = largest_size();
        assert!(size < before + 64, "{before} and {size} MiB");
    });
}
