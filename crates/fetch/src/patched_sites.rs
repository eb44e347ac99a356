//! The sites whose pages are patched in the background, and whose turn it is.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use galley_policy::key::variant_id;

use super::patch_progress::{PatchProgress, next_turn};
use super::{FetchSite, PageJob};

/// The sites whose pages are patched.
#[derive(Default)]
pub(super) struct PatchedSites(RefCell<Vec<PatchedSite>>);

/// A site whose pages are patched in the background.
struct PatchedSite {
    site: Arc<FetchSite>,
    /// For each variant of its pages, a request for one of them.
    variants: HashMap<u64, PageJob>,
    progress: PatchProgress,
}

/// The site that is patched next, and the purge up to which it will be patched.
pub(super) struct PatchTarget {
    pub(super) site: Arc<FetchSite>,
    pub(super) purges: u64,
}

impl PatchedSites {
    /// Records that a site has pages with fragments, of the same variant as this page.
    pub(super) fn add(&self, job: &PageJob) {
        let Some(variant) = variant_id(job.key.bytes()) else {
            return;
        };
        let mut sites = self.0.borrow_mut();
        // A reload replaces the site.
        sites.retain(|known| known.site.name != job.site.name || is_same(known, job));
        let index = sites.iter().position(|known| is_same(known, job));
        let index = index.unwrap_or_else(|| {
            sites.push(PatchedSite {
                site: Arc::clone(&job.site),
                variants: HashMap::new(),
                progress: PatchProgress::new(job.site.purges.current()),
            });
            sites.len() - 1
        });
        if let Some(known) = sites.get_mut(index)
            && known.variants.len() < MAX_VARIANTS
        {
            let variant_job = known.variants.entry(variant);
            variant_job.or_insert_with(|| job.in_background());
        }
    }

    /// The next site that was purged since its pages were last patched.
    pub(super) fn next_purged(&self) -> Option<PatchTarget> {
        let now = Instant::now();
        let mut sites = self.0.borrow_mut();
        let due = next_turn(&mut sites, |known| {
            known.progress.is_due(known.site.purges.current(), now)
        })?;
        Some(PatchTarget {
            site: Arc::clone(&due.site),
            purges: due.site.purges.current(),
        })
    }

    pub(super) fn end_turn(&self, turn: &PatchTarget, is_done: bool) {
        let mut sites = self.0.borrow_mut();
        let mut patched = sites.iter_mut();
        match patched.find(|patched| Arc::ptr_eq(&patched.site, &turn.site)) {
            Some(patched) if is_done => patched.progress.done(turn.purges),
            Some(patched) => patched.progress.put_off(Instant::now()),
            None => {}
        }
    }

    pub(super) fn has_variant(&self, site: &Arc<FetchSite>, variant: u64) -> bool {
        let sites = self.0.borrow();
        let patched = sites.iter().find(|known| Arc::ptr_eq(&known.site, site));
        patched.is_some_and(|patched| patched.variants.contains_key(&variant))
    }

    pub(super) fn job_of(&self, site: &Arc<FetchSite>, variant: u64) -> Option<PageJob> {
        let sites = self.0.borrow();
        let patched = sites.iter().find(|known| Arc::ptr_eq(&known.site, site))?;
        patched.variants.get(&variant).map(PageJob::again)
    }
}

fn is_same(known: &PatchedSite, job: &PageJob) -> bool {
    Arc::ptr_eq(&known.site, &job.site)
}

/// The maximum number of variants (combinations of host, device and cookies) of a site whose pages are patched in the background.
const MAX_VARIANTS: usize = 64;
