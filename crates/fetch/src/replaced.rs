//! Compares a page that is stored with the purged copy that it replaces, for [`super::precision`].
//!
//! A helper thread compares one page of a site at a time; pages that arrive meanwhile are not counted.

use std::sync::Arc;

use galley_cache::entry::{Entry, EntryKind};
use galley_policy::audit::{PageCopy, difference};

use super::FetchSite;

/// Counts a page that replaces another one, if purges of tags removed that.
pub(super) fn count(site: &Arc<FetchSite>, replaced: Arc<Entry>, stored: &Arc<Entry>) {
    let is_page = |entry: &Entry| entry.kind == EntryKind::Page && entry.pieces().is_none();
    if replaced.born >= stored.born || !is_page(&replaced) || !is_page(stored) {
        return;
    }
    let (site, stored) = (Arc::clone(site), Arc::clone(stored));
    tokio::task::spawn_blocking(move || {
        let precision = &site.counters.precision;
        let Some(_turn) = precision.turn() else {
            return;
        };
        let tags = site.purges.purged_tags(&replaced);
        if !tags.is_empty()
            && let Some(is_unchanged) = is_unchanged(&site, &replaced, &stored)
        {
            precision.note(tags.into_iter(), is_unchanged);
        }
    });
}

/// Whether two copies of a page are the same for a reader; `None`: there is no memory to compare them.
fn is_unchanged(site: &FetchSite, replaced: &Arc<Entry>, stored: &Arc<Entry>) -> Option<bool> {
    let replaced = site.compressing.unpacked(replaced)?;
    let stored = site.compressing.unpacked(stored)?;
    fn copy(entry: &Entry) -> Option<PageCopy<'_>> {
        Some(PageCopy {
            status: entry.status,
            body: entry.body()?,
        })
    }
    Some(difference(copy(&replaced)?, copy(&stored)?).is_none())
}
