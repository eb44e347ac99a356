//! Pauses in walks over all entries on helper threads, so that a long walk does not occupy a core that sends responses.

use std::time::Duration;

/// Counts the entries of a walk.
#[derive(Default)]
pub(super) struct WalkPacing(u32);

impl WalkPacing {
    /// Must be called before each entry. Pauses after every [`ENTRIES_AT_ONCE`] entries.
    pub(super) fn step(&mut self) {
        self.0 = self.0.wrapping_add(1);
        if self.0.is_multiple_of(ENTRIES_AT_ONCE) {
            std::thread::sleep(PAUSE);
        }
    }
}

/// The number of entries between two pauses: a few tens of microseconds of work.
const ENTRIES_AT_ONCE: u32 = 256;

const PAUSE: Duration = Duration::from_millis(1);
