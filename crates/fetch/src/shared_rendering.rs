//! Fragments that the nodes of a cluster share: looked up before PHP renders them, and stored for the other nodes afterwards.
//!
//! A rendering has a separate key, so it is authenticated and compared with purges as a page is ([`super::shared`]).
//!
//! ```text
//! length of the kinds of blocks 2 | kinds of blocks | record
//! ```

use std::rc::Rc;
use std::sync::Arc;

use galley_cache::disk::write_record;
use galley_cache::fragment_table::RenderedFragment;
use galley_cache::fragments::{PageFragment, digest};
use galley_cluster::{FoundPage, PageName, PageSearch, SharedWait};
use tokio::task::spawn_local;

use super::render::fragment_key;
use super::shared::{SharedLookup, disk_clock};
use super::{FetchSite, FetchWorker, PageJob};

/// A lookup of a rendering that another node may have stored.
struct RenderingLookup {
    site: Arc<FetchSite>,
    fragment: PageFragment,
    key: Vec<u8>,
    wait: SharedWait,
}

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
            self.shared_pages.is_some() && page.site.keys_identify_responses() && page.may_store;
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
        let Some(pages) = &self.shared_pages else {
            return false;
        };
        let name = PageName {
            site: lookup.site.purges.site(),
            key: &lookup.key,
        };
        let accept = |found: FoundPage<'_>| self.accept_rendering(&lookup, &found);
        match pages.find(name, lookup.wait, accept).await {
            PageSearch::Found(rendered) => {
                let id = lookup.fragment.version.id;
                lookup.site.fragments.rendered(id, rendered)
            }
            PageSearch::Fetch(token) => {
                let id = lookup.fragment.version.id;
                self.renderer.keep_token(&lookup.site, id, token);
                false
            }
        }
    }

    fn accept_rendering(
        &self,
        lookup: &RenderingLookup,
        found: &FoundPage<'_>,
    ) -> Option<RenderedFragment> {
        let (blocks, record) = split(found.record)?;
        let reader = SharedLookup {
            site: &lookup.site,
            key: &lookup.key,
            memory: &self.memory,
            lease: &self.lease,
            clock: self.clock,
        };
        let entry = reader.read(&FoundPage { record, ..*found })?;
        let is_fresh = entry.lifetime.fresh > entry.age(self.clock.tick());
        let purges = lookup.site.purges.table();
        if !is_fresh || !purges.is_current(&entry, &lookup.fragment) {
            return None;
        }
        Some(RenderedFragment {
            digest: digest(entry.body()?, blocks),
            blocks: blocks.into(),
            entry,
        })
    }

    /// Stores a new rendering for the other nodes, without waiting.
    pub(super) fn share_rendering(&self, job: &PageJob, id: u64, rendered: &RenderedFragment) {
        let token = self.renderer.take_token(&job.site, id);
        let (to_write, clock) = (rendered.clone(), self.clock);
        let record = move || {
            let record = write_record(&to_write.entry, disk_clock(clock))?;
            joined(&to_write.blocks, &record)
        };
        self.store_shared(&job.site, &rendered.entry, token, Box::new(record));
    }
}

fn joined(blocks: &str, record: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(blocks.len()).ok()?;
    Some([&length.to_le_bytes(), blocks.as_bytes(), record].concat())
}

fn split(value: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = value.split_first_chunk()?;
    let (blocks, record) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    Some((std::str::from_utf8(blocks).ok()?, record))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_blocks_precede_the_record() {
        let value = joined("core/list", b"record").unwrap();
        assert_eq!(split(&value), Some(("core/list", &b"record"[..])));
        assert_eq!(split(&joined("", b"").unwrap()), Some(("", &b""[..])));
        for cut in 0..11 {
            assert_eq!(split(&value[..cut]), None, "{cut}");
        }
        assert_eq!(split(&[1, 0, 0xff, 7]), None);
        assert_eq!(joined(&"b".repeat(70_000), b""), None);
    }
}
