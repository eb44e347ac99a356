//! Removes purged and expired pages, so that they do not fill the memory.
//!
//! Correctness does not depend on this: an invalid entry is not served, whether it was removed or not. A round runs when
//! purges were published since the last one, and otherwise once a minute for entries past all their windows. It pauses as it
//! goes, and runs outside of the threads that serve requests. The pages of each purge are counted before they are removed
//! ([`super::purge_counts`]). Each second the compression dictionaries of the sites are renewed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use galley_cache::entry::Entry;
use galley_cache::purge_table::Validity;
use galley_policy::site::ValidationPolicy;
use galley_policy::time::Tick;

use http::header;
use tokio::time::{Instant, timeout_at};

use super::current::CurrentConfiguration;
use super::pacing::WalkPacing;
use super::purge_counts;
use galley_request::{Site, site_mark};

/// Sweeps until the server has dropped its sites.
pub(super) async fn run(current: Arc<CurrentConfiguration>) {
    let mut seen = Vec::new();
    for round in 1_u32.. {
        count_until(&current, Instant::now() + PAUSE).await;
        let Some(purges) = purges(&current) else {
            return;
        };
        renew_dictionaries(&current).await;
        if purges == seen && round % ROUNDS_FOR_OUTLIVED != 0 {
            continue;
        }
        seen = purges;
        let current = Arc::clone(&current);
        // On a helper thread, because it visits every entry.
        let swept = tokio::task::spawn_blocking(move || sweep(&current)).await;
        if swept.is_err() {
            tracing::error!("sweeping the memory ended in a panic");
        }
    }
}

/// Counts the pages of new purges until `end`.
async fn count_until(current: &Arc<CurrentConfiguration>, end: Instant) {
    while let Some(signal) = current.services().map(|all| all.durable.purge_signal()) {
        // Keeps no reference to the services while it waits: they end with the server.
        if timeout_at(end, signal.notified()).await.is_err() {
            return;
        }
        let counting = Arc::clone(current);
        let counted = tokio::task::spawn_blocking(move || purge_counts::count(&counting)).await;
        if counted.is_err() {
            tracing::error!("counting the pages of purges ended in a panic");
        }
        // Purges in quick succession are counted together.
        tokio::time::sleep(BETWEEN_COUNTS).await;
    }
}

/// The newest purge number of each site. Also logs the number of suppressed warnings.
fn purges(current: &CurrentConfiguration) -> Option<Vec<u64>> {
    current.services()?.upstream_warnings.settle();
    let sites = current.sites()?;
    for site in &*sites {
        site.purges.settle_log();
    }
    Some(sites.iter().map(|site| site.purges.current()).collect())
}

/// Drops and chooses the dictionaries of all sites, on a helper thread if there is anything to do.
async fn renew_dictionaries(current: &Arc<CurrentConfiguration>) {
    let are_used = |sites: Arc<Vec<Arc<Site>>>| {
        let mut sites = sites.iter();
        sites.any(|site| site.core.dictionaries.are_used())
    };
    if !current.sites().is_some_and(are_used) {
        return;
    }
    let current = Arc::clone(current);
    let renewed = tokio::task::spawn_blocking(move || {
        let (Some(services), Some(sites)) = (current.services(), current.sites()) else {
            return;
        };
        for site in sites.iter() {
            let is_valid = |entry: &Entry| site.purges.validity_waiting(entry) == Validity::Valid;
            let now = services.clock.tick();
            site.core
                .dictionaries
                .renew(&services.memory, now, &is_valid);
        }
    });
    if renewed.await.is_err() {
        tracing::error!("choosing compression dictionaries ended in a panic");
    }
}

fn sweep(current: &CurrentConfiguration) {
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
        // Entries of uncounted purges wait for the next round.
        site.is_none_or(|site| !site.purges.has_uncounted() && is_dead(site, entry, now))
    });
}

/// Whether an entry is purged, or past every use.
pub(super) fn is_dead(site: &Site, entry: &Entry, now: Tick) -> bool {
    let is_kept =
        site.core.policy.storage.validation == ValidationPolicy::Origin && is_of_use(entry, now);
    site.purges.validity_waiting(entry) == Validity::Purged
        || (has_outlived(entry, now) && !is_kept)
}

/// Without a preset: whether a 304 may still make the entry fresh again, or a client may accept it stale.
fn is_of_use(entry: &Entry, now: Tick) -> bool {
    let has_validator =
        entry.fields.contains_key(header::ETAG) || entry.fields.contains_key(header::LAST_MODIFIED);
    let longest = if has_validator {
        KEPT_WITH_VALIDATOR
    } else {
        KEPT_WITHOUT_VALIDATOR
    };
    entry.age(now) < entry.lifetime.fresh.saturating_add(longest)
}

/// Whether an entry is past every window in which it could be served.
fn has_outlived(entry: &Entry, now: Tick) -> bool {
    let grace = entry
        .lifetime
        .stale_while_revalidate
        .max(entry.lifetime.stale_if_error);
    entry.age(now) > entry.lifetime.fresh.saturating_add(grace)
}

/// The interval between two checks for new purges.
const PAUSE: Duration = Duration::from_secs(1);

/// The pause between two counts of purges.
const BETWEEN_COUNTS: Duration = Duration::from_millis(50);

/// Without purges, only every 60th round sweeps: once a minute.
const ROUNDS_FOR_OUTLIVED: u32 = 60;

/// How long a stale entry with a validator is kept for revalidation.
const KEPT_WITH_VALIDATOR: Duration = Duration::from_secs(86_400);

/// How long a stale entry without a validator is kept for clients that send `max-stale`.
const KEPT_WITHOUT_VALIDATOR: Duration = Duration::from_secs(600);
