//! A DNS server of its own, Knot, with one zone that takes dynamic updates (RFC 2136) from one key.
//!
//! Nothing of the machine's Knot is read or written.

use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    error::{Context, TestkitError},
    place,
    process::{Farewell, Service, run},
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
    /// Starts it in `dir` with a zone in which every name leads to 127.0.0.1. It answers when this returns.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] without the package, [`TestkitError::Ended`] or [`TestkitError::Late`] with its log.
    pub fn start(dir: &Path, zone: &str) -> Result<Self, TestkitError> {
        fs::create_dir_all(dir.join("db")).context(format_args!("make {}", dir.display()))?;
        let records = format!(
            "$ORIGIN {zone}.\n$TTL 60\n@ SOA ns admin 1 3600 900 86400 60\n@ NS ns\n@ A 127.0.0.1\n* A 127.0.0.1\nns A 127.0.0.1\n"
        );
        fs::write(dir.join("zone"), records).context("write the zone")?;
        let key =
            format!("key \"{KEY}\" {{\n\talgorithm hmac-sha256;\n\tsecret \"{SECRET}\";\n}};\n");
        fs::write(dir.join("tsig.key"), key).context("write the key")?;
        let mut last = None;
        for _ in 0..TRIES {
            // Somebody else may take the port between the look and the start.
            match Self::try_start(dir, zone) {
                Err(trouble @ TestkitError::Ended { .. }) => last = Some(trouble),
                other => return other,
            }
        }
        Err(last.unwrap_or_else(|| TestkitError::Unreachable("no port for Knot".to_owned())))
    }

    fn try_start(dir: &Path, zone: &str) -> Result<Self, TestkitError> {
        let port = place::free_port()?;
        let file = dir.join("knot.conf");
        fs::write(&file, configuration(dir, port, zone)).context("write knot.conf")?;
        let mut command = Command::new(place::program(&["knotd"])?);
        command.arg("-c").arg(&file);
        let log = dir.join("knot.log");
        let mut service = Service::spawn("knotd", &mut command, &log, Farewell::Kill)?;
        service.wait_until("Knot to accept", TIMEOUT, || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        })?;
        Ok(Self {
            _service: service,
            dir: dir.to_owned(),
            port,
            zone: zone.to_owned(),
        })
    }

    /// Its port, for UDP and TCP.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The key that may change the zone, as `tsig-keygen` prints it.
    pub fn key_file(&self) -> PathBuf {
        self.dir.join("tsig.key")
    }

    /// The records of the zone, one a line.
    pub fn records(&self) -> Result<String, TestkitError> {
        let mut command = Command::new(place::program(&["knotc"])?);
        command.arg("-s").arg(self.dir.join("knot.sock"));
        run("knotc", command.args(["zone-read", &self.zone]))
    }

    /// All that it has said.
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
const TRIES: usize = 3;
const TIMEOUT: Duration = Duration::from_secs(30);
