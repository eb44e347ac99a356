//! Start, stop, generations, limits, sweeping, and bodies in pieces.

use galley_cache::disk::{DiskUsage, Health, NotStored};
use galley_cache::purge_table::{UnloggedPurgeTable, Validity};
use galley_policy::purge::{Purge, Scope, Strength};

use super::*;

#[test]
fn a_scan_is_needed_after_a_kill_but_not_after_a_clean_stop() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    disk.put(site, &page("/a", 0, "a"), at(0)).unwrap();
    disk.close().unwrap();
    disk.close().unwrap();
    assert_eq!(disk.health(), Health::Closed);
    assert_eq!(
        disk.put(site, &page("/b", 0, "b"), at(0)),
        Err(NotStored::Closed)
    );
    assert!(
        read(&disk, site, "/a", at(0)).is_some(),
        "reading still works"
    );
    drop(disk);

    let (disk, site) = open(dir.path());
    assert_eq!((disk.health(), disk.usage().entries), (Health::Storing, 1));
    disk.put(site, &page("/b", 0, "b"), at(0)).unwrap();
    drop(disk);

    let (disk, site) = open(dir.path());
    assert_eq!(
        disk.health(),
        Health::Scanning,
        "a snapshot is used only once"
    );
    assert!(
        read(&disk, site, "/a", at(0)).is_some(),
        "readable before the scan"
    );
    let rejected = disk.put(site, &page("/c", 0, "c"), at(0));
    assert_eq!(rejected, Err(NotStored::Scanning));
    scan(&disk);
    assert_eq!((disk.health(), disk.usage().entries), (Health::Storing, 2));
    disk.put(site, &page("/c", 0, "c"), at(0)).unwrap();
}

#[test]
fn a_commit_after_the_stop_stores_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    let mut writer = disk.begin(site, &page("/a", 0, ""), None, at(0)).unwrap();
    writer.write(b"a").unwrap();
    disk.close().unwrap();
    assert_eq!(writer.commit(), Err(NotStored::Closed));
    drop(disk);
    let (disk, _) = open(dir.path());
    assert_eq!((disk.usage().entries, files(dir.path()).len()), (0, 0));
}

#[test]
fn a_new_generation_starts_with_an_empty_cache() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    disk.put(site, &page("/a", 0, "a"), at(0)).unwrap();
    disk.close().unwrap();
    drop(disk);
    let disk = Disk::open(dir.path(), LIMITS, [2; 16], at(0)).unwrap();
    let site = disk.site("a.test", 7);
    assert_eq!(disk.health(), Health::Storing, "nothing to scan");
    assert_eq!(read(&disk, site, "/a", at(0)), None);
    disk.put(site, &page("/a", 0, "new"), at(0)).unwrap();
    scan(&disk);
    assert_eq!(files(dir.path()).len(), 1);
    let names = std::fs::read_dir(dir.path()).unwrap().flatten();
    let remaining: Vec<_> = names
        .filter(|e| e.file_name().to_string_lossy().starts_with("old-"))
        .collect();
    assert!(remaining.is_empty(), "{remaining:?}");
}

#[test]
fn a_generation_can_begin_while_the_cache_is_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    for path in ["/a", "/b"] {
        disk.put(site, &page(path, 0, "old"), at(0)).unwrap();
    }
    disk.begin_generation([2; 16]).unwrap();
    assert_eq!(read(&disk, site, "/a", at(0)), None);
    disk.put(site, &page("/c", 0, "new"), at(0)).unwrap();
    drop(disk);
    let disk = Disk::open(dir.path(), LIMITS, [2; 16], at(0)).unwrap();
    let site = disk.site("a.test", 7);
    assert_eq!(read(&disk, site, "/c", at(0)).unwrap().1, b"new");
    assert_eq!(
        read(&disk, site, "/b", at(0)),
        None,
        "the file exists, but belongs to the old generation"
    );
    assert_eq!(files(dir.path()).len(), 1);
}

#[test]
fn oversized_entries_are_rejected_before_they_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let limits = DiskLimits {
        bytes: 1 << 20,
        object_bytes: 100_000,
        ..LIMITS
    };
    let (disk, site) = open_with(dir.path(), limits, at(0));
    let large = page("/a", 0, content(1, 100_001));
    assert_eq!(disk.put(site, &large, at(0)), Err(NotStored::TooLarge));
    let with_known_length = disk.begin(site, &page("/a", 0, ""), Some(100_001), at(0));
    assert_eq!(with_known_length.err(), Some(NotStored::TooLarge));
    let mut writer = disk.begin(site, &page("/a", 0, ""), None, at(0)).unwrap();
    assert_eq!(writer.write(&content(1, 200_000)), Err(NotStored::TooLarge));
    drop(writer);
    disk.put(site, &page("/a", 0, content(1, 100_000)), at(0))
        .unwrap();
    let usage = disk.usage();
    assert_eq!((usage.entries, usage.reserved), (1, 0));
}

#[test]
fn large_bodies_are_written_and_read_in_pieces() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    let body = content(3, 3 * 1024 * 1024 + 17);
    let mut writer = disk.begin(site, &page("/big", 4, ""), None, at(0)).unwrap();
    for piece in body.chunks(10_000) {
        writer.write(piece).unwrap();
        assert_eq!(
            read(&disk, site, "/big", at(0)),
            None,
            "not before the commit"
        );
    }
    writer.commit().unwrap();
    assert_eq!(disk.usage().reserved, 0);
    let DiskLookup::Found(OnDisk::Pieces(entry, pieces)) =
        disk.get(site, b"/big", at(0), &MemoryBudget::new(u64::MAX))
    else {
        panic!("not in pieces");
    };
    assert_eq!((entry.born, entry.body()), (4, None));
    assert_eq!(pieces.length(), body.len() as u64);
    disk.remove(site, b"/big");
    let table = [
        (0, 10),
        (65_530, 65_600),
        (65_536, 131_072),
        (3_145_700, u64::MAX),
        (9, 9),
    ];
    for (start, end) in table {
        let mut found = Vec::new();
        loop {
            let piece = pieces.read(&(start + found.len() as u64..end)).unwrap();
            if piece.is_empty() {
                break;
            }
            found.extend_from_slice(&piece);
        }
        let from = usize::try_from(start).unwrap();
        let to = usize::try_from(end).unwrap().min(body.len());
        assert!(
            found == body[from..to],
            "{start}..{end}, although the entry was removed"
        );
    }
    assert!(pieces.read(&(u64::MAX - 1..u64::MAX)).unwrap().is_empty());
}

#[test]
fn memory_is_reserved_for_complete_bodies() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    disk.put(site, &page("/a", 0, content(1, 5_000)), at(0))
        .unwrap();
    let budget = MemoryBudget::new(6_000);
    let first = disk.get(site, b"/a", at(0), &budget);
    assert!(matches!(first, DiskLookup::Found(OnDisk::Whole(_))));
    assert_eq!(budget.used(), 5_000);
    let second = disk.get(site, b"/a", at(0), &budget);
    assert!(
        matches!(second, DiskLookup::Found(OnDisk::Pieces(..))),
        "in pieces because the budget is used up"
    );
    drop(first);
    assert_eq!(budget.used(), 0);
    assert_eq!(read_body(second).unwrap().1, content(1, 5_000));
}

#[test]
fn purges_apply_to_entries_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    let purge_table = UnloggedPurgeTable::new();
    disk.put(site, &page("/a", purge_table.current(), "old"), at(0))
        .unwrap();
    let purge = Purge {
        scope: Scope::Tag("post-1".into()),
        strength: Strength::Hard,
    };
    purge_table.publish(&purge);
    disk.put(site, &page("/b", purge_table.current(), "new"), at(0))
        .unwrap();
    drop(disk);
    let (disk, site) = open(dir.path());
    for (path, expected) in [("/a", Validity::Purged), ("/b", Validity::Valid)] {
        let found = disk.get(site, path.as_bytes(), at(0), &MemoryBudget::new(99));
        assert_eq!(
            purge_table.validity_waiting(&read_body(found).unwrap().0),
            expected,
            "{path}"
        );
    }
    scan(&disk);
    let mut removed = 0;
    loop {
        let swept = disk.sweep_step(at(0), |view| {
            assert_eq!((view.site, view.fingerprint), (site.id, 7));
            purge_table.validity_waiting(&view.entry) == Validity::Purged
        });
        removed += swept.removed;
        if swept.ends_round {
            break;
        }
    }
    assert_eq!((removed, disk.usage().entries), (1, 1));
    assert!(read(&disk, site, "/b", at(0)).is_some());
}

#[test]
fn inactive_entries_are_swept_and_last_uses_survive_a_clean_stop() {
    let dir = tempfile::tempdir().unwrap();
    let day = 86_400_000;
    let (disk, site) = open(dir.path());
    for path in ["/used", "/unused"] {
        disk.put(site, &page(path, 0, "x"), at(0)).unwrap();
    }
    assert!(read(&disk, site, "/used", at(5 * day)).is_some());
    disk.close().unwrap();
    drop(disk);
    let (disk, site) = open_with(dir.path(), LIMITS, at(8 * day));
    while !disk.sweep_step(at(8 * day), |_| false).ends_round {}
    assert!(read(&disk, site, "/used", at(8 * day)).is_some());
    assert_eq!(read(&disk, site, "/unused", at(8 * day)), None);
}

#[test]
fn sweeping_enforces_a_lowered_limit() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    for number in 0..200 {
        disk.put(site, &page(&format!("/{number}"), 0, "x"), at(0))
            .unwrap();
    }
    drop(disk);
    let limits = DiskLimits {
        bytes: 50 * 4096,
        ..LIMITS
    };
    let (disk, site) = open_with(dir.path(), limits, at(0));
    scan(&disk);
    assert_eq!(disk.usage().counted, DiskUsage::DIRECTORIES);
    for _ in 0..3 {
        disk.sweep_step(at(0), |_| false);
    }
    assert_eq!(disk.usage().entries, 50);
    disk.put(site, &page("/new", 0, "x"), at(0)).unwrap();
    assert_eq!(files(dir.path()).len(), 50);
}
