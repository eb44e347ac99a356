//! The acknowledgment of a purge: the events that it waits for, and the reach of the purge.

use std::sync::Arc;

use galley_cache::log::{Durability, DurableTicket, NotDurable, RestartEffect};
use galley_cluster::{PendingReach, PurgeReach};
use tokio::sync::oneshot;

/// The acknowledgment of a purge, and of all earlier ones.
#[must_use = "a purge may be acknowledged only when its receipt permits it"]
#[derive(Debug, Default)]
pub struct Receipt {
    pub(super) here: PendingReceipt,
    /// The other process of this node.
    pub(super) elsewhere: Option<oneshot::Receiver<()>>,
    pub(super) cluster: Option<PendingReach>,
    /// From the forwarder, which waits for the rest.
    pub(super) forwarded: Option<oneshot::Receiver<PurgeReceipt>>,
    /// Whether a cache behind this one is purged later than the receipt reports.
    pub(super) is_unforwarded: bool,
    /// See [`Receipt::published`].
    pub(super) published: u64,
}

#[derive(Debug, Default)]
pub(super) enum PendingReceipt {
    /// No wait is necessary.
    #[default]
    Done,
    Waits(DurableTicket),
    /// The purge cannot be stored on the disk.
    Lost(NotDurable),
}

impl Receipt {
    /// How many purges were published together with this one: one purge of the whole site may have taken the place of many.
    pub fn published(&self) -> u64 {
        self.published
    }

    /// The same for a purge that is not forwarded to a cache behind this one yet.
    pub(super) fn not_forwarded(self) -> Self {
        Self {
            is_unforwarded: true,
            ..self
        }
    }

    /// A receipt that the forwarder of the purge supplies.
    pub(super) fn of_forwarder(forwarded: oneshot::Receiver<PurgeReceipt>) -> Self {
        Self {
            forwarded: Some(forwarded),
            ..Self::default()
        }
    }

    /// Waits for the disk and the other nodes. Returns immediately if there are none.
    pub async fn acknowledged(self) -> PurgeReceipt {
        if let Some(forwarded) = self.forwarded {
            let receipt = forwarded.await;
            return receipt
                .unwrap_or_else(|_| PurgeReceipt::default().local_only("the server ends"));
        }
        let receipt = self.here.acknowledged().await;
        if let Some(elsewhere) = self.elsewhere {
            // If the process has ended, it does not send pages any more.
            let _ = elsewhere.await;
        }
        if self.is_unforwarded {
            return receipt.local_only("too many purges wait for caches behind this one");
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

/// The result of a purge that is in effect, for the client.
#[derive(Clone, Debug, Default)]
pub struct PurgeReceipt {
    /// Why the purge is not on the disk, for the log.
    pub reason: Option<Arc<str>>,
    /// The effect of a restart, for the client, if the purge is not on the disk.
    pub warning: Option<&'static str>,
    /// The reach in the cluster and in caches behind this one; `None`: there are none.
    pub reach: Option<PurgeReach>,
}

impl PurgeReceipt {
    /// The same for a purge that other caches do not know yet.
    fn local_only(self, why: &str) -> Self {
        Self {
            reach: Some(PurgeReach::Local(why.into())),
            ..self
        }
    }

    /// Whether no visitor of any node gets the old page any more.
    pub fn is_final(&self) -> bool {
        !matches!(self.reach, Some(PurgeReach::Local(_)))
    }

    /// `cluster` or `local`; `None` outside of a cluster.
    pub fn reach_word(&self) -> Option<&'static str> {
        self.reach.as_ref().map(|reach| match reach {
            PurgeReach::Cluster => "cluster",
            PurgeReach::Local(_) => "local",
        })
    }

    /// Logs a warning for the operator if necessary.
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
                    RestartEffect::PurgesAll => {
                        "executed, but not written to the disk: a restart will purge everything"
                    }
                    RestartEffect::MayForget => {
                        "executed, but not written to the disk: after a restart, purged pages may come back"
                    }
                }),
            },
        }
    }
}

/// The loss of purges without a log, when pages of earlier runs may exist.
pub(super) fn loss_without_log(reason: &Arc<str>) -> NotDurable {
    NotDurable {
        reason: Arc::clone(reason),
        restart: RestartEffect::MayForget,
    }
}
