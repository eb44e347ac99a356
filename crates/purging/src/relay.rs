//! Purges that two processes exchange while one replaces the other.
//!
//! Both processes serve requests for a while, from separate memories. So each sends its purges to the other, and acknowledges a
//! purge when it is in effect in both: then neither sends the old page. Outside of an upgrade there is no other process.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use galley_cache::log::PurgeRecord;
use galley_policy::purge::Purge;
use tokio::sync::{mpsc, oneshot};

/// The channel to the other process. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct PurgeRelay(Arc<RwLock<RelayState>>);

#[derive(Debug, Default)]
struct RelayState {
    other: Option<mpsc::UnboundedSender<RelayedPurge>>,
    /// Whether the other process, instead of this one, writes the log and is the cluster's node.
    has_left: bool,
}

/// A purge for the other process.
#[derive(Debug)]
pub struct RelayedPurge {
    /// The purge with its site.
    pub record: PurgeRecord,
    /// Notified when the purge is in effect in the other process. Dropped if that process has ended.
    pub done: oneshot::Sender<()>,
}

/// Purges for the other process, in the order of publication. The publisher of each waits for it, so there are at most as many
/// as open requests.
pub type RelayedPurges = mpsc::UnboundedReceiver<RelayedPurge>;

/// Held while a purge is published: [`PurgeRelay::begin`] and [`PurgeRelay::end`] wait for it.
pub(super) struct RelayGuard<'r>(RwLockReadGuard<'r, RelayState>);

impl PurgeRelay {
    /// Begins to send purges to the other process. When this returns, every purge that is not sent has been published and is
    /// queued for the log. `has_left`: whether the other process, instead of this one, writes the log and is the cluster's
    /// node.
    pub fn begin(&self, has_left: bool) -> RelayedPurges {
        let (sender, purges) = mpsc::unbounded_channel();
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *state = RelayState {
            other: Some(sender),
            has_left,
        };
        purges
    }

    /// Called when the other process has ended.
    pub fn end(&self) {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *state = RelayState::default();
    }

    pub(super) fn guard(&self) -> RelayGuard<'_> {
        RelayGuard(self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl RelayGuard<'_> {
    /// Sends a purge to the other process, if there is one. The result is notified when the purge is in effect there.
    pub(super) fn send(&self, site: &str, purge: &Purge) -> Option<oneshot::Receiver<()>> {
        let other = self.0.other.as_ref()?;
        let (done, notified) = oneshot::channel();
        let record = PurgeRecord {
            site: site.to_owned(),
            purge: purge.clone(),
        };
        other.send(RelayedPurge { record, done }).ok()?;
        Some(notified)
    }

    /// Whether this process no longer writes the log and has left the cluster.
    pub(super) fn has_left(&self) -> bool {
        self.0.has_left
    }
}
