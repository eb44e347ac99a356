//! Pauses in walks over all entries, which helper threads make: a long walk takes no core from the threads that send responses.

use std::time::Duration;

/// Counts the entries of a walk.
#[derive(Default)]
pub(super) struct WalkPacing(u32);

impl WalkPacing {
    /// Before each entry.
    pub(super) fn step(&mut self) {
        self.0 = self.0.wrapping_add(1);
        if self.0.is_multiple_of(ENTRIES_AT_ONCE) {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Entries between two pauses: a few tens of microseconds of work.
const ENTRIES_AT_ONCE: u32 = 256;

const PAUSE: Duration = Duration::from_millis(1);
