//! Patching in the background: pages whose fragments were purged are patched before a visitor requests them, the hottest first.
//!
//! One task of each fetch thread looks for new purges of its sites. After a purge it walks through the stored pages, has the purged
//! fragments rendered with few requests, and patches the pages, all in short turns with longer pauses. Visitors never wait for it:
//! a page that is requested meanwhile is patched for its visitor.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use galley_cache::entry::{Entry, EntryKind};
use galley_cache::fragments::FragmentVersion;
use galley_cache::purge_table::Validity;
use galley_policy::key::variant_id;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::jobs::PatchedSite;
use super::render::RenderFor;
use super::{FetchSite, FetchWorker, PageJob};

/// Pages of one variant that need only a patch.
struct AwaitingPages {
    job: PageJob,
    /// The hottest first.
    pages: Vec<Weak<Entry>>,
}

impl FetchWorker {
    /// Notes that a site has pages like this one, with fragments.
    pub(super) fn patch_later(&self, job: &PageJob) {
        let Some(variant) = variant_id(job.key.bytes()) else {
            return;
        };
        let mut sites = self.patched_sites.borrow_mut();
        // After a reload the site is another.
        sites.retain(|known| known.site.name != job.site.name || is_same(known, job));
        let place = sites.iter().position(|known| is_same(known, job));
        let place = place.unwrap_or_else(|| {
            sites.push(PatchedSite {
                site: Arc::clone(&job.site),
                variants: HashMap::new(),
                seen: job.site.purges.current(),
            });
            sites.len() - 1
        });
        if let Some(known) = sites.get_mut(place)
            && known.variants.len() < MOST_VARIANTS
        {
            let kept = known.variants.entry(variant);
            kept.or_insert_with(|| job.in_background());
        }
    }

    /// Patches pages after purges, until the fetch thread ends.
    pub(super) async fn patch_in_background(self: Rc<Self>) {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            look.tick().await;
            if let Some(site) = self.next_purged() {
                self.patch_site(&site).await;
            }
        }
    }

    /// A site that was purged since its pages were last looked at.
    fn next_purged(&self) -> Option<Arc<FetchSite>> {
        let mut sites = self.patched_sites.borrow_mut();
        let purged = sites
            .iter_mut()
            .find(|known| known.site.purges.current() > known.seen)?;
        purged.seen = purged.site.purges.current();
        Some(Arc::clone(&purged.site))
    }

    async fn patch_site(self: &Rc<Self>, site: &Arc<FetchSite>) {
        let mut pace = Pace::new();
        for AwaitingPages { job, pages } in self.awaiting(site, &mut pace).await {
            site.counters.add_awaiting(pages.len());
            let purged = purged_versions(site, &pages);
            for fragments in purged.chunks(FRAGMENTS_AT_ONCE) {
                self.render(&job, fragments, RenderFor::Background).await;
            }
            for page in &pages {
                if let Some(page) = page.upgrade() {
                    self.patch_if_rendered(site, &page);
                }
                site.counters.remove_awaiting();
                pace.keep().await;
            }
        }
    }

    /// The pages that need only a patch.
    async fn awaiting(&self, site: &Arc<FetchSite>, pace: &mut Pace) -> Vec<AwaitingPages> {
        let mut found: HashMap<u64, Vec<(u64, Weak<Entry>)>> = HashMap::new();
        let mut count = 0;
        for entry in self.memory.entries() {
            if may_await(&entry)
                && let Some(variant) = variant_id(entry.key.bytes())
                && self.has_variant(site, variant)
                && site.purges.prove_waiting(&entry) == Validity::Outdated
                && count < MOST_AWAITING
            {
                count += 1;
                let page = (entry.hits(), Arc::downgrade(&entry));
                found.entry(variant).or_default().push(page);
            }
            pace.keep().await;
        }
        let jobs = found.into_iter().filter_map(|(variant, mut pages)| {
            pages.sort_by_key(|(hits, _)| std::cmp::Reverse(*hits));
            Some(AwaitingPages {
                job: self.job_of(site, variant)?,
                pages: pages.into_iter().map(|(_, page)| page).collect(),
            })
        });
        jobs.collect()
    }

    fn has_variant(&self, site: &Arc<FetchSite>, variant: u64) -> bool {
        let sites = self.patched_sites.borrow();
        let known = sites.iter().find(|known| Arc::ptr_eq(&known.site, site));
        known.is_some_and(|known| known.variants.contains_key(&variant))
    }

    fn job_of(&self, site: &Arc<FetchSite>, variant: u64) -> Option<PageJob> {
        let sites = self.patched_sites.borrow();
        let known = sites.iter().find(|known| Arc::ptr_eq(&known.site, site))?;
        known.variants.get(&variant).map(PageJob::again)
    }
}

/// Work in short turns with pauses that are longer.
struct Pace {
    turn: Instant,
}

impl Pace {
    fn new() -> Self {
        Self {
            turn: Instant::now(),
        }
    }

    /// Pauses if the turn is over.
    async fn keep(&mut self) {
        let spent = self.turn.elapsed();
        if spent > TURN {
            sleep(spent * PAUSES).await;
            self.turn = Instant::now();
        }
    }
}

fn is_same(known: &PatchedSite, job: &PageJob) -> bool {
    Arc::ptr_eq(&known.site, &job.site)
}

fn may_await(entry: &Entry) -> bool {
    entry.kind == EntryKind::Page && !entry.fragments().is_empty() && entry.pieces().is_none()
}

/// The fragments that these pages need, each once.
fn purged_versions(site: &FetchSite, pages: &[Weak<Entry>]) -> Vec<Arc<FragmentVersion>> {
    let mut wanted: Vec<Arc<FragmentVersion>> = Vec::new();
    let mut known = HashSet::new();
    for page in pages.iter().filter_map(Weak::upgrade) {
        let purged = site.purges.table().purged_fragments(&page);
        for number in purged.unwrap_or_default() {
            if let Some(fragment) = page.fragments().get(number)
                && known.insert(fragment.version.id)
            {
                site.fragments.recall(fragment.version.id);
                wanted.push(Arc::clone(&fragment.version));
            }
        }
    }
    wanted
}

/// Between two looks for new purges.
const LOOK: Duration = Duration::from_millis(250);

/// Hosts, devices and cookies of a site of which pages are patched in the background.
const MOST_VARIANTS: usize = 64;

/// Pages that are patched after one purge; visitors have the others patched.
const MOST_AWAITING: usize = 50_000;

/// Fragments that are waited for together.
const FRAGMENTS_AT_ONCE: usize = 24;

/// After this long a pause follows.
const TURN: Duration = Duration::from_millis(1);

/// The pause, in turns: a fifth of one processor at most.
const PAUSES: u32 = 4;
