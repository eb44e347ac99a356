//! A cluster of three Galley nodes, two Redis servers and one WordPress with the plugin. Each node and each Redis runs on its
//! own simulated machine.
//!
//! Nodes reach PHP-FPM and MariaDB through unix sockets, so a network partition does not separate a node from PHP.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use rustix::process::Signal;

use super::{
    ClusterTestSettings, EngineDiscovery,
    edited_post::{EDIT_TIMEOUT, HOST, NODES_FILE, OBJECTS, edit_at, options, publish},
    network::{Network, Subnet},
};
use crate::{
    FpmOptions, Galley, Launch, MariaDb, PhpFpm, Redis, Scratch, TestkitError, WordPress,
    client::Request,
    error::Context,
    faults::wall_clock::{self, WallClock},
    redis::{RedisEndpoint, Sentinel},
    wait::poll_until,
    wordpress_from_template,
};

/// The running cluster. Dropping it stops the processes in the order of the fields.
pub(super) struct TestCluster {
    nodes: Vec<Node>,
    engines: [Redis; 2],
    /// The index of the primary in `engines`.
    primary: usize,
    /// Empty with [`EngineDiscovery::Address`].
    sentinels: Vec<Sentinel>,
    network: Network,
    fpm: PhpFpm,
    database: MariaDb,
    /// Paths of the pages that contain the version.
    pub(super) targets: Vec<String>,
    clocks: Vec<WallClock>,
    password_file: PathBuf,
    /// The shared secret of the nodes.
    key_file: PathBuf,
    /// The token of the site.
    token_file: PathBuf,
    passwords: u64,
    discovery: EngineDiscovery,
    galley: PathBuf,
    scratch: Scratch,
}

struct Node {
    /// `None` after the node was killed.
    galley: Option<Galley>,
    /// Incremented when the node is killed or paused, and again when it is up: even while the node must respond.
    state: std::sync::Arc<AtomicU64>,
}

impl TestCluster {
    pub(super) fn start(settings: &ClusterTestSettings) -> Result<Self, TestkitError> {
        let scratch = Scratch::new()?;
        let (database, wordpress) = wordpress_from_template(scratch.path(), &options())?;
        wordpress.install_plugin(&settings.plugin)?;
        let targets = publish(&wordpress)?;
        let fpm = PhpFpm::start(
            &scratch.join("fpm"),
            &FpmOptions {
                workers: WORKERS,
                ..FpmOptions::default()
            },
        )?;
        let mut network = Network::new()?;
        let machines = (0..NODES).map(node_machine).chain(ENGINES);
        for machine in machines.chain(SENTINELS) {
            network.add(machine)?;
        }
        let engine = |number: usize| {
            let machine = ENGINES[number];
            let endpoint = RedisEndpoint {
                command_prefix: network.command_prefix(machine),
                host: network.address(Subnet::Engine, machine),
                port: ENGINE_PORT,
            };
            Redis::start_at(&scratch.join(format!("redis{number}")), endpoint)
        };
        let engines = [engine(0)?, engine(1)?];
        network.move_address(ENGINE_ADDRESS, None, ENGINES[0])?;
        let password_file = scratch.write("engine.token", "unused")?;
        restrict(&password_file)?;
        let key_file = scratch.write("cluster.key", "0123456789abcdef".repeat(4))?;
        restrict(&key_file)?;
        let token_file = scratch.write("site.token", TOKEN)?;
        restrict(&token_file)?;
        let Some(library) = wall_clock::library() else {
            return Err(TestkitError::Missing {
                program: "libfaketime (`faketime` on Debian)".to_owned(),
            });
        };
        let clock = |number| WallClock::new(scratch.join(format!("clock{number}")), &library);
        let clocks = (0..NODES).map(clock).collect::<Result<_, _>>()?;
        let mut cluster = Self {
            nodes: Vec::new(),
            engines,
            primary: 0,
            sentinels: Vec::new(),
            network,
            fpm,
            database,
            targets,
            clocks,
            password_file,
            key_file,
            token_file,
            passwords: 0,
            discovery: settings.discovery,
            galley: settings.galley.clone(),
            scratch,
        };
        cluster.set_password()?;
        cluster.attach_replica()?;
        if settings.discovery == EngineDiscovery::Sentinels {
            cluster.start_sentinels()?;
        }
        for number in 0..NODES {
            let config = cluster.configuration(number, &wordpress);
            cluster
                .scratch
                .write(&format!("node{number}.toml"), config)?;
            let galley = Some(cluster.launch(number)?);
            let state = std::sync::Arc::default();
            cluster.nodes.push(Node { galley, state });
        }
        cluster.use_objects(&wordpress)?;
        Ok(cluster)
    }

    /// Installs the drop-in. Each request of PHP uses the object cache of the node that has sent it.
    fn use_objects(&self, wordpress: &WordPress) -> Result<(), TestkitError> {
        let node = |number| {
            let address = self.addr(number).ip();
            format!("'{address}' => '{}',", self.admin_socket(number).display())
        };
        let nodes: String = (0..NODES).map(node).collect();
        let lines = format!(
            "<?php\n$nodes = array( {nodes} );\n$node = $nodes[ $_SERVER['SERVER_ADDR'] ?? '' ] ?? '';\n\
             if ( '' !== $node ) {{ define( 'GALLEY_ADMIN', \"unix:$node\" ); define( 'GALLEY_TOKEN', '{TOKEN}' ); }}\n"
        );
        let write = |file: PathBuf, content: &str| {
            fs::write(&file, content).context(format!("writing {}", file.display()))
        };
        write(wordpress.root.join(NODES_FILE), &lines)?;
        let content = wordpress.root.join("wp-content");
        let drop_in = content.join("plugins/galley/object-cache/drop-in.php");
        let drop_in =
            fs::read_to_string(&drop_in).context(format!("reading {}", drop_in.display()))?;
        write(content.join("object-cache.php"), &drop_in)?;
        for number in 0..NODES {
            let is_used = poll_until(EDIT_TIMEOUT, || {
                let request = Request::get(OBJECTS).host(HOST).timeout(EDIT_TIMEOUT);
                let response = request.send(self.addr(number));
                response.is_ok_and(|response| response.text().contains("\"connected\":true"))
            });
            if !is_used {
                let log = self.log(number);
                let why = format!("PHP of node {number} does not use the object cache\n{log}");
                return Err(TestkitError::Refused(why));
            }
        }
        Ok(())
    }

    fn start_sentinels(&mut self) -> Result<(), TestkitError> {
        let primary = self.engines[self.primary].endpoint();
        for machine in SENTINELS {
            let endpoint = RedisEndpoint {
                command_prefix: self.network.command_prefix(machine),
                host: self.network.address(Subnet::Engine, machine),
                port: SENTINEL_PORT,
            };
            let dir = self.scratch.join(format!("sentinel{machine}"));
            let sentinel = Sentinel::start(&dir, endpoint, primary, &self.password())?;
            self.sentinels.push(sentinel);
        }
        let mut all = self.sentinels.iter();
        all.try_for_each(|sentinel| sentinel.wait_for_others(SENTINELS.len() - 1))
    }

    fn password(&self) -> String {
        format!("engine-password-{}", self.passwords)
    }

    /// The `engine` option of the nodes.
    fn engine_url(&self) -> String {
        let address = |machine| self.network.address(Subnet::Engine, machine);
        match self.discovery {
            EngineDiscovery::Address => {
                format!("redis://{}:{ENGINE_PORT}", address(ENGINE_ADDRESS))
            }
            EngineDiscovery::Sentinels => {
                let hosts =
                    SENTINELS.map(|machine| format!("{}:{SENTINEL_PORT}", address(machine)));
                format!("redis+sentinel://{}/galley", hosts.join(","))
            }
        }
    }

    fn configuration(&self, number: usize, wordpress: &WordPress) -> String {
        let address = self.network.address(Subnet::Clients, node_machine(number));
        format!(
            "[server]\nlisten = [\"{address}:80\"]\n[admin]\nlisten = \"unix:{dir}/run{number}/admin.sock\"\n\
             [cache]\nmemory = \"64MiB\"\ndisk = \"{dir}/cache{number}\"\n[log]\naccess = \"off\"\nlevel = \"warn\"\n\
             [cluster]\nengine = \"{engine}\"\nnode = \"n{number}\"\npassword_file = \"{password}\"\nkey_file = \"{key}\"\n\
             [[site]]\nhosts = [\"{HOST}\"]\nroot = \"{root}\"\nphp = \"{php}\"\ncron = \"off\"\nqueue_timeout = \"1m\"\ntoken_file = \"{token}\"\n",
            dir = self.scratch.path().display(),
            engine = self.engine_url(),
            password = self.password_file.display(),
            key = self.key_file.display(),
            token = self.token_file.display(),
            root = wordpress.root.display(),
            php = self.fpm.address(),
        )
    }

    fn launch(&self, number: usize) -> Result<Galley, TestkitError> {
        let launch = Launch {
            through: self.network.command_prefix(node_machine(number)),
            ..self.clocks[number].launch()
        };
        let dir = self.scratch.dir(&format!("run{number}"))?;
        let config = self.scratch.join(format!("node{number}.toml"));
        Galley::start_under(&self.galley, &dir, &config, &launch)
    }

    pub(super) fn addr(&self, number: usize) -> SocketAddr {
        let address = self.network.address(Subnet::Clients, node_machine(number));
        format!("{address}:80")
            .parse()
            .unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 80)))
    }

    pub(super) fn admin_socket(&self, number: usize) -> PathBuf {
        self.scratch.join(format!("run{number}/admin.sock"))
    }

    pub(super) fn state(&self, number: usize) -> std::sync::Arc<AtomicU64> {
        std::sync::Arc::clone(&self.nodes[number].state)
    }

    pub(super) fn is_up(&self, number: usize) -> bool {
        self.nodes[number]
            .state
            .load(Ordering::SeqCst)
            .is_multiple_of(2)
    }

    pub(super) fn log(&self, number: usize) -> String {
        let galley = self.nodes[number].galley.as_ref();
        galley.map(Galley::log).unwrap_or_default()
    }

    /// Sets the version through a node; returns whether its response was 200.
    pub(super) fn edit(&self, number: usize, version: u64) -> bool {
        edit_at(self.addr(number), version)
    }

    /// Waits until WordPress knows that all its purges are final; returns the acknowledged version and the time.
    pub(super) fn wait_until_acknowledged(&self, timeout: Duration) -> Option<(u64, Instant)> {
        let is_final = || {
            for number in (0..NODES).filter(|number| self.is_up(*number)) {
                // Requests to PHP carry the purges that this node knows to be final.
                let target = format!("/wp-json/cluster/v1/ping?{:?}", Instant::now());
                let target: String = target.chars().filter(char::is_ascii_graphic).collect();
                let request = Request::get(&target).host(HOST).timeout(EDIT_TIMEOUT);
                let _ = request.send(self.addr(number));
            }
            self.pending() == Some(0)
        };
        // Read the version first: an edit in between then makes the result too old, never too new.
        let version = self.version()?;
        poll_until(timeout, is_final).then(|| (version, Instant::now()))
    }

    /// The number of purges that WordPress does not know to be final.
    pub(super) fn pending(&self) -> Option<u64> {
        self.select_number(
            "SELECT COUNT(*) FROM wp_options WHERE option_name LIKE 'galley\\_pending\\_%'",
        )
    }

    fn version(&self) -> Option<u64> {
        self.select_number(
            "SELECT REPLACE(SUBSTRING_INDEX(post_title, '-', 2), 'version-', '') FROM wp_posts WHERE post_name = 'checked' LIMIT 1",
        )
    }

    fn select_number(&self, select: &str) -> Option<u64> {
        let output = self
            .database
            .sql(&format!("USE wordpress; {select};"))
            .ok()?;
        output.lines().last()?.trim().parse().ok()
    }

    pub(super) fn kill_node(&mut self, number: usize) {
        self.nodes[number].state.fetch_add(1, Ordering::SeqCst);
        if let Some(mut galley) = self.nodes[number].galley.take() {
            galley.kill();
        }
    }

    pub(super) fn restart_node(&mut self, number: usize) -> Result<(), TestkitError> {
        let galley = self.launch(number)?;
        self.nodes[number].galley = Some(galley);
        self.nodes[number].state.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    pub(super) fn pause_node(&self, number: usize, is_paused: bool) {
        let signal = if is_paused {
            Signal::STOP
        } else {
            Signal::CONT
        };
        if is_paused {
            self.nodes[number].state.fetch_add(1, Ordering::SeqCst);
        }
        if let Some(galley) = &self.nodes[number].galley {
            galley.signal(signal);
        }
        if !is_paused {
            self.nodes[number].state.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Disconnects a node from the engine's subnet or reconnects it.
    pub(super) fn set_reaches_engine(
        &self,
        number: usize,
        reaches: bool,
    ) -> Result<(), TestkitError> {
        let machine = node_machine(number);
        self.network.set_connected(Subnet::Engine, machine, reaches)
    }

    pub(super) fn set_clock(&self, number: usize, seconds: i64) -> Result<(), TestkitError> {
        self.clocks[number].set(seconds)
    }

    /// The primary of the engine.
    pub(super) fn engine(&mut self) -> &mut Redis {
        &mut self.engines[self.primary]
    }

    /// Sets a new password on the primary. The nodes read it when they reconnect.
    pub(super) fn set_password(&mut self) -> Result<(), TestkitError> {
        self.passwords += 1;
        let password = self.password();
        fs::write(&self.password_file, &password).context("write the password of the engine")?;
        self.engine().set_password(&password)
    }

    /// Sets the current password again after a restart of the primary, which starts without one.
    pub(super) fn set_password_again(&mut self) -> Result<(), TestkitError> {
        let password = self.password();
        self.engine().set_password(&password)
    }

    /// Makes the other Redis a replica of the primary.
    pub(super) fn attach_replica(&mut self) -> Result<(), TestkitError> {
        let host = self.network.address(Subnet::Engine, ENGINES[self.primary]);
        let password = self.password();
        let replica = &mut self.engines[1 - self.primary];
        replica.set_password(&password)?;
        replica.run(&["config", "set", "masterauth", &password])?;
        replica.run(&["replicaof", &host, &ENGINE_PORT.to_string()])?;
        let is_linked = || {
            let info = replica.run(&["info", "replication"]);
            info.is_ok_and(|info| info.contains("master_link_status:up"))
        };
        if poll_until(ENGINE_TIMEOUT, is_linked) {
            return Ok(());
        }
        Err(TestkitError::Refused(
            "the replica does not connect to the primary".to_owned(),
        ))
    }

    /// Disconnects the replica, so that it misses later writes.
    pub(super) fn disconnect_replica(&self) -> Result<(), TestkitError> {
        let machine = ENGINES[1 - self.primary];
        self.network.set_connected(Subnet::Engine, machine, false)
    }

    /// Kills the primary and promotes the replica, which takes over the address.
    pub(super) fn fail_over(&mut self) -> Result<(), TestkitError> {
        let old = self.primary;
        self.engines[old].kill();
        let new = 1 - old;
        self.network
            .set_connected(Subnet::Engine, ENGINES[new], true)?;
        self.primary = new;
        if self.discovery == EngineDiscovery::Sentinels {
            return self.wait_for_promotion();
        }
        self.engine().run(&["replicaof", "no", "one"])?;
        self.network
            .move_address(ENGINE_ADDRESS, Some(ENGINES[old]), ENGINES[new])
    }

    fn wait_for_promotion(&mut self) -> Result<(), TestkitError> {
        let engine = self.engine();
        let is_primary = || {
            let info = engine.run(&["info", "replication"]);
            info.is_ok_and(|info| info.contains("role:master"))
        };
        if poll_until(ENGINE_TIMEOUT, is_primary) {
            return Ok(());
        }
        Err(TestkitError::Refused(
            "the Sentinels do not promote the replica".to_owned(),
        ))
    }

    /// Partitions a node, the primary and one Sentinel from all others. The majority promotes the replica.
    pub(super) fn partition(&mut self, node: usize) -> Result<(), TestkitError> {
        self.network.partition(&self.minority(node))
    }

    /// Ends the partition. The former primary becomes the replica.
    pub(super) fn heal(&mut self, node: usize) -> Result<(), TestkitError> {
        let machines = self.minority(node);
        self.primary = 1 - self.primary;
        self.wait_for_promotion()?;
        self.network.heal(&machines)?;
        self.wait_for_replica()
    }

    fn minority(&self, node: usize) -> [u8; 3] {
        [node_machine(node), ENGINES[self.primary], SENTINELS[0]]
    }

    /// Restarts the former primary as the replica of the new one.
    pub(super) fn restart_replica(&mut self) -> Result<(), TestkitError> {
        let password = self.password();
        let former = &mut self.engines[1 - self.primary];
        former.restart_empty()?;
        if self.discovery == EngineDiscovery::Address {
            return self.attach_replica();
        }
        former.set_password(&password)?;
        self.wait_for_replica()
    }

    /// Waits until the Sentinels have made one engine the replica of the other.
    fn wait_for_replica(&mut self) -> Result<(), TestkitError> {
        for engine in &self.engines {
            engine.run(&["config", "set", "masterauth", &self.password()])?;
        }
        let info = |engine: &Redis| engine.run(&["info", "replication"]).unwrap_or_default();
        let mut primary = None;
        let engines = &self.engines;
        poll_until(ENGINE_TIMEOUT * 2, || {
            let [one, other] = [info(&engines[0]), info(&engines[1])];
            let is_replica = |info: &str| info.contains("master_link_status:up");
            let is_primary = |info: &str| info.contains("role:master");
            primary = match (is_primary(&one), is_primary(&other)) {
                (true, false) if is_replica(&other) => Some(0),
                (false, true) if is_replica(&one) => Some(1),
                _ => None,
            };
            primary.is_some()
        });
        let no_replica =
            || TestkitError::Refused("the Sentinels do not attach a replica".to_owned());
        self.primary = primary.ok_or_else(no_replica)?;
        Ok(())
    }
}

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn restrict(file: &std::path::Path) -> Result<(), TestkitError> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o600))
        .context("set permissions of a password file")
}

fn node_machine(number: usize) -> u8 {
    11 + u8::try_from(number).unwrap_or(0)
}

/// Nodes of the cluster.
pub(super) const NODES: usize = 3;

/// Machines of the engines, and the additional address of the primary.
const ENGINES: [u8; 2] = [21, 22];
const ENGINE_ADDRESS: u8 = 20;
const ENGINE_PORT: u16 = 6379;

const SENTINELS: [u8; 3] = [31, 32, 33];
const SENTINEL_PORT: u16 = 26379;

const WORKERS: usize = 4;
const ENGINE_TIMEOUT: Duration = Duration::from_secs(30);
