//! Rate limits that the nodes of a cluster share, with a real Redis.

use std::time::Duration;

use galley_testkit::client::Request;
use galley_testkit::{Galley, Redis, Scratch, wait_for};

use crate::support::{TIMEOUT, run_concurrently};

/// Nodes with a login limit.
struct Nodes {
    galleys: Vec<Galley>,
    redis: Redis,
    _scratch: Scratch,
}

impl Nodes {
    fn start(count: usize, limit: &str) -> Self {
        let scratch = Scratch::new().unwrap();
        let redis = Redis::start(&scratch.join("redis")).unwrap();
        scratch.write("web/a.txt", "a").unwrap();
        let nodes = (0..count).map(|number| {
            let dir = scratch.dir(&format!("node{number}")).unwrap();
            let config = format!(
                "[server]\nlisten = [\"127.0.0.1:0\"]\ntrusted_proxies = [\"127.0.0.1\"]\n\
                 [admin]\nlisten = \"unix:{dir}/admin.sock\"\n\
                 [cluster]\nengine = \"{engine}\"\nnode = \"n{number}\"\n\
                 [[site]]\nhosts = [\"a.test\"]\nroot = \"{web}\"\n{limit}\n",
                dir = dir.display(),
                engine = redis.url(),
                web = scratch.join("web").display(),
            );
            Galley::start(&dir, &config).unwrap()
        });
        let galleys: Vec<Galley> = nodes.collect();
        Self {
            galleys,
            redis,
            _scratch: scratch,
        }
    }

    /// Sends a login through a node; returns whether it was accepted.
    fn log_in(&self, node: usize, client: &str) -> bool {
        let request = Request::form("/wp-login.php", &[("log", "a")])
            .host("a.test")
            .field("X-Forwarded-For", client);
        request.send(self.galleys[node].addr()).unwrap().status != 429
    }

    /// Sends logins with pauses in between; returns how many were accepted.
    fn log_in_slowly(&self, client: &str, node: impl Fn(usize) -> usize, logins: usize) -> usize {
        let mut accepted = 0;
        for number in 0..logins {
            accepted += usize::from(self.log_in(node(number), client));
            std::thread::sleep(SYNC_TIME);
        }
        accepted
    }

    /// Waits until the nodes exchange counts: the other nodes reject a client that has used up the tokens of one node.
    fn wait_until_shared(&self) {
        let mut number = 0;
        wait_for("counts of another node", TIMEOUT, || {
            number += 1;
            let client = format!("198.51.100.{number}");
            while self.log_in(0, &client) {}
            std::thread::sleep(SYNC_TIME);
            let mut others = 1..self.galleys.len();
            others.all(|node| !self.log_in(node, &client))
        });
    }
}

#[test]
fn a_client_that_alternates_between_nodes_has_one_shared_limit() {
    let limit = "login_limit = { rate = \"5/d\", burst = 5, shared = true }";
    let nodes = Nodes::start(2, limit);
    nodes.wait_until_shared();
    let accepted = nodes.log_in_slowly("203.0.113.1", |number| number % 2, 10);
    assert_eq!(accepted, 5, "as on one node");
    // Concurrently, each node may accept up to its own limit. Afterwards both reject.
    let counts = run_concurrently(2, |node| {
        (0..20)
            .filter(|_| nodes.log_in(node, "203.0.113.2"))
            .count()
    });
    let accepted: usize = counts.iter().sum();
    assert!((5..=10).contains(&accepted), "{counts:?}");
    std::thread::sleep(SYNC_TIME);
    assert_eq!(
        nodes.log_in_slowly("203.0.113.2", |number| number % 2, 4),
        0
    );
    assert_eq!(
        nodes.log_in_slowly("203.0.113.3", |number| number % 2, 1),
        1,
        "another client"
    );
}

#[test]
fn without_the_engine_each_node_applies_the_limit_alone_without_delay() {
    let limit = "login_limit = { rate = \"5/d\", burst = 5, shared = true }";
    let mut nodes = Nodes::start(2, limit);
    nodes.wait_until_shared();
    nodes.redis.kill();
    for node in 0..2 {
        let started = std::time::Instant::now();
        let accepted = (0..10)
            .filter(|_| nodes.log_in(node, "203.0.113.1"))
            .count();
        assert_eq!(accepted, 5, "the limit of each node");
        assert!(started.elapsed() < TIMEOUT, "{:?}", started.elapsed());
    }
    nodes.redis.restart().unwrap();
    nodes.wait_until_shared();
}

/// Longer than counts need to reach the other node.
const SYNC_TIME: Duration = Duration::from_millis(400);
