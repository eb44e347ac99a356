//! Removes purged and expired pages, so that they do not fill the memory.
//!
//! Correctness never waits for this: a dead entry is not served, removed or not. A round runs when purges have come since the
//! last one, and otherwise now and then for what has outlived all its windows; it pauses as it goes, off every hot thread.
//! The pages of each purge are counted before they are removed ([`super::purge_counts`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use galley_cache::entry::Entry;
use galley_cache::purge_table::Validity;
use galley_policy::site::ValidationPolicy;
use galley_policy::time::Tick;

use http::header;
use tokio::time::{Instant, timeout_at};

use super::current::Current;
use super::pacing::WalkPacing;
use super::purge_counts;
use crate::request::{Site, site_mark};

/// Sweeps until the server has dropped its sites.
pub(super) async fn run(current: Arc<Current>) {
    let mut seen = Vec::new();
    for round in 1_u32.. {
        count_until(&current, Instant::now() + PAUSE).await;
        let Some(purges) = purges(&current) else {
            return;
        };
        if purges == seen && round % ROUNDS_FOR_OUTLIVED != 0 {
            continue;
        }
        seen = purges;
        let current = Arc::clone(&current);
        // On a helper thread: it looks at every entry.
        let swept = tokio::task::spawn_blocking(move || sweep(&current)).await;
        if swept.is_err() {
            tracing::error!("sweeping the memory ended in a panic");
        }
    }
}

/// Counts the pages of purges as they come.
async fn count_until(current: &Arc<Current>, end: Instant) {
    while let Some(signal) = current.services().map(|all| all.durable.purge_signal()) {
        // The services are not held while it waits: they end with the server.
        if timeout_at(end, signal.notified()).await.is_err() {
            return;
        }
        let counting = Arc::clone(current);
        let counted = tokio::task::spawn_blocking(move || purge_counts::count(&counting)).await;
        if counted.is_err() {
            tracing::error!("counting the pages of purges ended in a panic");
        }
        // Purges that come close together are counted together.
        tokio::time::sleep(BETWEEN_COUNTS).await;
    }
}

/// The purge counters of all sites. Tells of the warnings that were held back, too.
fn purges(current: &Current) -> Option<Vec<u64>> {
    current.services()?.upstream_warnings.settle();
    let sites = current.sites()?;
    Some(sites.iter().map(|site| site.purges.current()).collect())
}

fn sweep(current: &Current) {
    let (Some(services), Some(sites)) = (current.services(), current.sites()) else {
        return;
    };
    let by_mark: HashMap<u32, &Arc<Site>> = sites.iter().map(|site| (site.mark, site)).collect();
    let now = services.clock.tick();
    for private in sites.iter().filter_map(|site| site.core.private.as_ref()) {
        private.sweep(now);
    }
    let mut pacing = WalkPacing::default();
    services.memory.sweep(|entry| {
        pacing.step();
        let site = site_mark(entry.key.bytes()).and_then(|mark| by_mark.get(&mark));
        // What is not counted waits for the next round.
        site.is_none_or(|site| !site.purges.has_uncounted() && is_dead(site, entry, now))
    });
}

/// Purged, or beyond all use.
pub(super) fn is_dead(site: &Site, entry: &Entry, now: Tick) -> bool {
    let is_kept =
        site.core.rules.storage.validation == ValidationPolicy::Origin && is_of_use(entry, now);
    site.purges.prove_waiting(entry) == Validity::Purged || (has_outlived(entry, now) && !is_kept)
}

/// Without a preset: whether a 304 may still make it young again, or a client may take it stale.
fn is_of_use(entry: &Entry, now: Tick) -> bool {
    let has_validator =
        entry.fields.contains_key(header::ETAG) || entry.fields.contains_key(header::LAST_MODIFIED);
    let longest = if has_validator {
        ASKED_ABOUT
    } else {
        TAKEN_STALE
    };
    entry.age(now) < entry.life.fresh.saturating_add(longest)
}

/// Beyond every window in which it could still be used.
fn has_outlived(entry: &Entry, now: Tick) -> bool {
    let grace = entry
        .life
        .stale_while_revalidate
        .max(entry.life.stale_if_error);
    entry.age(now) > entry.life.fresh.saturating_add(grace)
}

/// Between two looks at the counters.
const PAUSE: Duration = Duration::from_secs(1);

/// Between two counts of purges.
const BETWEEN_COUNTS: Duration = Duration::from_millis(50);

/// A round without purges runs once a minute.
const ROUNDS_FOR_OUTLIVED: u32 = 60;

/// How long a stale entry with a validator is kept for revalidation.
const ASKED_ABOUT: Duration = Duration::from_secs(86_400);

/// How long one without waits for a client that says `max-stale`.
const TAKEN_STALE: Duration = Duration::from_secs(600);
