//! A Redis of its own: one process, by default on a free port of 127.0.0.1, with its data in a directory.
//!
//! Nothing of the machine's Redis is read or written. With `$GALLEY_TESTKIT_ENGINE`, the name of another server program (a Valkey, see
//! `make engines`), that one runs in its place.

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
    place: RedisPlace,
    password: Option<String>,
}

/// Where a Redis runs.
#[derive(Debug, Clone)]
pub(crate) struct RedisPlace {
    /// A program with its arguments that becomes the server in the end, by exec: `ip netns exec NAME`.
    pub(crate) through: Vec<String>,
    /// What it listens on, beside 127.0.0.1.
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Runs commands in a Redis while others use it.
#[derive(Debug, Clone)]
pub(crate) struct RedisAsker {
    place: RedisPlace,
    password: Option<String>,
}

impl RedisAsker {
    /// As [`Redis::run`].
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<String, TestkitError> {
        let mut command = client(&self.place)?;
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
    place: RedisPlace,
}

impl Sentinel {
    /// Starts one that watches the primary at `primary` under the name `galley`, with two others.
    pub(crate) fn start(
        dir: &Path,
        place: RedisPlace,
        primary: &RedisPlace,
        password: &str,
    ) -> Result<Self, TestkitError> {
        fs::create_dir_all(dir).context(format_args!("make {}", dir.display()))?;
        let file = dir.join("sentinel.conf");
        let text = format!(
            "port {}\nbind {} 127.0.0.1\nprotected-mode no\ndir {}\nsentinel monitor galley {} {} 2\n\
             sentinel down-after-milliseconds galley 1000\nsentinel failover-timeout galley 5000\n\
             sentinel auth-pass galley {password}\n",
            place.port,
            place.host,
            dir.display(),
            primary.host,
            primary.port,
        );
        fs::write(&file, text).context("write sentinel.conf")?;
        let mut command = within(&place, &server()?);
        command.arg(&file).arg("--sentinel");
        let log = dir.join("sentinel.log");
        let service = Service::spawn("redis-server", &mut command, &log, StopMode::Kill)?;
        let mut sentinel = Self { service, place };
        let place = sentinel.place.clone();
        sentinel
            .service
            .wait_until("Sentinel to answer", TIMEOUT, || answers(&place))?;
        Ok(sentinel)
    }

    /// Waits until it knows so many others.
    pub(crate) fn wait_for_others(&self, count: usize) -> Result<(), TestkitError> {
        let knows = || {
            let asked = client(&self.place).and_then(|mut command| {
                command.args(["sentinel", "master", "galley"]);
                run("redis-cli", &mut command)
            });
            asked.is_ok_and(|printed| {
                let mut lines = printed
                    .lines()
                    .skip_while(|line| *line != "num-other-sentinels");
                lines.nth(1) == Some(count.to_string().as_str())
            })
        };
        if poll_until(TIMEOUT, knows) {
            return Ok(());
        }
        Err(TestkitError::Refused(
            "a sentinel has not discovered the others".to_owned(),
        ))
    }
}

impl Redis {
    /// Starts it with `dir` for its data. It answers when this returns.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] without the package, [`TestkitError::Ended`] or [`TestkitError::Timeout`] with the log when it does not start.
    pub fn start(dir: &Path) -> Result<Self, TestkitError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let place = RedisPlace {
                through: Vec::new(),
                host: "127.0.0.1".to_owned(),
                port: addresses::free_port()?,
            };
            match Self::start_at(dir, place) {
                // Somebody else took the port meanwhile.
                Err(TestkitError::Ended { log, .. }) if log.contains("bind") && tries < 5 => {}
                outcome => return outcome,
            }
        }
    }

    /// The same at a given place.
    pub(crate) fn start_at(dir: &Path, place: RedisPlace) -> Result<Self, TestkitError> {
        fs::create_dir_all(dir).context(format_args!("make {}", dir.display()))?;
        Ok(Self {
            service: launch(dir, &place)?,
            dir: dir.to_owned(),
            place,
            password: None,
        })
    }

    /// `redis://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("redis://{}:{}", self.place.host, self.place.port)
    }

    /// Runs a command; what `redis-cli` prints.
    ///
    /// # Errors
    /// [`TestkitError::Ended`] with what was printed when the command fails.
    pub fn run(&self, arguments: &[&str]) -> Result<String, TestkitError> {
        self.asker().run(arguments)
    }

    /// What runs commands beside this.
    pub(crate) fn asker(&self) -> RedisAsker {
        RedisAsker {
            place: self.place.clone(),
            password: self.password.clone(),
        }
    }

    /// Where it runs.
    pub(crate) fn place(&self) -> &RedisPlace {
        &self.place
    }

    /// Changes the password of new connections, and ends the others.
    pub(crate) fn set_password(&mut self, password: &str) -> Result<(), TestkitError> {
        self.run(&["config", "set", "requirepass", password])?;
        self.password = Some(password.to_owned()).filter(|password| !password.is_empty());
        self.run(&["client", "kill", "type", "normal", "skipme", "yes"])?;
        Ok(())
    }

    /// Ends it at once, without a word.
    pub fn kill(&mut self) {
        self.service.kill();
    }

    /// Starts it again on its port, with what is left of its data.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn restart(&mut self) -> Result<(), TestkitError> {
        self.service.kill();
        self.service = launch(&self.dir, &self.place)?;
        self.password = None;
        Ok(())
    }

    /// Starts it again without its data.
    pub(crate) fn restart_empty(&mut self) -> Result<(), TestkitError> {
        self.service.kill();
        let data = self.dir.join("appendonlydir");
        if data.exists() {
            fs::remove_dir_all(&data).context("remove the data of Redis")?;
        }
        self.restart()
    }

    /// Sends it a signal: `STOP` pauses it.
    pub fn signal(&self, signal: rustix::process::Signal) {
        self.service.signal(signal);
    }
}

/// The program of the engine.
fn server() -> Result<PathBuf, TestkitError> {
    match env::var_os("GALLEY_TESTKIT_ENGINE") {
        Some(program) => Ok(PathBuf::from(program)),
        None => programs::find(&["redis-server"]),
    }
}

/// Starts a program at a place.
fn within(place: &RedisPlace, program: &Path) -> Command {
    match place.through.split_first() {
        None => Command::new(program),
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    }
}

/// Asks from where the server is, so that no cut of a network is in the way.
fn client(place: &RedisPlace) -> Result<Command, TestkitError> {
    let mut command = within(place, &programs::find(&["redis-cli"])?);
    command.args(["-h", "127.0.0.1", "-p", &place.port.to_string()]);
    Ok(command)
}

fn answers(place: &RedisPlace) -> bool {
    client(place).is_ok_and(|mut command| {
        run("redis-cli", command.arg("ping")).is_ok_and(|printed| printed.trim() == "PONG")
    })
}

fn launch(dir: &Path, place: &RedisPlace) -> Result<Service, TestkitError> {
    let mut command = within(place, &server()?);
    let bind = match place.host.as_str() {
        "127.0.0.1" => "127.0.0.1",
        // Its address may move to another machine.
        _ => "0.0.0.0",
    };
    command.args(["--bind", bind, "--save", "", "--appendonly", "yes"]);
    command.args(["--appendfsync", "always", "--protected-mode", "no"]);
    command
        .args(["--port", &place.port.to_string()])
        .arg("--dir")
        .arg(dir);
    let log = dir.join("redis.log");
    let mut service = Service::spawn("redis-server", &mut command, &log, StopMode::Kill)?;
    service.wait_until("Redis to answer", TIMEOUT, || answers(place))?;
    Ok(service)
}

const TIMEOUT: Duration = Duration::from_secs(60);
