//! How long a look at the disk holds.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// When something was last seen.
#[derive(Default)]
pub(crate) struct LastSeen(Mutex<Option<Instant>>);

impl LastSeen {
    pub(crate) fn note(&self, now: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    /// Whether that is less than a second ago.
    pub(crate) fn is_recent(&self, now: Instant) -> bool {
        let seen = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.is_some_and(|seen| now.saturating_duration_since(seen) < RECHECK)
    }
}

/// How long a look at the configured path, at a `.htaccess`, or at the front controller, holds.
pub(crate) const RECHECK: Duration = Duration::from_secs(1);
