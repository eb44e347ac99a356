//! The names of the cookies for which requests of one site bypassed the cache, the most frequent ones.
//!
//! Clients invent names, so the list is short: a new name takes the place of the rarest one and its count, so that a frequent name
//! stays (the algorithm "space saving"). Values are never kept.

use std::cmp::Reverse;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The names; any thread writes them, once per request that bypasses the cache, and the admin thread reads them.
#[derive(Debug, Default)]
pub struct CookieNames(Mutex<Vec<(String, u64)>>);

impl CookieNames {
    /// Counts a cookie.
    pub fn note(&self, name: &[u8]) {
        let name = shown(name);
        let mut names = self.lock();
        if let Some((_, count)) = names.iter_mut().find(|(known, _)| *known == name) {
            *count = count.saturating_add(1);
        } else if names.len() < MAX_NAMES {
            names.push((name, 1));
        } else if let Some(rarest) = names.iter_mut().min_by_key(|(_, count)| *count) {
            *rarest = (name, rarest.1.saturating_add(1));
        }
    }

    /// The names, the most frequent first.
    pub fn list(&self) -> Vec<String> {
        let mut names = self.lock().clone();
        names.sort_by_key(|(_, count)| Reverse(*count));
        names.into_iter().map(|(name, _)| name).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(String, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name without the hash that WordPress adds, and not too long.
fn shown(name: &[u8]) -> String {
    let is_hash = |end: &[u8]| end.len() == 32 && end.iter().all(u8::is_ascii_hexdigit);
    let cut = name.iter().rposition(|byte| *byte == b'_').map(|at| at + 1);
    let parts = cut.and_then(|cut| name.split_at_checked(cut));
    match parts {
        Some((begin, end)) if is_hash(end) => format!("{}*", String::from_utf8_lossy(begin)),
        _ => String::from_utf8_lossy(name.get(..MAX_NAME).unwrap_or(name)).into_owned(),
    }
}

/// The maximum number of names of one site.
const MAX_NAMES: usize = 6;

/// The maximum length of a name, in bytes.
const MAX_NAME: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_names_stay_among_invented_ones() {
        let names = CookieNames::default();
        for number in 0..1_000 {
            names.note(b"wordpress_logged_in_0123456789abcdef0123456789abcdef");
            names.note(b"member");
            names.note(format!("x{number}").as_bytes());
        }
        let seen = names.list();
        assert_eq!(seen.len(), MAX_NAMES);
        assert!(seen.contains(&"member".to_owned()), "{seen:?}");
        assert!(
            seen.contains(&"wordpress_logged_in_*".to_owned()),
            "{seen:?}"
        );
    }

    #[test]
    fn names_are_short_and_without_hashes() {
        for (name, wanted) in [
            (
                &b"wp-postpass_0123456789ABCDEF0123456789abcdef"[..],
                "wp-postpass_*",
            ),
            (b"wp-postpass_0123", "wp-postpass_0123"),
            (b"a_", "a_"),
            (b"\xff", "\u{fffd}"),
        ] {
            assert_eq!(shown(name), wanted);
        }
        assert_eq!(shown(&[b'x'; 5_000]).len(), MAX_NAME);
    }
}
