//! Purges to be sent to caches on other machines.
//!
//! Each site that forwards its purges has an inbox here, which the module `purge_forward` reads. A purge in an inbox is already
//! in effect on this node. Its publisher waits for a receipt that contains its reach.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError, RwLock};

use galley_policy::purge::{Purge, Strength};
use galley_sys::Lock;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::receipt::{PurgeReceipt, Receipt};
use super::recent_purges::PurgeSource;

/// The inboxes of the sites that forward purges. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ForwardInboxes {
    by_site: Arc<RwLock<HashMap<String, ForwardInbox>>>,
    folder: OutboxFolder,
}

/// The inbox of one site. Clones share it.
#[derive(Clone, Debug)]
pub struct ForwardInbox {
    /// The channel to the forwarder.
    pub purges: mpsc::Sender<ForwardedPurge>,
    /// The requirements of the targets.
    pub needs: Arc<ForwardNeeds>,
}

/// The requirements of a site's targets. Written by the forwarder, unless noted otherwise.
#[derive(Debug, Default)]
pub struct ForwardNeeds {
    /// Whether a cache is in front of this one. Such a cache fetches purged pages again immediately, and would store a page
    /// that is only soft-purged here.
    pub is_behind_others: AtomicBool,
    /// Whether a cache is behind this one. If so, a purge is final only when that cache has confirmed it.
    pub is_in_front_of_others: AtomicBool,
    /// Set by a publisher that found the queue full: then everything must be purged.
    pub has_overflowed: AtomicBool,
}

/// A purge to be forwarded.
#[derive(Debug)]
pub struct ForwardedPurge {
    /// The purge.
    pub purge: Purge,
    /// Whether another Galley has forwarded the purge. If so, it is not sent to other instances of Galley.
    pub is_second_hand: bool,
    /// The receipt of this node and the cluster.
    pub receipt: Receipt,
    /// Notified when the purge may be acknowledged.
    pub done: oneshot::Sender<PurgeReceipt>,
}

/// The folder for purges that wait across a restart. `None`: there is none, or another process uses it. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct OutboxFolder(Arc<Lock<Option<PathBuf>>>);

impl OutboxFolder {
    /// The folder at a path.
    pub fn at(path: PathBuf) -> Self {
        Self(Arc::new(Lock::new(Some(path))))
    }

    /// Held while a file in the folder is changed, so that a process that takes over finds it complete.
    pub fn lock(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.0.lock()
    }
}

impl ForwardInboxes {
    /// No inboxes yet. Purges wait in `folder`.
    pub(super) fn kept_in(folder: PathBuf) -> Self {
        Self {
            folder: OutboxFolder::at(folder),
            ..Self::default()
        }
    }

    /// The folder for purges that wait across a restart.
    pub fn folder(&self) -> &OutboxFolder {
        &self.folder
    }

    /// Called when another process takes over the folder.
    pub(super) fn release(&self) {
        *self.folder.lock() = None;
    }

    /// Sets the inboxes of all sites that forward their purges.
    pub fn replace(&self, inboxes: HashMap<String, ForwardInbox>) {
        *self.by_site.write().unwrap_or_else(PoisonError::into_inner) = inboxes;
    }

    /// The purge as a hard purge, if it is soft and a cache is in front; otherwise `None`.
    pub(super) fn strengthened(&self, site: &str, purge: &Purge) -> Option<Purge> {
        let inboxes = self.by_site.read().unwrap_or_else(PoisonError::into_inner);
        let needs = &inboxes.get(site)?.needs;
        let is_soft = purge.strength == Strength::Soft;
        (is_soft && needs.is_behind_others.load(Ordering::Acquire)).then(|| Purge {
            scope: purge.scope.clone(),
            strength: Strength::Hard,
        })
    }

    /// Sends a purge to the site's inbox, if any. Returns the receipt to wait for.
    pub(super) fn send(
        &self,
        site: &str,
        purge: &Purge,
        source: PurgeSource,
        receipt: Receipt,
    ) -> Receipt {
        let inboxes = self.by_site.read().unwrap_or_else(PoisonError::into_inner);
        let Some(inbox) = inboxes.get(site) else {
            return receipt;
        };
        let (done, forwarded) = oneshot::channel();
        let forwarded_purge = ForwardedPurge {
            purge: purge.clone(),
            is_second_hand: source == PurgeSource::Forward,
            receipt,
            done,
        };
        match inbox.purges.try_send(forwarded_purge) {
            Ok(()) => Receipt::of_forwarder(forwarded),
            Err(TrySendError::Full(lost) | TrySendError::Closed(lost)) => {
                inbox.needs.has_overflowed.store(true, Ordering::Release);
                if inbox.needs.is_in_front_of_others.load(Ordering::Acquire) {
                    lost.receipt.not_forwarded()
                } else {
                    lost.receipt
                }
            }
        }
    }
}
