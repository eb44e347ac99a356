//! Purges that wait to be sent to caches of other machines.
//!
//! A site that forwards its purges has an inbox here; the module `purge_forward` reads it. A purge in an inbox is already
//! in effect on this node. Its publisher waits for a receipt that says how far it got.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use galley_policy::purge::{Purge, Strength};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::receipt::{PurgeReceipt, Receipt};
use super::recent_purges::PurgeSource;

/// The inboxes of the sites that forward purges. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct ForwardInboxes {
    by_site: Arc<RwLock<HashMap<String, ForwardInbox>>>,
    folder: OutboxFolder,
}

/// Where the purges of one site are put. Clones are the same.
#[derive(Clone, Debug)]
pub struct ForwardInbox {
    /// To the forwarder.
    pub purges: mpsc::Sender<ForwardedPurge>,
    /// What its targets need.
    pub needs: Arc<ForwardNeeds>,
}

/// What the targets of a site need from a publisher. Written by the forwarder, unless noted otherwise.
#[derive(Debug, Default)]
pub struct ForwardNeeds {
    /// Some cache is in front of this one. It fetches again at once what it has purged, and would store a page that is softly
    /// purged here.
    pub is_behind_others: AtomicBool,
    /// Some cache is behind this one: a purge is final when that one has confirmed it.
    pub is_in_front_of_others: AtomicBool,
    /// Set by a publisher whose purge found no room: everything is to be purged in its place.
    pub has_overflowed: AtomicBool,
}

/// A purge to be forwarded.
#[derive(Debug)]
pub struct ForwardedPurge {
    /// The purge.
    pub purge: Purge,
    /// Whether another Galley has forwarded it: then it is not sent to others of its kind.
    pub is_second_hand: bool,
    /// How far it has got here and in the cluster.
    pub receipt: Receipt,
    /// To be told when it may be acknowledged.
    pub done: oneshot::Sender<PurgeReceipt>,
}

/// The folder in which purges wait across a restart. `None`: there is none, or another process has taken over. Clones share
/// it.
#[derive(Clone, Debug, Default)]
pub struct OutboxFolder(Arc<Mutex<Option<PathBuf>>>);

impl OutboxFolder {
    /// This folder.
    pub fn at(path: PathBuf) -> Self {
        Self(Arc::new(Mutex::new(Some(path))))
    }

    /// Held while a file in it is changed, so that a process that takes over finds it whole.
    pub fn lock(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ForwardInboxes {
    /// None yet; purges wait in this folder.
    pub(super) fn kept_in(folder: PathBuf) -> Self {
        Self {
            folder: OutboxFolder::at(folder),
            ..Self::default()
        }
    }

    /// Where purges wait across a restart.
    pub fn folder(&self) -> &OutboxFolder {
        &self.folder
    }

    /// Another process has the folder from here on.
    pub(super) fn release(&self) {
        *self.folder.lock() = None;
    }

    /// From here on these sites, and no others, forward their purges.
    pub fn replace(&self, inboxes: HashMap<String, ForwardInbox>) {
        *self.by_site.write().unwrap_or_else(PoisonError::into_inner) = inboxes;
    }

    /// The purge as the site has to publish it: hard if a cache is in front.
    pub(super) fn strengthened(&self, site: &str, purge: &Purge) -> Option<Purge> {
        let inboxes = self.by_site.read().unwrap_or_else(PoisonError::into_inner);
        let needs = &inboxes.get(site)?.needs;
        let is_soft = purge.strength == Strength::Soft;
        (is_soft && needs.is_behind_others.load(Ordering::Acquire)).then(|| Purge {
            scope: purge.scope.clone(),
            strength: Strength::Hard,
        })
    }

    /// Hands a purge to the site's inbox; the receipt that comes back is the one to wait for.
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
