//! The results of fetches for one site: counters for metrics, and why pages were not stored recently.
//!
//! They are written once per fetch, which is a thousand times rarer than a hit, and read by the admin thread. Responses
//! that create a hit-for-pass entry are not recorded as not stored: that list is for responses after which the next request for
//! the page is sent upstream as well.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use galley_cache::key::Key;
use galley_policy::outcome::NotStored;
use galley_policy::time::Tick;
use galley_sys::Lock;

use super::cookie_names::CookieNames;
use super::facets::Facets;
use super::plugin_contact::PluginContact;
use super::precision::PurgePrecision;

/// The counters of one site; see the module.
#[derive(Debug, Default)]
pub struct FetchCounters {
    fills: AtomicU64,
    stored: AtomicU64,
    failed: AtomicU64,
    patched: AtomicU64,
    patch_failed: AtomicU64,
    awaiting_patch: AtomicU64,
    includes_stored: AtomicU64,
    includes_fetched: AtomicU64,
    includes_failed: AtomicU64,
    unresolved_esi_tags: AtomicU64,
    /// How precise purges by tag are.
    pub precision: PurgePrecision,
    /// The query parameters of the site's pages.
    pub facets: Facets,
    /// The cookies for which requests bypassed the cache.
    pub cookies: CookieNames,
    /// Whether pages come with Galley's plugin.
    pub plugin: PluginContact,
    /// The pages that were not stored, the newest last; at most [`MAX_RECENT`].
    last_not_stored: Lock<VecDeque<(Key, UncachedPage)>>,
}

/// A page that was generated and not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UncachedPage {
    /// The reason.
    pub why: NotStored,
    /// The status, if that is the reason and it is an error of the server.
    pub status: Option<u16>,
    /// The time.
    pub at: Tick,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fills {
    /// Pages requested from the upstream, including refreshes.
    pub begun: u64,
    /// Requested pages that were stored.
    pub stored: u64,
    /// Requested pages that the upstream failed to generate.
    pub failed: u64,
    /// Stored pages whose purged fragments were replaced.
    pub patched: u64,
    /// Stored pages that had to be generated again, because a fragment could not be rendered or had other styles.
    pub patch_failed: u64,
    /// Stored pages that wait to be patched in the background.
    pub awaiting_patch: u64,
    /// ESI includes whose stored response was used.
    pub includes_stored: u64,
    /// ESI includes that were requested.
    pub includes_fetched: u64,
    /// ESI includes that had no response.
    pub includes_failed: u64,
    /// ESI tags that remained in pages because Galley does not support them.
    pub unresolved_esi_tags: u64,
}

impl FetchCounters {
    /// The current counts.
    pub fn fills(&self) -> Fills {
        Fills {
            begun: self.fills.load(Ordering::Relaxed),
            stored: self.stored.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            patched: self.patched.load(Ordering::Relaxed),
            patch_failed: self.patch_failed.load(Ordering::Relaxed),
            awaiting_patch: self.awaiting_patch.load(Ordering::Relaxed),
            includes_stored: self.includes_stored.load(Ordering::Relaxed),
            includes_fetched: self.includes_fetched.load(Ordering::Relaxed),
            includes_failed: self.includes_failed.load(Ordering::Relaxed),
            unresolved_esi_tags: self.unresolved_esi_tags.load(Ordering::Relaxed),
        }
    }

    /// The latest reason why the page of `key` was not stored, if it is still recorded.
    pub fn last_not_stored(&self, key: &[u8]) -> Option<UncachedPage> {
        let pages = self.last_not_stored.lock();
        let entry = pages.iter().rev().find(|(known, _)| known.bytes() == key);
        entry.map(|(_, page)| *page)
    }

    /// Whether the page of `key` was last not stored for a reason that may well apply again. A purge during one fetch does not
    /// affect the next one.
    pub(super) fn tends_not_to_be_stored(&self, key: &[u8]) -> bool {
        self.last_not_stored(key)
            .is_some_and(|page| page.why != NotStored::Purged)
    }

    /// The recorded pages that were generated and not stored, the newest first.
    pub fn recently_not_stored(&self) -> Vec<(Key, UncachedPage)> {
        self.last_not_stored.lock().iter().rev().cloned().collect()
    }

    pub(super) fn begun(&self) {
        self.fills.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a stored page, and removes the earlier reason why it was not stored.
    pub(super) fn stored(&self, key: &Key) {
        self.stored.fetch_add(1, Ordering::Relaxed);
        self.last_not_stored
            .lock()
            .retain(|(known, _)| known != key);
    }

    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn patched(&self) {
        self.patched.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn patch_failed(&self) {
        self.patch_failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn include_stored(&self) {
        self.includes_stored.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn include_fetched(&self) {
        self.includes_fetched.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_unresolved_esi_tags(&self, count: u64) {
        self.unresolved_esi_tags.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn include_failed(&self) {
        self.includes_failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_awaiting(&self, pages: usize) {
        self.awaiting_patch
            .fetch_add(pages as u64, Ordering::Relaxed);
    }

    pub(super) fn remove_awaiting(&self) {
        self.awaiting_patch.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn not_stored(&self, key: &Key, page: UncachedPage) {
        let mut pages = self.last_not_stored.lock();
        pages.retain(|(known, _)| known != key);
        if pages.len() >= MAX_RECENT {
            pages.pop_front();
        }
        pages.push_back((key.clone(), page));
    }
}

/// The maximum number of recorded pages of one site: the reason is usually requested soon.
const MAX_RECENT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn uncached(why: NotStored, at: Tick) -> UncachedPage {
        UncachedPage {
            why,
            status: None,
            at,
        }
    }

    #[test]
    fn the_newest_reason_of_each_page_is_recorded_within_the_limit() {
        let counters = FetchCounters::default();
        let key = |number: usize| Key::new(number.to_string().as_bytes());
        for number in 0..200 {
            let at = Tick(number as u64);
            counters.not_stored(&key(number), uncached(NotStored::Empty, at));
            counters.not_stored(&key(199), uncached(NotStored::Memory, at));
        }
        assert_eq!(counters.last_not_stored.lock().len(), MAX_RECENT);
        assert_eq!(counters.last_not_stored(b"0"), None);
        let newest = counters.last_not_stored(b"199").unwrap();
        assert_eq!((newest.why, newest.at), (NotStored::Memory, Tick(199)));
        assert_eq!(
            counters.last_not_stored(b"198").unwrap().why,
            NotStored::Empty
        );
        counters.stored(&key(199));
        assert_eq!(counters.last_not_stored(b"199"), None);
        assert!(counters.last_not_stored(b"198").is_some());
    }

    #[test]
    fn a_purge_during_a_fetch_does_not_affect_the_next_one() {
        let counters = FetchCounters::default();
        let tends = |why| {
            counters.not_stored(&Key::new(b"page"), uncached(why, Tick(1)));
            counters.tends_not_to_be_stored(b"page")
        };
        assert!(tends(NotStored::Empty));
        assert!(!tends(NotStored::Purged));
        assert_eq!(
            counters.last_not_stored(b"page").unwrap().why,
            NotStored::Purged,
            "`galley why` still names it"
        );
        assert!(tends(NotStored::Memory));
        assert!(!counters.tends_not_to_be_stored(b"other"));
    }
}
