//! Runs Pebble, the certificate authority of Let's Encrypt for tests, with a DNS server that resolves every name to this
//! machine.
//!
//! `scripts/setup` builds both through the Go module proxy into a folder of this project. Pebble's database is in memory, so a
//! restart loses all accounts and certificates.

use std::{
    env, fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::json;

use crate::{
    addresses,
    client::{Connection, Request},
    error::{Context, TestkitError},
    process::{Service, StopMode, run},
    programs,
};

/// A running Pebble with its DNS server.
#[derive(Debug)]
pub struct Pebble {
    service: Service,
    _dns: Service,
    dir: PathBuf,
    ports: Ports,
}

/// The configuration of a [`Pebble`].
#[derive(Debug, Clone)]
pub struct PebbleOptions {
    /// The port that it validates `http-01` challenges at.
    pub http_port: u16,
    /// The port that it validates `tls-alpn-01` challenges at.
    pub tls_port: u16,
    /// The port of its DNS resolver; `None` for the built-in DNS server.
    pub dns: Option<u16>,
    /// The port of the ACME directory; 0 for any free port.
    pub port: u16,
    /// Validity of certificates in seconds.
    pub validity_s: u64,
    /// Environment variables, such as `PEBBLE_WFE_NONCEREJECT` (by default it rejects no valid nonce).
    pub env: Vec<(&'static str, &'static str)>,
    /// The required external account binding: key id, and key in base64url.
    pub binding: Option<(&'static str, &'static str)>,
}

impl Default for PebbleOptions {
    fn default() -> Self {
        Self {
            http_port: 0,
            tls_port: 0,
            dns: None,
            port: 0,
            validity_s: 90 * 86_400,
            env: Vec::new(),
            binding: None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    directory: u16,
    management: u16,
    dns: u16,
    /// The management interface of the DNS server.
    dns_management: u16,
}

impl Pebble {
    /// Starts a server in `dir` and waits until it accepts connections.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] if Pebble has not been built, [`TestkitError::Ended`] or [`TestkitError::Timeout`] with the log
    /// if it does not start.
    pub fn start(dir: &Path, options: &PebbleOptions) -> Result<Self, TestkitError> {
        fs::create_dir_all(dir).context(format_args!("create {}", dir.display()))?;
        make_certificate(dir)?;
        let mut last = None;
        for _ in 0..ATTEMPTS {
            // Another process may take a port before the server binds to it.
            match Self::try_start(dir, options) {
                Err(error @ TestkitError::Ended { .. }) => last = Some(error),
                other => return other,
            }
        }
        Err(last.unwrap_or_else(|| TestkitError::Unreachable("no free port for Pebble".to_owned())))
    }

    fn try_start(dir: &Path, options: &PebbleOptions) -> Result<Self, TestkitError> {
        let ports = Ports {
            directory: match options.port {
                0 => addresses::free_port()?,
                port => port,
            },
            management: addresses::free_port()?,
            dns: addresses::free_port()?,
            dns_management: addresses::free_port()?,
        };
        let dns = start_dns(dir, ports)?;
        let config = dir.join("pebble.json");
        fs::write(&config, configuration(dir, options, ports).to_string())
            .context("write Pebble's configuration")?;
        let mut command = Command::new(program("pebble")?);
        command
            .current_dir(dir)
            .arg("-config")
            .arg(&config)
            .arg("-dnsserver")
            .arg(format!("127.0.0.1:{}", options.dns.unwrap_or(ports.dns)))
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_WFE_NONCEREJECT", "0")
            .envs(options.env.iter().copied());
        let log = dir.join("pebble.log");
        let mut service = Service::spawn("pebble", &mut command, &log, StopMode::Kill)?;
        service.wait_until("pebble to accept connections", TIMEOUT, || {
            accepts(ports.directory) && accepts(ports.management)
        })?;
        Ok(Self {
            service,
            _dns: dns,
            dir: dir.to_owned(),
            ports,
        })
    }

    /// The URL of the ACME directory.
    pub fn directory(&self) -> String {
        format!("https://127.0.0.1:{}/dir", self.ports.directory)
    }

    /// The port of the ACME directory.
    pub fn port(&self) -> u16 {
        self.ports.directory
    }

    /// The root certificate of Pebble's HTTPS endpoint, as a file.
    pub fn ca(&self) -> PathBuf {
        self.dir.join("cert.pem")
    }

    /// The root certificate of issued certificates, in PEM.
    pub fn root(&self) -> Result<String, TestkitError> {
        self.manage("/roots/0", None)
    }

    /// The log of all runs in this directory.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("pebble.log")).unwrap_or_default()
    }

    /// Number of ACME orders in all runs in this directory.
    pub fn orders(&self) -> usize {
        self.log().matches("Added order").count()
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) {
        self.service.kill();
    }

    /// The port of the DNS server's management interface: `POST /set-txt` adds a record, `/clear-txt` removes those of a name.
    pub fn names(&self) -> u16 {
        self.ports.dns_management
    }

    /// Sets whether the DNS server responds with SERVFAIL for a name.
    pub fn set_servfail(&self, host: &str, fails: bool) -> Result<(), TestkitError> {
        let path = if fails {
            "/set-servfail"
        } else {
            "/clear-servfail"
        };
        let address = ([127, 0, 0, 1], self.ports.dns_management).into();
        let body = json!({ "host": host }).to_string();
        let request = Request::new("POST", path)
            .field("Host", "localhost")
            .body(body);
        let response = Connection::open(address)?.exchange(&request)?;
        match response.status {
            200 => Ok(()),
            status => Err(TestkitError::Refused(format!("{path}: {status}"))),
        }
    }

    /// Sets the suggested renewal window (ARI) of a certificate, given in PEM.
    pub fn set_renewal(
        &self,
        certificate: &str,
        start: &str,
        end: &str,
    ) -> Result<(), TestkitError> {
        let window = json!({ "suggestedWindow": { "start": start, "end": end } });
        let body = json!({ "Certificate": certificate, "ARIResponse": window.to_string() });
        self.manage("/set-renewal-info/", Some(&body.to_string()))
            .map(|_| ())
    }

    fn manage(&self, path: &str, body: Option<&str>) -> Result<String, TestkitError> {
        let mut curl = Command::new(programs::find(&["curl"])?);
        curl.args(["--silent", "--show-error", "--fail", "--max-time", "10"])
            .arg("--cacert")
            .arg(self.ca())
            .arg(format!("https://127.0.0.1:{}{path}", self.ports.management));
        if let Some(body) = body {
            curl.args(["--data", body]);
        }
        run("curl", &mut curl)
    }
}

fn start_dns(dir: &Path, ports: Ports) -> Result<Service, TestkitError> {
    let mut command = Command::new(program("pebble-challtestsrv")?);
    command
        .args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""])
        .args(["-defaultIPv4", "127.0.0.1", "-defaultIPv6", ""])
        .arg("-dnsserver")
        .arg(format!("127.0.0.1:{}", ports.dns))
        .arg("-management")
        .arg(format!("127.0.0.1:{}", ports.dns_management));
    let log = dir.join("dns.log");
    let mut service = Service::spawn("pebble-challtestsrv", &mut command, &log, StopMode::Kill)?;
    service.wait_until("the DNS server to accept connections", TIMEOUT, || {
        accepts(ports.dns) && accepts(ports.dns_management)
    })?;
    Ok(service)
}

fn configuration(dir: &Path, options: &PebbleOptions, ports: Ports) -> serde_json::Value {
    let (id, key) = options.binding.unzip();
    let keys = id.zip(key).map(|(id, key)| json!({ id: key }));
    json!({ "pebble": {
        "listenAddress": format!("127.0.0.1:{}", ports.directory),
        "managementListenAddress": format!("127.0.0.1:{}", ports.management),
        "certificate": dir.join("cert.pem"),
        "privateKey": dir.join("key.pem"),
        "httpPort": options.http_port,
        "tlsPort": options.tls_port,
        "ocspResponderURL": "",
        "externalAccountBindingRequired": options.binding.is_some(),
        "externalAccountMACKeys": keys.unwrap_or_else(|| json!({})),
        "retryAfter": { "authz": 1, "order": 1 },
        "keyAlgorithm": "ecdsa",
        "profiles": { "default": { "description": "for tests", "validityPeriod": options.validity_s } },
    }})
}

/// Creates the self-signed certificate of Pebble's HTTPS endpoint, for 127.0.0.1.
fn make_certificate(dir: &Path) -> Result<(), TestkitError> {
    if dir.join("cert.pem").exists() {
        return Ok(());
    }
    let config = dir.join("openssl.cnf");
    fs::write(&config, OPENSSL).context("write a configuration for openssl")?;
    let mut command = Command::new(programs::find(&["openssl"])?);
    command
        .args(["req", "-x509", "-nodes", "-days", "3650", "-newkey", "ec"])
        .args(["-pkeyopt", "ec_paramgen_curve:P-256", "-config"])
        .arg(&config)
        .arg("-keyout")
        .arg(dir.join("key.pem"))
        .arg("-out")
        .arg(dir.join("cert.pem"));
    run("openssl", &mut command).map(|_| ())
}

/// Finds a program in `$GALLEY_PEBBLE`, otherwise in the folder that `scripts/setup` uses.
fn program(name: &str) -> Result<PathBuf, TestkitError> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let cache = set("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| set("HOME").map(|home| Path::new(&home).join(".cache")));
    let usual = cache.map(|cache| cache.join("galley").join(VERSION));
    let folder = set("GALLEY_PEBBLE").map(PathBuf::from).or(usual);
    let file = folder.map(|folder| folder.join(name));
    file.filter(|file| file.is_file())
        .ok_or_else(|| TestkitError::Missing {
            program: format!("{name} of {VERSION}"),
        })
}

fn accepts(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// The folder name of `scripts/setup`.
const VERSION: &str = "pebble-v2.10.1";
const ATTEMPTS: usize = 3;
const TIMEOUT: Duration = Duration::from_secs(60);
const OPENSSL: &str = "[req]\ndistinguished_name = name\nx509_extensions = extensions\nprompt = no\n[name]\nCN = pebble\n\
    [extensions]\nbasicConstraints = critical, CA:FALSE\nsubjectAltName = IP:127.0.0.1, DNS:localhost\n";
