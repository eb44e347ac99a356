//! The purges of one site: in force at once, on the disk before they are acknowledged.

use std::sync::Arc;

use galley_cache::entry::Entry;
use galley_cache::log::{Durability, DurableTicket, Loss, OpenedLog, Restart};
use galley_cache::purge_table::{PurgeTable, Touch, Touched, Touching, Unlogged, Validity};
use galley_cluster::{ClusterPublisher, PendingReach, PurgeReach};
use galley_policy::purge::Purge;
use tokio::sync::oneshot;

use super::forward::ForwardInboxes;
use super::recent_purges::{PurgeSource, RecentPurge, RecentPurges};
use super::relay::{PurgeRelay, RelayGuard};
use crate::clock::Clock;

/// Publishes a site's purges and proves its entries. Its table is read only here, so that no purge goes past the log.
///
/// ```
/// # use galley_policy::purge::{Purge, Scope, Strength};
/// # let purge = Purge { scope: Scope::Site, strength: Strength::Hard };
/// use galley::durable::{PurgeSource, SitePurges};
///
/// fn purge_all(purges: &SitePurges, purge: &Purge) {
///     let _receipt = purges.publish(purge, PurgeSource::Request);
/// }
/// ```
///
/// Its table cannot be used to publish, whether it is that of a log or not:
///
/// ```compile_fail
/// # use galley_policy::purge::{Purge, Scope, Strength};
/// # let purge = Purge { scope: Scope::Site, strength: Strength::Hard };
/// use galley::durable::{PurgeSource, SitePurges};
///
/// fn purge_all(purges: &SitePurges, purge: &Purge) {
///     purges.table().publish(purge);
/// }
/// ```
///
/// ```compile_fail
/// # use galley_policy::purge::{Purge, Scope, Strength};
/// # let purge = Purge { scope: Scope::Site, strength: Strength::Hard };
/// use galley::durable::{PurgeSource, SitePurges};
///
/// fn purge_all(purges: &SitePurges, purge: &Purge) {
///     purges.table().publish_with(purge, |number| number);
/// }
/// ```
pub struct SitePurges {
    /// The site in the log.
    site: String,
    table: PurgeTarget,
    clock: Clock,
    /// Where the counter began this run.
    first: u64,
    /// The other nodes.
    cluster: Option<ClusterPublisher>,
    recent: RecentPurges,
    /// The process that takes over, or that this one takes over from.
    relay: PurgeRelay,
    /// Caches of other machines.
    forward: ForwardInboxes,
}

enum PurgeTarget {
    /// Without a log; why, where there is to be one.
    Unlogged(Unlogged, Option<Arc<str>>),
    Logged(PurgeTable, Arc<OpenedLog>),
}

impl SitePurges {
    /// Orders that live as long as the process. `unusable`: why, where they were to be logged.
    pub fn in_memory(site: String, clock: Clock, unusable: Option<Arc<str>>) -> Self {
        Self {
            site,
            table: PurgeTarget::Unlogged(Unlogged::new(), unusable),
            clock,
            first: 0,
            cluster: None,
            recent: RecentPurges::default(),
            relay: PurgeRelay::default(),
            forward: ForwardInboxes::default(),
        }
    }

    /// Purges of a log; the table has been replayed.
    pub(super) fn logged(
        site: String,
        table: PurgeTable,
        log: Arc<OpenedLog>,
        clock: Clock,
    ) -> Self {
        let first = table.current();
        Self {
            site,
            table: PurgeTarget::Logged(table, log),
            clock,
            first,
            cluster: None,
            recent: RecentPurges::default(),
            relay: PurgeRelay::default(),
            forward: ForwardInboxes::default(),
        }
    }

    /// The same, with other nodes that get each purge, and another process that may.
    pub(super) fn sent_to(mut self, cluster: Option<ClusterPublisher>, relay: PurgeRelay) -> Self {
        self.cluster = cluster;
        self.relay = relay;
        self
    }

    /// The same, with caches of other machines that get each purge.
    pub(super) fn forwarded_to(mut self, forward: ForwardInboxes) -> Self {
        self.forward = forward;
        self
    }

    /// Publishes a purge on this node, and sends it to the other nodes and to other caches. What it touches here is purged when this
    /// returns. It may be acknowledged when the receipt says so.
    pub fn publish(&self, purge: &Purge, source: PurgeSource) -> Receipt {
        let hard = self.forward.strengthened(&self.site, purge);
        let purge = hard.as_ref().unwrap_or(purge);
        let receipt = self.publish_unforwarded(purge, source);
        self.forward.send(&self.site, purge, source, receipt)
    }

    /// The same without other caches.
    pub fn publish_unforwarded(&self, purge: &Purge, source: PurgeSource) -> Receipt {
        self.recent.note(purge, source, self.clock.tick());
        let relay = self.relay.hold();
        let here = self.apply_and_send(purge, &relay);
        let cluster = self.cluster.as_ref().map(|cluster| {
            if relay.has_left() {
                PendingReach::handed_over()
            } else {
                cluster.publish(&self.site, purge)
            }
        });
        Receipt { cluster, ..here }
    }

    /// Publishes a purge on this node alone.
    pub fn apply(&self, purge: &Purge, source: PurgeSource) -> Receipt {
        self.recent.note(purge, source, self.clock.tick());
        self.apply_and_send(purge, &self.relay.hold())
    }

    fn apply_and_send(&self, purge: &Purge, relay: &RelayGuard<'_>) -> Receipt {
        let here = self.apply_in_process(purge);
        let elsewhere = relay.send(&self.site, purge);
        if elsewhere.is_some() && relay.has_left() {
            return Receipt {
                elsewhere,
                ..Receipt::default()
            };
        }
        Receipt { elsewhere, ..here }
    }

    /// Publishes a purge that the other process of this node has published. If that one has left the cluster, the other nodes get it from
    /// here.
    pub fn publish_relayed(&self, purge: &Purge) -> Receipt {
        let relay = self.relay.hold();
        let here = self.apply_in_process(purge);
        if let Some(cluster) = &self.cluster
            && !relay.has_left()
        {
            // The other process says that it holds on this node.
            drop(cluster.publish(&self.site, purge));
        }
        // The other process may end before it has forwarded it.
        let source = PurgeSource::Upgrade;
        drop(
            self.forward
                .send(&self.site, purge, source, Receipt::default()),
        );
        here
    }

    fn apply_in_process(&self, purge: &Purge) -> Receipt {
        let here = match &self.table {
            PurgeTarget::Unlogged(table, unusable) => {
                table.publish(purge);
                match unusable {
                    None => PendingReceipt::Done,
                    Some(reason) => PendingReceipt::Lost(forgetful(reason)),
                }
            }
            PurgeTarget::Logged(table, log) => {
                let now = self.clock.wall();
                let published = log.log.publish(&self.site, table, purge, now);
                PendingReceipt::Waits(published.ticket)
            }
        };
        Receipt {
            here,
            ..Receipt::default()
        }
    }

    /// The site's name in the log and in the cluster.
    pub fn site(&self) -> &str {
        &self.site
    }

    /// How many purges were published since the start.
    pub fn given(&self) -> u64 {
        self.current().saturating_sub(self.first)
    }

    /// The latest purges, the newest first.
    pub fn recent(&self) -> Vec<RecentPurge> {
        self.recent.newest()
    }

    /// The table, to be read.
    pub fn table(&self) -> &PurgeTable {
        match &self.table {
            PurgeTarget::Unlogged(table, _) => table,
            PurgeTarget::Logged(table, _) => table,
        }
    }

    /// As [`PurgeTable::current`].
    pub fn current(&self) -> u64 {
        self.table().current()
    }

    /// As [`PurgeTable::prove`].
    pub fn prove(&self, entry: &Entry) -> Validity {
        self.table().prove(entry)
    }

    /// As [`PurgeTable::prove_waiting`].
    pub fn prove_waiting(&self, entry: &Entry) -> Validity {
        self.table().prove_waiting(entry)
    }

    /// As [`PurgeTable::newer_than`].
    pub fn newer_than(&self, born: u64, touch: Touch<'_>) -> Touched {
        self.table().newer_than(born, touch)
    }

    /// As [`PurgeTable::newest_touching`].
    pub fn newest_touching(&self, born: u64, touch: &Touch<'_>) -> Option<Touching> {
        self.table().newest_touching(born, touch)
    }
}

/// The acknowledgement of a purge, and of all that were published before it.
#[must_use = "a purge may be acknowledged only when its receipt permits it"]
#[derive(Debug, Default)]
pub struct Receipt {
    here: PendingReceipt,
    /// In the other process of this node.
    elsewhere: Option<oneshot::Receiver<()>>,
    cluster: Option<PendingReach>,
    /// From the forwarder, which waits for the rest.
    forwarded: Option<oneshot::Receiver<PurgeReceipt>>,
    /// Whether a cache behind this one is purged later than this says.
    is_unforwarded: bool,
}

#[derive(Debug, Default)]
enum PendingReceipt {
    /// There is nothing to wait for.
    #[default]
    Done,
    Waits(DurableTicket),
    /// It cannot be kept.
    Lost(Loss),
}

impl Receipt {
    /// The same, where a cache behind this one is purged later.
    pub(super) fn not_forwarded(self) -> Self {
        Self {
            is_unforwarded: true,
            ..self
        }
    }

    /// One that the forwarder of the purge gives.
    pub(super) fn of_forwarder(forwarded: oneshot::Receiver<PurgeReceipt>) -> Self {
        Self {
            forwarded: Some(forwarded),
            ..Self::default()
        }
    }

    /// Waits for the disk and the other nodes; returns at once where there are none.
    pub async fn acknowledged(self) -> PurgeReceipt {
        if let Some(forwarded) = self.forwarded {
            return forwarded.await.unwrap_or_else(|_| PurgeReceipt {
                reach: Some(PurgeReach::Local("the server ends".into())),
                ..PurgeReceipt::default()
            });
        }
        let receipt = self.here.acknowledged().await;
        if let Some(elsewhere) = self.elsewhere {
            // One that has ended sends no page any more.
            let _ = elsewhere.await;
        }
        if self.is_unforwarded {
            let reason = "too many purges wait for caches behind this one";
            return PurgeReceipt {
                reach: Some(PurgeReach::Local(reason.into())),
                ..receipt
            };
        }
        let Some(cluster) = self.cluster else {
            return receipt;
        };
        PurgeReceipt {
            reach: Some(cluster.reach().await),
            ..receipt
        }
    }
}

impl PendingReceipt {
    async fn acknowledged(self) -> PurgeReceipt {
        match self {
            Self::Done => PurgeReceipt::default(),
            Self::Waits(ticket) => PurgeReceipt::from(ticket.await),
            Self::Lost(loss) => PurgeReceipt::from(Durability::Lost(loss)),
        }
    }
}

/// What the client learns about a purge that is in force.
#[derive(Clone, Debug, Default)]
pub struct PurgeReceipt {
    /// Why it is not on the disk, for the log.
    pub reason: Option<Arc<str>>,
    /// The same for whoever gave it: what a restart will do.
    pub warning: Option<&'static str>,
    /// How far it got in the cluster and in caches behind this one; `None`: there are none.
    pub reach: Option<PurgeReach>,
}

impl PurgeReceipt {
    /// Whether no visitor of any node gets the old page any more.
    pub fn is_final(&self) -> bool {
        !matches!(self.reach, Some(PurgeReach::Local(_)))
    }

    /// `cluster` or `local`, in a cluster.
    pub fn reach_word(&self) -> Option<&'static str> {
        self.reach.as_ref().map(|reach| match reach {
            PurgeReach::Cluster => "cluster",
            PurgeReach::Local(_) => "local",
        })
    }

    /// Warns the operator where there is something to warn of.
    pub fn log(&self, site: &str) {
        if let (Some(warning), Some(reason)) = (self.warning, &self.reason) {
            tracing::warn!(site, %reason, "a purge was {warning}");
        }
        if let Some(PurgeReach::Local(reason)) = &self.reach {
            tracing::warn!(site, %reason, "a purge is in force on this node, and not acknowledged yet by all others");
        }
    }
}

impl From<Durability> for PurgeReceipt {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Kept => Self::default(),
            Durability::Lost(loss) => Self {
                reach: None,
                reason: Some(loss.reason),
                warning: Some(match loss.restart {
                    Restart::PurgesAll => {
                        "executed, but not written to the disk: a restart will purge everything"
                    }
                    Restart::MayForget => {
                        "executed, but not written to the disk: after a restart, purged pages may come back"
                    }
                }),
            },
        }
    }
}

/// The warning for purges without a log while the pages of earlier runs may be there.
pub(super) fn forgetful(reason: &Arc<str>) -> Loss {
    Loss {
        reason: Arc::clone(reason),
        restart: Restart::MayForget,
    }
}
