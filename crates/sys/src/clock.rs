//! The server's clocks.
//!
//! Ages and deadlines come from a monotonic clock, so that a step of the wall clock (a resumed machine, NTP) neither
//! extends nor expires anything; the wall clock is for header fields and logs only. Decisions never read a clock: they get
//! the values of this module.

use std::time::{Instant, SystemTime};

use galley_policy::time::Tick;

/// The process's clock; all copies return the same times.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
}

impl Clock {
    /// A clock whose tick 0 is now.
    pub fn start() -> Self {
        Self {
            started: Instant::now(),
        }
    }

    /// Returns the milliseconds since the start, from the monotonic clock.
    pub fn tick(self) -> Tick {
        self.tick_at(Instant::now())
    }

    /// Converts an instant that was read before.
    pub fn tick_at(self, at: Instant) -> Tick {
        let elapsed = at.saturating_duration_since(self.started).as_millis();
        Tick(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }

    /// Reads the wall clock.
    pub fn wall(self) -> SystemTime {
        SystemTime::now()
    }

    /// Returns the seconds since the start, for `status`.
    pub fn uptime_s(self) -> u64 {
        self.started.elapsed().as_secs()
    }
}
