//! Object caches in a cluster: what one node has acknowledged, no other node answers with the former value, under faults of the nodes and of
//! Redis. The processes of PHP are scripted; `make cluster` has real ones.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use galley_object_cache::wire;
use galley_testkit::{Galley, Signal, wait_for};

use crate::test_cluster::{TIMEOUT, TOKEN, TestCluster};

/// A process of PHP at a node.
struct Process {
    stream: UnixStream,
    counter: u64,
}

impl Process {
    fn begin(cluster: &TestCluster, node: usize) -> Self {
        let socket = socket(cluster, node);
        let stream = UnixStream::connect(&socket).expect("the socket of the object cache");
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut process = Self { stream, counter: 0 };
        for adopt in [0, 1] {
            let mut body = vec![1, wire::VERSION, adopt, u8::try_from(TOKEN.len()).unwrap()];
            body.extend(TOKEN.as_bytes());
            body.extend([0; 50]);
            let answer = process.ask(&body).expect("an answer to a start");
            assert_ne!(answer[0] & wire::AMONG_NODES, 0, "it knows no other nodes");
            if answer[0] == wire::STARTED | wire::AMONG_NODES {
                process.counter = number(&answer[1..]);
                return process;
            }
        }
        panic!("node {node} does not start a process");
    }

    fn send(&mut self, body: &[u8]) {
        let length = u32::try_from(body.len()).unwrap().to_le_bytes();
        let message = [&length[..], body].concat();
        self.stream.write_all(&message).unwrap();
    }

    /// `None`: the node closes the connection, so the process raises the fence.
    fn ask(&mut self, body: &[u8]) -> Option<Vec<u8>> {
        self.send(body);
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).ok()?;
        let mut answer = vec![0; usize::try_from(u32::from_le_bytes(length)).unwrap()];
        self.stream.read_exact(&mut answer).ok()?;
        Some(answer)
    }

    fn get(&mut self, key: &str) -> Option<Vec<u8>> {
        let mut body = vec![3, 1, 0, 0, 0];
        body.extend(u32::try_from(key.len()).unwrap().to_le_bytes());
        body.extend(key.as_bytes());
        let answer = self.ask(&body).expect("an answer");
        let (length, values) = answer[8..].split_first_chunk().unwrap();
        let length = u32::from_le_bytes(*length);
        // Values that nobody asked for follow.
        (length != wire::ABSENT).then(|| values[..usize::try_from(length).unwrap()].to_vec())
    }

    /// Returns whether the node has acknowledged it.
    fn change(&mut self, operation: u8, kind: u8, key: &str, value: &str) -> bool {
        let mut body = vec![operation, 1, 0, 0, 0, kind];
        body.extend(self.counter.to_le_bytes());
        body.extend([0; 4]);
        for part in [key, value] {
            body.extend(u32::try_from(part.len()).unwrap().to_le_bytes());
        }
        body.extend(key.as_bytes());
        body.extend(value.as_bytes());
        if operation == 5 {
            self.send(&body);
            return true;
        }
        self.ask(&body).is_some()
    }
}

fn socket(cluster: &TestCluster, node: usize) -> PathBuf {
    cluster.scratch.join(format!("node{node}/objects.sock"))
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

fn found(cluster: &TestCluster, node: usize, key: &str) -> Option<Vec<u8>> {
    Process::begin(cluster, node).get(key)
}

/// Each node stores a value that a process has read from the database after a miss.
fn fill(cluster: &TestCluster, key: &str, value: &str) {
    for node in 0..cluster.nodes.len() {
        wait_for("a stored value", TIMEOUT, || {
            let mut process = Process::begin(cluster, node);
            process.change(5, 1, key, value);
            process.get(key).as_deref() == Some(value.as_bytes())
        });
    }
}

/// Deletes a key until all nodes have acknowledged it: a busy machine may take too long.
fn delete(cluster: &TestCluster, node: usize, key: &str) {
    wait_for("an acknowledged deletion", TIMEOUT, || {
        Process::begin(cluster, node).change(4, DELETE, key, "")
    });
}

const SET: u8 = 1;
const DELETE: u8 = 4;
const FLUSH_GROUP: u8 = 6;
const FLUSH: u8 = 7;

#[test]
fn no_node_answers_with_a_value_that_another_one_has_changed() {
    let cluster = TestCluster::start(3, "");
    for round in 0..20 {
        let (key, other) = ("\u{1}gkey", "\u{1}hother");
        fill(&cluster, key, "old");
        fill(&cluster, other, "stays");
        let node = round % 3;
        match round % 4 {
            0 => delete(&cluster, node, key),
            1 => wait_for("an acknowledged flush of a group", TIMEOUT, || {
                Process::begin(&cluster, node).change(4, FLUSH_GROUP, "g", "")
            }),
            2 => wait_for("an acknowledged value", TIMEOUT, || {
                Process::begin(&cluster, node).change(4, SET, key, "new")
            }),
            _ => {
                // A process dies between a statement and its announcement.
                let mut process = Process::begin(&cluster, node);
                process.send(&[6]);
                drop(process);
                for node in 0..3 {
                    wait_for("the loss of all values", TIMEOUT, || {
                        found(&cluster, node, other).is_none()
                    });
                }
            }
        }
        for at in 0..3 {
            let seen = found(&cluster, at, key);
            let is_new = round % 4 == 2 && at == node && seen.as_deref() == Some(b"new");
            assert!(seen.is_none() || is_new, "node {at} answers {seen:?}");
            if round % 4 != 3 {
                assert!(
                    found(&cluster, at, other).is_some(),
                    "round {round}, node {at}"
                );
            }
        }
    }
    fill(&cluster, "\u{1}gkey", "old");
    wait_for("an acknowledged flush", TIMEOUT, || {
        Process::begin(&cluster, 1).change(4, FLUSH, "", "")
    });
    assert!((0..3).all(|node| found(&cluster, node, "\u{1}gkey").is_none()));
}

#[test]
fn a_node_that_cannot_prove_its_lease_answers_that_nothing_is_there() {
    let mut cluster = TestCluster::start(3, "");
    let (key, other) = ("\u{1}gkey", "\u{1}gother");
    fill(&cluster, key, "old");
    fill(&cluster, other, "stays");
    // A node that is paused for longer than its lease.
    cluster.nodes[2].signal(Signal::STOP);
    delete(&cluster, 0, key);
    cluster.nodes[2].signal(Signal::CONT);
    assert_eq!(found(&cluster, 2, key), None);
    wait_for("the lease of the node", TIMEOUT, || {
        found(&cluster, 2, other).is_some()
    });
    assert_eq!(found(&cluster, 2, key), None);
    // All nodes lose the engine.
    fill(&cluster, key, "old");
    cluster.redis.kill();
    for node in 0..3 {
        wait_for("the end of the lease", TIMEOUT, || {
            found(&cluster, node, key).is_none()
        });
    }
    let mut process = Process::begin(&cluster, 0);
    assert!(
        !process.change(4, DELETE, key, ""),
        "nobody can acknowledge it"
    );
    cluster.redis.restart().unwrap();
    // The process that got no answer raises the fence. What it announced arrives all the same.
    wait_for("the announcement of before", TIMEOUT, || {
        let mut process = Process::begin(&cluster, 1);
        process.change(5, SET, other, "again");
        process.get(other).is_some() && process.get(key).is_none()
    });
}

#[test]
fn a_node_that_starts_empties_the_others() {
    let mut cluster = TestCluster::start(2, "");
    let key = "\u{1}gkey";
    fill(&cluster, key, "old");
    // Processes of a machine that loses power announce nothing any more.
    let config = std::fs::read_to_string(cluster.nodes[1].config()).unwrap();
    cluster.nodes[1].kill();
    let dir = cluster.scratch.join("node1");
    cluster.nodes[1] = Galley::start(&dir, &config).unwrap();
    wait_for("the loss of all values", TIMEOUT, || {
        found(&cluster, 0, key).is_none()
    });
}

/// The time within which a change is acknowledged on a quiet machine is that of a purge: PHP waits for 50 ms.
#[test]
fn most_changes_are_acknowledged_in_time() {
    let cluster = TestCluster::start(3, "");
    let mut times = Vec::new();
    for round in 0..60 {
        let mut process = Process::begin(&cluster, round % 3);
        let began = std::time::Instant::now();
        if process.change(4, DELETE, "\u{1}gkey", "") {
            times.push(began.elapsed());
        }
    }
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied();
    eprintln!(
        "{} of 60 changes acknowledged, median {median:?}",
        times.len()
    );
    assert!(median.is_some_and(|median| median < Duration::from_secs(1)));
}
