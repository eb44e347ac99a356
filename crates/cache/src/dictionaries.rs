//! Which dictionaries a page was compared with, and what it adds to the memory for differences.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use galley_policy::encoding::Coding;

use crate::difference_room::signed;
use crate::entry::{EncodedEntry, Entry};

pub use crate::difference_room::{DifferenceRoom, DifferenceShare};

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
        let share = self.difference_share.as_ref();
        let share = share.filter(|share| Arc::ptr_eq(&share.room, room));
        share.map_or_else(|| DifferenceShare::new(room), Arc::clone)
    }

    /// The same page with this share.
    #[must_use]
    pub fn with_difference_share(mut self, share: Option<Arc<DifferenceShare>>) -> Self {
        self.difference_share = share;
        self.weighed()
    }

    /// A tenth of the memory that the page uses without a form by dictionary. An uncompressed body that may be dropped does not count.
    pub fn tenth(&self) -> i64 {
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
        first.share_in(&room).add(first.tenth());
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
        shares[0].add(page.tenth());
        assert!(!shares[0].take(page.tenth(), &form) && !room.has_room_again());
        shares[1].add(page.tenth());
        assert!(room.has_room_again() && !room.has_room_again(), "once");
        assert!(shares[0].take(page.tenth(), &form));
        shares[2].add(page.tenth());
        assert!(!shares[2].take(page.tenth(), &form) && !room.has_room_again());
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
                    share.add(page.tenth());
                    *bytes = page.tenth();
                    let wanted = page.tenth() - signed(form.weight());
                    let is_taken = step > 1 && share.take(page.tenth(), &form);
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
