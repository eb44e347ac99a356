//! Pebble, the authority that Let's Encrypt has for tests, with a DNS server that leads every name to this machine.
//!
//! `scripts/setup` builds both through the Go module proxy into a folder of the project's own. Its database lives in memory:
//! a Pebble that was started anew knows neither accounts nor certificates of the one before.

use std::{
    env, fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::json;

use crate::{
    client::{Connection, Request},
    error::{Context, TestkitError},
    place,
    process::{Farewell, Service, run},
};

/// A running Pebble with its DNS server.
#[derive(Debug)]
pub struct Pebble {
    service: Service,
    /// Ends with it.
    _dns: Service,
    dir: PathBuf,
    ports: Ports,
}

/// How it is to be.
#[derive(Debug, Clone)]
pub struct PebbleOptions {
    /// Where it asks for proofs by HTTP.
    pub http_port: u16,
    /// Where it asks for proofs by TLS.
    pub tls_port: u16,
    /// The port of the DNS server that it asks; `None`: of its own.
    pub dns: Option<u16>,
    /// Where its directory is; 0: anywhere.
    pub port: u16,
    /// How long certificates are valid, in seconds.
    pub validity_s: u64,
    /// Variables that steer it: `PEBBLE_WFE_NONCEREJECT` (by default no good nonce is refused) and others.
    pub env: Vec<(&'static str, &'static str)>,
    /// An account that it wants to be told of: name, and key in base64url.
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
    names: u16,
}

impl Pebble {
    /// Starts it in `dir`. It accepts when this returns.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] where it was not built, [`TestkitError::Ended`] or [`TestkitError::Late`] with its log.
    pub fn start(dir: &Path, options: &PebbleOptions) -> Result<Self, TestkitError> {
        fs::create_dir_all(dir).context(format_args!("make {}", dir.display()))?;
        make_certificate(dir)?;
        let mut last = None;
        for _ in 0..TRIES {
            // Somebody else may take a port between the look and the start.
            match Self::try_start(dir, options) {
                Err(trouble @ TestkitError::Ended { .. }) => last = Some(trouble),
                other => return other,
            }
        }
        Err(last.unwrap_or_else(|| TestkitError::Unreachable("no port for Pebble".to_owned())))
    }

    fn try_start(dir: &Path, options: &PebbleOptions) -> Result<Self, TestkitError> {
        let ports = Ports {
            directory: match options.port {
                0 => place::free_port()?,
                port => port,
            },
            management: place::free_port()?,
            dns: place::free_port()?,
            names: place::free_port()?,
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
        let mut service = Service::spawn("pebble", &mut command, &log, Farewell::Kill)?;
        service.wait_until("pebble to accept", TIMEOUT, || {
            accepts(ports.directory) && accepts(ports.management)
        })?;
        Ok(Self {
            service,
            _dns: dns,
            dir: dir.to_owned(),
            ports,
        })
    }

    /// The address of the directory.
    pub fn directory(&self) -> String {
        format!("https://127.0.0.1:{}/dir", self.ports.directory)
    }

    /// The port of the directory.
    pub fn port(&self) -> u16 {
        self.ports.directory
    }

    /// The root that its own certificate comes from.
    pub fn ca(&self) -> PathBuf {
        self.dir.join("cert.pem")
    }

    /// The root that the certificates which it issues come from.
    pub fn root(&self) -> Result<String, TestkitError> {
        self.manage("/roots/0", None)
    }

    /// All that it has said, over all its starts in this folder.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("pebble.log")).unwrap_or_default()
    }

    /// How many orders it has taken, over all its starts in this folder.
    pub fn orders(&self) -> usize {
        self.log().matches("Added order").count()
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        self.service.kill();
    }

    /// Where its DNS server takes changes: `POST /set-txt` adds a record, `/clear-txt` removes those of a name.
    pub fn names(&self) -> u16 {
        self.ports.names
    }

    /// From now on the DNS fails for a name, or works again.
    pub fn set_servfail(&self, host: &str, fails: bool) -> Result<(), TestkitError> {
        let path = if fails {
            "/set-servfail"
        } else {
            "/clear-servfail"
        };
        let address = ([127, 0, 0, 1], self.ports.names).into();
        let body = json!({ "host": host }).to_string();
        let request = Request::new("POST", path)
            .field("Host", "localhost")
            .body(body);
        let answer = Connection::open(address)?.exchange(&request)?;
        match answer.status {
            200 => Ok(()),
            status => Err(TestkitError::Refused(format!("{path}: {status}"))),
        }
    }

    /// What it says from now on about when to renew a certificate, given in PEM.
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
        let mut curl = Command::new(place::program(&["curl"])?);
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
        .arg(format!("127.0.0.1:{}", ports.names));
    let log = dir.join("dns.log");
    let mut service = Service::spawn("pebble-challtestsrv", &mut command, &log, Farewell::Kill)?;
    service.wait_until("the DNS server to accept", TIMEOUT, || {
        accepts(ports.dns) && accepts(ports.names)
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

/// What Pebble itself is reached with: a certificate for 127.0.0.1 that is its own root.
fn make_certificate(dir: &Path) -> Result<(), TestkitError> {
    if dir.join("cert.pem").exists() {
        return Ok(());
    }
    let config = dir.join("openssl.cnf");
    fs::write(&config, OPENSSL).context("write a configuration for openssl")?;
    let mut command = Command::new(place::program(&["openssl"])?);
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

/// `$GALLEY_PEBBLE`, else where `scripts/setup` puts it.
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

/// As `scripts/setup` names it.
const VERSION: &str = "pebble-v2.10.1";
const TRIES: usize = 3;
const TIMEOUT: Duration = Duration::from_secs(60);
const OPENSSL: &str = "[req]\ndistinguished_name = name\nx509_extensions = extensions\nprompt = no\n[name]\nCN = pebble\n\
    [extensions]\nbasicConstraints = critical, CA:FALSE\nsubjectAltName = IP:127.0.0.1, DNS:localhost\n";
