//! A Redis of its own: one process on a free port of 127.0.0.1, with its data in a directory.
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
    port: u16,
}

impl Redis {
    /// Starts it with `dir` for its data. It answers when this returns.
    ///
    /// # Errors
    /// [`Trouble::Missing`] without the package, [`Trouble::Ended`] or [`Trouble::Late`] with the log when it does not start.
    pub fn start(dir: &Path) -> Result<Self, Trouble> {
        fs::create_dir_all(dir).during(format_args!("make {}", dir.display()))?;
        let mut tries = 0;
        loop {
            tries += 1;
            let port = place::free_port()?;
            match launch(dir, port) {
                Ok(service) => {
                    return Ok(Self {
                        service,
                        dir: dir.to_owned(),
                        port,
                    });
                }
                // Somebody else took the port meanwhile.
                Err(Trouble::Ended { log, .. }) if log.contains("bind") && tries < 5 => {}
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// `redis://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Runs a command; what `redis-cli` prints.
    ///
    /// # Errors
    /// [`Trouble::Failed`] with what was printed when the command fails.
    pub fn run(&self, arguments: &[&str]) -> Result<String, Trouble> {
        let mut command = Command::new(place::program(&["redis-cli"])?);
        command.args(["-h", "127.0.0.1", "-p"]);
        command.arg(self.port.to_string()).args(arguments);
        run("redis-cli", &mut command)
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
        self.service = launch(&self.dir, self.port)?;
        Ok(())
    }

    /// Sends it a signal: `STOP` pauses it.
    pub fn signal(&self, signal: rustix::process::Signal) {
        self.service.signal(signal);
    }
}

fn launch(dir: &Path, port: u16) -> Result<Service, Trouble> {
    let mut command = Command::new(place::program(&["redis-server"])?);
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]);
    command.args(["--appendfsync", "always", "--port", &port.to_string()]);
    command.arg("--dir").arg(dir);
    let log = dir.join("redis.log");
    let mut service = Service::spawn("redis-server", &mut command, &log, Farewell::Kill)?;
    let port = port.to_string();
    service.wait_until("Redis to answer", PATIENCE, || {
        let mut asked = Command::new("redis-cli");
        asked.args(["-h", "127.0.0.1", "-p", &port, "ping"]);
        run("redis-cli", &mut asked).is_ok_and(|said| said.trim() == "PONG")
    })?;
    Ok(service)
}

const PATIENCE: Duration = Duration::from_secs(60);
