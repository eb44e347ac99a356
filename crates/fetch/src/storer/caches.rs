//! The caches of a fetch thread, and their limits.

use std::sync::Arc;

use galley_cache::budget::{MemoryBudget, Reservation};
use galley_cache::entry::Entry;
use galley_cache::fill::{BodyRetention, FillError};
use galley_cache::memory::Memory;
use galley_cluster::lease::Lease;
use galley_cluster::{ClusterPublisher, SharedPages};
use galley_policy::outcome::NotStored;
use galley_sys::clock::Clock;
use galley_upstream::IncomingResponse;

/// The caches; see the module of this folder.
pub(crate) struct Storer {
    pub(super) memory: Arc<Memory>,
    /// The pages that the nodes of a cluster share.
    pub(super) shared_pages: Option<SharedPages>,
    /// Whether stored pages may be used.
    pub(super) lease: Arc<Lease>,
    pub(super) clock: Clock,
}

impl Storer {
    pub(crate) fn new(
        memory: Arc<Memory>,
        cluster: Option<&ClusterPublisher>,
        clock: Clock,
    ) -> Self {
        Self {
            memory,
            shared_pages: cluster.and_then(ClusterPublisher::pages).cloned(),
            lease: ClusterPublisher::lease(cluster),
            clock,
        }
    }

    /// The entry in memory under a key; this is no hit.
    pub(crate) fn peek(&self, key: &[u8]) -> Option<Arc<Entry>> {
        self.memory.peek(key)
    }

    /// All entries in memory.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Arc<Entry>> + '_ {
        self.memory.entries()
    }

    /// The memory for entries and for bodies that are being received.
    pub(crate) fn budget(&self) -> &MemoryBudget {
        self.memory.budget()
    }

    /// The reservation for a body that is received whole, which will grow.
    pub(crate) fn room(&self) -> Result<Reservation, FillError> {
        self.budget().try_reserve(0).ok_or(FillError::Memory)
    }

    /// Keeps the body of a response that is being received, so that it can be stored.
    pub(crate) fn retention(&self) -> BodyRetention {
        self.memory.keep()
    }

    /// The maximum size of an entry in bytes.
    pub(crate) fn max_object(&self) -> u64 {
        self.memory.max_object()
    }

    /// Removes the codings of a response, within the limits of memory.
    pub(crate) fn decode(&self, incoming: &mut IncomingResponse) -> Result<(), NotStored> {
        incoming.decode(self.budget(), self.max_object())
    }
}
