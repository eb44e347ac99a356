//! A cluster shares certificates: one node orders, and every node responds to the challenges.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use galley_testkit::{Galley, Pebble, PebbleOptions, Redis, Scratch, free_port, wait_for};

use crate::handshake::served_certificate_at;
use crate::site::{HOST, TIMEOUT, await_state, certificate_state};

/// Nodes of one cluster. Pebble validates against the first node, whose own orders fail because it does not trust the directory.
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

    /// Starts a node. `ca` is the root that must have issued the TLS certificate of the ACME directory.
    fn start_with_ca(&self, node: usize, ca: &Path) -> Galley {
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
        self.start_with_ca(node, &self.pebble.ca())
    }

    /// A root that did not issue the certificate of the ACME directory.
    fn wrong_root(&self) -> PathBuf {
        let root = self.pebble.root().unwrap();
        self.scratch.write("wrong.pem", root).unwrap()
    }

    /// Starts a node without stored certificates.
    fn start_without_storage(&self, node: usize) -> Galley {
        let storage = self.folder(node).join("storage");
        if storage.exists() {
            fs::remove_dir_all(storage).unwrap();
        }
        self.start(node)
    }

    fn record_key(&self) -> String {
        let key = "galley:galley:secret:certificate*";
        let keys = self.redis.run(&["KEYS", key]).unwrap();
        keys.trim().to_owned()
    }

    /// The certificate that a node sends in TLS handshakes.
    fn served_certificate(&self, node: usize) -> String {
        served_certificate_at(self.ports[node].1)
    }

    /// Waits until these nodes serve the same certificate and it is not `old`.
    #[track_caller]
    fn await_same_certificate(&self, nodes: &[usize], old: &str) -> String {
        let mut first = String::new();
        wait_for("the same certificate on all nodes", TIMEOUT, || {
            first = self.served_certificate(nodes[0]);
            !first.is_empty()
                && first != old
                && nodes
                    .iter()
                    .all(|&node| self.served_certificate(node) == first)
        });
        first
    }
}

fn await_certificate(galley: &Galley) {
    await_state(galley, "a certificate", |state| state["not_after"].is_u64());
}

fn test_one_order_for_all_nodes(acme: &'static str) {
    let nodes = Nodes::new(acme);
    let galleys = [
        nodes.start_with_ca(0, &nodes.wrong_root()),
        nodes.start(1),
        nodes.start(2),
    ];
    for node in &galleys {
        await_certificate(node);
    }
    nodes.await_same_certificate(&[0, 1, 2], "");
    // The node that responded to the challenge has ordered nothing.
    let issued = galleys
        .each_ref()
        .map(|node| certificate_state(node)["issued"].as_u64());
    assert_eq!(issued[0], Some(0));
    assert_eq!(issued.into_iter().flatten().sum::<u64>(), 1, "{issued:?}");
    assert_eq!(nodes.pebble.orders(), 1, "{}", nodes.pebble.log());
    let sealed = nodes.redis.run(&["GET", &nodes.record_key()]).unwrap();
    assert!(sealed.len() > 500 && !sealed.contains("PRIVATE KEY"));
}

#[test]
fn one_http_01_order_serves_all_nodes() {
    test_one_order_for_all_nodes("challenge = [\"http-01\"]");
}

#[test]
fn one_tls_alpn_01_order_serves_all_nodes() {
    test_one_order_for_all_nodes("challenge = [\"tls-alpn-01\"]");
}

#[test]
fn a_later_node_uses_the_shared_certificate_unless_its_record_was_modified() {
    let nodes = Nodes::new("challenge = [\"http-01\"]");
    let zero = nodes.start(0);
    await_certificate(&zero);
    let first = nodes.await_same_certificate(&[0], "");
    wait_for("the record in Redis", TIMEOUT, || {
        !nodes.record_key().is_empty()
    });
    let key = nodes.record_key();

    // A node that starts later, without stored files.
    let one = nodes.start_without_storage(1);
    await_certificate(&one);
    assert_eq!(nodes.served_certificate(1), first);
    assert_eq!(
        (
            certificate_state(&one)["issued"].as_u64(),
            nodes.pebble.orders()
        ),
        (Some(0), 1)
    );
    one.wait_for_log("another node got a certificate", TIMEOUT);

    // A modified record is ignored: the next node orders, with the account of the other nodes.
    nodes.redis.run(&["COPY", &key, "earlier"]).unwrap();
    nodes.redis.run(&["SETRANGE", &key, "200", "zzzz"]).unwrap();
    let two = nodes.start_without_storage(2);
    await_certificate(&two);
    two.wait_for_log("a secret in the engine of the cluster is ignored", TIMEOUT);
    let second = nodes.await_same_certificate(&[0, 1, 2], &first);
    assert_eq!(nodes.pebble.orders(), 2, "{}", nodes.pebble.log());
    assert!(!nodes.pebble.log().contains("There are now 2 accounts"));

    // An older record does not replace a newer certificate.
    let copied = nodes.redis.run(&["COPY", "earlier", &key, "REPLACE"]);
    assert_eq!(copied.unwrap().trim(), "1");
    let earlier = nodes.redis.run(&["GET", "earlier"]).unwrap();
    wait_for("the newer record", TIMEOUT, || {
        nodes.redis.run(&["GET", &key]).unwrap() != earlier
    });
    for node in 0..3 {
        assert_eq!(nodes.served_certificate(node), second);
    }
}

#[test]
fn without_redis_nodes_use_stored_certificates_or_order_their_own() {
    let mut nodes = Nodes::new("challenge = [\"http-01\"]");
    let mut zero = nodes.start(0);
    let mut one = nodes.start(1);
    for node in [&zero, &one] {
        await_certificate(node);
    }
    let first = nodes.await_same_certificate(&[0, 1], "");
    nodes.redis.kill();
    one.stop();
    let _one = nodes.start(1);
    assert_eq!(
        (nodes.served_certificate(0), nodes.served_certificate(1)),
        (first.clone(), first.clone())
    );

    // A node that has lost its files waits for Redis first.
    zero.stop();
    let zero = nodes.start_without_storage(0);
    zero.wait_for_log(
        "orders a certificate of its own in 1 s unless it does",
        TIMEOUT,
    );
    await_state(&zero, "a certificate", |state| state["issued"] == 1);
    assert_ne!(nodes.await_same_certificate(&[0], ""), first);

    // When Redis is back, all nodes use the newer certificate.
    nodes.redis.restart().unwrap();
    nodes.await_same_certificate(&[0, 1], &first);
}
