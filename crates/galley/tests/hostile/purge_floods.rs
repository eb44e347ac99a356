//! Floods of purges by somebody with the token of one site, or on its machine. They must cost other sites nothing: the purges of
//! another site stay fast, and memory stays within the configured size and 64 MB, also after a restart.
//!
//! Each test prints the memory and the times: `cargo test -p galley --test hostile purge_floods -- --nocapture`.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::{Galley, Scratch};

/// Two sites, each with a token, and a disk.
struct TwoSites {
    galley: Galley,
    config: String,
    scratch: Scratch,
}

const FLOODING: &str = "a-token-of-the-flooding-site-0123";
const OTHER: &str = "a-token-of-the-other-site-0123456";

impl TwoSites {
    fn start() -> Self {
        let scratch = Scratch::new().unwrap();
        scratch.write("root/index.html", "<p>page</p>").unwrap();
        let token = |name: &str, token: &str| {
            let path = scratch.write(name, token).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            path.display().to_string()
        };
        let path = |name: &str| scratch.join(name).display().to_string();
        let mut config = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"{}\"\n\
             [cache]\nmemory = \"16MiB\"\ndisk = \"{}\"\n",
            token("server.token", "a-token-of-the-server-0123456789"),
            path("cache")
        );
        for (host, name, word) in [
            ("flooding.test", "flooding.token", FLOODING),
            ("other.test", "other.token", OTHER),
        ] {
            let (root, token) = (path("root"), token(name, word));
            let _ = writeln!(
                config,
                "[[site]]\nhosts = [\"{host}\"]\nroot = \"{root}\"\ntoken_file = \"{token}\""
            );
        }
        let galley = Self::launch(&scratch, &config);
        Self {
            galley,
            config,
            scratch,
        }
    }

    fn launch(scratch: &Scratch, config: &str) -> Galley {
        let binary = Path::new(env!("CARGO_BIN_EXE_galley"));
        Galley::start_binary(binary, &scratch.join("galley"), config).unwrap()
    }

    fn restart(&mut self) {
        self.galley.stop();
        self.galley = Self::launch(&self.scratch, &self.config);
    }

    fn admin(&self) -> SocketAddr {
        let admin = self.galley.admin().unwrap();
        admin.trim_start_matches("http://").parse().unwrap()
    }

    /// A line of `/proc/PID/status`, in MB.
    fn megabytes(&self, line: &str) -> u64 {
        let file = format!("/proc/{}/status", self.galley.pid());
        let text = fs::read_to_string(file).unwrap();
        let value = text.lines().find_map(|one| one.strip_prefix(line));
        let kilobytes = value.unwrap().split_whitespace().next().unwrap();
        kilobytes.parse::<u64>().unwrap() / 1024
    }

    /// Purges the other site while `flood` runs on a thread of its own for each of its connections. Checks times and memory.
    fn withstand(
        &mut self,
        what: &str,
        connections: usize,
        flood: impl Fn(&TwoSites, usize, &AtomicBool) + Sync,
    ) {
        let before = self.megabytes("VmRSS:");
        let has_ended = AtomicBool::new(false);
        let quiet = percentile(self.purge_other_for(Duration::from_secs(1)));
        let site = &*self;
        let times = thread::scope(|scope| {
            for number in 0..connections {
                let (flood, has_ended) = (&flood, &has_ended);
                scope.spawn(move || flood(site, number, has_ended));
            }
            let times = self.purge_other_for(Duration::from_secs(4));
            has_ended.store(true, Ordering::Relaxed);
            times
        });
        let (count, under_flood) = (times.len(), percentile(times));
        let peak = self.megabytes("VmHWM:");
        let purge_log = fs::metadata(self.log()).unwrap().len();
        let log = self.galley.log().len();
        self.restart();
        let after = self.megabytes("VmHWM:");
        println!(
            "{what}: memory {before} MB before, {peak} MB at most, {after} MB after a restart; purges of the other site: p99 {quiet:.1?} \
             before, {under_flood:.1?} of {count} during the flood; {} kB of purge log, {} kB of log",
            purge_log / 1000,
            log / 1000
        );
        assert!(log < 1_000_000, "{what}: {log} bytes of log");
        assert!(
            purge_log < 10_000_000,
            "{what}: {purge_log} bytes of purge log"
        );
        assert!(peak <= before + 64, "{what}: {before} MB, then {peak} MB");
        assert!(after <= before + 64, "{what}: {after} MB after a restart");
        // A busy machine delays each purge, so the times are compared with those before the flood.
        let limit = (quiet * 4).max(Duration::from_millis(20))
            * if cfg!(debug_assertions) { 10 } else { 1 };
        assert!(under_flood <= limit, "{what}: p99 {under_flood:?}");
    }

    fn purge_other_for(&self, time: Duration) -> Vec<Duration> {
        let end = Instant::now() + time;
        let mut times = Vec::new();
        while Instant::now() < end {
            let began = Instant::now();
            let reply = purge(self, OTHER, r#"{"tags": ["p1"]}"#);
            assert_eq!(reply.status, 200, "{}", reply.text());
            times.push(began.elapsed());
            thread::sleep(Duration::from_millis(2));
        }
        times
    }

    fn log(&self) -> PathBuf {
        self.scratch.join("cache/purges/purges.log")
    }
}

fn percentile(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() * 99 / 100]
}

/// The admin interface closes each connection after its response.
fn purge(site: &TwoSites, token: &str, body: &str) -> Response {
    let request = Request::post("/purge", "application/json", body)
        .host("localhost")
        .field("Authorization", format!("Bearer {token}"));
    let mut connection = Connection::open(site.admin()).unwrap();
    connection.exchange(&request).unwrap()
}

/// Sends one body again and again.
fn repeat(site: &TwoSites, body: &dyn Fn(usize) -> String, status: u16, has_ended: &AtomicBool) {
    let mut number = 0;
    while !has_ended.load(Ordering::Relaxed) {
        let reply = purge(site, FLOODING, &body(number));
        assert_eq!(reply.status, status, "{}", reply.text());
        number += 1;
    }
}

fn list(name: &str, words: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = words.map(|word| format!("\"{word}\"")).collect();
    format!("{{\"{name}\": [{}]}}", words.join(","))
}

#[test]
fn many_patterns_take_neither_memory_nor_time_of_others() {
    let mut site = TwoSites::start();
    let many = list("patterns", (0..20_000).map(|n| format!("^/p/{n}/.*")));
    let reply = purge(&site, FLOODING, &many);
    assert_eq!(reply.status, 400);
    assert!(
        reply.text().contains("at most 32 patterns"),
        "{}",
        reply.text()
    );
    site.withstand("patterns in bodies", 5, |site, connection, has_ended| {
        let large = |n: usize| {
            let word = "(?:a|b){0,400}";
            list(
                "patterns",
                (0..32).map(|one| format!("^/{word}{connection}-{n}-{one}")),
            )
        };
        repeat(site, &large, 200, has_ended);
    });
    site.withstand(
        "patterns in PURGE requests",
        2,
        |site, connection, has_ended| {
            let mut client = Connection::open(site.galley.addr()).unwrap();
            let mut number = 0;
            while !has_ended.load(Ordering::Relaxed) {
                let request = Request::new("PURGE", &format!("/p/{connection}-{number}/(a|b)/.*"));
                let request = request
                    .host("flooding.test")
                    .field("X-Purge-Method", "regex");
                assert_eq!(client.exchange(&request).unwrap().status, 200);
                number += 1;
            }
        },
    );
}

#[test]
fn long_tags_take_no_memory() {
    let mut site = TwoSites::start();
    let long = list("tags", std::iter::once("t".repeat(400_000)));
    let reply = purge(&site, FLOODING, &long);
    assert_eq!(reply.status, 400);
    assert!(
        reply.text().contains("at most 1024 bytes"),
        "{}",
        reply.text()
    );
    assert!(reply.text().len() < 1_000);
    let long_url = list("urls", std::iter::once(format!("/{}", "u".repeat(9_000))));
    assert_eq!(purge(&site, FLOODING, &long_url).status, 400);
    site.withstand("tags of a kilobyte", 4, |site, connection, has_ended| {
        let body = |n: usize| {
            let tags = (0..450).map(|one| format!("{}{connection}-{n}-{one}", "t".repeat(1_000)));
            list("tags", tags)
        };
        repeat(site, &body, 200, has_ended);
    });
}

#[test]
fn a_flood_of_purges_neither_delays_others_nor_fills_the_log() {
    let mut site = TwoSites::start();
    site.withstand("a flood of tags", 4, |site, connection, has_ended| {
        let body = |n: usize| {
            list(
                "tags",
                (0..1_024).map(|one| format!("t{connection}-{n}-{one}")),
            )
        };
        repeat(site, &body, 200, has_ended);
    });
    site.withstand(
        "a flood of small requests",
        4,
        |site, connection, has_ended| {
            let body = |n: usize| list("tags", std::iter::once(format!("t{connection}-{n}")));
            repeat(site, &body, 200, has_ended);
        },
    );
}
