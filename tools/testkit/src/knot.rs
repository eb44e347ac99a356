//! Runs a private DNS server, Knot: with one zone that accepts dynamic updates (RFC 2136) with one key, or with given zones.
//!
//! It does not use the machine's Knot configuration or data.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpStream},
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
        let records = "@ A 127.0.0.1\n* A 127.0.0.1\n";
        let key =
            format!("key \"{KEY}\" {{\n\talgorithm hmac-sha256;\n\tsecret \"{SECRET}\";\n}};\n");
        fs::create_dir_all(dir).context(format_args!("create {}", dir.display()))?;
        fs::write(dir.join("tsig.key"), key).context("write the key")?;
        let mut last = None;
        for _ in 0..ATTEMPTS {
            // Another process may take the port before the server binds to it.
            let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), addresses::free_port()?);
            match Self::start_at(dir, address, &[(zone, records)]) {
                Err(error @ TestkitError::Ended { .. }) => last = Some(error),
                other => return other,
            }
        }
        Err(last.unwrap_or_else(|| TestkitError::Unreachable("no free port for Knot".to_owned())))
    }

    /// Starts a server at an address, with zones and their records, and waits until it accepts connections. The system's resolver needs
    /// port 53, which only root may bind.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_at(
        dir: &Path,
        address: SocketAddr,
        zones: &[(&str, &str)],
    ) -> Result<Self, TestkitError> {
        fs::create_dir_all(dir.join("db")).context(format_args!("create {}", dir.display()))?;
        for (zone, records) in zones {
            let text = format!(
                "$ORIGIN {zone}.\n$TTL 60\n@ SOA ns admin 1 3600 900 86400 60\n@ NS ns\nns A 127.0.0.1\n{records}"
            );
            fs::write(dir.join(zone), text).context("write a zone")?;
        }
        let names: Vec<&str> = zones.iter().map(|(zone, _)| *zone).collect();
        let file = dir.join("knot.conf");
        let text = configuration(dir, address, &names);
        fs::write(&file, text).context("write knot.conf")?;
        let mut command = Command::new(programs::find(&["knotd"])?);
        command.arg("-c").arg(&file);
        let log = dir.join("knot.log");
        let mut service = Service::spawn("knotd", &mut command, &log, StopMode::Kill)?;
        service.wait_until("Knot to accept connections", TIMEOUT, || {
            TcpStream::connect(address).is_ok()
        })?;
        Ok(Self {
            _service: service,
            dir: dir.to_owned(),
            port: address.port(),
            zone: names.first().copied().unwrap_or_default().to_owned(),
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

fn configuration(dir: &Path, address: SocketAddr, zones: &[&str]) -> String {
    let dir = dir.display();
    let zones: Vec<String> = zones
        .iter()
        .map(|zone| {
            format!("  - domain: {zone}\n    storage: \"{dir}\"\n    file: {zone}\n    acl: update\n    zonefile-sync: -1\n    zonefile-load: whole\n")
        })
        .collect();
    format!(
        "server:\n    rundir: \"{dir}\"\n    listen: {}@{}\n\
         control:\n    listen: \"{dir}/knot.sock\"\n\
         log:\n  - target: stderr\n    any: info\n\
         database:\n    storage: \"{dir}/db\"\n\
         key:\n  - id: {KEY}\n    algorithm: hmac-sha256\n    secret: {SECRET}\n\
         acl:\n  - id: update\n    key: {KEY}\n    action: update\n\
         zone:\n{}",
        address.ip(),
        address.port(),
        zones.concat()
    )
}

const KEY: &str = "galley";
const SECRET: &str = "Zm9yIHRlc3RzIGFsb25lLCBhbmQgdGhlcmVmb3JlIHB1YmxpYw==";
const ATTEMPTS: usize = 3;
const TIMEOUT: Duration = Duration::from_secs(30);
