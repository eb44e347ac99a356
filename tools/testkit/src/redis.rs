//! Runs a private Redis server: one process with its own data directory, by default on a free port of 127.0.0.1.
//!
//! It does not use the machine's Redis service. `$GALLEY_TESTKIT_ENGINE` selects another server program, such as a Valkey (see
//! `make engines`).

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    addresses,
    error::{Context, TestkitError},
    process::{Service, StopMode, run},
    programs,
    wait::poll_until,
};

/// A running Redis.
#[derive(Debug)]
pub struct Redis {
    service: Service,
    dir: PathBuf,
    endpoint: RedisEndpoint,
    password: Option<String>,
}

/// The address of a Redis server, and the network namespace that it runs in.
#[derive(Debug, Clone)]
pub(crate) struct RedisEndpoint {
    /// A command that executes the server by exec, such as `ip netns exec NAME`. May be empty.
    pub(crate) command_prefix: Vec<String>,
    /// The listen address in addition to 127.0.0.1.
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Runs `redis-cli` commands independently of the [`Redis`] that it was created from.
#[derive(Debug, Clone)]
pub(crate) struct RedisClient {
    endpoint: RedisEndpoint,
    password: Option<String>,
}

impl RedisClient {
    /// Runs a command, as [`Redis::run`].
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<String, TestkitError> {
        let mut command = redis_cli(&self.endpoint)?;
        if let Some(password) = &self.password {
            command.env("REDISCLI_AUTH", password);
        }
        run("redis-cli", command.args(arguments))
    }
}

/// A running Sentinel.
#[derive(Debug)]
pub(crate) struct Sentinel {
    service: Service,
    endpoint: RedisEndpoint,
}

impl Sentinel {
    /// Starts a Sentinel that monitors `primary` under the name `galley`, with a quorum of 2.
    pub(crate) fn start(
        dir: &Path,
        endpoint: RedisEndpoint,
        primary: &RedisEndpoint,
        password: &str,
    ) -> Result<Self, TestkitError> {
        fs::create_dir_all(dir).context(format_args!("make {}", dir.display()))?;
        let file = dir.join("sentinel.conf");
        let text = format!(
            "port {}\nbind {} 127.0.0.1\nprotected-mode no\ndir {}\nsentinel monitor galley {} {} 2\n\
             sentinel down-after-milliseconds galley 1000\nsentinel failover-timeout galley 5000\n\
             sentinel auth-pass galley {password}\n",
            endpoint.port,
            endpoint.host,
            dir.display(),
            primary.host,
            primary.port,
        );
        fs::write(&file, text).context("write sentinel.conf")?;
        let mut command = command_at(&endpoint, &server_program()?);
        command.arg(&file).arg("--sentinel");
        let log = dir.join("sentinel.log");
        let service = Service::spawn("redis-server", &mut command, &log, StopMode::Kill)?;
        let mut sentinel = Self { service, endpoint };
        let endpoint = sentinel.endpoint.clone();
        sentinel
            .service
            .wait_until("Sentinel to respond", TIMEOUT, || is_ready(&endpoint))?;
        Ok(sentinel)
    }

    /// Waits until it has discovered `count` other Sentinels.
    pub(crate) fn wait_for_others(&self, count: usize) -> Result<(), TestkitError> {
        let has_discovered = || {
            let reply = redis_cli(&self.endpoint).and_then(|mut command| {
                command.args(["sentinel", "master", "galley"]);
                run("redis-cli", &mut command)
            });
            reply.is_ok_and(|output| {
                let mut lines = output
                    .lines()
                    .skip_while(|line| *line != "num-other-sentinels");
                lines.nth(1) == Some(count.to_string().as_str())
            })
        };
        if poll_until(TIMEOUT, has_discovered) {
            return Ok(());
        }
        Err(TestkitError::Refused(
            "a Sentinel has not discovered the others".to_owned(),
        ))
    }
}

impl Redis {
    /// Starts a server with its data in `dir` and waits until it accepts commands.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] if Redis is not installed, [`TestkitError::Ended`] or [`TestkitError::Timeout`] with the log if it does not start.
    pub fn start(dir: &Path) -> Result<Self, TestkitError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let endpoint = RedisEndpoint {
                command_prefix: Vec::new(),
                host: "127.0.0.1".to_owned(),
                port: addresses::free_port()?,
            };
            match Self::start_at(dir, endpoint) {
                // Another process has taken the port.
                Err(TestkitError::Ended { log, .. }) if log.contains("bind") && attempts < 5 => {}
                outcome => return outcome,
            }
        }
    }

    /// Starts a server at a given endpoint.
    pub(crate) fn start_at(dir: &Path, endpoint: RedisEndpoint) -> Result<Self, TestkitError> {
        fs::create_dir_all(dir).context(format_args!("make {}", dir.display()))?;
        Ok(Self {
            service: start_server(dir, &endpoint)?,
            dir: dir.to_owned(),
            endpoint,
            password: None,
        })
    }

    /// `redis://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("redis://{}:{}", self.endpoint.host, self.endpoint.port)
    }

    /// The unix socket on which it listens, too. Every user may connect.
    pub fn socket(&self) -> PathBuf {
        self.dir.join(SOCKET)
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.service.pid()
    }

    /// Runs a command and returns the output of `redis-cli`.
    ///
    /// # Errors
    /// [`TestkitError::Ended`] with the output if the command fails.
    pub fn run(&self, arguments: &[&str]) -> Result<String, TestkitError> {
        self.client().run(arguments)
    }

    /// A client for another thread.
    pub(crate) fn client(&self) -> RedisClient {
        RedisClient {
            endpoint: self.endpoint.clone(),
            password: self.password.clone(),
        }
    }

    /// The address of the server.
    pub(crate) fn endpoint(&self) -> &RedisEndpoint {
        &self.endpoint
    }

    /// Changes the password and closes all other connections.
    pub(crate) fn set_password(&mut self, password: &str) -> Result<(), TestkitError> {
        self.run(&["config", "set", "requirepass", password])?;
        self.password = Some(password.to_owned()).filter(|password| !password.is_empty());
        self.run(&["client", "kill", "type", "normal", "skipme", "yes"])?;
        Ok(())
    }

    /// Sends SIGKILL.
    pub fn kill(&mut self) {
        self.service.kill();
    }

    /// Restarts it on its port with its data.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn restart(&mut self) -> Result<(), TestkitError> {
        self.service.kill();
        self.service = start_server(&self.dir, &self.endpoint)?;
        self.password = None;
        Ok(())
    }

    /// Restarts it without its data.
    pub(crate) fn restart_empty(&mut self) -> Result<(), TestkitError> {
        self.service.kill();
        let data = self.dir.join("appendonlydir");
        if data.exists() {
            fs::remove_dir_all(&data).context("remove the data of Redis")?;
        }
        self.restart()
    }

    /// Sends a signal; `STOP` pauses the server.
    pub fn signal(&self, signal: rustix::process::Signal) {
        self.service.signal(signal);
    }
}

/// The server program.
fn server_program() -> Result<PathBuf, TestkitError> {
    match env::var_os("GALLEY_TESTKIT_ENGINE") {
        Some(program) => Ok(PathBuf::from(program)),
        None => programs::find(&["redis-server"]),
    }
}

/// A command that runs a program in the namespace of an endpoint.
fn command_at(endpoint: &RedisEndpoint, program: &Path) -> Command {
    match endpoint.command_prefix.split_first() {
        None => Command::new(program),
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    }
}

/// Runs `redis-cli` in the server's namespace, where no network partition affects it.
fn redis_cli(endpoint: &RedisEndpoint) -> Result<Command, TestkitError> {
    let mut command = command_at(endpoint, &programs::find(&["redis-cli"])?);
    command.args(["-h", "127.0.0.1", "-p", &endpoint.port.to_string()]);
    Ok(command)
}

fn is_ready(endpoint: &RedisEndpoint) -> bool {
    redis_cli(endpoint).is_ok_and(|mut command| {
        run("redis-cli", command.arg("ping")).is_ok_and(|output| output.trim() == "PONG")
    })
}

fn start_server(dir: &Path, endpoint: &RedisEndpoint) -> Result<Service, TestkitError> {
    let mut command = command_at(endpoint, &server_program()?);
    let bind = match endpoint.host.as_str() {
        "127.0.0.1" => "127.0.0.1",
        // The address of the primary moves between the machines.
        _ => "0.0.0.0",
    };
    command.args(["--bind", bind, "--save", "", "--appendonly", "yes"]);
    command.args(["--appendfsync", "always", "--protected-mode", "no"]);
    command.args(["--unixsocket", SOCKET, "--unixsocketperm", "777"]);
    command
        .args(["--port", &endpoint.port.to_string()])
        .arg("--dir")
        .arg(dir);
    let log = dir.join("redis.log");
    let mut service = Service::spawn("redis-server", &mut command, &log, StopMode::Kill)?;
    service.wait_until("Redis to respond", TIMEOUT, || is_ready(endpoint))?;
    Ok(service)
}

/// In the data directory, in which the server runs.
const SOCKET: &str = "redis.sock";
const TIMEOUT: Duration = Duration::from_secs(60);
