//! A Galley with one site whose certificate Pebble issues, and what is asked of both.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::{Galley, Pebble, PebbleOptions, Scratch, free_port, wait_for};
use serde_json::Value;

/// The names of the site; the first names its file.
pub const HOST: &str = "example.test";
pub const OTHER: &str = "www.example.test";

/// For everything that must happen but may take a while on a busy machine: orders that fail are tried again after seconds.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// What is to be started.
pub struct Plan {
    pub scratch: Scratch,
    pub pebble: PebbleOptions,
    pub port: u16,
    pub tls_port: u16,
    acme: String,
    hosts: Vec<&'static str>,
    directory_port: u16,
}

impl Plan {
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
            hosts: vec![HOST, OTHER],
            directory_port,
        }
    }

    /// Lines of `[acme]`.
    pub fn acme(mut self, lines: &str) -> Self {
        let _ = writeln!(self.acme, "{lines}");
        self
    }

    /// The names of the site.
    pub fn hosts(mut self, hosts: &[&'static str]) -> Self {
        self.hosts = hosts.to_vec();
        self
    }

    /// Starts Pebble.
    pub fn pebble(&self) -> Pebble {
        Pebble::start(&self.scratch.dir("pebble").unwrap(), &self.pebble).unwrap()
    }

    /// Starts Galley, which needs no Pebble to be there.
    pub fn galley(&self) -> Galley {
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

    /// The folder of the directory below the storage.
    pub fn folder(&self) -> PathBuf {
        self.storage()
            .join(format!("127.0.0.1-{}-dir", self.directory_port))
    }

    /// Where the site's certificate is stored.
    pub fn file(&self) -> PathBuf {
        self.folder().join("sites").join(format!("{HOST}.pem"))
    }

    /// The stored certificate without its key; empty where there is none.
    pub fn chain(&self) -> String {
        let text = fs::read_to_string(self.file()).unwrap_or_default();
        let begin = text.find("-----BEGIN CERTIFICATE-----");
        begin.map_or_else(String::new, |at| text[at..].to_owned())
    }

    /// Waits until the site's certificate is stored and is not `old`.
    #[track_caller]
    pub fn await_chain(&self, old: &str) -> String {
        wait_for("another certificate", TIMEOUT, || {
            let chain = self.chain();
            !chain.is_empty() && chain != old
        });
        self.chain()
    }
}

/// How the site's certificate stands, by `galley status`.
pub fn state(galley: &Galley) -> Value {
    let output = galley.cli(&["status", "--json"]).unwrap();
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    status["sites"][0]["certificates"][0].clone()
}

/// Waits until a state is as it should be, and gives it.
#[track_caller]
pub fn await_state(galley: &Galley, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    wait_for(what, TIMEOUT, || {
        last = state(galley);
        is_so(&last)
    });
    last
}

/// Asks the site over plain HTTP.
pub fn get(galley: &Galley, target: &str) -> Response {
    let request = Request::get(target).field("Host", HOST);
    let mut connection = Connection::open(galley.addr()).unwrap();
    connection.exchange(&request).unwrap()
}

/// The owner's rights and everybody else's.
pub fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}
