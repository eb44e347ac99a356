//! Leases, lifetimes, eviction and limits of a store.

use super::*;

fn change<'a>(kind: ChangeKind, lease: u64, key: &'a [u8], value: &'a [u8]) -> ValueChange<'a> {
    ValueChange {
        kind,
        lease,
        ttl: 0,
        key,
        value,
    }
}

fn key(group: &str, name: &str) -> Vec<u8> {
    let length = u8::try_from(group.len()).expect("a short group");
    [&[length], group.as_bytes(), name.as_bytes()].concat()
}

#[test]
fn a_value_read_before_a_deletion_is_refused() {
    let mut store = ObjectStore::new(1 << 20);
    let key = key("posts", "1");
    let lease = store.counter();
    store.change(&change(ChangeKind::Delete, 0, &key, b""), 2, 0);
    for kind in [ChangeKind::Add, ChangeKind::Set] {
        let outcome = store.change(&change(kind, lease, &key, b"old"), 1, 0);
        assert_ne!(outcome, ChangeOutcome::Done);
        assert_eq!(store.find(&key, 0), None);
    }
}

#[test]
fn a_process_may_change_its_own_change_but_not_one_of_another_before() {
    let mut store = ObjectStore::new(1 << 20);
    let key = key("x", "1");
    let lease = store.counter();
    let set = |store: &mut ObjectStore, writer, value| {
        store.change(&change(ChangeKind::Set, lease, &key, value), writer, 0)
    };
    assert_eq!(set(&mut store, 1, b"a"), ChangeOutcome::Done);
    assert_eq!(set(&mut store, 1, b"b"), ChangeOutcome::Done);
    assert_eq!(set(&mut store, 2, b"c"), ChangeOutcome::Conflict);
    assert_eq!(store.find(&key, 0), None);
    // 1 does not know of the change by 2, although 2 was the last one.
    assert_eq!(set(&mut store, 1, b"d"), ChangeOutcome::Conflict);
    assert_eq!(set(&mut store, 1, b"d"), ChangeOutcome::Conflict);
}

#[test]
fn equal_values_do_not_conflict_whatever_they_cost() {
    // The codec, the queries that the value took, the value. Numbers have no queries.
    for (one, other, expected) in [
        (&b"S\x03v"[..], &b"S\x00v"[..], ChangeOutcome::Done),
        (b"S\x03v", b"S\x03w", ChangeOutcome::Conflict),
        (b"S\x03v", b"s\x03v", ChangeOutcome::Conflict),
        (b"i15", b"i25", ChangeOutcome::Conflict),
        (b"i1", b"i1", ChangeOutcome::Done),
        (b"S", b"S", ChangeOutcome::Done),
        (b"S", b"S\x00", ChangeOutcome::Conflict),
    ] {
        let mut store = ObjectStore::new(1 << 20);
        let key = key("plugin", "1");
        let lease = store.counter();
        let set = |store: &mut ObjectStore, writer, value| {
            store.change(&change(ChangeKind::Set, lease, &key, value), writer, 0)
        };
        assert_eq!(set(&mut store, 1, one), ChangeOutcome::Done);
        assert_eq!(set(&mut store, 2, other), expected, "{one:?} {other:?}");
        let is_kept = expected == ChangeOutcome::Done;
        assert_eq!(store.find(&key, 0).is_some(), is_kept, "{other:?}");
    }
}

#[test]
fn a_flush_of_a_group_ends_its_values_and_leases() {
    let mut store = ObjectStore::new(1 << 20);
    let (one, other) = (key("a", "1"), key("b", "1"));
    let lease = store.counter();
    for key in [&one, &other] {
        store.change(&change(ChangeKind::Set, lease, key, b"v"), 1, 0);
    }
    let lease = store.counter();
    store.change(&change(ChangeKind::FlushGroup, 0, b"a", b""), 1, 0);
    assert_eq!(store.find(&one, 0), None);
    assert!(store.find(&other, 0).is_some());
    let late = store.change(&change(ChangeKind::Add, lease, &one, b"old"), 1, 0);
    assert_eq!(late, ChangeOutcome::Refused);
}

#[test]
fn lifetimes_end_and_numbers_count() {
    let mut store = ObjectStore::new(1 << 20);
    let key = key("transient", "n");
    let set = ValueChange {
        ttl: 2,
        ..change(ChangeKind::Set, store.counter(), &key, b"i5")
    };
    store.change(&set, 1, 1000);
    let step = |store: &mut ObjectStore, by: i64| {
        let by = by.to_le_bytes();
        store.change(&change(ChangeKind::Increment, 0, &key, &by), 7, 1500)
    };
    assert_eq!(step(&mut store, 3), ChangeOutcome::Number(8));
    assert_eq!(step(&mut store, -20), ChangeOutcome::Number(0));
    assert_eq!(store.find(&key, 2999).as_deref(), Some(&b"i0"[..]));
    assert_eq!(store.find(&key, 3000), None);
    assert_eq!(step(&mut store, 1), ChangeOutcome::Refused);
}

#[test]
fn the_limit_holds_and_update_data_stays() {
    let mut store = ObjectStore::new(200_000);
    let update = key("site-transient", "update_plugins");
    let lease = store.counter();
    let plugins = vec![0; 20_000];
    store.change(&change(ChangeKind::Set, lease, &update, &plugins), 1, 0);
    for number in 0..2000_u64 {
        let name = key("x", &number.to_string());
        let lease = store.counter();
        let size = if number % 2 == 0 { 100 } else { 8000 };
        store.change(
            &change(ChangeKind::Set, lease, &name, &vec![1; size]),
            1,
            number,
        );
        assert!(store.bytes() <= 200_000);
    }
    assert!(store.find(&update, 3000).is_some());
    let small = store.slots.iter().filter(|slot| slot.value.len() == 100);
    assert!(small.count() * 2 > store.len(), "large values go first");
    let lease = store.counter();
    let large = vec![0; 100_000];
    let outcome = store.change(&change(ChangeKind::Set, lease, &update, &large), 1, 0);
    assert_eq!(outcome, ChangeOutcome::Refused);
    assert_eq!(
        store.find(&update, 3000),
        None,
        "not the value before either"
    );
}

#[test]
fn more_changes_than_are_remembered_end_older_leases() {
    let mut store = ObjectStore::new(1 << 20);
    let lease = store.counter();
    for number in 0..20_000_u32 {
        let name = key("x", &number.to_string());
        store.change(&change(ChangeKind::Delete, 0, &name, b""), 2, 0);
    }
    let name = key("x", "0");
    let outcome = store.change(&change(ChangeKind::Add, lease, &name, b"old"), 1, 0);
    assert_eq!(outcome, ChangeOutcome::Refused);
}

#[test]
fn an_evicted_value_still_ends_older_leases() {
    let mut store = ObjectStore::new(8000);
    let name = key("posts", "1");
    let lease = store.counter();
    store.change(&change(ChangeKind::Set, lease, &name, b"new"), 2, 0);
    for number in 0..100_u32 {
        let other = key("x", &number.to_string());
        let lease = store.counter();
        store.change(&change(ChangeKind::Set, lease, &other, &[0; 500]), 2, 1000);
    }
    for time in 0..100_u64 {
        let other = key("y", &time.to_string());
        let lease = store.counter();
        let now = 1_000_000 + time;
        store.change(&change(ChangeKind::Set, lease, &other, &[0; 10]), 2, now);
    }
    store.set_limit(100);
    assert_eq!(store.find(&name, 2_000_000), None);
    store.set_limit(8000);
    let outcome = store.change(&change(ChangeKind::Add, lease, &name, b"old"), 1, 2_000_000);
    assert_eq!(outcome, ChangeOutcome::Refused);
}

/// Any changes leave the sums of sizes as those of the values.
#[test]
fn sizes_are_counted_exactly() {
    let kinds = [
        ChangeKind::Set,
        ChangeKind::Add,
        ChangeKind::Delete,
        ChangeKind::Increment,
        ChangeKind::Increment,
        ChangeKind::FlushGroup,
    ];
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random >> 33).expect("31 bits") % below
    };
    let mut store = ObjectStore::new(8 << 10);
    for step in 0..20_000_u64 {
        let kind = kinds[next(kinds.len())];
        let group = ["site-transient", "posts"][next(2)];
        let name = format!("update_{}", next(6));
        let value = match kind {
            ChangeKind::Increment => i64::MAX.to_le_bytes().to_vec(),
            _ => format!("i{}", 10_u64.pow(u32::try_from(next(18)).expect("small"))).into_bytes(),
        };
        let key = match kind {
            ChangeKind::FlushGroup => group.as_bytes().to_vec(),
            _ => key(group, &name),
        };
        let lease = store.counter();
        store.change(&change(kind, lease, &key, &value), 1, step);
        let sum = |wanted: fn(&[u8]) -> bool| {
            let slots = store.slots.iter().filter(|slot| wanted(&slot.key));
            slots
                .map(|slot| size(&slot.key, &slot.value))
                .sum::<usize>()
        };
        assert_eq!(store.bytes, sum(|_| true));
        assert_eq!(store.protected, sum(is_protected));
    }
}
