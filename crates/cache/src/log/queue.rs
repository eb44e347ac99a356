//! The queue of records for the writer.
//!
//! Publishers add to the queue inside the critical section of their site's counter, so that numbers rise in the file. They
//! only copy bytes and never wait for the disk. The queue is bounded, and each site's part of it: above a limit, a purge is
//! recorded as a hard purge of its whole site, one number for each site. That purges more after a restart, and loses nothing.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Condvar, PoisonError};
use std::time::Duration;

use galley_policy::purge::{Purge, Scope, Strength};
use galley_sys::Lock;

use super::format::{Generation, LoggedPurge, RecordStamp, push_purge};
use super::limits::LogLimits;
use super::ticket::{Durability, DurableTicket, NotDurable, RestartEffect, SyncRound};

/// The state that publishers and the writer share.
#[derive(Debug)]
pub(super) struct LogShared {
    /// The first number of this run's counters.
    start: u64,
    limits: LogLimits,
    queue: Lock<LogQueue>,
    /// Notified when a record was added or the log is being closed.
    changed: Condvar,
    /// Written by the writer.
    status: Lock<LogStatus>,
}

/// The state of the log.
#[derive(Clone, Debug)]
pub(super) struct LogStatus {
    pub(super) generation: Generation,
    pub(super) durability: Durability,
}

#[derive(Debug)]
struct LogQueue {
    batch: LogBatch,
    /// The highest number of each site that ever had a purge. Never decreases.
    highest: BTreeMap<Arc<str>, RecordStamp>,
    lifecycle: QueueLifecycle,
}

/// Whether a writer reads the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueLifecycle {
    Running,
    /// The log is being closed. The queue is still written.
    Closing,
    /// The writer has panicked.
    Dead(RestartEffect),
}

/// The records of one write.
#[derive(Debug, Default)]
pub(super) struct LogBatch {
    /// Records, with empty checks.
    pub(super) bytes: Vec<u8>,
    pub(super) records: usize,
    sites: BTreeMap<Arc<str>, SiteBatch>,
    round: Arc<SyncRound>,
}

/// The records of one site.
#[derive(Debug, Default)]
struct SiteBatch {
    bytes: usize,
    /// Whether a purge of the whole site is among them.
    has_whole: bool,
    /// The newest purge above a limit. It is newer than all of the site in `bytes`.
    overflow: Option<RecordStamp>,
}

impl LogBatch {
    /// Adds records for the purges above the limit.
    pub(super) fn settle_overflow(&mut self) {
        for (site, of_site) in mem::take(&mut self.sites) {
            let Some(stamp) = of_site.overflow else {
                continue;
            };
            push_purge(&mut self.bytes, &site, stamp, &WHOLE_SITE);
            self.records += 1;
        }
    }

    pub(super) fn finish(&self, outcome: Durability) {
        self.round.finish(outcome);
    }

    fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }
}

/// A batch that is dropped without an outcome was never written, because the writer panicked.
impl Drop for LogBatch {
    fn drop(&mut self) {
        self.round.finish(writer_died(RestartEffect::MayForget));
    }
}

impl LogShared {
    /// `replayed`: the purges that were read from the log.
    pub(super) fn new(
        start: u64,
        limits: LogLimits,
        status: LogStatus,
        replayed: &[LoggedPurge],
    ) -> Self {
        let highest = replayed.iter().map(|logged| {
            let stamp = RecordStamp {
                number: logged.number,
                at: logged.at,
            };
            (Arc::from(logged.site.as_str()), stamp)
        });
        Self {
            start,
            limits,
            queue: Lock::new(LogQueue {
                batch: LogBatch::default(),
                highest: highest.collect(),
                lifecycle: QueueLifecycle::Running,
            }),
            changed: Condvar::new(),
            status: Lock::new(status),
        }
    }

    /// Appends a purge. Must be called in the order of a site's numbers, and followed by [`LogShared::wake`].
    pub(super) fn append(&self, site: &str, stamp: RecordStamp, purge: &Purge) -> DurableTicket {
        let mut queue = self.queue.lock();
        debug_assert!(
            stamp.number
                > queue
                    .highest
                    .get(site)
                    .map_or(0, |last| last.number)
                    .max(self.start),
            "numbers of `{site}` do not rise: its table were not replayed"
        );
        let name = match queue.highest.get_key_value(site) {
            Some((name, _)) => Arc::clone(name),
            None => Arc::from(site),
        };
        queue.highest.insert(Arc::clone(&name), stamp);
        if let QueueLifecycle::Dead(restart) = queue.lifecycle {
            let round = Arc::new(SyncRound::default());
            round.finish(writer_died(restart));
            return round.ticket();
        }
        let limits = self.limits;
        let batch = &mut queue.batch;
        let before = batch.bytes.len();
        let of_site = batch.sites.entry(name).or_default();
        let is_full = before >= limits.queue_bytes || of_site.bytes >= limits.site_queue_bytes;
        // A site that exceeds its budget purges the whole site each time.
        let is_whole = purge.scope == Scope::Site;
        let is_repeated = is_whole && of_site.has_whole;
        if of_site.overflow.is_some() || is_full || is_repeated {
            of_site.overflow = Some(stamp);
        } else {
            push_purge(&mut batch.bytes, site, stamp, purge);
            of_site.bytes += batch.bytes.len() - before;
            of_site.has_whole |= is_whole;
            batch.records += 1;
        }
        batch.round.ticket()
    }

    /// Wakes the writer after a record was added.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Makes the writer end when the queue is empty.
    pub(super) fn close(&self) {
        self.queue.lock().lifecycle = QueueLifecycle::Closing;
        self.changed.notify_one();
    }

    /// Fails the queue, because the writer has ended.
    pub(super) fn fail_queue(&self, restart: RestartEffect) {
        let batch = {
            let mut queue = self.queue.lock();
            queue.lifecycle = QueueLifecycle::Dead(restart);
            mem::take(&mut queue.batch)
        };
        self.set_status(|status| status.durability = writer_died(restart));
        batch.finish(writer_died(restart));
    }

    /// Waits for records, at most for `timeout`, and removes all of them from the queue. `None`: the log is closed.
    pub(super) fn take(&self, timeout: Option<Duration>) -> Option<LogBatch> {
        let mut queue = self.queue.lock();
        if queue.batch.is_empty() && queue.lifecycle == QueueLifecycle::Running {
            let idle = |queue: &mut LogQueue| {
                queue.batch.is_empty() && queue.lifecycle == QueueLifecycle::Running
            };
            queue = match timeout {
                None => self
                    .changed
                    .wait_while(queue, idle)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(timeout) => {
                    self.changed
                        .wait_timeout_while(queue, timeout, idle)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
        if queue.batch.is_empty() && queue.lifecycle != QueueLifecycle::Running {
            return None;
        }
        Some(mem::take(&mut queue.batch))
    }

    /// Everything published so far, as one hard purge for each site; and the contents of the queue, which those purges cover.
    pub(super) fn take_floors(&self) -> (LogBatch, Vec<LoggedPurge>) {
        let mut queue = self.queue.lock();
        let floors = queue.highest.iter().map(|(site, stamp)| LoggedPurge {
            site: String::from(&**site),
            number: stamp.number,
            at: stamp.at,
            purge: WHOLE_SITE,
        });
        let mut floors: Vec<LoggedPurge> = floors.collect();
        let batch = mem::take(&mut queue.batch);
        drop(queue);
        floors.sort_by_key(|logged| logged.number);
        (batch, floors)
    }

    pub(super) fn status(&self) -> LogStatus {
        self.status.lock().clone()
    }

    pub(super) fn set_status(&self, change: impl FnOnce(&mut LogStatus)) {
        change(&mut self.status.lock());
    }
}

fn writer_died(restart: RestartEffect) -> Durability {
    Durability::Lost(NotDurable {
        reason: "the log's writer has ended".into(),
        restart,
    })
}

const WHOLE_SITE: Purge = Purge {
    scope: Scope::Site,
    strength: Strength::Hard,
};
