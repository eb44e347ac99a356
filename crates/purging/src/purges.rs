//! The purges of one site: in effect immediately, and on the disk before they are acknowledged.

use std::sync::Arc;

use galley_cache::entry::Entry;
use galley_cache::log::OpenedLog;
use galley_cache::purge_table::{
    FillPurgeState, MatchingPurge, PurgeSubject, PurgeTable, UnloggedPurgeTable, Validity,
};
use galley_cluster::{
    BornPoint, ClusterPublisher, NotedPoints, PendingReach, PurgePoints, StreamPoint,
};
use galley_policy::purge::{Purge, PurgeLabel};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard, Notify};

use super::forward::ForwardInboxes;
use super::purge_budget::{AT_ONCE, PurgeBudget};
use super::receipt::{PendingReceipt, Receipt, loss_without_log};
use super::recent_purges::{
    CountablePurge, PurgeOrigin, PurgeSource, PurgedPages, RecentPurge, RecentPurges,
};
use super::relay::{PurgeRelay, RelayGuard};
use galley_sys::Lock;
use galley_sys::clock::Clock;
use galley_telemetry::errors::RateLimited;

/// Publishes a site's purges and compares its entries with them. The table is private to this type, so that no purge bypasses
/// the log.
///
/// ```
/// # use galley_policy::purge::{Purge, Scope, Strength};
/// # let purge = Purge { scope: Scope::Site, strength: Strength::Hard };
/// use galley_purging::{PurgeSource, SitePurges};
///
/// fn purge_all(purges: &SitePurges, purge: &Purge) {
///     let _receipt = purges.publish(purge, PurgeSource::Request);
/// }
/// ```
///
/// The table cannot be used to publish, with or without a log:
///
/// ```compile_fail
/// # use galley_policy::purge::{Purge, Scope, Strength};
/// # let purge = Purge { scope: Scope::Site, strength: Strength::Hard };
/// use galley_purging::{PurgeSource, SitePurges};
///
/// fn purge_all(purges: &SitePurges, purge: &Purge) {
///     purges.table().publish(purge);
/// }
/// ```
///
/// ```compile_fail
/// # use galley_policy::purge::{Purge, Scope, Strength};
/// # let purge = Purge { scope: Scope::Site, strength: Strength::Hard };
/// use galley_purging::{PurgeSource, SitePurges};
///
/// fn purge_all(purges: &SitePurges, purge: &Purge) {
///     purges.table().publish_with(purge, |number| number);
/// }
/// ```
pub struct SitePurges {
    /// The name of the site in the log.
    site: String,
    table: PurgeTarget,
    clock: Clock,
    /// The counter at the start of this run.
    first: u64,
    /// The other nodes of the cluster.
    cluster: Option<ClusterPublisher>,
    recent: RecentPurges,
    /// The other process of this node during an upgrade.
    relay: PurgeRelay,
    /// Caches on other machines.
    forward: ForwardInboxes,
    /// The positions of the purges in the cluster's stream.
    points: Lock<PurgePoints>,
    budget: PurgeBudget,
    /// Limits the log's lines about this site's purges.
    lines: RateLimited,
    /// Held by the request of this site's token that the admin thread handles.
    turn: AsyncMutex<()>,
}

enum PurgeTarget {
    /// A table without a log; with the reason, if a log is configured.
    Unlogged(UnloggedPurgeTable, Option<Arc<str>>),
    Logged(PurgeTable, Arc<OpenedLog>),
}

impl SitePurges {
    /// Purges that are lost when the process ends. `unusable`: the reason, if a log is configured.
    pub fn in_memory(site: String, clock: Clock, unusable: Option<Arc<str>>) -> Self {
        let table = PurgeTarget::Unlogged(UnloggedPurgeTable::new(), unusable);
        Self::of_table(site, table, 0, clock)
    }

    /// Purges with a log. The table must have been replayed.
    pub(super) fn logged(
        site: String,
        table: PurgeTable,
        log: Arc<OpenedLog>,
        clock: Clock,
    ) -> Self {
        let first = table.current();
        Self::of_table(site, PurgeTarget::Logged(table, log), first, clock)
    }

    fn of_table(site: String, table: PurgeTarget, first: u64, clock: Clock) -> Self {
        Self {
            site,
            table,
            clock,
            first,
            cluster: None,
            recent: RecentPurges::default(),
            relay: PurgeRelay::default(),
            forward: ForwardInboxes::default(),
            points: Lock::default(),
            budget: PurgeBudget::default(),
            lines: RateLimited::new("purges", LINES_PER_S),
            turn: AsyncMutex::default(),
        }
    }

    /// The same with other nodes, and possibly another process, to which each purge is sent.
    pub(super) fn sent_to(mut self, cluster: Option<ClusterPublisher>, relay: PurgeRelay) -> Self {
        self.cluster = cluster;
        self.relay = relay;
        self
    }

    /// The same with caches on other machines, to which each purge is sent.
    pub(super) fn forwarded_to(mut self, forward: ForwardInboxes) -> Self {
        self.forward = forward;
        self
    }

    /// The same with a signal for the task that counts the pages of each purge.
    pub(super) fn counted_at(mut self, signal: Arc<Notify>) -> Self {
        self.recent = RecentPurges::waking(signal);
        self
    }

    /// Publishes a purge on this node, and sends it to the other nodes and to other caches. It is in effect on this node when
    /// this returns. The receipt tells when it may be acknowledged.
    pub fn publish(&self, purge: &Purge, source: PurgeSource) -> Receipt {
        self.publish_all(std::slice::from_ref(purge), source)
    }

    /// Publishes several purges. The receipt is that of the newest one and covers all. If they exceed the budget of the site, the
    /// whole site is purged instead.
    pub fn publish_all(&self, purges: &[Purge], source: PurgeSource) -> Receipt {
        self.publish_labeled(purges, source, None)
    }

    /// The same with a label for the history of this node.
    pub fn publish_labeled(
        &self,
        purges: &[Purge],
        source: PurgeSource,
        label: Option<&PurgeLabel>,
    ) -> Receipt {
        let exceeds = source.is_chosen_by_site().then(|| {
            let now = self.clock.tick();
            self.budget.take(purges, now)
        });
        let whole = exceeds.flatten();
        if whole.is_some() && self.may_log() {
            tracing::warn!(
                site = self.site,
                purges = purges.len(),
                "purged the whole site: more than {AT_ONCE} purges at once and 1000 a second, or long ones"
            );
        }
        let purges = whole.as_ref().map_or(purges, std::slice::from_ref);
        let mut newest = Receipt::default();
        for purge in purges {
            newest = self.publish_one(purge, PurgeOrigin { source, label });
        }
        newest.published = u64::try_from(purges.len()).unwrap_or(u64::MAX);
        newest
    }

    /// Waits until no other request of this site's token is being handled, so that sites take turns however many requests one of
    /// them sends.
    pub async fn turn(&self) -> AsyncMutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Whether one more line about this site's purges may be logged. Logs how many were not.
    pub fn may_log(&self) -> bool {
        let (is_admitted, more) = self.lines.admit_counting();
        self.log_more(more);
        is_admitted
    }

    /// Logs how many lines were left out in the last second. Called once a second.
    pub fn settle_log(&self) {
        self.log_more(self.lines.settle_counting());
    }

    fn log_more(&self, more: u32) {
        if more > 0 {
            tracing::info!(
                site = self.site,
                more,
                "purged more often than each line says"
            );
        }
    }

    fn publish_one(&self, purge: &Purge, origin: PurgeOrigin<'_>) -> Receipt {
        let hard = self.forward.strengthened(&self.site, purge);
        let purge = hard.as_ref().unwrap_or(purge);
        let receipt = self.publish_here_and_in_cluster(purge, origin);
        self.forward.send(&self.site, purge, origin.source, receipt)
    }

    /// Publishes a purge without sending it to other caches.
    pub fn publish_unforwarded(&self, purge: &Purge, source: PurgeSource) -> Receipt {
        self.publish_here_and_in_cluster(purge, source.into())
    }

    fn publish_here_and_in_cluster(&self, purge: &Purge, origin: PurgeOrigin<'_>) -> Receipt {
        let relay = self.relay.guard();
        let begun = self.cluster.as_ref().map(ClusterPublisher::begin);
        let here = self.apply_and_send(purge, origin, &relay);
        let cluster = self.cluster.as_ref().zip(begun).map(|(cluster, begun)| {
            if relay.has_left() {
                PendingReach::handed_over()
            } else {
                cluster.publish(&self.site, purge, begun)
            }
        });
        Receipt { cluster, ..here }
    }

    /// Publishes a purge only on this node.
    pub fn apply(&self, purge: &Purge, source: PurgeSource) -> Receipt {
        self.apply_and_send(purge, source.into(), &self.relay.guard())
    }

    fn apply_and_send(
        &self,
        purge: &Purge,
        origin: PurgeOrigin<'_>,
        relay: &RelayGuard<'_>,
    ) -> Receipt {
        self.recent.expect();
        let (here, number) = self.apply_in_process(purge);
        self.recent.note(purge, origin, self.clock.tick(), number);
        let elsewhere = relay.send(&self.site, purge);
        if elsewhere.is_some() && relay.has_left() {
            return Receipt {
                elsewhere,
                ..Receipt::default()
            };
        }
        Receipt { elsewhere, ..here }
    }

    /// Publishes a purge that the other process of this node has published. If that process has left the cluster, this one
    /// sends the purge to the other nodes.
    pub fn publish_relayed(&self, purge: &Purge) -> Receipt {
        let relay = self.relay.guard();
        let begun = self.cluster.as_ref().map(ClusterPublisher::begin);
        let (here, _) = self.apply_in_process(purge);
        if let (Some(cluster), Some(begun)) = (&self.cluster, begun)
            && !relay.has_left()
        {
            // The other process reports that the purge is in effect on this node.
            drop(cluster.publish(&self.site, purge, begun));
        }
        // The other process may end before it has forwarded the purge.
        let source = PurgeSource::Upgrade;
        drop(
            self.forward
                .send(&self.site, purge, source, Receipt::default()),
        );
        here
    }

    /// Publishes a purge in this process. Returns its number, too.
    fn apply_in_process(&self, purge: &Purge) -> (Receipt, u64) {
        let (here, number) = match &self.table {
            PurgeTarget::Unlogged(table, unusable) => {
                let number = table.publish(purge);
                let here = match unusable {
                    None => PendingReceipt::Done,
                    Some(reason) => PendingReceipt::Lost(loss_without_log(reason)),
                };
                (here, number)
            }
            PurgeTarget::Logged(table, log) => {
                let now = self.clock.wall();
                let published = log.log.publish(&self.site, table, purge, now);
                (PendingReceipt::Waits(published.ticket), published.number)
            }
        };
        let receipt = Receipt {
            here,
            ..Receipt::default()
        };
        (receipt, number)
    }

    /// Records the state of the cluster's stream while `number` is the newest.
    pub fn note_points(&self, points: &NotedPoints, number: u64) {
        self.points.lock().note(points, number);
    }

    /// The stream point for a page that was generated after all purges up to `born`; `None`: unknown.
    pub fn of_born(&self, born: u64) -> Option<BornPoint> {
        self.points.lock().of_born(born)
    }

    /// A number such that a page with `point` contains the effect of all purges up to it; `None`: unknown.
    pub fn number_at(&self, point: &StreamPoint) -> Option<u64> {
        self.points.lock().number_at(point)
    }

    /// The site's name in the log and in the cluster.
    pub fn site(&self) -> &str {
        &self.site
    }

    /// The number of purges since the start.
    pub fn published(&self) -> u64 {
        self.current().saturating_sub(self.first)
    }

    /// Whether purges of an earlier run are known.
    pub fn has_earlier(&self) -> bool {
        self.first > 0
    }

    /// The latest purges, the newest first.
    pub fn recent(&self) -> Vec<RecentPurge> {
        self.recent.newest()
    }

    /// Whether the pages of a purge in effect are not counted yet. If so, purged pages must not be swept.
    pub fn has_uncounted(&self) -> bool {
        self.recent.has_uncounted()
    }

    /// The purges of the last seconds in the order of their numbers, for the task that counts their pages; empty if all are
    /// counted.
    pub fn countable(&self) -> Vec<CountablePurge> {
        self.recent.countable()
    }

    /// Records the number of pages that purges invalidated, by the purges' numbers.
    pub fn counted(&self, counts: &[(u64, PurgedPages)]) {
        self.recent.counted(counts, self.clock.tick());
    }

    /// The table, for reading.
    pub fn table(&self) -> &PurgeTable {
        match &self.table {
            PurgeTarget::Unlogged(table, _) => table,
            PurgeTarget::Logged(table, _) => table,
        }
    }

    /// See [`PurgeTable::current`].
    pub fn current(&self) -> u64 {
        self.table().current()
    }

    /// See [`PurgeTable::validity`].
    pub fn validity(&self, entry: &Entry) -> Validity {
        self.table().validity(entry)
    }

    /// See [`PurgeTable::validity_waiting`].
    pub fn validity_waiting(&self, entry: &Entry) -> Validity {
        self.table().validity_waiting(entry)
    }

    /// See [`PurgeTable::purged_tags`].
    pub fn purged_tags<'e>(&self, entry: &'e Entry) -> Vec<&'e str> {
        self.table().purged_tags(entry)
    }

    /// See [`PurgeTable::newer_than`].
    pub fn newer_than(&self, born: u64, touch: PurgeSubject<'_>) -> FillPurgeState {
        self.table().newer_than(born, touch)
    }

    /// See [`PurgeTable::newest_match`].
    pub fn newest_match(&self, born: u64, touch: &PurgeSubject<'_>) -> Option<MatchingPurge> {
        self.table().newest_match(born, touch)
    }
}

/// The lines about the purges of one site in each second.
const LINES_PER_S: u32 = 20;
