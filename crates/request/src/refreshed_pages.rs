//! The pages of a site that were refreshed because they named a missing file: each once in [`PAUSE`], and a limited number.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use galley_policy::time::Tick;
use galley_sys::Lock;

/// The pages of one site that were refreshed lately.
#[derive(Debug, Default)]
pub struct RefreshedPages {
    /// Pages by `RequestInfo::url_id`, and when each was refreshed; at most [`MAX_PAGES`].
    pages: Lock<HashMap<u64, Tick>>,
    refreshed: AtomicU64,
}

impl RefreshedPages {
    /// Pages refreshed since the start.
    pub fn refreshed(&self) -> u64 {
        self.refreshed.load(Ordering::Relaxed)
    }

    /// True for one caller per page and [`PAUSE`].
    pub(super) fn claim(&self, page: u64, now: Tick) -> bool {
        let mut pages = self.pages.lock();
        let is_recent = |at: &Tick| now.since(*at) < PAUSE;
        if pages.get(&page).is_some_and(is_recent) {
            return false;
        }
        if pages.len() >= MAX_PAGES {
            pages.retain(|_, at| is_recent(at));
        }
        if pages.len() >= MAX_PAGES {
            return false;
        }
        pages.insert(page, now);
        self.refreshed.fetch_add(1, Ordering::Relaxed);
        true
    }
}

/// Between two refreshes of one page.
const PAUSE: Duration = Duration::from_secs(600);

/// Pages of a site that are refreshed within [`PAUSE`]; a file that is missing everywhere means a forgotten purge of
/// everything.
const MAX_PAGES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_once_in_its_pause_and_not_too_many() {
        let pages = RefreshedPages::default();
        let later = |seconds: u64| Tick(0).plus(Duration::from_secs(seconds));
        assert!(pages.claim(1, later(0)));
        assert!(!pages.claim(1, later(599)));
        assert!(pages.claim(2, later(599)));
        assert!(pages.claim(1, later(600)));
        for page in 0..5000 {
            pages.claim(page, later(700));
        }
        let known = pages.pages.lock().len();
        assert_eq!(known, MAX_PAGES);
        assert!(!pages.claim(6000, later(700)), "full");
        assert!(pages.claim(6000, later(1301)), "old ones have left");
        assert_eq!(pages.refreshed(), MAX_PAGES as u64 + 2);
    }
}
