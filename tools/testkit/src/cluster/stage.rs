//! Three Galleys, two Redis, one WordPress with the plugin: each Galley and each Redis on a machine of its own.
//!
//! PHP-FPM and MariaDB are reached through sockets in the file system, so no cut of a network separates a node from PHP.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use rustix::process::Signal;

use super::{
    Finding, Setting,
    network::{Link, Network},
};
use crate::{
    FpmOptions, Galley, Launch, MariaDb, Options, PhpFpm, Redis, Scratch, TestkitError, WordPress,
    client::Request,
    error::Context,
    faults::wall_clock::{self, WallClock},
    redis::{RedisPlace, Sentinel},
    wait::poll_until,
    wordpress_from_template,
};

/// See the module. Parts end in the order of their fields.
pub(super) struct Stage {
    nodes: Vec<Node>,
    engines: [Redis; 2],
    /// Which of them is the primary.
    primary: usize,
    /// None, where the nodes know the address of the primary.
    sentinels: Vec<Sentinel>,
    network: Network,
    fpm: PhpFpm,
    database: MariaDb,
    /// Pages that show the version.
    pub(super) targets: Vec<String>,
    clocks: Vec<WallClock>,
    password_file: PathBuf,
    /// The secret with which nodes share pages.
    key_file: PathBuf,
    passwords: u64,
    finding: Finding,
    galley: PathBuf,
    scratch: Scratch,
}

struct Node {
    /// `None` while it is killed.
    galley: Option<Galley>,
    /// Even while the node must answer; changes with each kill and pause.
    state: std::sync::Arc<AtomicU64>,
}

impl Stage {
    pub(super) fn start(setting: &Setting) -> Result<Self, TestkitError> {
        let scratch = Scratch::new()?;
        let (database, wordpress) = wordpress_from_template(scratch.path(), &options())?;
        wordpress.install_plugin(&setting.plugin)?;
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
            let place = RedisPlace {
                through: network.through(machine),
                host: network.address(Link::Engine, machine),
                port: ENGINE_PORT,
            };
            Redis::start_at(&scratch.join(format!("redis{number}")), place)
        };
        let engines = [engine(0)?, engine(1)?];
        network.move_address(ENGINE_ADDRESS, None, ENGINES[0])?;
        let password_file = scratch.write("engine.token", "unused")?;
        close(&password_file)?;
        let key_file = scratch.write("cluster.key", "0123456789abcdef".repeat(4))?;
        close(&key_file)?;
        let Some(library) = wall_clock::library() else {
            return Err(TestkitError::Missing {
                program: "libfaketime (`faketime` on Debian)".to_owned(),
            });
        };
        let clock = |number| WallClock::new(scratch.join(format!("clock{number}")), &library);
        let clocks = (0..NODES).map(clock).collect::<Result<_, _>>()?;
        let mut stage = Self {
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
            passwords: 0,
            finding: setting.finding,
            galley: setting.galley.clone(),
            scratch,
        };
        stage.set_password()?;
        stage.follow()?;
        if setting.finding == Finding::Sentinels {
            stage.start_sentinels()?;
        }
        for number in 0..NODES {
            let config = stage.configuration(number, &wordpress);
            stage.scratch.write(&format!("node{number}.toml"), config)?;
            let galley = Some(stage.launch(number)?);
            let state = std::sync::Arc::default();
            stage.nodes.push(Node { galley, state });
        }
        Ok(stage)
    }

    fn start_sentinels(&mut self) -> Result<(), TestkitError> {
        let primary = self.engines[self.primary].place();
        for machine in SENTINELS {
            let place = RedisPlace {
                through: self.network.through(machine),
                host: self.network.address(Link::Engine, machine),
                port: SENTINEL_PORT,
            };
            let dir = self.scratch.join(format!("sentinel{machine}"));
            let sentinel = Sentinel::start(&dir, place, primary, &self.password())?;
            self.sentinels.push(sentinel);
        }
        let mut all = self.sentinels.iter();
        all.try_for_each(|sentinel| sentinel.wait_for_others(SENTINELS.len() - 1))
    }

    fn password(&self) -> String {
        format!("engine-password-{}", self.passwords)
    }

    /// The engine as the nodes name it.
    fn engine_url(&self) -> String {
        let address = |machine| self.network.address(Link::Engine, machine);
        match self.finding {
            Finding::Address => format!("redis://{}:{ENGINE_PORT}", address(ENGINE_ADDRESS)),
            Finding::Sentinels => {
                let hosts =
                    SENTINELS.map(|machine| format!("{}:{SENTINEL_PORT}", address(machine)));
                format!("redis+sentinel://{}/galley", hosts.join(","))
            }
        }
    }

    fn configuration(&self, number: usize, wordpress: &WordPress) -> String {
        let address = self.network.address(Link::Visitors, node_machine(number));
        format!(
            "[server]\nlisten = [\"{address}:80\"]\n[admin]\nlisten = \"unix:{dir}/admin{number}.sock\"\n\
             [cache]\nmemory = \"64MiB\"\ndisk = \"{dir}/cache{number}\"\n[log]\naccess = \"off\"\nlevel = \"warn\"\n\
             [cluster]\nengine = \"{engine}\"\nnode = \"n{number}\"\npassword_file = \"{password}\"\nkey_file = \"{key}\"\n\
             [[site]]\nhosts = [\"{HOST}\"]\nroot = \"{root}\"\nphp = \"{php}\"\ncron = \"off\"\nqueue_timeout = \"1m\"\n",
            dir = self.scratch.path().display(),
            engine = self.engine_url(),
            password = self.password_file.display(),
            key = self.key_file.display(),
            root = wordpress.root.display(),
            php = self.fpm.address(),
        )
    }

    fn launch(&self, number: usize) -> Result<Galley, TestkitError> {
        let launch = Launch {
            through: self.network.through(node_machine(number)),
            ..self.clocks[number].launch()
        };
        let dir = self.scratch.dir(&format!("run{number}"))?;
        let config = self.scratch.join(format!("node{number}.toml"));
        Galley::start_under(&self.galley, &dir, &config, &launch)
    }

    pub(super) fn addr(&self, number: usize) -> SocketAddr {
        let address = self.network.address(Link::Visitors, node_machine(number));
        format!("{address}:80")
            .parse()
            .unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 80)))
    }

    pub(super) fn admin_socket(&self, number: usize) -> PathBuf {
        self.scratch.join(format!("admin{number}.sock"))
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

    /// Sets the version over a node; whether its response arrived.
    pub(super) fn edit(&self, number: usize, version: u64) -> bool {
        edit_at(self.addr(number), version)
    }

    /// Waits until WordPress knows that each of its purges is final; the version that is acknowledged, and since when.
    pub(super) fn wait_until_acknowledged(&self, timeout: Duration) -> Option<(u64, Instant)> {
        let is_final = || {
            for number in (0..NODES).filter(|number| self.is_up(*number)) {
                // A request to PHP carries the names of the purges that this node knows to be final.
                let target = format!("/wp-json/cluster/v1/ping?{:?}", Instant::now());
                let target: String = target.chars().filter(char::is_ascii_graphic).collect();
                let request = Request::get(&target).host(HOST).timeout(EDIT_PATIENCE);
                let _ = request.send(self.addr(number));
            }
            self.pending() == Some(0)
        };
        // The version is read first: an edit in between would make it older, never newer.
        let version = self.version()?;
        poll_until(timeout, is_final).then(|| (version, Instant::now()))
    }

    /// Purges that WordPress does not know to be final.
    pub(super) fn pending(&self) -> Option<u64> {
        self.number("SELECT COUNT(*) FROM wp_options WHERE option_name LIKE 'galley\\_pending\\_%'")
    }

    fn version(&self) -> Option<u64> {
        self.number(
            "SELECT REPLACE(SUBSTRING_INDEX(post_title, '-', 2), 'version-', '') FROM wp_posts WHERE post_name = 'checked' LIMIT 1",
        )
    }

    fn number(&self, select: &str) -> Option<u64> {
        let printed = self
            .database
            .sql(&format!("USE wordpress; {select};"))
            .ok()?;
        printed.lines().last()?.trim().parse().ok()
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

    /// Cuts a node off from the engine, or connects it again.
    pub(super) fn set_reaches_engine(
        &self,
        number: usize,
        reaches: bool,
    ) -> Result<(), TestkitError> {
        let machine = node_machine(number);
        self.network.set_connected(Link::Engine, machine, reaches)
    }

    pub(super) fn set_clock(&self, number: usize, seconds: i64) -> Result<(), TestkitError> {
        self.clocks[number].set(seconds)
    }

    /// The primary.
    pub(super) fn engine(&mut self) -> &mut Redis {
        &mut self.engines[self.primary]
    }

    /// Gives the primary a new password, which the nodes read when they connect again.
    pub(super) fn set_password(&mut self) -> Result<(), TestkitError> {
        self.passwords += 1;
        let password = self.password();
        fs::write(&self.password_file, &password).context("write the password of the engine")?;
        self.engine().set_password(&password)
    }

    /// After a restart of the primary, which begins without a password.
    pub(super) fn set_password_again(&mut self) -> Result<(), TestkitError> {
        let password = self.password();
        self.engine().set_password(&password)
    }

    /// Makes the other Redis follow the primary.
    pub(super) fn follow(&mut self) -> Result<(), TestkitError> {
        let host = self.network.address(Link::Engine, ENGINES[self.primary]);
        let password = self.password();
        let replica = &mut self.engines[1 - self.primary];
        replica.set_password(&password)?;
        replica.run(&["config", "set", "masterauth", &password])?;
        replica.run(&["replicaof", &host, &ENGINE_PORT.to_string()])?;
        let is_linked = || {
            let info = replica.run(&["info", "replication"]);
            info.is_ok_and(|info| info.contains("master_link_status:up"))
        };
        if poll_until(ENGINE_PATIENCE, is_linked) {
            return Ok(());
        }
        Err(TestkitError::Refused(
            "the replica does not follow".to_owned(),
        ))
    }

    /// Cuts the replica off, so that it misses what is written from now on.
    pub(super) fn cut_replica(&self) -> Result<(), TestkitError> {
        let machine = ENGINES[1 - self.primary];
        self.network.set_connected(Link::Engine, machine, false)
    }

    /// Kills the primary; the replica takes its place and its address.
    pub(super) fn fail_over(&mut self) -> Result<(), TestkitError> {
        let old = self.primary;
        self.engines[old].kill();
        let new = 1 - old;
        self.network
            .set_connected(Link::Engine, ENGINES[new], true)?;
        self.primary = new;
        if self.finding == Finding::Sentinels {
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
        if poll_until(ENGINE_PATIENCE, is_primary) {
            return Ok(());
        }
        Err(TestkitError::Refused(
            "the sentinels do not promote the replica".to_owned(),
        ))
    }

    /// Separates a node, the primary and one sentinel from all others, who promote the replica.
    pub(super) fn split(&mut self, node: usize) -> Result<(), TestkitError> {
        self.network.separate(&self.minority(node))
    }

    /// Ends it: the former primary becomes the replica.
    pub(super) fn unite(&mut self, node: usize) -> Result<(), TestkitError> {
        let machines = self.minority(node);
        self.primary = 1 - self.primary;
        self.wait_for_promotion()?;
        self.network.join(&machines)?;
        self.wait_for_replica()
    }

    fn minority(&self, node: usize) -> [u8; 3] {
        [node_machine(node), ENGINES[self.primary], SENTINELS[0]]
    }

    /// Starts the former primary again, as the replica of the new one.
    pub(super) fn restart_replica(&mut self) -> Result<(), TestkitError> {
        let password = self.password();
        let former = &mut self.engines[1 - self.primary];
        former.restart_empty()?;
        if self.finding == Finding::Address {
            return self.follow();
        }
        former.set_password(&password)?;
        self.wait_for_replica()
    }

    /// Waits until the sentinels have made one of the two the replica of the other.
    fn wait_for_replica(&mut self) -> Result<(), TestkitError> {
        for engine in &self.engines {
            engine.run(&["config", "set", "masterauth", &self.password()])?;
        }
        let info = |engine: &Redis| engine.run(&["info", "replication"]).unwrap_or_default();
        let mut primary = None;
        let engines = &self.engines;
        poll_until(ENGINE_PATIENCE * 2, || {
            let [one, other] = [info(&engines[0]), info(&engines[1])];
            let follows = |info: &str| info.contains("master_link_status:up");
            let leads = |info: &str| info.contains("role:master");
            primary = match (leads(&one), leads(&other)) {
                (true, false) if follows(&other) => Some(0),
                (false, true) if follows(&one) => Some(1),
                _ => None,
            };
            primary.is_some()
        });
        let none =
            || TestkitError::Refused("the sentinels leave the engine without a replica".to_owned());
        self.primary = primary.ok_or_else(none)?;
        Ok(())
    }
}

fn close(file: &std::path::Path) -> Result<(), TestkitError> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).context("close a password file")
}

fn options() -> Options {
    Options {
        url: Some(format!("http://{HOST}")),
        mu_plugins: vec![("cluster-edit.php".to_owned(), EDIT.to_owned())],
        extra_config: format!("$_SERVER['HTTP_HOST'] = $_SERVER['SERVER_NAME'] = '{HOST}';\n"),
        ..Options::default()
    }
}

/// Publishes the post that is edited; the pages that show it.
fn publish(wordpress: &WordPress) -> Result<Vec<String>, TestkitError> {
    let printed = wordpress.php(
        "$id = wp_insert_post( array( 'post_name' => 'checked', 'post_title' => 'version-1-', \
         'post_content' => 'version-1-', 'post_status' => 'publish' ) ); \
         echo wp_parse_url( get_permalink( $id ), PHP_URL_PATH );",
    )?;
    let path = printed.lines().last().unwrap_or_default().trim();
    if !path.starts_with('/') {
        return Err(TestkitError::Refused(format!(
            "no post was published: {printed}"
        )));
    }
    Ok(vec![path.to_owned(), "/".to_owned()])
}

fn node_machine(number: usize) -> u8 {
    11 + u8::try_from(number).unwrap_or(0)
}

/// Sets the version over the node at this address; whether its response arrived.
pub(super) fn edit_at(addr: SocketAddr, version: u64) -> bool {
    let target = format!("/wp-json/cluster/v1/edit?version={version}");
    let request = Request::form(&target, &[])
        .host(HOST)
        .timeout(EDIT_PATIENCE);
    request
        .send(addr)
        .is_ok_and(|response| response.status == 200)
}

/// Nodes of the cluster.
pub(super) const NODES: usize = 3;

/// Machines of the engines, and the address that the primary has beside its own.
const ENGINES: [u8; 2] = [21, 22];
const ENGINE_ADDRESS: u8 = 20;
const ENGINE_PORT: u16 = 6379;

const SENTINELS: [u8; 3] = [31, 32, 33];
const SENTINEL_PORT: u16 = 26379;

pub(super) const HOST: &str = "cluster.test";

const EDIT: &str = include_str!("../../assets/cluster/edit.php");
const WORKERS: usize = 4;
const EDIT_PATIENCE: Duration = Duration::from_secs(20);
const ENGINE_PATIENCE: Duration = Duration::from_secs(30);
