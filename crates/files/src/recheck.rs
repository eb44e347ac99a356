//! How long a check of the disk is valid.

use galley_sys::Lock;
use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

/// Whether the time of a file's last change is so old that each later change has another time.
pub(crate) fn is_settled(seconds: i64, nanoseconds: i64, before: SystemTime) -> bool {
    let Some(latest) = before
        .checked_sub(SETTLING)
        .and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok())
    else {
        return false;
    };
    let latest_s = i64::try_from(latest.as_secs()).unwrap_or(i64::MAX);
    (seconds, nanoseconds) < (latest_s, i64::from(latest.subsec_nanos()))
}

/// The coarsest timestamp resolution of the supported file systems.
pub(crate) const SETTLING: Duration = Duration::from_secs(2);

/// When something was last found.
#[derive(Default)]
pub(crate) struct LastSeen(Lock<Option<Instant>>);

impl LastSeen {
    pub(crate) fn record(&self, now: Instant) {
        *self.0.lock() = Some(now);
    }

    /// Whether it was found less than a second ago.
    pub(crate) fn is_recent(&self, now: Instant) -> bool {
        let last = *self.0.lock();
        last.is_some_and(|last| now.saturating_duration_since(last) < RECHECK)
    }
}

/// Recent results by path.
pub(crate) struct RecentResults<V>(Lock<HashMap<Vec<u8>, RecentResult<V>>>);

struct RecentResult<V> {
    at: Instant,
    value: V,
}

impl<V> Default for RecentResults<V> {
    fn default() -> Self {
        Self(Lock::default())
    }
}

impl<V: Clone> RecentResults<V> {
    /// The result for a path, if it is less than a second old.
    pub(crate) fn get(&self, path: &[u8], now: Instant) -> Option<V> {
        let entries = self.0.lock();
        let recent = entries.get(path)?;
        let is_recent = now.saturating_duration_since(recent.at) < RECHECK;
        is_recent.then(|| recent.value.clone())
    }

    pub(crate) fn put(&self, path: &[u8], value: V, now: Instant) {
        let mut entries = self.0.lock();
        if entries.len() >= MAX_SEEN && !entries.contains_key(path) {
            // Removes all entries: none of them would be valid for longer than a second.
            entries.clear();
        }
        entries.insert(path.to_vec(), RecentResult { at: now, value });
    }
}

/// The maximum number of cached paths: more than are requested within a second.
const MAX_SEEN: usize = 4096;

/// How long a check of the configured path, a `.htaccess`, the front controller or the siblings of a picture is valid.
pub(crate) const RECHECK: Duration = Duration::from_secs(1);
