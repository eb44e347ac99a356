//! Limits that the nodes of a cluster count run_concurrently, with a real Redis.

use std::time::Duration;

use galley_testkit::client::Request;
use galley_testkit::{Galley, Redis, Scratch, wait_for};

use crate::support::{TIMEOUT, run_concurrently};

/// Nodes that permit few logins.
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

    /// Whether a node lets a login of a client through.
    fn lets_in(&self, node: usize, client: &str) -> bool {
        let request = Request::form("/wp-login.php", &[("log", "a")])
            .host("a.test")
            .field("X-Forwarded-For", client);
        request.send(self.galleys[node].addr()).unwrap().status != 429
    }

    /// How many of some logins are let through, each a while after the one before.
    fn let_in(&self, client: &str, node: impl Fn(usize) -> usize, times: usize) -> usize {
        let mut count = 0;
        for time in 0..times {
            count += usize::from(self.lets_in(node(time), client));
            std::thread::sleep(WHILE);
        }
        count
    }

    /// Waits until the nodes exchange counts: a client that has used up one node's tokens is stopped at the other.
    fn wait_until_shared(&self) {
        let mut number = 0;
        wait_for("counts of another node", TIMEOUT, || {
            number += 1;
            let client = format!("198.51.100.{number}");
            while self.lets_in(0, &client) {}
            std::thread::sleep(WHILE);
            let mut others = 1..self.galleys.len();
            others.all(|node| !self.lets_in(node, &client))
        });
    }
}

#[test]
fn a_client_that_alternates_between_nodes_gets_what_one_node_grants() {
    let limit = "login_limit = { rate = \"5/d\", burst = 5, shared = true }";
    let nodes = Nodes::start(2, limit);
    nodes.wait_until_shared();
    let granted = nodes.let_in("203.0.113.1", |time| time % 2, 10);
    assert_eq!(granted, 5, "as on one node");
    // At the same moment, each node may grant what it has left; then nobody does.
    let counts = run_concurrently(2, |node| {
        (0..20)
            .filter(|_| nodes.lets_in(node, "203.0.113.2"))
            .count()
    });
    let granted: usize = counts.iter().sum();
    assert!((5..=10).contains(&granted), "{counts:?}");
    std::thread::sleep(WHILE);
    assert_eq!(nodes.let_in("203.0.113.2", |time| time % 2, 4), 0);
    assert_eq!(
        nodes.let_in("203.0.113.3", |time| time % 2, 1),
        1,
        "another client"
    );
}

#[test]
fn without_the_engine_each_node_counts_by_itself_and_nobody_waits() {
    let limit = "login_limit = { rate = \"5/d\", burst = 5, shared = true }";
    let mut nodes = Nodes::start(2, limit);
    nodes.wait_until_shared();
    nodes.redis.kill();
    for node in 0..2 {
        let began = std::time::Instant::now();
        let granted = (0..10)
            .filter(|_| nodes.lets_in(node, "203.0.113.1"))
            .count();
        assert_eq!(granted, 5, "what each node grants");
        assert!(began.elapsed() < TIMEOUT, "{:?}", began.elapsed());
    }
    nodes.redis.restart().unwrap();
    nodes.wait_until_shared();
}

/// Longer than counts take to the other node.
const WHILE: Duration = Duration::from_millis(400);
