//! Which dictionaries a page was compared with.

use std::sync::atomic::Ordering;

use crate::entry::Entry;

impl Entry {
    /// The state of the site's dictionaries that the page was compared with; 0: none.
    pub fn dictionaries(&self) -> u32 {
        self.dictionaries.load(Ordering::Relaxed)
    }

    /// Whether the caller must compare the page with this state of the site's dictionaries: true for one caller per state.
    pub fn claim_dictionaries(&self, state: u32) -> bool {
        self.dictionaries.swap(state, Ordering::Relaxed) != state
    }
}
