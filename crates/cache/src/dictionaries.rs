//! Which dictionaries a page was compared with, and how much memory the differences to them use.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use galley_policy::encoding::Coding;

use crate::entry::{EncodedEntry, Entry};

/// The memory that the forms by dictionary of a site may use together: a tenth of that of the pages that were compared with dictionaries.
///
/// Each of these pages brings a tenth of the memory that it uses without such a form. So a form within that tenth always has room, and
/// pages whose forms need less leave the rest to others.
#[derive(Debug)]
pub struct DifferenceRoom {
    /// Bytes that are left: the sum of the shares. Written by shares.
    left: AtomicI64,
    /// The bytes of the smallest form that has found no room; `u64::MAX`: none. Written by shares and [`Self::has_room_again`].
    refused: AtomicU64,
}

impl Default for DifferenceRoom {
    fn default() -> Self {
        Self {
            left: AtomicI64::new(0),
            refused: AtomicU64::new(u64::MAX),
        }
    }
}

impl DifferenceRoom {
    /// Whether a form that has found no room would find it now; true once, until a form is refused again.
    pub fn has_room_again(&self) -> bool {
        let refused = self.refused.swap(u64::MAX, Ordering::Relaxed);
        let has_room = signed(refused) <= self.left.load(Ordering::Relaxed);
        if !has_room {
            self.refused.fetch_min(refused, Ordering::Relaxed);
        }
        has_room
    }
}

/// What one page adds to the room of its site, or takes from it. Copies of the page have the same share; the last one returns it.
pub struct DifferenceShare {
    room: Arc<DifferenceRoom>,
    bytes: AtomicI64,
}

impl DifferenceShare {
    /// The share of a page that was not compared yet: nothing.
    pub fn new(room: &Arc<DifferenceRoom>) -> Arc<Self> {
        Arc::new(Self {
            room: Arc::clone(room),
            bytes: AtomicI64::new(0),
        })
    }

    /// Adds the tenth of a page that has no form by dictionary.
    pub fn add(&self, page: &Entry) {
        self.set(page.tenth());
    }

    /// Adds the tenth of `page` and takes the memory of `form`. Returns false, and changes nothing, if there is no room.
    pub fn take(&self, page: &Entry, form: &EncodedEntry) -> bool {
        let (before, left) = self.set(page.tenth() - signed(form.weight()));
        if left < 0 {
            self.set(before);
            self.room
                .refused
                .fetch_min(form.weight(), Ordering::Relaxed);
        }
        left >= 0
    }

    /// Returns the share before, and what is left in the room. Concurrent calls change the room by what they change the share.
    fn set(&self, bytes: i64) -> (i64, i64) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        let more = bytes - before;
        let left = self.room.left.fetch_add(more, Ordering::Relaxed) + more;
        (before, left)
    }
}

impl Drop for DifferenceShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl fmt::Debug for DifferenceShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DifferenceShare").field(&self.bytes).finish()
    }
}

impl Entry {
    /// The state of the site's dictionaries that the page was compared with; 0: none.
    pub fn dictionaries(&self) -> u32 {
        self.dictionaries.load(Ordering::Relaxed)
    }

    /// Whether the caller must compare the page with this state of the site's dictionaries: true for one caller per state.
    pub fn claim_dictionaries(&self, state: u32) -> bool {
        self.dictionaries.swap(state, Ordering::Relaxed) != state
    }

    /// The page's share in `room`; a new one if it has none.
    pub fn share_in(&self, room: &Arc<DifferenceRoom>) -> Arc<DifferenceShare> {
        let held = self.difference_share.as_ref();
        let held = held.filter(|share| Arc::ptr_eq(&share.room, room));
        held.map_or_else(|| DifferenceShare::new(room), Arc::clone)
    }

    /// The same page with this share.
    #[must_use]
    pub fn with_difference_share(mut self, share: Option<Arc<DifferenceShare>>) -> Self {
        self.difference_share = share;
        self.weighed()
    }

    /// A tenth of the memory that the page uses without a form by dictionary. An uncompressed body that may be dropped does not count.
    fn tenth(&self) -> i64 {
        let is_form = |form: &&EncodedEntry| form.coding == Coding::Dcz;
        let forms: u64 = self
            .coded()
            .iter()
            .filter(is_form)
            .map(EncodedEntry::weight)
            .sum();
        let may_drop =
            self.is_packable() && self.coded().iter().any(|form| form.coding == Coding::Gzip);
        let plain = if may_drop { self.length() } else { 0 };
        signed(self.weight().saturating_sub(forms + plain) / 10)
    }
}

/// The memory of a share, with the counters of its `Arc`.
pub(crate) fn weight_of(share: Option<&Arc<DifferenceShare>>) -> u64 {
    share.map_or(0, |share| 16 + size_of_val(&**share) as u64)
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use proptest::prelude::*;

    use super::*;
    use crate::entry::{CompressionStep, EntryParts};
    use crate::testing;

    fn coded(coding: Coding, bytes: usize) -> EncodedEntry {
        let body = bytes::Bytes::from(vec![b'x'; bytes]).into();
        EncodedEntry::new(coding, &HeaderMap::new(), body)
    }

    fn page(gzip: usize) -> Entry {
        let body = bytes::Bytes::from(vec![b'x'; 50_000]).into();
        let page = Entry::new(EntryParts {
            body,
            ..testing::page()
        });
        let forms = vec![coded(Coding::Gzip, gzip)];
        page.with_coded(&HeaderMap::new(), forms, CompressionStep::Quick)
    }

    #[test]
    fn neither_the_plain_body_nor_a_form_adds_room() {
        let page = page(10_000);
        let tenth = page.tenth();
        assert!((1_000..1_200).contains(&tenth), "{tenth}");
        assert_eq!(page.packed().tenth(), tenth);
        let forms = vec![coded(Coding::Gzip, 10_000), coded(Coding::Dcz, 5_000)];
        let with_form = page.with_coded(&HeaderMap::new(), forms, CompressionStep::Quick);
        assert_eq!(with_form.tenth(), tenth);
    }

    #[test]
    fn copies_of_a_page_have_one_share() {
        let room = Arc::<DifferenceRoom>::default();
        let share = page(10_000).share_in(&room);
        let first = page(10_000).with_difference_share(Some(share));
        assert!(first.weight() > page(10_000).weight(), "it is counted");
        first.share_in(&room).add(&first);
        let left = || room.left.load(Ordering::Relaxed);
        assert_eq!(left(), first.tenth());
        let copy = first.packed();
        drop(first);
        assert_eq!(left(), copy.tenth());
        assert!(Arc::ptr_eq(&copy.share_in(&room), &copy.share_in(&room)));
        let other = Arc::<DifferenceRoom>::default();
        assert!(!Arc::ptr_eq(&copy.share_in(&other), &copy.share_in(&room)));
        drop(copy);
        assert_eq!(left(), 0);
    }

    #[test]
    fn a_refused_form_is_remembered_until_there_is_room() {
        let room = Arc::<DifferenceRoom>::default();
        assert!(!room.has_room_again(), "none was refused");
        let (page, form) = (page(10_000), coded(Coding::Dcz, 1_500));
        let shares = [0; 3].map(|_| DifferenceShare::new(&room));
        shares[0].add(&page);
        assert!(!shares[0].take(&page, &form) && !room.has_room_again());
        shares[1].add(&page);
        assert!(room.has_room_again() && !room.has_room_again(), "once");
        assert!(shares[0].take(&page, &form));
        shares[2].add(&page);
        assert!(!shares[2].take(&page, &form) && !room.has_room_again());
    }

    proptest! {
        #[test]
        fn no_form_is_taken_beyond_the_room(
            steps in prop::collection::vec((0_usize..8, 0_u8..4, 0_usize..30_000, 0_usize..8_000), 1..100),
        ) {
            let room = Arc::<DifferenceRoom>::default();
            let mut shares: Vec<_> = (0..8).map(|_| (DifferenceShare::new(&room), 0)).collect();
            for (at, step, gzip, form) in steps {
                let (page, form) = (page(gzip), coded(Coding::Dcz, form));
                let others: i64 = shares.iter().enumerate().filter(|(n, _)| *n != at).map(|(_, (_, bytes))| bytes).sum();
                let (share, bytes) = &mut shares[at];
                if step == 0 {
                    (*share, *bytes) = (DifferenceShare::new(&room), 0);
                } else {
                    share.add(&page);
                    *bytes = page.tenth();
                    let wanted = page.tenth() - signed(form.weight());
                    let is_taken = step > 1 && share.take(&page, &form);
                    prop_assert_eq!(is_taken, step > 1 && others + wanted >= 0);
                    if is_taken {
                        *bytes = wanted;
                    }
                }
                let sum: i64 = shares.iter().map(|(_, bytes)| bytes).sum();
                prop_assert_eq!(room.left.load(Ordering::Relaxed), sum);
            }
        }
    }
}
