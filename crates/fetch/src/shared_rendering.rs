//! Fragments that the nodes of a cluster share: looked up before PHP renders them.

use std::rc::Rc;
use std::sync::Arc;

use galley_cache::fragments::PageFragment;
use galley_cluster::{PageSearch, SharedWait};
use tokio::task::spawn_local;

use super::render::fragment_key;
use super::storer::RenderingLookup;
use super::{FetchWorker, PageJob};

impl FetchWorker {
    /// Stores the renderings of other nodes in the site's table, and returns the fragments that have none. After a purge all
    /// nodes need the same fragments: each looks up the one with the smallest id first, so that one node renders them, and the
    /// others wait for it.
    pub(super) async fn find_renderings(
        self: &Rc<Self>,
        page: &PageJob,
        fragments: &[PageFragment],
    ) -> Vec<PageFragment> {
        let is_shared =
            self.storer.has_shared_pages() && page.site.keys_identify_responses() && page.may_store;
        let first = fragments.iter().min_by_key(|one| one.version.id);
        let Some(first) = first.filter(|_| is_shared) else {
            return fragments.to_vec();
        };
        let first_id = first.version.id;
        let find = |fragment: &PageFragment, wait| {
            Rc::clone(self).find_rendering(RenderingLookup {
                site: Arc::clone(&page.site),
                fragment: fragment.clone(),
                key: fragment_key(page, fragment.version.id),
                wait,
            })
        };
        let is_first_found = find(first, SharedWait::Waits).await;
        let rest = fragments.iter().map(|one| {
            (one.version.id != first_id).then(|| spawn_local(find(one, SharedWait::None)))
        });
        let rest: Vec<_> = rest.collect();
        let mut missing = Vec::new();
        for (fragment, found) in fragments.iter().zip(rest) {
            let is_found = match found {
                Some(found) => found.await.unwrap_or(false),
                None => is_first_found,
            };
            if !is_found {
                missing.push(fragment.clone());
            }
        }
        missing
    }

    /// Looks up a rendering, and stores it in the site's table. Returns false if none was found; this node may then have the
    /// right to render the fragment for all nodes.
    async fn find_rendering(self: Rc<Self>, lookup: RenderingLookup) -> bool {
        let id = lookup.fragment.version.id;
        match self.storer.find_rendering(&lookup).await {
            Some(PageSearch::Found(rendered)) => lookup.site.fragments.rendered(id, rendered),
            Some(PageSearch::Fetch(token)) => {
                self.renderer.keep_token(&lookup.site, id, token);
                false
            }
            None => false,
        }
    }
}
