//! The state of one fetch thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use galley_cache::key::Key;
use galley_cache::memory::Memory;
use galley_cluster::SharedPages;
use galley_cluster::lease::Lease;
use galley_policy::time::Tick;

use super::activity::Activity;
use super::in_progress::InProgressFetch;
use super::invalidation::Invalidations;
use super::jobs::{NewFragments, PatchedSite, Renderings};
use super::registry::FetchRegistry;
use galley_sys::clock::Clock;
use galley_upstream::UpstreamPool;
use galley_upstream::body::body_spools::BodySpools;

/// The state of a fetch thread. It stays on its thread.
pub(super) struct FetchWorker {
    pub(super) pools: Vec<UpstreamPool>,
    pub(super) memory: Arc<Memory>,
    pub(super) spools: Arc<BodySpools>,
    pub(super) clock: Clock,
    /// The pages that the nodes of a cluster share.
    pub(super) shared_pages: Option<SharedPages>,
    /// Whether stored pages may be used.
    pub(super) lease: Arc<Lease>,
    /// Counts the work in progress.
    pub(super) activity: Arc<Activity>,
    /// The part of `in_progress` that other threads may read.
    pub(super) registry: Arc<FetchRegistry>,
    /// Fetches in progress. With RFC 9111 also under the keys of variants.
    pub(super) in_progress: RefCell<HashMap<Key, Rc<InProgressFetch>>>,
    /// Pages whose refresh failed, with the time of the failure: they are not refreshed for a moment.
    pub(super) failed: RefCell<HashMap<Key, Tick>>,
    /// Fragments that are being rendered.
    pub(super) renderings: RefCell<Renderings>,
    /// New fragments that will be rendered soon.
    pub(super) new_fragments: RefCell<NewFragments>,
    /// Sites whose pages are patched in the background.
    pub(super) patched_sites: RefCell<Vec<PatchedSite>>,
    /// Purges that unsafe requests cause.
    pub(super) invalidations: Rc<Invalidations>,
}
