//! A server with a scripted upstream, and what `/proc` says of it.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use super::{Setting, sample_page};
use crate::origin::{Origin, ReceivedRequest, ResponseWriter};
use crate::{Galley, Launch, Scratch, TestkitError};

/// The host of the site.
pub(super) const HOST: &str = "example.test";

/// A running server; `origin` and `scratch` live as long as it does.
pub(super) struct Stage {
    pub(super) galley: Galley,
    pub(super) scratch: Scratch,
    _origin: Origin,
}

impl Stage {
    /// `cache`: lines of `[cache]`. `through`: see [`Launch`].
    pub(super) fn start(
        setting: &Setting,
        cache: &str,
        through: Vec<String>,
    ) -> Result<Self, TestkitError> {
        let origin = Origin::start_unrecorded(answer)?;
        let scratch = Scratch::new()?;
        let dir = scratch.path().display();
        let text = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\nworkers = 1\nmax_connections = 12000\nidle_timeout = \"1h\"\n[log]\naccess = \"{dir}/access.log\"\n\
             [cache]\n{}\n[[site]]\nhosts = [\"{HOST}\"]\ncron = \"off\"\nupstream = [\"{}\"]\nin_flight = {MOST_FETCHES}\n",
            cache.replace("{dir}", &dir.to_string()),
            origin.url()
        );
        let config = scratch.write("galley.toml", text)?;
        let launch = Launch {
            through,
            ..Launch::default()
        };
        let galley = Galley::start_under(&setting.galley, scratch.path(), &config, &launch)?;
        Ok(Self {
            galley,
            scratch,
            _origin: origin,
        })
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.galley.addr()
    }

    /// Processor time of all its threads, those that ended left out.
    pub(super) fn processor(&self) -> Duration {
        let threads = fs::read_dir(format!("/proc/{}/task", self.galley.pid()));
        let all = threads.into_iter().flatten().flatten();
        let ns = all.filter_map(|thread| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(ns.sum())
    }

    /// A line of `/proc/PID/status`, in bytes: `VmRSS`, `VmHWM`.
    pub(super) fn memory(&self, line: &str) -> u64 {
        let file = format!("/proc/{}/status", self.galley.pid());
        let text = fs::read_to_string(file).unwrap_or_default();
        let found = text.lines().find_map(|one| one.strip_prefix(line));
        let kb = found.and_then(|rest| rest.split_whitespace().nth(1)?.parse::<u64>().ok());
        kb.unwrap_or_default() * 1024
    }

    /// A number of `galley status --json`, the first of that name below `memory`.
    pub(super) fn stored(&self, name: &str) -> Result<u64, TestkitError> {
        let output = self.galley.cli(&["status", "--json"])?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let number = text
            .split_once("\"memory\"")
            .and_then(|(_, rest)| rest.split_once(&format!("\"{name}\":")))
            .map(|(_, rest)| rest.trim_start())
            .and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next())
            .and_then(|digits| digits.parse().ok());
        number.ok_or_else(|| TestkitError::Malformed(format!("no `{name}` in {text}")))
    }
}

/// `/e/N` small, `/s/N` slow, `/r/N` short-lived, `/c/N` large text, `/w/N` a page of WordPress. Each ends with its path, and carries tags by its number.
fn answer(seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>) {
    let path = seen.path();
    let number = path.rsplit('/').next().and_then(|last| last.parse().ok());
    let number: u64 = number.unwrap_or_default();
    let mut tags = format!("t{} all", number % TAGS);
    if path.starts_with("/w/") {
        let shown = (0..SHOWN).map(|post| format!(" pl{}", number * SHOWN + post));
        tags.extend(shown);
    }
    let (life, kind) = match path.get(..3) {
        Some("/r/") => ("max-age=1, stale-while-revalidate=600", "text/plain"),
        Some("/c/" | "/w/") => ("max-age=36000", "text/html"),
        _ => ("max-age=36000", "text/plain"),
    };
    let mut body = match path.get(..3) {
        Some("/w/") => sample_page::page(number),
        Some("/c/") => format!("<p>{number} some text</p>\n").repeat(1000),
        _ => "0123456789abcdef0123456789abcdef".to_owned(),
    };
    body.push_str(path);
    if path.starts_with("/s/") {
        // What is slow about a slow upstream.
        crate::wait::pause(SLOW);
    }
    let mut fields = vec![
        ("Content-Type", kind),
        ("Galley-Cache-Control", life),
        ("Galley-Tags", &tags),
    ];
    if path.starts_with("/w/") {
        fields.extend(LINKS.map(|link| ("Link", link)));
    }
    writer.answer(200, &fields, body.as_bytes());
}

/// What WordPress says in the head of a page.
const LINKS: [&str; 3] = [
    "<https://example.test/wp-json/>; rel=\"https://api.w.org/\"",
    "<https://example.test/wp-json/wp/v2/posts/123>; rel=\"alternate\"; title=\"JSON\"; type=\"application/json\"",
    "<https://example.test/?p=123>; rel=shortlink",
];

/// Tags of a page of WordPress with a sidebar: those of the sample site have 26 to 96.
const SHOWN: u64 = 40;

/// Every page carries one of so many.
pub(super) const TAGS: u64 = 1000;

/// As a query that WordPress makes without an index.
const SLOW: Duration = Duration::from_millis(200);

/// Enough for slow pages and quick ones at one time.
const MOST_FETCHES: usize = 64;
