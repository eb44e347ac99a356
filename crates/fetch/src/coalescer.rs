//! What a fetch thread is fetching, and which pages failed a moment ago.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use galley_cache::key::Key;
use galley_policy::time::Tick;

use super::in_progress::InProgressFetch;
use super::registry::FetchRegistry;

/// The table of fetches; see the module.
pub(super) struct Coalescer {
    /// Fetches in progress. With RFC 9111 also under the keys of variants.
    table: RefCell<HashMap<Key, Rc<InProgressFetch>>>,
    /// The part of the table that other threads may read.
    registry: Arc<FetchRegistry>,
    /// Pages whose refresh failed, with the time of the failure.
    failed: RefCell<HashMap<Key, Tick>>,
}

impl Coalescer {
    pub(super) fn new(registry: Arc<FetchRegistry>) -> Self {
        Self {
            table: RefCell::default(),
            registry,
            failed: RefCell::default(),
        }
    }

    /// The fetch that is registered under a key.
    pub(super) fn find(&self, key: &Key) -> Option<Rc<InProgressFetch>> {
        self.table.borrow().get(key).map(Rc::clone)
    }

    /// Registers a fetch under a key.
    pub(super) fn insert(&self, key: Key, in_progress: &Rc<InProgressFetch>) {
        let mut table = self.table.borrow_mut();
        table.insert(key.clone(), Rc::clone(in_progress));
        self.registry.insert(&key, &in_progress.waiters);
        in_progress.keys.borrow_mut().push(key);
    }

    /// Removes a fetch that has ended.
    pub(super) fn finish(&self, in_progress: &Rc<InProgressFetch>) {
        in_progress.finish();
        let mut table = self.table.borrow_mut();
        for key in in_progress.keys.take() {
            if table
                .get(&key)
                .is_some_and(|now| Rc::ptr_eq(now, in_progress))
            {
                table.remove(&key);
                self.registry.remove(&key);
            }
        }
    }

    /// Pauses refreshes of a page for a moment: the next visit would probably get an error again.
    pub(super) fn pause_refreshes(&self, key: &Key, now: Tick) {
        let mut failed = self.failed.borrow_mut();
        if failed.len() >= MAX_FAILED {
            failed.clear();
        }
        failed.insert(key.clone(), now);
    }

    /// Whether refreshes of a page are paused.
    pub(super) fn failed_recently(&self, key: &Key, now: Tick) -> bool {
        let failed = self.failed.borrow();
        let failed = failed.get(key);
        failed.is_some_and(|when| now.since(*when) < FAILED_PAUSE)
    }

    /// Whether a page has failed after `since`.
    pub(super) fn has_failed_since(&self, key: &Key, since: Tick) -> bool {
        let failed = self.failed.borrow();
        failed.get(key).is_some_and(|when| *when > since)
    }
}

/// How long a page is not refreshed after a failed refresh, so that visits do not overload a dead upstream.
const FAILED_PAUSE: Duration = Duration::from_secs(1);

/// Maximum number of remembered failed refreshes.
const MAX_FAILED: usize = 10_000;
