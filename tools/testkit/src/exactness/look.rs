//! Looking at all pages of a site: four visitors without cookies, each with a connection of its own.

use std::{
    fmt::Write as _,
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use galley_policy::wordpress::masked;

use crate::{
    TestkitError,
    client::{Connection, Request, Response},
};

/// One page as it was answered.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// Whether it came from the cache.
    pub(super) hit: bool,
    /// How it came to be, in the server's words.
    pub(super) how: String,
    /// Everything that counts of the answer: status, some fields, the masked body.
    pub(super) essence: String,
    /// When the answer was whole.
    pub(super) at: Instant,
}

/// Asks `host` for these targets; the answers are in their order.
pub(super) fn look(
    addr: SocketAddr,
    host: &str,
    targets: &[&str],
) -> Result<Vec<Seen>, TestkitError> {
    let next = AtomicUsize::new(0);
    let visit = || -> Result<Vec<(usize, Seen)>, TestkitError> {
        let mut connection = Connection::within(addr, TIMEOUT)?;
        let mut seen = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(target) = targets.get(place) else {
                return Ok(seen);
            };
            let request = Request::get(target).host(host).timeout(TIMEOUT);
            let answer = connection.exchange(&request)?;
            seen.push((place, Seen::of(&answer)));
        }
    };
    let mut all = thread::scope(|scope| {
        let visitors: Vec<_> = (0..VISITORS).map(|_| scope.spawn(visit)).collect();
        let mut all = Vec::with_capacity(targets.len());
        for visitor in visitors {
            all.extend(
                visitor
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?,
            );
        }
        Ok::<_, TestkitError>(all)
    })?;
    all.sort_by_key(|(place, _)| *place);
    Ok(all.into_iter().map(|(_, seen)| seen).collect())
}

impl Seen {
    /// Where a permanent redirect leads to.
    pub(super) fn moved_to(&self) -> Option<&str> {
        let fields = self.essence.strip_prefix("301\n")?;
        let mut lines = fields.lines().take(FIELDS.len());
        lines.find_map(|line| line.strip_prefix("location: "))
    }

    fn of(answer: &Response) -> Self {
        Self {
            hit: answer.is_hit(),
            how: answer.cache_status().to_owned(),
            essence: essence(answer),
            at: Instant::now(),
        }
    }
}

/// `Last-Modified` and `ETag` of feeds are left out: WordPress takes them from the newest change of the whole site, whatever
/// the feed shows.
fn essence(answer: &Response) -> String {
    let mut out = format!("{}\n", answer.status);
    for name in FIELDS {
        for value in answer.all(name) {
            let _ = writeln!(out, "{name}: {value}");
        }
    }
    out.push_str(&masked(&answer.text()));
    out
}

const FIELDS: [&str; 6] = [
    "content-type",
    "location",
    "link",
    "allow",
    "x-wp-total",
    "x-wp-totalpages",
];
const VISITORS: usize = 4;
/// A page may have to wait for many others on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(90);
