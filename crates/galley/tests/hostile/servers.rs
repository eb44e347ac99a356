//! Servers with an upstream behind them that says, and remembers, what it has seen.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use galley_testkit::origin::Origin;
use galley_testkit::{FpmOptions, Galley, Nginx, PhpFpm, Scratch};

use crate::case::host;
use crate::drive::line;

/// An upstream that answers with what it was asked, to be kept for an hour, and notes it.
pub struct Echo {
    origin: Origin,
    seen: Arc<Mutex<Vec<String>>>,
    cookies: Arc<Mutex<Vec<String>>>,
}

impl Echo {
    pub fn start() -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&seen);
        let cookies = Arc::new(Mutex::new(Vec::new()));
        let eaten = Arc::clone(&cookies);
        let origin = Origin::start_unrecorded(move |request, writer| {
            let body = writer.body();
            let line = line(&request.method, &request.target, &body);
            noted.lock().unwrap().push(line.clone());
            let of_cookie = |field: &&(String, Vec<u8>)| field.0.eq_ignore_ascii_case("cookie");
            for (_, value) in request.fields.iter().filter(of_cookie) {
                let value = String::from_utf8_lossy(value).into_owned();
                eaten.lock().unwrap().push(value);
            }
            let fields = [
                ("Content-Type", "text/plain"),
                ("Cache-Control", "max-age=3600"),
            ];
            writer.answer(200, &fields, line.as_bytes());
        });
        Self {
            origin: origin.unwrap(),
            seen,
            cookies,
        }
    }

    /// Each `Cookie` line that it saw.
    pub fn cookies(&self) -> Vec<String> {
        self.cookies.lock().unwrap().clone()
    }

    /// What it saw since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

/// Galley in front of an [`Echo`], with a host for each case.
pub struct Stage {
    pub galley: Galley,
    pub echo: Echo,
    _scratch: Scratch,
}

impl Stage {
    pub fn start(hosts: usize) -> Self {
        Self::with(hosts, "", "")
    }

    /// The same, where nothing comes from the cache.
    pub fn start_uncached(hosts: usize) -> Self {
        Self::with(hosts, "", "[[site.rule]]\npath = \"/*\"\ncache = false")
    }

    /// The same, for clients that begin with HTTP/2.
    pub fn start_h2c(hosts: usize) -> Self {
        Self::with(hosts, "h2c = true", "")
    }

    fn with(hosts: usize, server: &str, rules: &str) -> Self {
        let scratch = Scratch::new().unwrap();
        let echo = Echo::start();
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

/// Galley in front of an origin of the test's own.
pub fn behind(origin: &Origin) -> Bare {
    let scratch = Scratch::new().unwrap();
    let site = format!("upstream = [\"{}\"]\npreset = \"none\"", origin.url());
    let galley = galley(&scratch, &names(1), &site);
    Bare {
        galley,
        _scratch: scratch,
    }
}

/// Galley alone.
pub struct Bare {
    galley: Galley,
    _scratch: Scratch,
}

impl Bare {
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

/// Galley with PHP-FPM and a page that says, and notes, what it was asked.
pub struct Php {
    pub galley: Galley,
    _fpm: PhpFpm,
    notes: PathBuf,
    _scratch: Scratch,
}

impl Php {
    pub fn start(hosts: usize) -> Self {
        Self::start_with(hosts, PAGE)
    }

    /// With another page.
    pub fn start_with(hosts: usize, page: &str) -> Self {
        let scratch = Scratch::new().unwrap();
        let dir = scratch.dir("notes").unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        let notes = dir.join("seen");
        let page = page.replace("{notes}", &notes.display().to_string());
        scratch.write("root/index.php", page).unwrap();
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
            notes,
            _scratch: scratch,
        }
    }

    /// What it saw since the last call.
    pub fn take(&self) -> Vec<String> {
        let text = fs::read(&self.notes).unwrap_or_default();
        let _ = fs::remove_file(&self.notes);
        let parts = text.split(|byte| *byte == 0x1e);
        parts
            .filter(|part| !part.is_empty())
            .map(|part| {
                let words: Vec<&[u8]> = part.splitn(3, |byte| *byte == b' ').collect();
                let word = |at: usize| String::from_utf8_lossy(words[at]).into_owned();
                line(&word(0), &word(1), words[2])
            })
            .collect()
    }
}

const PAGE: &str = r#"<?php
$line = $_SERVER['REQUEST_METHOD'] . ' ' . $_SERVER['REQUEST_URI'] . ' ' . file_get_contents('php://input');
file_put_contents('{notes}', "\x1e" . $line, FILE_APPEND | LOCK_EX);
header('Content-Type: text/plain');
echo $line;
"#;

/// nginx in front of an [`Echo`], caching as Galley does.
pub struct Peer {
    pub nginx: Nginx,
    pub echo: Echo,
    _scratch: Scratch,
}

impl Peer {
    pub fn start(hosts: usize) -> Self {
        Self::with(hosts, "{listen}", CACHE)
    }

    /// The same, where nothing comes from the cache.
    pub fn start_uncached(hosts: usize) -> Self {
        Self::with(hosts, "{listen}", "")
    }

    /// The same for clients that begin with HTTP/2, at its further address.
    pub fn start_h2c(hosts: usize) -> Self {
        Self::with(hosts, "{further} http2", CACHE)
    }

    fn with(hosts: usize, listen: &str, cache: &str) -> Self {
        let scratch = Scratch::new().unwrap();
        let echo = Echo::start();
        let http = format!(
            "proxy_cache_path {{dir}}/cache keys_zone=pages:1m;\nserver_names_hash_max_size 4096;\n\
             server {{ listen {listen} default_server; return 421; }}\n\
             server {{ listen {listen}; server_name {};\n\
             location / {{ proxy_pass {}; proxy_http_version 1.1; proxy_set_header Connection \"\";\n\
             proxy_set_header Host $host; {cache} }} }}",
            names(hosts).join(" "),
            echo.origin.url()
        );
        let nginx = Nginx::start(&scratch.join("nginx"), &http).unwrap();
        Self {
            nginx,
            echo,
            _scratch: scratch,
        }
    }
}

const CACHE: &str = "proxy_cache pages; proxy_cache_key $host$request_uri;";

fn names(count: usize) -> Vec<String> {
    (0..count).map(host).collect()
}
