//! The test environment: Galley with one site whose certificate Pebble issues.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::{Galley, Pebble, PebbleOptions, Scratch, free_port, wait_for};
use serde_json::Value;

/// The hosts of the site. The certificate file is named after the shortest one.
pub const HOST: &str = "example.test";
pub const WWW_HOST: &str = "www.example.test";

/// Limit for every wait, for busy machines. Failed orders are retried after seconds.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Settings of the site and of Pebble, with the files of both.
pub struct AcmeSite {
    pub scratch: Scratch,
    pub pebble: PebbleOptions,
    pub port: u16,
    pub tls_port: u16,
    acme: String,
    hosts: Vec<&'static str>,
    directory_port: u16,
}

impl AcmeSite {
    pub fn new() -> Self {
        let scratch = Scratch::new().unwrap();
        scratch
            .write("root/index.html", "<html>plain</html>")
            .unwrap();
        let [port, tls_port, directory_port] = [(); 3].map(|()| free_port().unwrap());
        Self {
            scratch,
            pebble: PebbleOptions {
                http_port: port,
                tls_port,
                port: directory_port,
                ..PebbleOptions::default()
            },
            port,
            tls_port,
            acme: String::new(),
            hosts: vec![HOST, WWW_HOST],
            directory_port,
        }
    }

    /// Adds lines to `[acme]`.
    pub fn acme(mut self, lines: &str) -> Self {
        let _ = writeln!(self.acme, "{lines}");
        self
    }

    /// Replaces the hosts of the site.
    pub fn hosts(mut self, hosts: &[&'static str]) -> Self {
        self.hosts = hosts.to_vec();
        self
    }

    pub fn start_pebble(&self) -> Pebble {
        Pebble::start(&self.scratch.dir("pebble").unwrap(), &self.pebble).unwrap()
    }

    /// Starts Galley. Pebble need not run.
    pub fn start_galley(&self) -> Galley {
        let root = self.scratch.join("root");
        let config = format!(
            "[server]\nlisten = [\"127.0.0.1:{port}\"]\nlisten_tls = [\"127.0.0.1:{tls_port}\"]\n\
             [acme]\ndirectory = \"https://127.0.0.1:{directory}/dir\"\nca = \"{ca}\"\nstorage = \"{storage}\"\n\
             retry = \"1s\"\n{acme}\
             [[site]]\nhosts = {hosts:?}\nroot = \"{root}\"\ntls = \"auto\"\n",
            port = self.port,
            tls_port = self.tls_port,
            directory = self.directory_port,
            ca = self.scratch.join("pebble/cert.pem").display(),
            storage = self.storage().display(),
            acme = self.acme,
            hosts = self.hosts,
            root = root.display(),
        );
        Galley::start(self.scratch.path(), &config).unwrap()
    }

    pub fn storage(&self) -> PathBuf {
        self.scratch.join("storage")
    }

    /// The storage folder of the ACME directory.
    pub fn directory_folder(&self) -> PathBuf {
        self.storage()
            .join(format!("127.0.0.1-{}-dir", self.directory_port))
    }

    pub fn certificate_file(&self) -> PathBuf {
        self.directory_folder()
            .join("sites")
            .join(format!("{HOST}.pem"))
    }

    /// The stored certificate chain without its key; empty if none is stored.
    pub fn stored_chain(&self) -> String {
        let text = fs::read_to_string(self.certificate_file()).unwrap_or_default();
        let begin = text.find("-----BEGIN CERTIFICATE-----");
        begin.map_or_else(String::new, |at| text[at..].to_owned())
    }

    /// Waits until a certificate other than `old` is stored and returns it.
    #[track_caller]
    pub fn await_new_chain(&self, old: &str) -> String {
        wait_for("a new certificate", TIMEOUT, || {
            let chain = self.stored_chain();
            !chain.is_empty() && chain != old
        });
        self.stored_chain()
    }
}

/// The state of the site's certificate in `galley status`.
pub fn certificate_state(galley: &Galley) -> Value {
    let output = galley.cli(&["status", "--json"]).unwrap();
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    status["sites"][0]["certificates"][0].clone()
}

/// Waits until the state of the certificate fulfills a condition and returns it.
#[track_caller]
pub fn await_state(galley: &Galley, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    wait_for(what, TIMEOUT, || {
        last = certificate_state(galley);
        condition(&last)
    });
    last
}

/// Sends a request to the site over HTTP without TLS.
pub fn get(galley: &Galley, target: &str) -> Response {
    let request = Request::get(target).field("Host", HOST);
    let mut connection = Connection::open(galley.addr()).unwrap();
    connection.exchange(&request).unwrap()
}

pub fn file_mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}
