//! The server's clocks.
//!
//! Ages and deadlines come from a monotonic clock, so that a step of the wall clock (a resumed machine, NTP) neither
//! extends nor expires anything; the wall clock is for header fields and logs only. Decisions never read a clock: they get
//! the values of this module.

use std::time::{Instant, SystemTime};

use galley_policy::time::Tick;

/// The process's clock; copies of it agree.
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

    /// Monotonic milliseconds since the start.
    pub fn tick(self) -> Tick {
        self.tick_at(Instant::now())
    }

    /// The tick of a moment that was read already.
    pub fn tick_at(self, at: Instant) -> Tick {
        let elapsed = at.saturating_duration_since(self.started).as_millis();
        Tick(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }

    /// The wall clock.
    pub fn wall(self) -> SystemTime {
        SystemTime::now()
    }

    /// Seconds since the start, for `status`.
    pub fn uptime_s(self) -> u64 {
        self.started.elapsed().as_secs()
    }
}
