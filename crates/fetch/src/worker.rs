//! The state of one fetch thread.

use std::rc::Rc;
use std::sync::Arc;

use galley_cache::memory::Memory;
use galley_cluster::SharedPages;
use galley_cluster::lease::Lease;

use super::activity::Activity;
use super::coalescer::Coalescer;
use super::invalidation::Invalidations;
use super::patched_sites::PatchedSites;
use super::renderer::Renderer;
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
    pub(super) coalescer: Coalescer,
    pub(super) renderer: Renderer,
    pub(super) patched_sites: PatchedSites,
    /// Purges that unsafe requests cause.
    pub(super) invalidations: Rc<Invalidations>,
}
