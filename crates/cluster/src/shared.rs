//! What the threads of a node and its handles share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use galley_policy::purge::Strength;
use tokio::sync::oneshot;

use crate::lease::Lease;
use crate::message::RemotePurge;
use crate::status::ClusterStatus;

/// What applies the purges of other nodes.
pub trait PurgeSink: Send + Sync {
    /// Applies purges in their order. They are in force, and on the disk as far as there is one, when this returns.
    fn apply(&self, purges: &[RemotePurge]);

    /// Purges everything of all sites, because purges may be missing.
    fn apply_to_all(&self, strength: Strength);

    /// Whether pages of an earlier run are stored.
    fn has_earlier_pages(&self) -> bool;
}

/// How far a purge got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgeReach {
    /// No node can answer with the old pages any more.
    Cluster,
    /// It holds on this node. The others get it when they can; why they have not.
    Local(Arc<str>),
}

/// What all threads of a node share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) lease: Arc<Lease>,
    /// The run of this node, which its messages name.
    pub(crate) incarnation: String,
    /// As other nodes see it.
    pub(crate) member: String,
    pub(crate) serves_through_partitions: bool,
    pub(crate) is_stopped: AtomicBool,
    pub(crate) status: Mutex<ClusterStatus>,
    pub(crate) applied: AtomicU64,
    pub(crate) gaps: AtomicU64,
    pub(crate) acknowledged: AtomicU64,
    pub(crate) local_only: AtomicU64,
}

impl Shared {
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    pub(crate) fn status(&self) -> MutexGuard<'_, ClusterStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A purge on its way to the stream.
pub(crate) struct Outgoing {
    pub(crate) content: RemotePurge,
    /// `None`: its publisher was told that it holds on this node only.
    pub(crate) reply: Option<oneshot::Sender<PurgeReach>>,
    pub(crate) since: Instant,
}

/// Behind the name of a member that uses stored pages without a lease: that its key is absent proves nothing.
pub(crate) const SERVES: &str = " serves";
