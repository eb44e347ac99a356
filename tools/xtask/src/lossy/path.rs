//! A client and a server in network namespaces of their own, and a path between both that delays packets and loses some. The kernel
//! needs no such queue for it: a program relays packets between two TUN devices.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::error::CommandError;

/// The two namespaces and the relay. Dropping it removes them.
#[derive(Debug)]
pub(super) struct LossyPath {
    id: u32,
    relay: Child,
}

/// One side of the path.
#[derive(Debug, Clone, Copy)]
pub(super) enum Side {
    Client,
    Server,
}

impl LossyPath {
    /// Creates a path with this delay and this share of lost packets in each direction. `tcp`: the congestion control
    /// of TCP. `dir`: a folder for the program.
    ///
    /// # Errors
    /// This process is not root, or the system has no TUN devices.
    pub(super) fn open(
        dir: &Path,
        delay_ms: f64,
        loss: f64,
        tcp: &str,
    ) -> Result<Self, CommandError> {
        let id = std::process::id();
        let script = dir.join("relay.py");
        fs::write(&script, include_str!("relay.py"))?;
        let mut relay = Command::new("python3")
            .arg(&script)
            .args([Side::Client.device(id), Side::Server.device(id)])
            .args([delay_ms.to_string(), loss.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = relay.stdout.take().ok_or("no output")?;
        let path = Self { id, relay };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        if line != "ready\n" {
            return Err("no TUN devices: run as root, and see /dev/net/tun".into());
        }
        for side in [Side::Client, Side::Server] {
            path.connect(side, tcp)?;
        }
        Ok(path)
    }

    fn connect(&self, side: Side, tcp: &str) -> Result<(), CommandError> {
        let (name, device) = (side.namespace(self.id), side.device(self.id));
        ip(&["netns", "add", &name])?;
        ip(&["link", "set", &device, "netns", &name])?;
        let (own, peer) = match side {
            Side::Client => (CLIENT, SERVER),
            Side::Server => (SERVER, CLIENT),
        };
        ip(&[
            "-n", &name, "addr", "add", own, "peer", peer, "dev", &device,
        ])?;
        for device in ["lo", &device] {
            ip(&["-n", &name, "link", "set", device, "up"])?;
        }
        // TCP begins each connection without what it knows of earlier ones, as QUIC does.
        let settings = "cd /proc/sys/net/ipv4 && echo 1 > tcp_no_metrics_save && echo $0 > tcp_congestion_control";
        let mut command = self.command(side, "sh");
        run(command.args(["-c", settings, tcp]))
    }

    /// A command that runs a program on a side.
    pub(super) fn command(&self, side: Side, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        let name = side.namespace(self.id);
        command.args(["netns", "exec", &name]).arg(program);
        command
    }
}

impl Drop for LossyPath {
    fn drop(&mut self) {
        drop(self.relay.stdin.take());
        let _ = self.relay.wait();
        for side in [Side::Client, Side::Server] {
            let _ = ip(&["netns", "del", &side.namespace(self.id)]);
        }
    }
}

impl Side {
    fn namespace(self, id: u32) -> String {
        let number = match self {
            Self::Client => 1,
            Self::Server => 2,
        };
        format!("galley-{id}-{number}")
    }

    fn device(self, id: u32) -> String {
        match self {
            Self::Client => format!("gl{id:x}c"),
            Self::Server => format!("gl{id:x}s"),
        }
    }
}

fn ip(arguments: &[&str]) -> Result<(), CommandError> {
    run(Command::new("ip").args(arguments))
}

fn run(command: &mut Command) -> Result<(), CommandError> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {stderr}").into())
}

/// Addresses of documentation (RFC 5737), in the namespaces only.
const CLIENT: &str = "192.0.2.1";
pub(super) const SERVER: &str = "192.0.2.2";
