//! A Redis of its own: one process, by default on a free port of 127.0.0.1, with its data in a directory.
//!
//! Nothing of the machine's Redis is read or written.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    place,
    process::{Farewell, Service, run},
    trouble::{During, Trouble},
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
    /// What it listens on.
    pub(crate) bind: String,
    /// Where it is reached from here.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Redis {
    /// Starts it with `dir` for its data. It answers when this returns.
    ///
    /// # Errors
    /// [`Trouble::Missing`] without the package, [`Trouble::Ended`] or [`Trouble::Late`] with the log when it does not start.
    pub fn start(dir: &Path) -> Result<Self, Trouble> {
        let mut tries = 0;
        loop {
            tries += 1;
            let place = RedisPlace {
                through: Vec::new(),
                bind: "127.0.0.1".to_owned(),
                host: "127.0.0.1".to_owned(),
                port: place::free_port()?,
            };
            match Self::start_at(dir, place) {
                // Somebody else took the port meanwhile.
                Err(Trouble::Ended { log, .. }) if log.contains("bind") && tries < 5 => {}
                outcome => return outcome,
            }
        }
    }

    /// The same at a given place.
    pub(crate) fn start_at(dir: &Path, place: RedisPlace) -> Result<Self, Trouble> {
        fs::create_dir_all(dir).during(format_args!("make {}", dir.display()))?;
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
    /// [`Trouble::Failed`] with what was printed when the command fails.
    pub fn run(&self, arguments: &[&str]) -> Result<String, Trouble> {
        let mut command = client(&self.place)?;
        if let Some(password) = &self.password {
            command.env("REDISCLI_AUTH", password);
        }
        run("redis-cli", command.args(arguments))
    }

    /// Changes the password of new connections, and ends the others.
    pub(crate) fn set_password(&mut self, password: &str) -> Result<(), Trouble> {
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
    pub fn restart(&mut self) -> Result<(), Trouble> {
        self.service.kill();
        self.service = launch(&self.dir, &self.place)?;
        self.password = None;
        Ok(())
    }

    /// Starts it again without its data.
    pub(crate) fn restart_empty(&mut self) -> Result<(), Trouble> {
        self.service.kill();
        let data = self.dir.join("appendonlydir");
        if data.exists() {
            fs::remove_dir_all(&data).during("remove the data of Redis")?;
        }
        self.restart()
    }

    /// Sends it a signal: `STOP` pauses it.
    pub fn signal(&self, signal: rustix::process::Signal) {
        self.service.signal(signal);
    }
}

fn client(place: &RedisPlace) -> Result<Command, Trouble> {
    let mut command = Command::new(place::program(&["redis-cli"])?);
    command.args(["-h", &place.host, "-p", &place.port.to_string()]);
    Ok(command)
}

fn launch(dir: &Path, place: &RedisPlace) -> Result<Service, Trouble> {
    let program = place::program(&["redis-server"])?;
    let mut command = match place.through.split_first() {
        None => Command::new(program),
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    };
    command.args(["--bind", &place.bind, "--save", "", "--appendonly", "yes"]);
    command.args(["--appendfsync", "always", "--protected-mode", "no"]);
    command
        .args(["--port", &place.port.to_string()])
        .arg("--dir")
        .arg(dir);
    let log = dir.join("redis.log");
    let mut service = Service::spawn("redis-server", &mut command, &log, Farewell::Kill)?;
    service.wait_until("Redis to answer", PATIENCE, || {
        client(place).is_ok_and(|mut command| {
            run("redis-cli", command.arg("ping")).is_ok_and(|printed| printed.trim() == "PONG")
        })
    })?;
    Ok(service)
}

const PATIENCE: Duration = Duration::from_secs(60);
