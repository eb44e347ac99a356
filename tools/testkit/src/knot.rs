//! Runs a private DNS server, Knot, with one zone that accepts dynamic updates (RFC 2136) with one key.
//!
//! It does not use the machine's Knot configuration or data.

use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    addresses,
    error::{Context, TestkitError},
    process::{Service, StopMode, run},
    programs,
};

/// A running Knot.
#[derive(Debug)]
pub struct Knot {
    _service: Service,
    dir: PathBuf,
    port: u16,
    zone: String,
}

impl Knot {
    /// Starts a server in `dir` with a zone that resolves every name to 127.0.0.1, and waits until it accepts connections.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] if the package is not installed, [`TestkitError::Ended`] or [`TestkitError::Timeout`] with the
    /// log if it does not start.
    pub fn start(dir: &Path, zone: &str) -> Result<Self, TestkitError> {
        fs::create_dir_all(dir.join("db")).context(format_args!("create {}", dir.display()))?;
        let records = format!(
            "$ORIGIN {zone}.\n$TTL 60\n@ SOA ns admin 1 3600 900 86400 60\n@ NS ns\n@ A 127.0.0.1\n* A 127.0.0.1\nns A 127.0.0.1\n"
        );
        fs::write(dir.join("zone"), records).context("write the zone")?;
        let key =
            format!("key \"{KEY}\" {{\n\talgorithm hmac-sha256;\n\tsecret \"{SECRET}\";\n}};\n");
        fs::write(dir.join("tsig.key"), key).context("write the key")?;
        let mut last = None;
        for _ in 0..ATTEMPTS {
            // Another process may take the port before the server binds to it.
            match Self::try_start(dir, zone) {
                Err(error @ TestkitError::Ended { .. }) => last = Some(error),
                other => return other,
            }
        }
        Err(last.unwrap_or_else(|| TestkitError::Unreachable("no free port for Knot".to_owned())))
    }

    fn try_start(dir: &Path, zone: &str) -> Result<Self, TestkitError> {
        let port = addresses::free_port()?;
        let file = dir.join("knot.conf");
        fs::write(&file, configuration(dir, port, zone)).context("write knot.conf")?;
        let mut command = Command::new(programs::find(&["knotd"])?);
        command.arg("-c").arg(&file);
        let log = dir.join("knot.log");
        let mut service = Service::spawn("knotd", &mut command, &log, StopMode::Kill)?;
        service.wait_until("Knot to accept connections", TIMEOUT, || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        })?;
        Ok(Self {
            _service: service,
            dir: dir.to_owned(),
            port,
            zone: zone.to_owned(),
        })
    }

    /// The port for UDP and TCP.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The file with the key that may update the zone, in the format of `tsig-keygen`.
    pub fn key_file(&self) -> PathBuf {
        self.dir.join("tsig.key")
    }

    /// The records of the zone, one per line.
    pub fn records(&self) -> Result<String, TestkitError> {
        let mut command = Command::new(programs::find(&["knotc"])?);
        command.arg("-s").arg(self.dir.join("knot.sock"));
        run("knotc", command.args(["zone-read", &self.zone]))
    }

    /// The log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("knot.log")).unwrap_or_default()
    }
}

fn configuration(dir: &Path, port: u16, zone: &str) -> String {
    let dir = dir.display();
    format!(
        "server:\n    rundir: \"{dir}\"\n    listen: 127.0.0.1@{port}\n\
         control:\n    listen: \"{dir}/knot.sock\"\n\
         log:\n  - target: stderr\n    any: info\n\
         database:\n    storage: \"{dir}/db\"\n\
         key:\n  - id: {KEY}\n    algorithm: hmac-sha256\n    secret: {SECRET}\n\
         acl:\n  - id: update\n    key: {KEY}\n    action: update\n\
         zone:\n  - domain: {zone}\n    storage: \"{dir}\"\n    file: zone\n    acl: update\n    zonefile-sync: -1\n    zonefile-load: whole\n"
    )
}

const KEY: &str = "galley";
const SECRET: &str = "Zm9yIHRlc3RzIGFsb25lLCBhbmQgdGhlcmVmb3JlIHB1YmxpYw==";
const ATTEMPTS: usize = 3;
const TIMEOUT: Duration = Duration::from_secs(30);
