//! Several nodes: one order, one certificate, and every node answers the challenges.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use galley_testkit::{Galley, Pebble, PebbleOptions, Redis, Scratch, free_port, wait_for};

use crate::handshake::shown_at;
use crate::stage::{HOST, TIMEOUT, await_state, state};

/// Nodes of one cluster. Pebble asks the first one for proofs, whose own orders fail: it does not trust the directory.
struct Nodes {
    scratch: Scratch,
    redis: Redis,
    pebble: Pebble,
    ports: Vec<(u16, u16)>,
    acme: &'static str,
}

impl Nodes {
    fn new(acme: &'static str) -> Self {
        let scratch = Scratch::new().unwrap();
        scratch.write("root/index.html", "<html></html>").unwrap();
        let ports: Vec<(u16, u16)> = (0..4)
            .map(|_| (free_port().unwrap(), free_port().unwrap()))
            .collect();
        let options = PebbleOptions {
            http_port: ports[0].0,
            tls_port: ports[0].1,
            ..PebbleOptions::default()
        };
        Self {
            redis: Redis::start(&scratch.join("redis")).unwrap(),
            pebble: Pebble::start(&scratch.dir("pebble").unwrap(), &options).unwrap(),
            scratch,
            ports,
            acme,
        }
    }

    fn folder(&self, node: usize) -> PathBuf {
        self.scratch.dir(&format!("node{node}")).unwrap()
    }

    /// Starts a node. `ca`: what the directory's own certificate has to come from.
    fn start_with(&self, node: usize, ca: &Path) -> Galley {
        let folder = self.folder(node);
        let key = folder.join("cluster.key");
        fs::write(&key, "0123456789abcdef".repeat(4)).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        let (port, tls_port) = self.ports[node];
        let config = format!(
            "[server]\nlisten = [\"127.0.0.1:{port}\"]\nlisten_tls = [\"127.0.0.1:{tls_port}\"]\n\
             [cluster]\nengine = \"{engine}\"\nnode = \"n{node}\"\nkey_file = \"{key}\"\n\
             [acme]\ndirectory = \"{directory}\"\nca = \"{ca}\"\nstorage = \"{storage}\"\nretry = \"1s\"\n{acme}\n\
             [[site]]\nhosts = [\"{HOST}\"]\nroot = \"{root}\"\ntls = \"auto\"\n",
            engine = self.redis.url(),
            key = key.display(),
            directory = self.pebble.directory(),
            ca = ca.display(),
            storage = folder.join("storage").display(),
            acme = self.acme,
            root = self.scratch.join("root").display(),
        );
        Galley::start(&folder, &config).unwrap()
    }

    fn start(&self, node: usize) -> Galley {
        self.start_with(node, &self.pebble.ca())
    }

    /// A root that the directory's own certificate does not come from.
    fn wrong_root(&self) -> PathBuf {
        let root = self.pebble.root().unwrap();
        self.scratch.write("wrong.pem", root).unwrap()
    }

    /// Starts a node that has nothing on its disk.
    fn start_empty(&self, node: usize) -> Galley {
        let storage = self.folder(node).join("storage");
        if storage.exists() {
            fs::remove_dir_all(storage).unwrap();
        }
        self.start(node)
    }

    fn record(&self) -> String {
        let key = "galley:galley:secret:certificate*";
        let keys = self.redis.run(&["KEYS", key]).unwrap();
        keys.trim().to_owned()
    }

    /// The certificate that visitors of a node are shown.
    fn shown(&self, node: usize) -> String {
        shown_at(self.ports[node].1)
    }

    /// Waits until visitors of these nodes are shown one certificate that is not `old`.
    #[track_caller]
    fn await_same(&self, nodes: &[usize], old: &str) -> String {
        let mut first = String::new();
        wait_for("the same certificate on all nodes", TIMEOUT, || {
            first = self.shown(nodes[0]);
            !first.is_empty() && first != old && nodes.iter().all(|&node| self.shown(node) == first)
        });
        first
    }
}

fn await_certificate(galley: &Galley) {
    await_state(galley, "a certificate", |state| state["not_after"].is_u64());
}

fn one_order_serves_all_nodes(acme: &'static str) {
    let nodes = Nodes::new(acme);
    let all = [
        nodes.start_with(0, &nodes.wrong_root()),
        nodes.start(1),
        nodes.start(2),
    ];
    for node in &all {
        await_certificate(node);
    }
    nodes.await_same(&[0, 1, 2], "");
    // The one that answered the challenge has issued nothing.
    let issued = all.each_ref().map(|node| state(node)["issued"].as_u64());
    assert_eq!(issued[0], Some(0));
    assert_eq!(issued.into_iter().flatten().sum::<u64>(), 1, "{issued:?}");
    assert_eq!(nodes.pebble.orders(), 1, "{}", nodes.pebble.log());
    let sealed = nodes.redis.run(&["GET", &nodes.record()]).unwrap();
    assert!(sealed.len() > 500 && !sealed.contains("PRIVATE KEY"));
}

#[test]
fn one_order_by_http_serves_all_nodes() {
    one_order_serves_all_nodes("challenge = [\"http-01\"]");
}

#[test]
fn one_order_by_handshake_serves_all_nodes() {
    one_order_serves_all_nodes("challenge = [\"tls-alpn-01\"]");
}

#[test]
fn a_later_node_orders_nothing_unless_the_record_was_changed() {
    let nodes = Nodes::new("challenge = [\"http-01\"]");
    let zero = nodes.start(0);
    await_certificate(&zero);
    let first = nodes.await_same(&[0], "");
    wait_for("the record", TIMEOUT, || !nodes.record().is_empty());
    let record = nodes.record();

    // A node that starts later, also without any file of its own.
    let one = nodes.start_empty(1);
    await_certificate(&one);
    assert_eq!(nodes.shown(1), first);
    assert_eq!(
        (state(&one)["issued"].as_u64(), nodes.pebble.orders()),
        (Some(0), 1)
    );
    one.wait_for_log("another node got a certificate", TIMEOUT);

    // A record that somebody has changed counts as none: the next node orders, with the account of the others.
    nodes.redis.run(&["COPY", &record, "earlier"]).unwrap();
    nodes
        .redis
        .run(&["SETRANGE", &record, "200", "zzzz"])
        .unwrap();
    let two = nodes.start_empty(2);
    await_certificate(&two);
    two.wait_for_log("a secret in the engine of the cluster is ignored", TIMEOUT);
    let second = nodes.await_same(&[0, 1, 2], &first);
    assert_eq!(nodes.pebble.orders(), 2, "{}", nodes.pebble.log());
    assert!(!nodes.pebble.log().contains("There are now 2 accounts"));

    // An earlier record replaces nothing.
    let copied = nodes.redis.run(&["COPY", "earlier", &record, "REPLACE"]);
    assert_eq!(copied.unwrap().trim(), "1");
    let earlier = nodes.redis.run(&["GET", "earlier"]).unwrap();
    wait_for("the newer record", TIMEOUT, || {
        nodes.redis.run(&["GET", &record]).unwrap() != earlier
    });
    for node in 0..3 {
        assert_eq!(nodes.shown(node), second);
    }
}

#[test]
fn without_the_engine_nodes_go_on_with_their_files_and_order_for_themselves_at_last() {
    let mut nodes = Nodes::new("challenge = [\"http-01\"]");
    let mut zero = nodes.start(0);
    let mut one = nodes.start(1);
    for node in [&zero, &one] {
        await_certificate(node);
    }
    let first = nodes.await_same(&[0, 1], "");
    nodes.redis.kill();
    one.stop();
    let _one = nodes.start(1);
    assert_eq!(
        (nodes.shown(0), nodes.shown(1)),
        (first.clone(), first.clone())
    );

    // One that has lost its files waits for the engine first.
    zero.stop();
    let zero = nodes.start_empty(0);
    zero.wait_for_log(
        "orders a certificate of its own in 1 s unless it does",
        TIMEOUT,
    );
    await_state(&zero, "a certificate", |state| state["issued"] == 1);
    assert_ne!(nodes.await_same(&[0], ""), first);

    // When the engine is back, the newer one is for all.
    nodes.redis.restart().unwrap();
    nodes.await_same(&[0, 1], &first);
}
