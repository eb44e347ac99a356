//! Renderings of fragments that the nodes of a cluster share.
//!
//! A rendering has a separate key, so it is authenticated and compared with purges as a page is ([`super::shared`]).
//!
//! ```text
//! length of the kinds of blocks 2 | kinds of blocks | record
//! ```

use std::sync::Arc;

use galley_cache::disk::write_record;
use galley_cache::fragment_table::RenderedFragment;
use galley_cache::fragments::{PageFragment, digest};
use galley_cluster::{FetchToken, FoundPage, PageName, PageSearch, SharedWait};

use super::Storer;
use super::shared::{SharedLookup, disk_clock};
use crate::FetchSite;

/// A lookup of a rendering that another node may have stored.
pub(crate) struct RenderingLookup {
    pub(crate) site: Arc<FetchSite>,
    pub(crate) fragment: PageFragment,
    pub(crate) key: Vec<u8>,
    pub(crate) wait: SharedWait,
}

impl Storer {
    /// Whether nodes share pages.
    pub(crate) fn has_shared_pages(&self) -> bool {
        self.shared_pages.is_some()
    }

    /// Looks up a rendering. `None` if nodes share no pages.
    pub(crate) async fn find_rendering(
        &self,
        lookup: &RenderingLookup,
    ) -> Option<PageSearch<RenderedFragment>> {
        let pages = self.shared_pages.as_ref()?;
        let name = PageName {
            site: lookup.site.purges.site(),
            key: &lookup.key,
        };
        let accept = |found: FoundPage<'_>| self.accept_rendering(lookup, &found);
        Some(pages.find(name, lookup.wait, accept).await)
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
    pub(crate) fn share_rendering(
        &self,
        site: &FetchSite,
        rendered: &RenderedFragment,
        token: Option<FetchToken>,
    ) {
        let (to_write, clock) = (rendered.clone(), self.clock);
        let record = move || {
            let record = write_record(&to_write.entry, disk_clock(clock))?;
            joined(&to_write.blocks, &record)
        };
        self.store_shared(site, &rendered.entry, token, Box::new(record));
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
