//! The fragments that a fetch thread is rendering, and those that it will render soon.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;
use std::sync::Arc;

use galley_cache::fragments::PageFragment;
use galley_cluster::FetchToken;
use tokio::sync::Semaphore;

use super::FetchSite;
use super::patched_sites::PatchedSites;

/// The tables of fragments; see the module. A site is identified by its address in memory.
#[derive(Default)]
pub(super) struct Renderer {
    /// By site and fragment.
    in_progress: RefCell<HashMap<(usize, u64), RenderingInProgress>>,
    /// New fragments of pages, by site and variant.
    gathered: RefCell<HashMap<(usize, u64), Vec<PageFragment>>>,
    patched_sites: PatchedSites,
}

/// A fragment that is being rendered.
struct RenderingInProgress {
    /// Closed when the rendering has ended.
    end: Rc<Semaphore>,
    /// The right to render it for all nodes of a cluster.
    token: Option<FetchToken>,
}

impl Renderer {
    /// The sites whose pages are patched.
    pub(super) fn patched_sites(&self) -> &PatchedSites {
        &self.patched_sites
    }

    /// Claims a fragment, unless it is being rendered.
    pub(super) fn claim(&self, site: &Arc<FetchSite>, id: u64) -> bool {
        match self.in_progress.borrow_mut().entry((address(site), id)) {
            Entry::Occupied(_) => false,
            Entry::Vacant(vacant) => {
                vacant.insert(RenderingInProgress {
                    end: Rc::new(Semaphore::new(0)),
                    token: None,
                });
                true
            }
        }
    }

    /// Ends a rendering, and wakes those who wait for it.
    pub(super) fn release(&self, site: &Arc<FetchSite>, id: u64) {
        let rendering = self.in_progress.borrow_mut().remove(&(address(site), id));
        if let Some(rendering) = rendering {
            rendering.end.close();
        }
    }

    /// A semaphore that is closed when the fragment's rendering has ended.
    pub(super) fn end_of(&self, site: &Arc<FetchSite>, id: u64) -> Option<Rc<Semaphore>> {
        let in_progress = self.in_progress.borrow();
        let rendering = in_progress.get(&(address(site), id))?;
        Some(Rc::clone(&rendering.end))
    }

    /// Keeps the right to render a fragment for all nodes.
    pub(super) fn keep_token(&self, site: &Arc<FetchSite>, id: u64, token: Option<FetchToken>) {
        let mut in_progress = self.in_progress.borrow_mut();
        if let Some(rendering) = in_progress.get_mut(&(address(site), id)) {
            rendering.token = token;
        }
    }

    /// Takes the right to render a fragment for all nodes.
    pub(super) fn take_token(&self, site: &Arc<FetchSite>, id: u64) -> Option<FetchToken> {
        let mut in_progress = self.in_progress.borrow_mut();
        in_progress.get_mut(&(address(site), id))?.token.take()
    }

    /// Adds new fragments of a variant. True if they are the first: the caller renders all of them soon.
    pub(super) fn gather(
        &self,
        site: &Arc<FetchSite>,
        variant: u64,
        fragments: Vec<PageFragment>,
    ) -> bool {
        match self.gathered.borrow_mut().entry((address(site), variant)) {
            Entry::Occupied(occupied) => {
                occupied.into_mut().extend(fragments);
                false
            }
            Entry::Vacant(vacant) => {
                vacant.insert(fragments);
                true
            }
        }
    }

    /// Takes the gathered fragments of a variant.
    pub(super) fn take_gathered(&self, site: &Arc<FetchSite>, variant: u64) -> Vec<PageFragment> {
        let gathered = self.gathered.borrow_mut().remove(&(address(site), variant));
        gathered.unwrap_or_default()
    }
}

/// The address of a site in memory, as its identity.
fn address(site: &Arc<FetchSite>) -> usize {
    Arc::as_ptr(site).addr()
}
