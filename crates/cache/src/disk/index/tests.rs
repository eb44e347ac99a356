//! Compares the index with a simple model.

use proptest::prelude::*;

use super::super::seal::DirectoryKey;
use super::*;

fn name(site: u8, number: u32) -> FileName {
    let seal = DirectoryKey::new([5; 16]);
    let site = seal.site(if site == 0 { "a" } else { "b" });
    seal.name(site, &number.to_le_bytes())
}

fn index_limits(total: u64, site: u64) -> IndexLimits {
    IndexLimits { total, site }
}

#[test]
fn rows_are_24_bytes_and_little_is_wasted() {
    assert_eq!(size_of::<IndexEntry>(), 24);
    let mut index = Index::new(index_limits(u64::MAX, u64::MAX), BUCKETS);
    for number in 0..100_000 {
        index.insert(IndexEntry::new(name(0, number), 3, number));
    }
    assert_eq!((index.rows(), index.resident()), (100_000, 300_000));
    let each = index.memory() / index.rows();
    println!("{each} bytes of index an entry");
    assert!(each <= 30, "{each} bytes an entry");
}

#[test]
fn lookups_depend_on_counted_directories() {
    let mut index = Index::new(index_limits(100, 100), 0);
    let there = name(0, 1);
    assert_eq!(index.find(&there), IndexLookup::Unknown);
    index.insert(IndexEntry::new(there, 2, 10));
    assert_eq!(index.touch(&there, 12), index.find(&there));
    while !index.is_whole() {
        index.count_next();
    }
    assert_eq!(index.find(&name(0, 2)), IndexLookup::Absent);
    assert_eq!(index.touch(&name(0, 2), 12), IndexLookup::Absent);
    let IndexLookup::Resident(row) = index.find(&there) else {
        panic!("it was put in");
    };
    assert_eq!((row.blocks(), row.used), (2, 12));
    index.touch(&there, 11);
    assert_eq!(
        index.find(&there),
        IndexLookup::Resident(row),
        "uses go forward only"
    );
}

#[test]
fn units_stop_at_the_ends() {
    let table = [(0, 1), (1, 1), (4096, 1), (4097, 2), (u64::MAX, !READ)];
    for (bytes, wanted) in table {
        assert_eq!(units(bytes), wanted, "{bytes}");
    }
}

#[test]
fn limits_hold_when_reserving() {
    let (a, b) = (name(0, 0).site(), name(1, 0).site());
    let mut index = Index::new(index_limits(10, 7), BUCKETS);
    index.insert(IndexEntry::new(name(0, 1), 4, 0));
    assert_eq!(index.try_reserve(a, 4), Err(ReachedLimit::Site(a)));
    assert_eq!(index.try_reserve(a, 3), Ok(()));
    assert_eq!(index.try_reserve(b, 4), Err(ReachedLimit::Total));
    index.release_units(a, 3);
    assert_eq!(index.try_reserve(b, 6), Ok(()));
    assert_eq!((index.of_site(a), index.of_site(b)), (4, 6));
    assert!(!index.is_over());
}

fn next_eviction(index: &mut Index, reached: ReachedLimit, second: u32) -> Option<IndexEntry> {
    let mut sample = Sample::default();
    while !sample.is_enough() {
        index.sample(&mut sample, reached, second);
    }
    sample.best
}

#[test]
fn long_unused_and_never_read_entries_are_evicted_first() {
    let mut index = Index::new(index_limits(100, 100), BUCKETS);
    let (old, new, read) = (name(0, 1), name(1, 2), name(0, 3));
    index.insert(IndexEntry::new(old, 1, 100));
    index.insert(IndexEntry::new(new, 1, 150));
    index.insert(IndexEntry::new(read, 1, 0));
    index.touch(&read, 90);
    let leaves =
        |index: &mut Index, reached| next_eviction(index, reached, 200).map(|row| row.name);
    assert_eq!(
        leaves(&mut index, ReachedLimit::Total),
        Some(old),
        "110 s read < 4 x 100 s unread"
    );
    assert_eq!(
        leaves(&mut index, ReachedLimit::Site(new.site())),
        Some(new)
    );
    index.remove(&old);
    index.remove(&new);
    assert_eq!(leaves(&mut index, ReachedLimit::Total), Some(read));
    assert_eq!(leaves(&mut index, ReachedLimit::Site(new.site())), None);
}

/// The order need not be exact, but close: entries with recent uses are rarely evicted.
#[test]
fn sampling_is_close_to_least_recently_used() {
    let mut index = Index::new(index_limits(u64::MAX, u64::MAX), BUCKETS);
    for number in 0..20_000 {
        index.insert(IndexEntry::new(name(0, number), 1, number));
    }
    let mut young = 0;
    for _ in 0..10_000 {
        let row = next_eviction(&mut index, ReachedLimit::Total, 20_000).unwrap();
        young += u32::from(row.used >= 16_000);
        index.remove(&row.name);
    }
    assert!(young < 100, "{young} of the youngest fifth left");
}

proptest! {
    #[test]
    fn sums_are_the_sums_of_the_rows(ops in proptest::collection::vec((0_u32..40, 1_u32..9, 0_u8..3), 0..200)) {
        let mut index = Index::new(index_limits(u64::MAX, u64::MAX), BUCKETS);
        let mut model = std::collections::BTreeMap::new();
        for (number, blocks, op) in ops {
            let name = name(u8::from(number % 2 == 0), number);
            match op {
                0 => prop_assert_eq!(index.remove(&name), model.remove(&name).is_some()),
                1 => { index.touch(&name, blocks); }
                _ => { index.insert(IndexEntry::new(name, blocks, 0)); model.insert(name, u64::from(blocks)); }
            }
            prop_assert_eq!(index.rows(), model.len() as u64);
            prop_assert_eq!(index.resident(), model.values().sum::<u64>());
            {
                let site = name.site();
                let of_site = model.iter().filter(|(name, _)| name.site() == site);
                prop_assert_eq!(index.of_site(site), of_site.map(|(_, blocks)| blocks).sum::<u64>());
            }
        }
        prop_assert_eq!(index.all().count(), model.len());
    }
}
