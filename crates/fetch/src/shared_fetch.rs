//! The state of a fetch in progress that concerns the other nodes of a cluster.

use std::cell::RefCell;
use std::sync::Arc;

use galley_cache::entry::Entry;
use galley_cluster::FetchToken;

/// The cluster state of a fetch.
#[derive(Default)]
pub(super) struct SharedFetch {
    /// The page that another node fetched, which makes this fetch unnecessary.
    found: RefCell<Option<Arc<Entry>>>,
    /// The right to fetch the page for all nodes.
    token: RefCell<Option<FetchToken>>,
}

impl SharedFetch {
    /// Records the page of another node.
    pub(super) fn found(&self, entry: Arc<Entry>) {
        *self.found.borrow_mut() = Some(entry);
    }

    /// The page of another node.
    pub(super) fn entry(&self) -> Option<Arc<Entry>> {
        self.found.borrow().clone()
    }

    /// Records the right to fetch the page for all nodes; `None` if the fetch does not have it.
    pub(super) fn may_fetch(&self, token: Option<FetchToken>) {
        *self.token.borrow_mut() = token;
    }

    /// Removes and returns the right.
    pub(super) fn take_token(&self) -> Option<FetchToken> {
        self.token.take()
    }

    /// Lets other nodes fetch the page if they are still waiting for it.
    pub(super) fn release(&self) {
        drop(self.token.take());
    }
}
