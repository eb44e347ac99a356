//! How long a check of the disk is valid.

use std::collections::HashMap;
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

/// Results for paths, while they are valid.
pub(crate) struct RecentLooks<V>(Mutex<HashMap<Vec<u8>, Look<V>>>);

struct Look<V> {
    at: Instant,
    what: V,
}

impl<V> Default for RecentLooks<V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<V: Clone> RecentLooks<V> {
    /// Found less than a second ago.
    pub(crate) fn get(&self, path: &[u8], now: Instant) -> Option<V> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = entries.get(path)?;
        let is_recent = now.saturating_duration_since(seen.at) < RECHECK;
        is_recent.then(|| seen.what.clone())
    }

    pub(crate) fn put(&self, path: &[u8], what: V, now: Instant) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= MAX_SEEN && !entries.contains_key(path) {
            // All at once: nothing of it would be valid for longer than a second.
            entries.clear();
        }
        entries.insert(path.to_vec(), Look { at: now, what });
    }
}

/// Paths that are remembered: more than are requested within a second.
const MAX_SEEN: usize = 4096;

/// How long a look at the configured path, at a `.htaccess`, at the front controller, or for other forms of a picture, holds.
pub(crate) const RECHECK: Duration = Duration::from_secs(1);
