//! The pages that visitors open from each page of a site, and the choice of those that a page names in `Speculation-Rules`.
//!
//! A table of fixed size has a count for pairs of pages. It is written by hits without a lock ([`NextPages::count`]) and knows no client.
//! A pair is a hash with a random key. If two pairs share a place, each visit of one takes a count from the other, so a pair that is
//! requested with a forged `Referer` displaces those of real visitors only by more requests than they make; then pages name nothing.
//!
//! A page that is named counts `NAMED` times: browsers that have loaded it in advance do not request it again, and others still do.

use std::borrow::Cow;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use galley_cache::entry::Entry;
use galley_cache::memory::Memory;
use galley_policy::key::{key_of_path, read_key, url_id};
use galley_policy::next_pages::{linked_paths, name_pages};
use http::HeaderMap;

use crate::taking_part::may_take_part;

/// The counts of a site.
pub struct NextPages {
    hashing: RandomState,
    /// Hash (48 bits), count (15 bits), whether the page is named (1 bit).
    places: Box<[AtomicU64]>,
}

impl NextPages {
    /// No visits yet. Uses 64 KiB.
    pub fn new() -> Self {
        Self {
            hashing: RandomState::new(),
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Counts a visit of a page from another one, whose path is as the browser sent it. `url` is the id of the visited page
    /// ([`galley_policy::key::url_id`]). Takes no lock and does not allocate. Paths of more than 255 bytes do not count.
    pub fn count(&self, previous: &[u8], url: u64) {
        let Some((place, tag)) = self.find(previous, url) else {
            return;
        };
        let old = place.load(Ordering::Relaxed);
        let (count, is_named) = (count_of(old), old & 1);
        let new = if old >> TAG_AT == tag {
            let step = if is_named == 1 { NAMED } else { 1 };
            (tag << TAG_AT) | ((count + step).min(MAX_COUNT) << 1) | is_named
        } else if count <= 1 {
            (tag << TAG_AT) | (1 << 1)
        } else {
            old - (1 << 1)
        };
        // If another thread has written, one visit does not count.
        let _ = place.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Halves all counts, so that pages that are not visited any more are forgotten.
    pub fn age(&self) {
        for place in &self.places {
            let old = place.load(Ordering::Relaxed);
            let count = count_of(old);
            let new = old - ((count - count / 2) << 1);
            let _ = place.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Names in the head of a page the stored pages that visitors most often open from it, or none. Returns whether the head changed.
    /// `body`: the plain body of the page.
    pub(crate) fn name_in(
        &self,
        fields: &mut HeaderMap,
        page: &Entry,
        body: &[u8],
        memory: &Memory,
    ) -> bool {
        let chosen = self.choose(page, body, memory).unwrap_or_default();
        let Some(parts) = read_key(page.key.bytes()) else {
            return false;
        };
        let authority = String::from_utf8_lossy(parts.authority);
        let origin = format!("{}://{authority}", parts.scheme.as_str());
        let paths: Vec<Cow<'_, str>> = chosen
            .iter()
            .map(|path| String::from_utf8_lossy(path))
            .collect();
        name_pages(fields, &origin, &paths)
    }

    /// The paths of the pages to name, the most visited first.
    fn choose(&self, page: &Entry, body: &[u8], memory: &Memory) -> Option<Vec<Vec<u8>>> {
        let key = page.key.bytes();
        let parts = read_key(key)?;
        let authority = std::str::from_utf8(parts.authority).ok()?;
        // An authority has a port only if it is not the scheme's default.
        let host = authority
            .rsplit_once(':')
            .map_or(authority, |(host, _)| host);
        let mut links = linked_paths(body, parts.scheme, parts.authority);
        links.sort_unstable();
        links.dedup();
        let mut total = 0;
        let mut counted = Vec::new();
        for path in links.into_iter().filter(|path| path != parts.path) {
            let Some((place, tag)) = self.find(parts.path, url_id(host, &path, None)) else {
                continue;
            };
            let value = place.load(Ordering::Relaxed);
            if value >> TAG_AT == tag {
                place.fetch_and(!1, Ordering::Relaxed);
                total += count_of(value);
                counted.push((count_of(value), place, path));
            }
        }
        counted.retain(|(count, _, path)| {
            *count >= MIN_COUNT && *count * MIN_SHARE >= total && is_stored(key, path, memory)
        });
        counted.sort_by(|(one, _, a), (other, _, b)| other.cmp(one).then_with(|| a.cmp(b)));
        counted.truncate(MAX_NAMED);
        let name = |(_, place, path): (u64, &AtomicU64, Vec<u8>)| {
            place.fetch_or(1, Ordering::Relaxed);
            path
        };
        Some(counted.into_iter().map(name).collect())
    }

    fn find(&self, previous: &[u8], url: u64) -> Option<(&AtomicU64, u64)> {
        let mut lower = [0; MAX_PATH];
        let lower = lower.get_mut(..previous.len())?;
        lower.copy_from_slice(previous);
        // The digits of escapes may be in either case.
        lower.make_ascii_lowercase();
        let mut hasher = self.hashing.build_hasher();
        hasher.write(lower);
        hasher.write_u64(url);
        let hash = hasher.finish();
        let at = usize::try_from(hash % PLACES as u64).unwrap_or_default();
        Some((self.places.get(at)?, hash >> TAG_AT))
    }
}

impl Default for NextPages {
    fn default() -> Self {
        Self::new()
    }
}

fn count_of(value: u64) -> u64 {
    (value >> 1) & MAX_COUNT
}

/// Whether the page of a path is stored for everyone.
fn is_stored(key: &[u8], path: &[u8], memory: &Memory) -> bool {
    let stored = key_of_path(key, path).and_then(|key| memory.peek(&key));
    stored.is_some_and(|page| may_take_part(&page))
}

/// The number of places. A power of two, below 2^16, so that the bits of the hash that choose the place are not those of the tag.
const PLACES: usize = 8192;

/// The number of bits below the tag.
const TAG_AT: u32 = 16;

const MAX_COUNT: u64 = (1 << 15) - 1;

/// What a visit of a named page counts: three of four browsers can load pages in advance.
const NAMED: u64 = 4;

/// The minimum number of visits.
const MIN_COUNT: u64 = 8;

/// A page is named if at least one in so many of the counted visits were to it: a visitor loads each named page for nothing but once.
const MIN_SHARE: u64 = 5;

/// The maximum number of pages that a page names.
const MAX_NAMED: usize = 2;

/// The maximum number of bytes of a counted path.
const MAX_PATH: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(pages: &NextPages, previous: &[u8], url: u64) -> u64 {
        let (place, tag) = pages.find(previous, url).unwrap();
        let value = place.load(Ordering::Relaxed);
        if value >> TAG_AT == tag {
            count_of(value)
        } else {
            0
        }
    }

    #[test]
    fn visits_are_counted_by_pair() {
        let pages = NextPages::new();
        for _ in 0..20 {
            pages.count(b"/a/", 1);
        }
        pages.count(b"/A/", 1);
        pages.count(b"/b/", 1);
        assert_eq!(counted(&pages, b"/a/", 1), 21);
        assert_eq!(counted(&pages, b"/b/", 1), 1);
        assert_eq!(counted(&pages, b"/a/", 2), 0);
        pages.age();
        assert_eq!(counted(&pages, b"/a/", 1), 10);
        let (place, _) = pages.find(b"/a/", 1).unwrap();
        place.fetch_or(1, Ordering::Relaxed);
        pages.count(b"/a/", 1);
        assert_eq!(counted(&pages, b"/a/", 1), 14);
        pages.count(&[b'a'; MAX_PATH + 1], 1);
        for _ in 0..=MAX_COUNT {
            pages.count(b"/a/", 1);
        }
        assert_eq!(counted(&pages, b"/a/", 1), MAX_COUNT);
    }

    /// Many forged pairs take one count each from the pairs with which they share a place.
    #[test]
    fn forged_visits_displace_visits_only_by_their_number() {
        let pages = NextPages::new();
        for url in 0..100 {
            for _ in 0..50 {
                pages.count(b"/a/", url);
            }
        }
        for n in 0..PLACES {
            pages.count(format!("/forged-{n}").as_bytes(), 7);
        }
        let kept = (0..100).filter(|url| counted(&pages, b"/a/", *url) >= 40);
        assert!(kept.count() > 90);
        // The table does not grow.
        assert_eq!(pages.places.len(), PLACES);
    }
}
