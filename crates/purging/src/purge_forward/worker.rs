//! The order in which the caches of a site are purged.
//!
//! A purge is in effect on this node before it is forwarded. Then:
//!
//! 1. It is written to the outbox.
//! 2. The caches behind this one are purged, and confirm it. Until then this node may have stored an old page from them as a new
//!    one, so the purge is published once more here and in the cluster.
//! 3. When the purge is on the disk, and the cluster has acknowledged it, its publisher gets the acknowledgment.
//! 4. The caches in front are purged. The pages that they fetch from then on are new. No publisher waits for them; the purge is
//!    repeated until they accept it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use galley_cluster::PurgeReach;
use galley_policy::purge::Purge;
use galley_sys::Lock;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use super::everything;
use super::outbox::ForwardOutbox;
use super::queue::{TargetQueue, TargetStats};
use super::target::ForwardTarget;
use crate::{
    ForwardInbox, ForwardNeeds, ForwardedPurge, OutboxFolder, PurgeReceipt, PurgeSource, Receipt,
    SitePurges,
};

/// The targets of a site and their queues, as long as the site forwards purges.
pub(super) struct SiteForwarding {
    purges: Arc<SitePurges>,
    needs: Arc<ForwardNeeds>,
    queues: Lock<Vec<Arc<TargetQueue>>>,
    outbox: Lock<ForwardOutbox>,
    /// The number of batches that are in the outbox and not in all queues yet.
    unqueued_batches: AtomicUsize,
}

/// Forwards the purges in the inbox of one site.
pub(super) struct ForwardWorker {
    site: Arc<SiteForwarding>,
    incoming: mpsc::Receiver<ForwardedPurge>,
}

/// A new inbox, and its receiver.
pub(super) fn inbox() -> (ForwardInbox, mpsc::Receiver<ForwardedPurge>) {
    let (purges, incoming) = mpsc::channel(MAX_INCOMING);
    let needs = Arc::default();
    (ForwardInbox { purges, needs }, incoming)
}

impl SiteForwarding {
    /// A site without targets.
    pub(super) fn new(
        purges: Arc<SitePurges>,
        needs: Arc<ForwardNeeds>,
        folder: OutboxFolder,
    ) -> Self {
        let outbox = ForwardOutbox::new(folder, purges.site());
        Self {
            purges,
            needs,
            queues: Lock::default(),
            outbox: Lock::new(outbox),
            unqueued_batches: AtomicUsize::new(0),
        }
    }

    /// Sets the targets. Returns the new queues, for each of which the caller has to run [`SiteForwarding::work`].
    pub(super) fn retarget(&self, targets: Vec<ForwardTarget>) -> Vec<Arc<TargetQueue>> {
        let mut queues = self.queues.lock();
        let before = std::mem::take(&mut *queues);
        let mut new = Vec::new();
        for target in targets {
            if let Some(known) = before.iter().find(|queue| *queue.target() == target) {
                queues.push(Arc::clone(known));
                continue;
            }
            let name = target.name();
            let renewed = before.iter().find(|queue| queue.target().name() == name);
            let queue = Arc::new(TargetQueue::new(target, renewed.map(Arc::as_ref)));
            queues.push(Arc::clone(&queue));
            new.push(queue);
        }
        for queue in &before {
            if !queues.iter().any(|one| Arc::ptr_eq(one, queue)) {
                queue.close();
            }
        }
        let is_behind = |queue: &Arc<TargetQueue>| queue.target().is_behind();
        let has_behind = queues.iter().any(is_behind);
        let has_front = !queues.iter().all(is_behind);
        let needs = &self.needs;
        needs
            .is_in_front_of_others
            .store(has_behind, Ordering::Release);
        needs.is_behind_others.store(has_front, Ordering::Release);
        new
    }

    /// Whether the site has targets.
    pub(super) fn has_targets(&self) -> bool {
        !self.queues().is_empty()
    }

    /// The statistics of the targets.
    pub(super) fn stats(&self) -> Vec<TargetStats> {
        self.queues().iter().map(|queue| queue.stats()).collect()
    }

    /// Sends the queued purges of one target, until the target is removed.
    pub(super) async fn work(&self, queue: Arc<TargetQueue>) {
        let is_behind = queue.target().is_behind();
        let taken = async |taken: &[Purge]| {
            if is_behind {
                // Even if the publisher no longer waits: the old page may have been stored in the meantime.
                let _ = republish(&self.purges, taken).acknowledged().await;
            }
        };
        queue.work(taken, || self.settle()).await;
        self.settle();
    }

    fn queues(&self) -> Vec<Arc<TargetQueue>> {
        let queues = self.queues.lock();
        queues.clone()
    }

    /// Clears the outbox if every target has accepted its contents.
    fn settle(&self) {
        let has_unqueued = self.unqueued_batches.load(Ordering::Acquire) > 0;
        if !has_unqueued && self.queues().iter().all(|queue| queue.is_empty()) {
            self.outbox.lock().clear();
        }
    }

    /// Forwards one batch, from step 2 on.
    async fn forward(&self, batch: Vec<ForwardedPurge>, purges: ForwardedBatch) {
        let queues = self.queues();
        let (behind, in_front): (Vec<_>, Vec<_>) =
            queues.iter().partition(|queue| queue.target().is_behind());
        let confirmations: Vec<oneshot::Receiver<()>> = behind
            .iter()
            .map(|queue| queue.push(purges.for_target(queue.target())))
            .collect();
        // An unreachable target delays no publisher.
        let is_failing = behind.iter().any(|queue| queue.is_failing());
        let all_accepted = async {
            for one in confirmations {
                let _ = one.await;
            }
        };
        let is_unconfirmed = !behind.is_empty()
            && (is_failing || timeout(CONFIRMATION_TIMEOUT, all_accepted).await.is_err());
        for one in batch {
            let receipt = one.receipt.acknowledged().await;
            let reach = if is_unconfirmed {
                Some(PurgeReach::Local(UNCONFIRMED.into()))
            } else {
                receipt.reach.clone()
            };
            let _ = one.done.send(PurgeReceipt { reach, ..receipt });
        }
        for queue in in_front {
            drop(queue.push(purges.for_target(queue.target())));
        }
        self.unqueued_batches.fetch_sub(1, Ordering::AcqRel);
        self.settle();
    }
}

/// The purges of one batch, for the two kinds of targets.
struct ForwardedBatch {
    all: Vec<Purge>,
    /// The purges that were not forwarded by another Galley.
    own: Vec<Purge>,
}

impl ForwardedBatch {
    fn for_target(&self, target: &ForwardTarget) -> &[Purge] {
        if target.may_forward_too() {
            &self.own
        } else {
            &self.all
        }
    }
}

impl ForwardWorker {
    /// A worker for a site.
    pub(super) fn new(site: Arc<SiteForwarding>, incoming: mpsc::Receiver<ForwardedPurge>) -> Self {
        Self { site, incoming }
    }

    /// Forwards the purges of an earlier run, then those in the inbox, until the site no longer forwards.
    pub(super) async fn run(mut self) {
        let left = self.site.outbox.lock().read();
        if !left.is_empty() {
            tracing::info!(
                site = self.site.purges.site(),
                purges = left.len(),
                "purges of an earlier run wait for other caches"
            );
            for queue in self.site.queues() {
                drop(queue.push(&left));
            }
        }
        let rounds = Arc::new(Semaphore::new(MAX_ROUNDS));
        let mut batch = Vec::new();
        while self.incoming.recv_many(&mut batch, MAX_BATCH).await > 0 {
            let batch = std::mem::take(&mut batch);
            let purges = self.keep(&batch);
            let Ok(round) = Arc::clone(&rounds).acquire_owned().await else {
                return;
            };
            let site = Arc::clone(&self.site);
            tokio::task::spawn_local(async move {
                site.forward(batch, purges).await;
                drop(round);
            });
        }
    }

    /// Writes a batch to the outbox.
    fn keep(&self, batch: &[ForwardedPurge]) -> ForwardedBatch {
        let mut all: Vec<Purge> = batch.iter().map(|one| one.purge.clone()).collect();
        let first_hand = batch.iter().filter(|one| !one.is_second_hand);
        let mut first_hand: Vec<Purge> = first_hand.map(|one| one.purge.clone()).collect();
        if self.site.needs.has_overflowed.swap(false, Ordering::AcqRel) {
            // The purges for which the inbox was full are not in the batch.
            all.push(everything());
            first_hand.push(everything());
        }
        self.site.unqueued_batches.fetch_add(1, Ordering::AcqRel);
        self.site.outbox.lock().keep(&all);
        ForwardedBatch {
            all,
            own: first_hand,
        }
    }
}

fn republish(purges: &SitePurges, all: &[Purge]) -> Receipt {
    let mut newest = Receipt::default();
    for purge in all {
        newest = purges.publish_unforwarded(purge, PurgeSource::Forward);
    }
    newest
}

const UNCONFIRMED: &str = "a cache behind this one has not confirmed";

/// How long a publisher may wait for the caches behind this one: as long as for a cluster.
const CONFIRMATION_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum number of purges in one batch.
const MAX_BATCH: usize = 500;

/// The maximum number of batches that wait for confirmations at the same time; each waits for seconds at most.
const MAX_ROUNDS: usize = 64;

/// The maximum number of purges in the inbox.
const MAX_INCOMING: usize = 10_000;
