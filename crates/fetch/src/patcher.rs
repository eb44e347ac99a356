//! Patching in the background: pages whose fragments were purged are patched before a visitor requests them, the most
//! requested first.
//!
//! One task of each fetch thread looks for new purges of its sites, one site at a time. After a purge that touches shared
//! fragments it goes through the stored pages and patches those that need nothing else, in short time slices with longer pauses.
//! Visitors never wait for this task: a page that is requested before its turn is patched for its visitor.

use std::cmp::Reverse;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use galley_cache::entry::{Entry, EntryKind};
use galley_cache::purge_table::Validity;
use galley_policy::key::variant_id;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::render::{RenderFor, RenderOutcome, is_purged};
use super::{FetchSite, FetchWorker};

/// A page that needs only a patch.
struct AwaitingPage {
    hits: u64,
    variant: u64,
    page: Weak<Entry>,
}

/// The pages that are patched in one pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Pages whose fragments are rendered already, or are rendered quickly.
    Quick,
    /// Also pages with a fragment whose rendering fails or takes long.
    All,
}

impl FetchWorker {
    /// Patches pages after purges, until the fetch thread ends.
    pub(super) async fn patch_in_background(self: Rc<Self>) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Some(turn) = self.renderer.patched_sites().next_purged() {
                let _work = self.activity.background();
                let is_done = self.patch_site(&turn.site).await;
                self.renderer.patched_sites().end_turn(&turn, is_done);
            }
        }
    }

    /// Patches the pages of a site. Returns false if PHP had no slot and something remains.
    async fn patch_site(self: &Rc<Self>, site: &Arc<FetchSite>) -> bool {
        if !site
            .fragments
            .shared()
            .iter()
            .any(|one| is_purged(site, one))
        {
            return true;
        }
        let mut pace = PatchThrottle::new();
        let mut pages = self.awaiting(site, &mut pace).await;
        site.counters.add_awaiting(pages.len());
        let mut is_done = true;
        for pass in [Pass::Quick, Pass::All] {
            let mut left = Vec::new();
            for page in pages {
                if !self.patch_awaiting(site, &page, pass, &mut is_done).await {
                    left.push(page);
                    continue;
                }
                site.counters.remove_awaiting();
                pace.keep().await;
                site.compressing.wait_for_queue().await;
            }
            pages = left;
        }
        is_done
    }

    /// Returns false if the page has to wait for the next pass. Sets `may_render` to false if PHP has no slot.
    async fn patch_awaiting(
        self: &Rc<Self>,
        site: &Arc<FetchSite>,
        page: &AwaitingPage,
        pass: Pass,
        may_render: &mut bool,
    ) -> bool {
        let Some(held) = page.page.upgrade() else {
            return true;
        };
        let mut missing = Vec::new();
        for number in site
            .purges
            .table()
            .purged_fragments(&held)
            .unwrap_or_default()
        {
            if let Some(fragment) = held.fragments().get(number)
                && self.rendering_for(site, fragment).is_none()
            {
                site.fragments.recall(page.variant, &fragment.version);
                missing.push(fragment.clone());
            }
        }
        let is_slow = missing
            .iter()
            .any(|fragment| site.fragments.max_batch(fragment.version.id).is_some());
        if pass == Pass::Quick && is_slow {
            return false;
        }
        if !missing.is_empty()
            && *may_render
            && let Some(job) = self.renderer.patched_sites().job_of(site, page.variant)
        {
            let outcome = self.render(&job, &missing, RenderFor::Background).await;
            *may_render = outcome != RenderOutcome::NotReceived;
        }
        self.patch_if_rendered(site, &held);
        true
    }

    /// The pages that need only a patch, the most requested first.
    async fn awaiting(&self, site: &Arc<FetchSite>, pace: &mut PatchThrottle) -> Vec<AwaitingPage> {
        let mut pages = Vec::new();
        for entry in self.storer.entries() {
            if may_await(&entry)
                && let Some(variant) = variant_id(entry.key.bytes())
                && self.renderer.patched_sites().has_variant(site, variant)
                && site.purges.validity_waiting(&entry) == Validity::Outdated
            {
                pages.push(AwaitingPage {
                    hits: entry.hits(),
                    variant,
                    page: Arc::downgrade(&entry),
                });
                if pages.len() >= 2 * MAX_AWAITING {
                    keep_hottest(&mut pages, MAX_AWAITING);
                }
            }
            pace.keep().await;
        }
        hottest_first(pages, MAX_AWAITING)
    }
}

/// Limits work to short time slices with longer pauses.
struct PatchThrottle {
    began: Instant,
}

impl PatchThrottle {
    fn new() -> Self {
        Self {
            began: Instant::now(),
        }
    }

    /// Pauses if the time slice has ended.
    async fn keep(&mut self) {
        let spent = self.began.elapsed();
        if spent > TIME_SLICE {
            sleep(spent * PAUSES).await;
            self.began = Instant::now();
        }
    }
}

fn may_await(entry: &Entry) -> bool {
    entry.kind == EntryKind::Page && !entry.fragments().is_empty() && entry.pieces().is_none()
}

/// The `most` pages with the most hits, in descending order.
fn hottest_first(mut pages: Vec<AwaitingPage>, most: usize) -> Vec<AwaitingPage> {
    keep_hottest(&mut pages, most);
    pages.sort_by_key(|page| Reverse(page.hits));
    pages
}

/// Removes all but the `most` pages with the most hits.
fn keep_hottest(pages: &mut Vec<AwaitingPage>, most: usize) {
    if pages.len() > most {
        pages.select_nth_unstable_by_key(most, |page| Reverse(page.hits));
        pages.truncate(most);
    }
}

/// The interval at which the task looks for new purges.
const INTERVAL: Duration = Duration::from_millis(250);

/// The maximum number of pages that are patched after one purge; the others are patched when they are requested.
const MAX_AWAITING: usize = 50_000;

/// The length of a time slice, after which a pause follows.
const TIME_SLICE: Duration = Duration::from_millis(1);

/// The length of a pause, in time slices: the task uses a fifth of one processor at most.
const PAUSES: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_with_the_most_hits_are_kept_and_come_first() {
        let page = |hits| AwaitingPage {
            hits,
            variant: hits % 3,
            page: Weak::new(),
        };
        let found = [3, 9, 1, 7, 5, 8, 2].map(page).into();
        let order: Vec<u64> = hottest_first(found, 4)
            .iter()
            .map(|page| page.hits)
            .collect();
        assert_eq!(order, [9, 8, 7, 5]);
        assert!(hottest_first(Vec::new(), 4).is_empty());
    }
}
