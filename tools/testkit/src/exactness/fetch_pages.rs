//! Fetches all pages of a site: four visitors without cookies, each with a separate connection.

use std::{
    collections::HashMap,
    fmt::Write as _,
    hash::{DefaultHasher, Hash, Hasher},
    net::SocketAddr,
    sync::{
        LazyLock, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use galley_policy::wordpress::masked;

use crate::{
    TestkitError,
    client::{Connection, Request, Response},
};

/// A response to a request for a page.
#[derive(Debug, Clone)]
pub(super) struct FetchedPage {
    /// Whether it was served from the cache.
    pub(super) is_hit: bool,
    /// Its `Cache-Status`.
    pub(super) cache_status: String,
    /// The compared parts of the response: status, some fields, and the masked body.
    pub(super) content: String,
    /// When the response was complete.
    pub(super) received_at: Instant,
}

/// Requests these targets from `host`; returns the responses in the same order.
pub(super) fn fetch_pages(
    addr: SocketAddr,
    host: &str,
    targets: &[&str],
) -> Result<Vec<FetchedPage>, TestkitError> {
    let next = AtomicUsize::new(0);
    let visit = || -> Result<Vec<(usize, FetchedPage)>, TestkitError> {
        let mut connection = Connection::within(addr, TIMEOUT)?;
        let mut pages = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(target) = targets.get(index) else {
                return Ok(pages);
            };
            let request = Request::get(target).host(host).timeout(TIMEOUT);
            let response = connection.exchange(&request)?;
            pages.push((index, FetchedPage::of(&response)));
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
    all.sort_by_key(|(index, _)| *index);
    Ok(all.into_iter().map(|(_, page)| page).collect())
}

impl FetchedPage {
    /// The `Location` of a permanent redirect.
    pub(super) fn redirect_target(&self) -> Option<&str> {
        let fields = self.content.strip_prefix("301\n")?;
        let mut lines = fields.lines().take(FIELDS.len());
        lines.find_map(|line| line.strip_prefix("location: "))
    }

    /// Whether the stored copy was too old, and not purged.
    pub(super) fn has_expired(&self) -> bool {
        self.cache_status.contains("fwd=stale") && !self.cache_status.contains("detail=purged")
    }

    fn of(response: &Response) -> Self {
        Self {
            is_hit: response.is_hit(),
            cache_status: response.cache_status().to_owned(),
            content: content(response),
            received_at: Instant::now(),
        }
    }
}

/// Leaves out `Last-Modified` and `ETag`: in feeds, WordPress derives them from the newest change of the whole site, even if the
/// feed does not contain it.
fn content(response: &Response) -> String {
    let mut out = format!("{}\n", response.status);
    for name in FIELDS {
        for value in response.all(name) {
            let _ = writeln!(out, "{name}: {value}");
        }
    }
    out.push_str(&masked_once(&response.text()));
    out
}

/// The masked text. Most responses equal an earlier one, and masking takes longer than a request for a stored page.
fn masked_once(text: &str) -> String {
    static MASKED: LazyLock<Mutex<HashMap<u64, String>>> = LazyLock::new(Mutex::default);
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let hash = hasher.finish();
    let lock = || MASKED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = lock().get(&hash) {
        return known.clone();
    }
    let masked = masked(text);
    let mut known = lock();
    if known.len() >= MAX_KNOWN {
        known.clear();
    }
    known.insert(hash, masked.clone());
    masked
}

const FIELDS: [&str; 6] = [
    "content-type",
    "location",
    "link",
    "allow",
    "x-wp-total",
    "x-wp-totalpages",
];
/// Some 60 MB of pages.
const MAX_KNOWN: usize = 1000;
const VISITORS: usize = 4;
/// On a busy machine, a page may have to wait for many others.
const TIMEOUT: Duration = Duration::from_secs(90);
