//! A cluster of Galley nodes with a real Redis and a scripted origin.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::{Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::{Galley, Launch, Redis, Scratch, free_port, wait_for};
use serde_json::Value;

use crate::tls_support::Authority;

/// Nodes with one origin, whose pages contain a version.
pub(crate) struct TestCluster {
    pub(crate) nodes: Vec<Galley>,
    pub(crate) redis: Redis,
    pub(crate) version: Arc<AtomicU64>,
    pub(crate) scratch: Scratch,
    pub(crate) origin: Origin,
    /// The number of requests that the origin has received.
    pub(crate) origin_requests: Arc<AtomicU64>,
    /// The delay between reading the version and sending the response.
    pub(crate) delay_ms: Arc<AtomicU64>,
}

impl TestCluster {
    pub(crate) fn start(count: usize, lines: &str) -> Self {
        let scratch = Scratch::new().unwrap();
        let redis = Redis::start(&scratch.join("redis")).unwrap();
        let version = Arc::new(AtomicU64::new(1));
        let origin_requests = Arc::new(AtomicU64::new(0));
        let delay_ms = Arc::new(AtomicU64::new(0));
        let origin = {
            let (version, delay_ms) = (Arc::clone(&version), Arc::clone(&delay_ms));
            let requests = Arc::clone(&origin_requests);
            Origin::start_unrecorded(move |request, writer| {
                let version = version.load(Ordering::SeqCst);
                // Counted after the version was read: tests wait for the count before they change the version.
                requests.fetch_add(1, Ordering::SeqCst);
                respond(request, writer, version, &delay_ms);
            })
            .unwrap()
        };
        let mut cluster = Self {
            nodes: Vec::new(),
            redis,
            version,
            scratch,
            origin,
            origin_requests,
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

    /// Adds a node with these lines in `[cluster]`.
    pub(crate) fn add(&mut self, lines: &str) -> usize {
        let node = self.launch(self.nodes.len(), lines);
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Adds a node that connects to Redis over TLS and trusts only this authority.
    pub(crate) fn add_over_tls(&mut self, authority: &Authority) -> usize {
        let dir = self.scratch.dir("tls").unwrap();
        authority.issue(&dir, "redis", &["localhost"]);
        let file = |name: &str| dir.join(name).display().to_string();
        let port = free_port().unwrap().to_string();
        for (option, value) in [
            ("tls-cert-file", file("redis.pem")),
            ("tls-key-file", file("redis.key")),
            ("tls-auth-clients", "no".to_owned()),
            ("tls-port", port.clone()),
        ] {
            self.redis.run(&["CONFIG", "SET", option, &value]).unwrap();
        }
        let launch = Launch {
            env: vec![("SSL_CERT_FILE".to_owned(), file("ca.pem"))],
            ..Launch::default()
        };
        let engine = format!("rediss://localhost:{port}");
        let node = self.launch_at(&engine, self.nodes.len(), "", &launch);
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn launch(&self, number: usize, lines: &str) -> Galley {
        self.launch_at(&self.redis.url(), number, lines, &Launch::default())
    }

    fn launch_at(&self, engine: &str, number: usize, lines: &str, launch: &Launch) -> Galley {
        let dir = self.scratch.dir(&format!("node{number}")).unwrap();
        let secret = |name: &str, text: &str| {
            let file = dir.join(name);
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
            file
        };
        let key = secret("cluster.key", &"0123456789abcdef".repeat(4));
        let token = secret("site.token", TOKEN);
        let lines = lines.replace("KEY_FILE", &format!("\"{}\"", key.display()));
        let config = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"unix:{dir}/admin.sock\"\n\
             [cluster]\nengine = \"{engine}\"\nnode = \"n{number}\"\n{lines}\n\
             [[site]]\nhosts = [\"a.test\"]\nupstream = [\"{}\"]\nesi = true\ntoken_file = \"{}\"\n",
            self.origin.url(),
            token.display(),
            dir = dir.display(),
        );
        let file = dir.join("galley.toml");
        std::fs::write(&file, config).unwrap();
        let binary = Path::new(env!("CARGO_BIN_EXE_galley"));
        Galley::start_under(binary, &dir, &file, launch).unwrap()
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

    /// Changes the page and purges it through a node; returns the reach of the purge.
    pub(crate) fn edit(&self, node: usize) -> String {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.purge(node, "p1")
    }

    /// Purges a tag through a node; returns the reach of the purge.
    pub(crate) fn purge(&self, node: usize, tag: &str) -> String {
        let purge = ["purge", "--tag", tag, "--json"];
        let output = self.nodes[node].cli(&purge).unwrap();
        assert!(output.status.success(), "{output:?}");
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        value["reach"].as_str().unwrap().to_owned()
    }

    /// Edits until a purge is final. On a busy machine, a purge can exceed the five seconds after which the receipt is sent.
    pub(crate) fn edit_until_final(&self, node: usize) {
        wait_for("an acknowledged purge", TIMEOUT, || {
            self.edit(node) == "cluster"
        });
    }

    /// Waits until each node can acknowledge purges: after its start, a node does not yet treat missing keys as absent nodes.
    pub(crate) fn wait_until_acknowledged(&self) {
        for node in 0..self.nodes.len() {
            self.edit_until_final(node);
        }
    }

    /// Asserts that a node serves the newest version of a page.
    pub(crate) fn assert_newest(&self, node: usize, path: &str) {
        let page = self.get(node, path);
        let expected = self.newest(path);
        assert_eq!(
            page.text(),
            expected,
            "node {node}: {}",
            page.cache_status()
        );
    }

    pub(crate) fn newest(&self, path: &str) -> String {
        format!("{path} version {}.", self.version.load(Ordering::SeqCst))
    }

    pub(crate) fn wait_for_hits(&self, node: usize) {
        wait_for("hits", TIMEOUT, || self.get(node, "/").is_hit());
    }
}

/// The origin: a page with an ESI include, a page with a fragment, or a plain page, each with the version.
fn respond(
    request: &ReceivedRequest,
    writer: &mut ResponseWriter<'_>,
    version: u64,
    delay_ms: &AtomicU64,
) {
    let cache_control = (
        "Cache-Control",
        "public, max-age=3600, stale-while-revalidate=600",
    );
    if request.path().starts_with("/assembled") {
        let esi = ("Surrogate-Control", "content=\"ESI/1.0\"");
        let body = "<html><esi:include src=\"/part\"/></html>";
        let fields = [("Content-Type", "text/html"), cache_control, esi];
        writer.respond(200, &fields, body.as_bytes());
        return;
    }
    if request.path().starts_with("/sidebar") {
        let part = format!("part {version:04}");
        let is_alone = request.field("galley-fragment").is_some();
        let (content_type, fragment, body) = if is_alone {
            ("text/plain", "alone 0 9 - 0 part", part)
        } else {
            let page = format!("<html><body>{part}</body></html>");
            ("text/html", "widget/x 12 9 - d.m part", page)
        };
        let fields = [
            ("Content-Type", content_type),
            cache_control,
            ("Galley-Tags", "own"),
            ("Galley-Fragment", fragment),
        ];
        writer.respond(200, &fields, body.as_bytes());
        return;
    }
    let fields = [
        ("Content-Type", "text/plain"),
        cache_control,
        ("Galley-Tags", "p1"),
    ];
    let body = format!("{} version {version}.", request.path());
    std::thread::sleep(Duration::from_millis(delay_ms.load(Ordering::SeqCst)));
    writer.respond(200, &fields, body.as_bytes());
}

/// The token of the site.
pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
