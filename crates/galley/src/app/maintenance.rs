//! Maintains the disk cache: counts the entries after a start, removes purged and expired ones, reports failures.
//!
//! One thread works in small steps with pauses. After purges the pauses are shorter, so that the
//! space of purged pages is soon free; correctness does not depend on it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use galley_cache::disk::{HeaderView, Health, ScanProgress, SiteId};
use galley_cache::entry::EntryKind;
use galley_cache::log::Durability;

use super::ServerStartError;
use super::current::CurrentConfiguration;
use super::sweep;
use galley_purging::{DiskCache, Durable};
use galley_request::{Site, site_mark};

/// The maintenance thread, if there is a disk cache.
pub(super) struct MaintenanceThread {
    thread: Option<(SyncSender<()>, JoinHandle<()>)>,
}

impl MaintenanceThread {
    /// No thread.
    pub(super) fn none() -> Self {
        Self { thread: None }
    }

    /// Ends the thread after its current step.
    pub(super) fn stop(self) {
        if let Some((stop, thread)) = self.thread {
            drop(stop);
            let _ = thread.join();
        }
    }
}

/// Starts the thread if there is a disk cache.
pub(super) fn start(
    durable: Durable,
    current: Arc<CurrentConfiguration>,
) -> Result<MaintenanceThread, ServerStartError> {
    let Some(disk) = durable.disk_cache().map(Arc::clone) else {
        return Ok(MaintenanceThread::none());
    };
    let (stop, stopped) = sync_channel(0);
    let round = MaintenanceRound {
        durable,
        disk,
        current,
        last_report: LastReport::default(),
        purges: 0,
        is_hurried: false,
    };
    let thread = std::thread::Builder::new()
        .name("disk-maintenance".to_owned())
        .spawn(move || round.run(&stopped))?;
    Ok(MaintenanceThread {
        thread: Some((stop, thread)),
    })
}

struct MaintenanceRound {
    durable: Durable,
    disk: Arc<DiskCache>,
    current: Arc<CurrentConfiguration>,
    last_report: LastReport,
    /// The number of purges of all sites when the round began.
    purges: u64,
    /// Whether there were new purges when the round began.
    is_hurried: bool,
}

impl MaintenanceRound {
    fn run(mut self, stopped: &Receiver<()>) {
        let mut is_counted = false;
        loop {
            let pause = if is_counted {
                let Some(sites) = self.current.sites() else {
                    return;
                };
                self.sweep(&sites);
                self.catch_up(&sites);
                if self.is_hurried { HURRIED } else { CALM }
            } else {
                is_counted = self.disk.scan_step() == ScanProgress::Done;
                if is_counted {
                    // Entries that arrived during the scan were not stored.
                    self.disk.owe();
                }
                HURRIED
            };
            self.durable.follow_generation();
            self.last_report.report(&self.disk, &self.durable);
            if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    /// Writes entries that could not be written on arrival, while the disk is otherwise idle.
    fn catch_up(&self, sites: &[Arc<Site>]) {
        let by_mark: HashMap<u32, &Arc<Site>> =
            sites.iter().map(|site| (site.mark, site)).collect();
        let now = self.durable.now();
        self.disk.catch_up(|entry| {
            let site = by_mark.get(&site_mark(entry.key.bytes())?)?;
            let is_wanted =
                entry.kind != EntryKind::HitForPass && !sweep::is_dead(site, entry, now);
            is_wanted.then_some(site.core.disk.as_ref()?)
        });
    }

    fn sweep(&mut self, sites: &[Arc<Site>]) {
        let owners: HashMap<SiteId, &Arc<Site>> = sites
            .iter()
            .filter_map(|site| Some((site.core.disk.as_ref()?.id(), site)))
            .collect();
        let swept = self.disk.sweep_step(|view| is_dead(&owners, view));
        if swept.ends_round {
            let purges = sites.iter().map(|site| site.core.purges.published()).sum();
            self.is_hurried = purges != self.purges;
            self.purges = purges;
        }
    }
}

/// Whether an entry can be removed. Entries of a site that is not configured now are kept, because the site may be added
/// again; without requests they are evicted in time.
fn is_dead(owners: &HashMap<SiteId, &Arc<Site>>, view: &HeaderView) -> bool {
    let Some(site) = owners.get(&view.site) else {
        return false;
    };
    let is_foreign = site
        .core
        .disk
        .as_ref()
        .is_none_or(|disk| disk.fingerprint() != view.fingerprint);
    is_foreign || sweep::is_dead(site, &view.entry, view.entry.stored_at)
}

/// The problems that were last reported to the operator.
#[derive(Default)]
struct LastReport {
    is_off: bool,
    is_lost: bool,
}

impl LastReport {
    fn report(&mut self, disk: &DiskCache, durable: &Durable) {
        let health = disk.health();
        let is_off = matches!(health, Health::Off { .. });
        if let Health::Off { reason, .. } = health
            && !self.is_off
        {
            tracing::error!(%reason, "cannot write pages to the disk; Galley serves them from memory and tries again");
        }
        if self.is_off && !is_off {
            tracing::info!("pages are written to the disk again");
        }
        self.is_off = is_off;
        let durability = durable.durability();
        let is_lost = matches!(durability, Some(Durability::Lost(_)));
        if let Some(Durability::Lost(loss)) = durability
            && !self.is_lost
        {
            tracing::error!(reason = %loss.reason, "cannot write purges to the disk; they are executed");
        }
        if self.is_lost && !is_lost {
            tracing::info!("purges are written to the disk again");
        }
        self.is_lost = is_lost;
    }
}

/// The pause between two steps while there is work.
const HURRIED: Duration = Duration::from_millis(5);

/// The pause between two steps of a round that only looks for expired entries: 4,096 steps in seven minutes.
const CALM: Duration = Duration::from_millis(100);
