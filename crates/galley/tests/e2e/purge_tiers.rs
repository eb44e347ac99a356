//! Two cache tiers: two Galley nodes in front of a Galley with PHP and an Apache with PHP as a module. A purge is applied to
//! both tiers, in order.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use galley_testkit::client::Request;
use galley_testkit::{Apache, ApacheOptions, FpmOptions, Galley, PhpFpm, Redis, Scratch, wait_for};

use crate::support::TIMEOUT;

const HOST: &str = "tiers.test";
const SECRET: &str = "a secret of sixteen bytes or more";

/// A page with the version and the client's address.
const PAGE: &str = "<?php
header('Content-Type: text/html');
header('Galley-Tags: p1');
$version = trim(file_get_contents(__DIR__ . '/version.txt'));
usleep(20000);
echo '<!doctype html><html><body>version=', $version, '; address=', $_SERVER['REMOTE_ADDR'], '; forwarded=', $_SERVER['HTTP_X_FORWARDED_FOR'] ?? '', \
'; scheme=', $_SERVER['HTTPS'] ?? $_SERVER['HTTP_X_FORWARDED_PROTO'] ?? '', ';</body></html>';
";

struct Tiers {
    fronts: Vec<Galley>,
    back: Galley,
    apache: Apache,
    _fpm: PhpFpm,
    redis: Redis,
    scratch: Scratch,
}

impl Tiers {
    fn start() -> Self {
        let scratch = Scratch::new().unwrap();
        scratch.write("web/index.php", PAGE).unwrap();
        scratch.write("web/version.txt", "1").unwrap();
        let rewrite =
            "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /index.php [L]\n";
        scratch.write("web/.htaccess", rewrite).unwrap();
        let token = scratch.write("token", SECRET).unwrap();
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
        let web = scratch.join("web");
        let fpm = PhpFpm::start(&scratch.join("fpm"), &FpmOptions::default()).unwrap();
        let apache =
            Apache::start(&scratch.join("apache"), &web, &ApacheOptions::default()).unwrap();
        let back = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\ntrusted_proxies = [\"127.0.0.1\"]\n\
             [admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"{token}\"\n\
             [[site]]\nhosts = [\"{HOST}\"]\nroot = \"{web}\"\nphp = \"{php}\"\ntag_header = \"Cache-Tag\"\nouter_ttl = \"1h\"\ncron = \"off\"\n",
            token = token.display(),
            web = web.display(),
            php = fpm.address(),
        );
        let back = Galley::start(&scratch.join("back"), &back).unwrap();
        let redis = Redis::start(&scratch.join("redis")).unwrap();
        let mut tiers = Self {
            fronts: Vec::new(),
            back,
            apache,
            _fpm: fpm,
            redis,
            scratch,
        };
        for number in 0..2 {
            let front = tiers.front(number);
            tiers.fronts.push(front);
        }
        for front in 0..2 {
            wait_for("a hit", TIMEOUT, || tiers.get(front, "/").1);
        }
        wait_for("a purge of the whole cluster", TIMEOUT, || {
            tiers.edit(0) == Some("cluster".to_owned())
        });
        tiers
    }

    fn front(&self, number: usize) -> Galley {
        let dir = self.scratch.dir(&format!("front{number}")).unwrap();
        let config = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\ntrusted_proxies = [\"127.0.0.1\"]\n[admin]\nlisten = \"unix:{dir}/admin.sock\"\n\
             [cluster]\nengine = \"{engine}\"\nnode = \"n{number}\"\n\
             [[site]]\nhosts = [\"{HOST}\"]\nupstream = [\"{back}\", \"{apache}\"]\ncron = \"off\"\n\
             purge_forward = [{{ galley = \"{admin}\", token_file = \"{token}\" }}]\n",
            dir = dir.display(),
            engine = self.redis.url(),
            back = self.back.url(),
            apache = self.apache.url(),
            admin = self.back.admin().unwrap(),
            token = self.scratch.join("token").display(),
        );
        Galley::start(&dir, &config).unwrap()
    }

    fn addr(&self, front: usize) -> SocketAddr {
        self.fronts[front].addr()
    }

    /// Requests a page; returns its version and whether it was a hit.
    fn get(&self, front: usize, path: &str) -> (u64, bool) {
        let response = Request::get(path)
            .host(HOST)
            .send(self.addr(front))
            .unwrap();
        assert_eq!(response.status, 200, "{}", response.text());
        let text = response.text();
        let version = text
            .split("version=")
            .nth(1)
            .and_then(|rest| rest.split(';').next());
        (version.unwrap().parse().unwrap(), response.is_hit())
    }

    /// Changes the page and purges its tag through a front node; returns the reach of the purge.
    fn edit(&self, front: usize) -> Option<String> {
        let file = self.scratch.join("web/version.txt");
        let version: u64 = std::fs::read_to_string(&file)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let new = file.with_extension("new");
        std::fs::write(&new, (version + 1).to_string()).unwrap();
        std::fs::rename(&new, &file).unwrap();
        let output = self.fronts[front]
            .cli(&["purge", "--tag", "p1", "--json"])
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        value["reach"].as_str().map(str::to_owned)
    }
}

#[test]
fn a_purge_reaches_both_tiers_and_no_stale_page_is_served_afterwards() {
    let tiers = Tiers::start();
    let acknowledged = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    let version = || -> u64 {
        let text = std::fs::read_to_string(tiers.scratch.join("web/version.txt")).unwrap();
        text.trim().parse().unwrap()
    };
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let (tiers, acknowledged, is_over) = (&tiers, &acknowledged, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    let minimum = acknowledged.load(Ordering::SeqCst);
                    let (version, _) = tiers.get(reader % 2, "/page");
                    assert!(
                        version >= minimum,
                        "version {version} after {minimum} was acknowledged"
                    );
                }
            });
        }
        for round in 0..25 {
            if tiers.edit(round % 2) == Some("cluster".to_owned()) {
                acknowledged.store(version(), Ordering::SeqCst);
            }
        }
        is_over.store(true, Ordering::SeqCst);
    });
    assert!(
        acknowledged.load(Ordering::SeqCst) > 20,
        "fewer than 21 purges were acknowledged"
    );
    for front in 0..2 {
        wait_for("a hit of the newest version", TIMEOUT, || {
            tiers.get(front, "/page") == (version(), true)
        });
    }
}

#[test]
fn a_purge_is_local_while_the_back_tier_is_down() {
    let mut tiers = Tiers::start();
    tiers.back.kill();
    assert_eq!(tiers.edit(0), Some("local".to_owned()));
    let status = tiers.fronts[0].cli(&["status", "--json"]).unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let target = &status["sites"][0]["purge_forward"][0];
    assert!(
        target["pending"].as_u64() >= Some(1) && target["failures"].as_u64() >= Some(1),
        "{target}"
    );
    assert!(!status.to_string().contains(SECRET));
    assert!(!tiers.fronts[0].log().contains(SECRET));
}

#[test]
fn client_address_and_scheme_are_forwarded_through_both_tiers() {
    let tiers = Tiers::start();
    let mut responses = Vec::new();
    for number in 0..4 {
        // As sent by a TLS proxy in front of both tiers.
        let form = Request::form(&format!("/form{number}"), &[("a", "b")])
            .host(HOST)
            .field("X-Forwarded-For", "203.0.113.7")
            .field("X-Forwarded-Proto", "https");
        let text = form.send(tiers.addr(0)).unwrap().text();
        responses.push(text);
    }
    // The back Galley passes the address to PHP as REMOTE_ADDR; Apache passes the field.
    let of_galley = responses
        .iter()
        .filter(|text| text.contains("address=203.0.113.7;"))
        .count();
    let of_apache = responses
        .iter()
        .filter(|text| text.contains("forwarded=203.0.113.7;"))
        .count();
    assert!(of_galley >= 2 && of_apache >= 2, "{responses:?}");
    assert!(
        responses
            .iter()
            .all(|text| text.contains("scheme=on;") || text.contains("scheme=https;")),
        "{responses:?}"
    );
}
