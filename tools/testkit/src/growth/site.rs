//! A server with a scripted upstream, and the processor time and memory that `/proc` reports for it.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use super::{GrowthSettings, sample_page};
use crate::origin::{Origin, ReceivedRequest, ResponseWriter};
use crate::{Galley, Launch, Scratch, TestkitError};

/// The host of the site.
pub(super) const HOST: &str = "example.test";

/// A running server with its upstream and its directory.
pub(super) struct GrowthSite {
    pub(super) galley: Galley,
    pub(super) scratch: Scratch,
    _origin: Origin,
}

impl GrowthSite {
    /// Starts the server with these lines of `[cache]`, in which `{dir}` is its directory. `through`: see [`Launch`].
    pub(super) fn start(
        settings: &GrowthSettings,
        cache: &str,
        through: Vec<String>,
    ) -> Result<Self, TestkitError> {
        let origin = Origin::start_unrecorded(respond)?;
        let scratch = Scratch::new()?;
        let dir = scratch.path().display();
        let text = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\nworkers = 1\nmax_connections = 12000\nidle_timeout = \"1h\"\n[log]\naccess = \"{dir}/access.log\"\n\
             [cache]\n{}\n[[site]]\nhosts = [\"{HOST}\"]\ncron = \"off\"\nupstream = [\"{}\"]\nin_flight = {MAX_FETCHES}\n",
            cache.replace("{dir}", &dir.to_string()),
            origin.url()
        );
        let config = scratch.write("galley.toml", text)?;
        let launch = Launch {
            through,
            ..Launch::default()
        };
        let galley = Galley::start_under(&settings.galley, scratch.path(), &config, &launch)?;
        Ok(Self {
            galley,
            scratch,
            _origin: origin,
        })
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.galley.addr()
    }

    /// Processor time of all threads that still run.
    pub(super) fn processor_time(&self) -> Duration {
        let threads = fs::read_dir(format!("/proc/{}/task", self.galley.pid()));
        let threads = threads.into_iter().flatten().flatten();
        let ns = threads.filter_map(|thread| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(ns.sum())
    }

    /// Returns the value of a line of `/proc/PID/status`, such as `VmRSS` or `VmHWM`, in bytes.
    pub(super) fn memory(&self, line: &str) -> u64 {
        let file = format!("/proc/{}/status", self.galley.pid());
        let text = fs::read_to_string(file).unwrap_or_default();
        let value = text.lines().find_map(|one| one.strip_prefix(line));
        let kb = value.and_then(|rest| rest.split_whitespace().nth(1)?.parse::<u64>().ok());
        kb.unwrap_or_default() * 1024
    }

    /// Returns the first number with this name below `memory` in `galley status --json`.
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

/// Sends the page: `/e/N` is small, `/s/N` slow, `/r/N` short-lived, `/c/N` a large text, `/w/N` a WordPress page. The body ends with the
/// path, and the tags follow from the number.
fn respond(request: &ReceivedRequest, writer: &mut ResponseWriter<'_>) {
    let path = request.path();
    let number = path.rsplit('/').next().and_then(|last| last.parse().ok());
    let number: u64 = number.unwrap_or_default();
    let mut tags = format!("t{} all", number % TAGS);
    if path.starts_with("/w/") {
        let posts = (0..POST_TAGS).map(|post| format!(" pl{}", number * POST_TAGS + post));
        tags.extend(posts);
    }
    let (cache_control, content_type) = match path.get(..3) {
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
        crate::wait::pause(SLOW_QUERY);
    }
    let mut fields = vec![
        ("Content-Type", content_type),
        ("Galley-Cache-Control", cache_control),
        ("Galley-Tags", &tags),
    ];
    if path.starts_with("/w/") {
        fields.extend(LINKS.map(|link| ("Link", link)));
    }
    writer.respond(200, &fields, body.as_bytes());
}

/// The `Link` fields that WordPress sends with a page.
const LINKS: [&str; 3] = [
    "<https://example.test/wp-json/>; rel=\"https://api.w.org/\"",
    "<https://example.test/wp-json/wp/v2/posts/123>; rel=\"alternate\"; title=\"JSON\"; type=\"application/json\"",
    "<https://example.test/?p=123>; rel=shortlink",
];

/// Tags of a WordPress page with a sidebar; the pages of the sample site have 26 to 96.
const POST_TAGS: u64 = 40;

/// Number of different tags `tN`, one of which each page has.
pub(super) const TAGS: u64 = 1000;

/// The time that a query of WordPress without an index takes.
const SLOW_QUERY: Duration = Duration::from_millis(200);

/// Enough for slow and fast pages at the same time.
const MAX_FETCHES: usize = 64;
