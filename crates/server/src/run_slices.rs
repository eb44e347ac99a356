//! When a core's hits begin and end, with one clock reading for each batch.
//!
//! A response begins where the previous one ends, as long as the core has not waited for the kernel in between; so a hit's
//! time counts from when the core was free for it. The runtime reports when it is about to wait.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The slices of a core.
pub(super) struct RunSlices {
    /// Set by the runtime, on the core's own thread.
    has_waited: Arc<AtomicBool>,
    last: Cell<Instant>,
}

impl RunSlices {
    /// The slices of a core whose runtime sets `has_waited` before it waits.
    pub(super) fn new(has_waited: Arc<AtomicBool>) -> Self {
        Self {
            has_waited,
            last: Cell::new(Instant::now()),
        }
    }

    /// The end of the core's last slice, or now if the core has waited since.
    pub(super) fn begin(&self) -> Instant {
        // No read-modify-write: only one thread writes.
        if self.has_waited.load(Ordering::Relaxed) {
            self.has_waited.store(false, Ordering::Relaxed);
            return self.end();
        }
        self.last.get()
    }

    /// The current time, as the end of a slice.
    pub(super) fn end(&self) -> Instant {
        let now = Instant::now();
        self.last.set(now);
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_begins_where_the_last_ended_until_the_core_waits() {
        let has_waited = Arc::new(AtomicBool::new(false));
        let slices = RunSlices::new(Arc::clone(&has_waited));
        let ended = slices.end();
        assert_eq!(slices.begin(), ended);
        while Instant::now() == ended {}
        assert_eq!(slices.begin(), ended);
        has_waited.store(true, Ordering::Relaxed);
        let woken = slices.begin();
        assert!(woken > ended);
        assert_eq!(slices.begin(), woken);
    }
}
