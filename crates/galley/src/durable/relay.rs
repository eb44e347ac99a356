//! Purges that two processes share while one takes over from the other.
//!
//! Both serve visitors for a while, from separate memories. So each sends its purges to the other, and acknowledges a purge
//! when it is in effect in both: neither serves the old page then. Outside of an upgrade there is no other process.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use galley_cache::log::PurgeRecord;
use galley_policy::purge::Purge;
use tokio::sync::{mpsc, oneshot};

/// Where purges are sent to beside the log. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct PurgeRelay(Arc<RwLock<RelayState>>);

#[derive(Debug, Default)]
struct RelayState {
    other: Option<mpsc::UnboundedSender<RelayedPurge>>,
    /// Whether the other process has the log and is the cluster's node, and this one no longer.
    has_left: bool,
}

/// A purge for the other process.
#[derive(Debug)]
pub struct RelayedPurge {
    /// The purge.
    pub record: PurgeRecord,
    /// Notified when the purge is in effect there. Dropped: there is no other process any more.
    pub done: oneshot::Sender<()>,
}

/// Purges for the other process, in the order in which they were published. The publisher of each waits for it, so there are
/// at most as many as open requests.
pub type RelayedPurges = mpsc::UnboundedReceiver<RelayedPurge>;

/// Held while a purge is published: nothing begins or ends meanwhile.
pub(super) struct RelayGuard<'r>(RwLockReadGuard<'r, RelayState>);

impl PurgeRelay {
    /// From here on purges are sent to the other process: every purge for which this does not happen has been published, and is
    /// queued for the log, when this returns. `has_left`: whether the other process writes the log and is the cluster's node, and this
    /// one no longer.
    pub fn begin(&self, has_left: bool) -> RelayedPurges {
        let (sender, purges) = mpsc::unbounded_channel();
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *state = RelayState {
            other: Some(sender),
            has_left,
        };
        purges
    }

    /// The other process is gone.
    pub fn end(&self) {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *state = RelayState::default();
    }

    pub(super) fn hold(&self) -> RelayGuard<'_> {
        RelayGuard(self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl RelayGuard<'_> {
    /// Sends a purge to the other process, if there is one; the result is notified when it is in effect there.
    pub(super) fn send(&self, site: &str, purge: &Purge) -> Option<oneshot::Receiver<()>> {
        let other = self.0.other.as_ref()?;
        let (done, told) = oneshot::channel();
        let record = PurgeRecord {
            site: site.to_owned(),
            purge: purge.clone(),
        };
        other.send(RelayedPurge { record, done }).ok()?;
        Some(told)
    }

    /// Whether what this process says of the disk and of the cluster means nothing.
    pub(super) fn has_left(&self) -> bool {
        self.0.has_left
    }
}
