//! Servers with an upstream that echoes and records the requests that it receives.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use galley_testkit::origin::Origin;
use galley_testkit::{FpmOptions, Galley, Nginx, PhpFpm, Scratch};

use crate::case::host;
use crate::client::format_request;

/// An upstream that records each request and returns it as the body, cacheable for an hour.
pub struct EchoOrigin {
    origin: Origin,
    requests: Arc<Mutex<Vec<String>>>,
    cookies: Arc<Mutex<Vec<String>>>,
}

impl EchoOrigin {
    pub fn start() -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let recorded_requests = Arc::clone(&requests);
        let cookies = Arc::new(Mutex::new(Vec::new()));
        let recorded_cookies = Arc::clone(&cookies);
        let origin = Origin::start_unrecorded(move |request, writer| {
            let body = writer.body();
            let line = format_request(&request.method, &request.target, &body);
            recorded_requests.lock().unwrap().push(line.clone());
            let is_cookie = |field: &&(String, Vec<u8>)| field.0.eq_ignore_ascii_case("cookie");
            for (_, value) in request.fields.iter().filter(is_cookie) {
                let value = String::from_utf8_lossy(value).into_owned();
                recorded_cookies.lock().unwrap().push(value);
            }
            let fields = [
                ("Content-Type", "text/plain"),
                ("Cache-Control", "max-age=3600"),
            ];
            writer.respond(200, &fields, line.as_bytes());
        });
        Self {
            origin: origin.unwrap(),
            requests,
            cookies,
        }
    }

    /// Each `Cookie` field that the upstream received.
    pub fn cookies(&self) -> Vec<String> {
        self.cookies.lock().unwrap().clone()
    }

    /// What the upstream received since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

/// Galley with an [`EchoOrigin`] as upstream and a host for each case.
pub struct GalleyWithEcho {
    pub galley: Galley,
    pub echo: EchoOrigin,
    _scratch: Scratch,
}

impl GalleyWithEcho {
    pub fn start(hosts: usize) -> Self {
        Self::with(hosts, "", "")
    }

    /// Starts without caching.
    pub fn start_uncached(hosts: usize) -> Self {
        Self::with(hosts, "", "[[site.rule]]\npath = \"/*\"\ncache = false")
    }

    /// Starts with HTTP/2 without TLS.
    pub fn start_h2c(hosts: usize) -> Self {
        Self::with(hosts, "h2c = true", "")
    }

    fn with(hosts: usize, server: &str, rules: &str) -> Self {
        let scratch = Scratch::new().unwrap();
        let echo = EchoOrigin::start();
        let url = echo.origin.url();
        let site = format!("upstream = [\"{url}\"]\npreset = \"none\"\n{rules}");
        let galley = galley_with(&scratch, server, &names(hosts), &site);
        Self {
            galley,
            echo,
            _scratch: scratch,
        }
    }

    pub fn addr(&self) -> SocketAddr {
        self.galley.addr()
    }
}

/// Starts Galley with the origin of a test as upstream.
pub fn with_origin(origin: &Origin) -> GalleyWithFiles {
    let scratch = Scratch::new().unwrap();
    let site = format!("upstream = [\"{}\"]\npreset = \"none\"", origin.url());
    let galley = galley(&scratch, &names(1), &site);
    GalleyWithFiles {
        galley,
        _scratch: scratch,
    }
}

/// Galley and its files.
pub struct GalleyWithFiles {
    galley: Galley,
    _scratch: Scratch,
}

impl GalleyWithFiles {
    pub fn addr(&self) -> SocketAddr {
        self.galley.addr()
    }
}

fn galley(scratch: &Scratch, hosts: &[String], site: &str) -> Galley {
    galley_with(scratch, "", hosts, site)
}

fn galley_with(scratch: &Scratch, server: &str, hosts: &[String], site: &str) -> Galley {
    let hosts: Vec<String> = hosts.iter().map(|host| format!("{host:?}")).collect();
    let config = format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\nrequest_body = \"1MB\"\n{server}\n[admin]\nlisten = \"unix:{}\"\n\
         [cache]\nmemory = \"64MiB\"\n[[site]]\nhosts = [{}]\n{site}\n",
        scratch.join("admin.sock").display(),
        hosts.join(", ")
    );
    Galley::start(&scratch.join("galley"), &config).unwrap()
}

/// Galley with PHP-FPM and a script that echoes and records requests.
pub struct GalleyWithPhp {
    pub galley: Galley,
    _fpm: PhpFpm,
    record: PathBuf,
    _scratch: Scratch,
}

impl GalleyWithPhp {
    pub fn start(hosts: usize) -> Self {
        Self::start_with(hosts, ECHO_SCRIPT)
    }

    /// Starts with another script.
    pub fn start_with(hosts: usize, script: &str) -> Self {
        let scratch = Scratch::new().unwrap();
        let dir = scratch.dir("notes").unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        let record = dir.join("seen");
        let script = script.replace("{notes}", &record.display().to_string());
        scratch.write("root/index.php", script).unwrap();
        let fpm = PhpFpm::start(&scratch.join("fpm"), &FpmOptions::default()).unwrap();
        let site = format!(
            "root = \"{}\"\nphp = \"{}\"",
            scratch.join("root").display(),
            fpm.address()
        );
        let galley = galley(&scratch, &names(hosts), &site);
        Self {
            galley,
            _fpm: fpm,
            record,
            _scratch: scratch,
        }
    }

    /// What the upstream received since the last call.
    pub fn take(&self) -> Vec<String> {
        let text = fs::read(&self.record).unwrap_or_default();
        let _ = fs::remove_file(&self.record);
        let parts = text.split(|byte| *byte == 0x1e);
        parts
            .filter(|part| !part.is_empty())
            .map(|part| {
                let words: Vec<&[u8]> = part.splitn(3, |byte| *byte == b' ').collect();
                let word = |at: usize| String::from_utf8_lossy(words[at]).into_owned();
                format_request(&word(0), &word(1), words[2])
            })
            .collect()
    }
}

const ECHO_SCRIPT: &str = r#"<?php
$line = $_SERVER['REQUEST_METHOD'] . ' ' . $_SERVER['REQUEST_URI'] . ' ' . file_get_contents('php://input');
file_put_contents('{notes}', "\x1e" . $line, FILE_APPEND | LOCK_EX);
header('Content-Type: text/plain');
echo $line;
"#;

/// nginx with an [`EchoOrigin`] as upstream and the same caching as Galley.
pub struct NginxWithEcho {
    pub server: Nginx,
    pub echo: EchoOrigin,
    _scratch: Scratch,
}

impl NginxWithEcho {
    pub fn start(hosts: usize) -> Self {
        Self::with(hosts, "{listen}", CACHE)
    }

    /// Starts without caching.
    pub fn start_uncached(hosts: usize) -> Self {
        Self::with(hosts, "{listen}", "")
    }

    /// Starts with HTTP/2 without TLS at the further address.
    pub fn start_h2c(hosts: usize) -> Self {
        Self::with(hosts, "{further} http2", CACHE)
    }

    fn with(hosts: usize, listen: &str, cache: &str) -> Self {
        let scratch = Scratch::new().unwrap();
        let echo = EchoOrigin::start();
        let http = format!(
            "proxy_cache_path {{dir}}/cache keys_zone=pages:1m;\nserver_names_hash_max_size 4096;\n\
             server {{ listen {listen} default_server; return 421; }}\n\
             server {{ listen {listen}; server_name {};\n\
             location / {{ proxy_pass {}; proxy_http_version 1.1; proxy_set_header Connection \"\";\n\
             proxy_set_header Host $host; {cache} }} }}",
            names(hosts).join(" "),
            echo.origin.url()
        );
        let server = Nginx::start(&scratch.join("nginx"), &http).unwrap();
        Self {
            server,
            echo,
            _scratch: scratch,
        }
    }
}

const CACHE: &str = "proxy_cache pages; proxy_cache_key $host$request_uri;";

fn names(count: usize) -> Vec<String> {
    (0..count).map(host).collect()
}
