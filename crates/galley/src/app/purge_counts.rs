//! Counts the stored pages that each purge affected, for the lists of purges. A walk over the entries counts them shortly
//! after the purge, on a helper thread. A purge itself never searches, and no request waits for the count.
//!
//! - Each page counts for the purge that invalidated it: of several purges of one edit the first that matches the page, and a
//!   later hard purge again after a soft one, because the page could still be served before.
//! - Entries of an uncounted purge are not swept (`super::sweep`), but a request may replace such an entry before the walk. A
//!   page in the scope that is newer than the purge may have had a predecessor, so the count is then a minimum. With a disk
//!   cache it is also a minimum, because the disk may have pages that are not in memory.
//! - Pages of which only a fragment is rendered again stay stored, and are not counted.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use galley_cache::entry::{Entry, EntryKind};
use galley_policy::purge::Strength;

use super::current::CurrentConfiguration;
use super::pacing::WalkPacing;
use galley_purging::{CountablePurge, MAX_COUNT_STEPS, PurgedPages, ScopeMatch};
use galley_request::{Site, site_mark};

/// Counts the pages of all purges that were not counted yet. Blocks.
pub(super) fn count(current: &CurrentConfiguration) {
    let (Some(services), Some(sites)) = (current.services(), current.sites()) else {
        return;
    };
    let waiting: Vec<(&Arc<Site>, Vec<CountablePurge>)> = sites
        .iter()
        .map(|site| (site, site.purges.countable()))
        .filter(|(_, purges)| !purges.is_empty())
        .collect();
    if waiting.is_empty() {
        return;
    }
    let counts = waiting.iter().map(|(site, purges)| {
        let may_have_more = site.core.disk.is_some();
        (site.mark, SiteCount::new(purges, may_have_more))
    });
    let mut counts: HashMap<u32, SiteCount<'_>> = counts.collect();
    let mut pacing = WalkPacing::default();
    for entry in services.memory.entries() {
        pacing.step();
        if entry.kind == EntryKind::Page
            && let Some(count) = site_mark(entry.key.bytes()).and_then(|mark| counts.get_mut(&mark))
        {
            count.count_page(&entry);
        }
    }
    for (site, _) in &waiting {
        if let Some(count) = counts.get(&site.mark) {
            site.purges.counted(&count.found());
        }
    }
}

/// The purges of a site with the pages counted so far.
struct SiteCount<'p> {
    purges: Vec<PurgeCount<'p>>,
    steps: usize,
}

struct PurgeCount<'p> {
    number: u64,
    is_hard: bool,
    is_counted: bool,
    scope: ScopeMatch<'p>,
    /// The pages that the purge affected. Variants of one URL are one page.
    urls: HashSet<(u64, u64)>,
    may_have_more: bool,
}

/// The state of a page after the purges so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PageState {
    Valid,
    SoftPurged,
}

impl<'p> SiteCount<'p> {
    /// `purges` must be in the order of their numbers.
    fn new(purges: &'p [CountablePurge], may_have_more: bool) -> Self {
        let counts = purges.iter().map(|one| PurgeCount {
            number: one.number,
            is_hard: one.purge.strength == Strength::Hard,
            is_counted: one.is_counted,
            scope: ScopeMatch::new(&one.purge.scope),
            urls: HashSet::new(),
            may_have_more,
        });
        Self {
            purges: counts.collect(),
            steps: MAX_COUNT_STEPS,
        }
    }

    /// Counts a page for each purge that invalidated it.
    fn count_page(&mut self, entry: &Entry) {
        let url = (entry.scopes.host, entry.scopes.url);
        let mut state = PageState::Valid;
        for purge in &mut self.purges {
            match purge.scope.is_match(&entry.scopes, &mut self.steps) {
                Some(true) => {}
                Some(false) => continue,
                None => {
                    purge.may_have_more = true;
                    continue;
                }
            }
            if entry.born >= purge.number {
                purge.may_have_more |= !purge.urls.contains(&url);
                continue;
            }
            if state == PageState::SoftPurged && !purge.is_hard {
                continue;
            }
            if purge.urls.len() < MAX_PAGES {
                purge.urls.insert(url);
            } else {
                purge.may_have_more = true;
            }
            if purge.is_hard {
                return;
            }
            state = PageState::SoftPurged;
        }
    }

    fn found(&self) -> Vec<(u64, PurgedPages)> {
        let new = self.purges.iter().filter(|purge| !purge.is_counted);
        let counted = new.map(|purge| {
            let pages = PurgedPages {
                pages: purge.urls.len() as u64,
                is_complete: !purge.may_have_more,
            };
            (purge.number, pages)
        });
        counted.collect()
    }
}

/// The maximum number of URLs that are counted for one purge: two megabytes.
const MAX_PAGES: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;
    use galley_cache::testing;
    use galley_purging::{PurgeSource, SitePurges};
    use galley_sys::clock::Clock;

    use galley_cache::entry::{EntryParts, Scopes};
    use galley_policy::key::tag_id;
    use galley_policy::purge::{Purge, Scope};

    const T: &str = "t";

    fn purges_in_memory() -> SitePurges {
        SitePurges::in_memory("a.test".to_owned(), Clock::start(), None)
    }

    fn tagged_page(path: &str, born: u64, tags: &[&str]) -> Arc<Entry> {
        let scopes = Scopes {
            host: 1,
            url: tag_id(path),
            path_query: path.as_bytes().into(),
            tags: tags.iter().map(|tag| tag_id(tag)).collect(),
        };
        Arc::new(Entry::new(EntryParts {
            scopes,
            born,
            ..testing::page()
        }))
    }

    fn publish(purges: &SitePurges, scope: Scope, strength: Strength) {
        drop(purges.publish(&Purge { scope, strength }, PurgeSource::Admin));
    }

    /// The number of pages of each purge and whether it is complete, the oldest purge first.
    fn counted(purges: &SitePurges, pages: &[Arc<Entry>]) -> Vec<(u64, bool)> {
        let countable = purges.countable();
        let mut count = SiteCount::new(&countable, false);
        for page in pages {
            count.count_page(page);
        }
        purges.counted(&count.found());
        let all = purges.recent().into_iter().rev();
        let all = all.map(|one| one.pages.unwrap());
        all.map(|pages| (pages.pages, pages.is_complete)).collect()
    }

    #[test]
    fn a_page_counts_for_the_purge_that_invalidated_it() {
        let purges = purges_in_memory();
        let pages = [
            tagged_page("/a/", 0, &[T]),
            tagged_page("/b/", 0, &[T, "u"]),
            tagged_page("/c/", 0, &["u"]),
        ];
        for tag in [T, "u", T] {
            publish(&purges, Scope::Tag(tag.to_owned()), Strength::Hard);
        }
        assert_eq!(counted(&purges, &pages), [(2, true), (1, true), (0, true)]);
        // The entries still exist, but earlier purges have invalidated them.
        publish(&purges, Scope::Site, Strength::Hard);
        assert_eq!(counted(&purges, &pages).last(), Some(&(0, true)));
    }

    #[test]
    fn a_page_counts_again_for_a_hard_purge_after_a_soft_one() {
        let purges = purges_in_memory();
        let pages = [tagged_page("/a/", 0, &[T])];
        for (scope, strength) in [
            (Scope::Site, Strength::Soft),
            (Scope::Tag(T.to_owned()), Strength::Soft),
            (Scope::Site, Strength::Hard),
        ] {
            publish(&purges, scope, strength);
        }
        assert_eq!(counted(&purges, &pages), [(1, true), (0, true), (1, true)]);
    }

    #[test]
    fn a_page_that_may_have_been_replaced_makes_the_count_a_minimum() {
        let purges = purges_in_memory();
        publish(&purges, Scope::Site, Strength::Hard);
        let pages = [
            tagged_page("/a/", 0, &[T]),
            tagged_page("/b/", purges.current(), &[T]),
        ];
        assert_eq!(counted(&purges, &pages), [(1, false)]);
    }

    #[test]
    fn variants_are_one_page() {
        let purges = purges_in_memory();
        publish(&purges, Scope::Site, Strength::Hard);
        let page = tagged_page("/a/", 0, &[T]);
        let pages = [Arc::clone(&page), page];
        assert_eq!(counted(&purges, &pages), [(1, true)]);
    }
}
