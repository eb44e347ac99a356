//! Removing what is dead, so that purged and outlived pages do not fill the memory.
//!
//! Correctness never waits for this: a dead entry is not served, removed or not. A round runs when purges have come since the
//! last one, and otherwise now and then for what has outlived all its windows; it pauses as it goes, off every hot thread.

use std::sync::{Arc, Weak};
use std::time::Duration;

use galley_rules::time::Tick;
use galley_store::entry::Entry;
use galley_store::epochs::Standing;

use crate::serve::{Services, Site, site_number};

/// Sweeps until the server has dropped its sites.
pub(super) async fn run(services: Arc<Services>, sites: &Arc<Vec<Arc<Site>>>) {
    let sites = Arc::downgrade(sites);
    let mut seen = Vec::new();
    for round in 1_u32.. {
        tokio::time::sleep(PAUSE).await;
        let Some(purges) = purges(&sites) else { return };
        if purges == seen && round % ROUNDS_FOR_OUTLIVED != 0 {
            continue;
        }
        seen = purges;
        let (services, sites) = (Arc::clone(&services), Weak::clone(&sites));
        // On a helper thread: it looks at every entry.
        let swept = tokio::task::spawn_blocking(move || sweep(&services, &sites)).await;
        if swept.is_err() {
            tracing::error!("sweeping the memory ended in a panic");
        }
    }
}

/// The purge counters of all sites.
fn purges(sites: &Weak<Vec<Arc<Site>>>) -> Option<Vec<u64>> {
    Some(
        sites
            .upgrade()?
            .iter()
            .map(|site| site.core.epochs.current())
            .collect(),
    )
}

fn sweep(services: &Services, sites: &Weak<Vec<Arc<Site>>>) {
    let Some(sites) = sites.upgrade() else { return };
    let now = services.clock.tick();
    let mut looked = 0_u32;
    services.memory.sweep(|entry| {
        looked = looked.wrapping_add(1);
        if looked.is_multiple_of(ENTRIES_AT_ONCE) {
            std::thread::sleep(BREATH);
        }
        let site = site_number(entry.key.bytes()).and_then(|n| sites.get(usize::try_from(n).ok()?));
        let purged = site.is_none_or(|s| s.core.epochs.prove_waiting(entry) == Standing::Dead);
        purged || has_outlived(entry, now)
    });
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

/// A round without purges runs once a minute.
const ROUNDS_FOR_OUTLIVED: u32 = 60;

/// Entries between two pauses: a few tens of microseconds of work.
const ENTRIES_AT_ONCE: u32 = 256;

/// The pause.
const BREATH: Duration = Duration::from_millis(1);
