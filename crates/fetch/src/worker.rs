//! The parts of one fetch thread.
//!
//! Each part keeps its state to itself. The methods of [`FetchWorker`] are the work that needs several of them: they ask the
//! upstream, and tell the parts what came of it.

use std::rc::Rc;
use std::sync::Arc;

use super::activity::Activity;
use super::coalescer::Coalescer;
use super::invalidation::Invalidations;
use super::renderer::Renderer;
use super::storer::Storer;
use super::upstreams::Upstreams;
use galley_sys::clock::Clock;

/// A fetch thread. It stays on its thread.
pub(super) struct FetchWorker {
    pub(super) clock: Clock,
    /// Counts the work in progress.
    pub(super) activity: Arc<Activity>,
    /// Where responses come from.
    pub(super) upstreams: Upstreams,
    /// What is being fetched.
    pub(super) coalescer: Coalescer,
    /// Where responses are stored.
    pub(super) storer: Storer,
    /// Which fragments are being rendered.
    pub(super) renderer: Renderer,
    /// Purges that unsafe requests cause.
    pub(super) invalidations: Rc<Invalidations>,
}
