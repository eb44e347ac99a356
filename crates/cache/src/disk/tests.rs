//! Tests that need internals: faults of the disk, reboots, and races of cleaning with new files.

mod model;

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use rustix::io::Errno;

use super::files::DiskOperation;
use super::moment::BootClock;
use super::*;
use crate::budget::MemoryBudget;
use crate::entry::{Entry, EntryParts};
use crate::testing::{lifetime, parts};
use galley_policy::time::Tick;
use std::fs::File;

const LIMITS: DiskLimits = DiskLimits {
    bytes: 64 << 20,
    site_bytes: None,
    object_bytes: 16 << 20,
    inactive: Duration::from_secs(7 * 86_400),
    in_memory_bytes: 1 << 20,
};

fn at(tick_ms: u64) -> DiskClock {
    DiskClock {
        tick: Tick(tick_ms),
        wall: UNIX_EPOCH + Duration::from_secs(1_000_000) + Duration::from_millis(tick_ms),
    }
}

fn page(path: &str, born: u64, body: &[u8]) -> Entry {
    Entry::new(EntryParts {
        body: Bytes::copy_from_slice(body).into(),
        ..parts(path, born)
    })
}

fn open(dir: &Path) -> (Disk, SiteName) {
    let disk = Disk::open(dir, LIMITS, [1; 16], at(0)).unwrap();
    let site = disk.site("a.test", 0);
    (disk, site)
}

fn body(disk: &Disk, site: SiteName, key: &str, now: DiskClock) -> Option<(u64, Bytes)> {
    match disk.get(site, key.as_bytes(), now, &MemoryBudget::new(u64::MAX)) {
        DiskLookup::Found(OnDisk::Whole(entry)) => {
            Some((entry.born, entry.body().unwrap().clone()))
        }
        DiskLookup::Found(OnDisk::Pieces(..)) => panic!("small bodies come whole"),
        DiskLookup::Absent => None,
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    found
}

fn set_fault(disk: &Disk, fault: Option<(DiskOperation, Errno)>) {
    *disk.shared.files.fault.lock().unwrap() =
        fault.map(|(change, number)| (change, number.raw_os_error()));
}

#[test]
fn a_failing_disk_turns_storing_off_and_is_tried_again() {
    let table = [
        (DiskOperation::Create, Errno::ACCESS, PauseReason::Denied),
        (DiskOperation::Create, Errno::ROFS, PauseReason::ReadOnly),
        (DiskOperation::Write, Errno::NOSPC, PauseReason::Full),
        (DiskOperation::Write, Errno::DQUOT, PauseReason::Full),
        (DiskOperation::Write, Errno::IO, PauseReason::Failing),
        (DiskOperation::Rename, Errno::NOSPC, PauseReason::Full),
    ];
    for (change, number, reason) in table {
        let dir = tempfile::tempdir().unwrap();
        let (disk, site) = open(dir.path());
        disk.put(site, &page("/kept", 0, b"kept"), at(0)).unwrap();
        assert_eq!(disk.health(), Health::Storing);
        set_fault(&disk, Some((change, number)));
        let failed = disk.put(site, &page("/a", 0, b"a"), at(10));
        assert_eq!(failed, Err(NotStored::Off(reason)), "{change:?} {number}");
        let Health::Off {
            reason: why,
            retry_at,
        } = disk.health()
        else {
            panic!("{:?}", disk.health());
        };
        assert_eq!(why, reason);
        assert_eq!(
            body(&disk, site, "/kept", at(20)).unwrap().1,
            "kept",
            "reading goes on"
        );
        set_fault(&disk, None);
        let soon = disk.put(site, &page("/a", 0, b"a"), at(30));
        assert_eq!(soon, Err(NotStored::Off(reason)), "not tried yet");
        assert!(body(&disk, site, "/a", at(40)).is_none());
        disk.put(site, &page("/a", 0, b"a"), at(retry_at.0))
            .unwrap();
        assert_eq!(disk.health(), Health::Storing);
        assert_eq!(body(&disk, site, "/a", at(retry_at.0)).unwrap().1, "a");
        assert_eq!(disk.usage().reserved, 0, "nothing is left reserved");
        assert_eq!(files(&dir.path().join("tmp")), Vec::<PathBuf>::new());
    }
}

#[test]
fn too_many_open_files_say_nothing_about_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    set_fault(&disk, Some((DiskOperation::Create, Errno::MFILE)));
    assert!(disk.put(site, &page("/a", 0, b"a"), at(0)).is_err());
    set_fault(&disk, None);
    assert_eq!(disk.put(site, &page("/a", 0, b"a"), at(0)), Ok(()));
}

#[test]
fn an_older_entry_is_removed_if_it_cannot_be_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    disk.put(site, &page("/a", 1, b"old"), at(0)).unwrap();
    set_fault(&disk, Some((DiskOperation::Write, Errno::NOSPC)));
    assert!(disk.put(site, &page("/a", 0, b"late"), at(0)).is_err());
    assert!(
        body(&disk, site, "/a", at(0)).is_some(),
        "born later than what failed"
    );
    assert!(disk.put(site, &page("/a", 2, b"new"), at(0)).is_err());
    assert!(body(&disk, site, "/a", at(0)).is_none());
    assert_eq!(disk.usage().bytes, 0);
}

#[test]
fn a_failed_eviction_frees_no_space() {
    let dir = tempfile::tempdir().unwrap();
    let limits = DiskLimits {
        bytes: 8 * 4096,
        ..LIMITS
    };
    let disk = Disk::open(dir.path(), limits, [1; 16], at(0)).unwrap();
    let site = disk.site("a.test", 0);
    for number in 0..8 {
        disk.put(site, &page(&format!("/{number}"), 0, b"x"), at(0))
            .unwrap();
    }
    set_fault(&disk, Some((DiskOperation::Remove, Errno::ACCESS)));
    let refused = disk.put(site, &page("/9", 0, b"x"), at(0));
    assert_eq!(refused, Err(NotStored::Off(PauseReason::Denied)));
    assert_eq!(disk.usage().entries, 8, "rows stay as long as their files");
    assert_eq!(disk.usage().reserved, 0);
}

#[test]
fn a_writer_meets_a_full_disk_midway() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    disk.put(site, &page("/a", 0, b"old"), at(0)).unwrap();
    let mut writer = disk.begin(site, &page("/a", 1, b""), None, at(0)).unwrap();
    writer.write(&vec![1; 100_000]).unwrap();
    set_fault(&disk, Some((DiskOperation::Write, Errno::NOSPC)));
    let full = Err(NotStored::Off(PauseReason::Full));
    assert_eq!(writer.write(&vec![1; 100_000]), full);
    assert_eq!(writer.write(b"more"), full, "stays failed");
    assert_eq!(disk.usage().reserved, 0, "given back at once");
    assert!(
        body(&disk, site, "/a", at(0)).is_some(),
        "the body may still fail to come"
    );
    assert_eq!(writer.commit(), full);
    assert!(body(&disk, site, "/a", at(0)).is_none());
}

#[test]
fn if_the_key_cannot_be_written_the_next_start_finds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    disk.put(site, &page("/a", 0, b"old"), at(0)).unwrap();
    drop(disk);
    let other = || Disk::open(dir.path(), LIMITS, [2; 16], at(0)).unwrap();
    // Prevents writing the key, even if root runs the test.
    let obstacle = dir.path().join("key.new");
    std::fs::create_dir(&obstacle).unwrap();
    let disk = other();
    assert!(!disk.is_keyed());
    assert_eq!(body(&disk, site, "/a", at(0)), None, "another generation");
    disk.put(site, &page("/a", 1, b"lost"), at(0)).unwrap();
    assert!(body(&disk, site, "/a", at(0)).is_some());
    drop(disk);
    let disk = other();
    assert_eq!(body(&disk, site, "/a", at(0)), None, "under no key");
    assert!(disk.begin_generation([2; 16]).is_err());
    disk.put(site, &page("/a", 2, b"kept"), at(0)).unwrap();
    std::fs::remove_dir(obstacle).unwrap();
    disk.begin_generation([2; 16]).unwrap();
    assert!(disk.is_keyed());
    drop(disk);
    assert_eq!(
        body(&other(), site, "/a", at(0)),
        Some((2, Bytes::from_static(b"kept")))
    );
}

#[test]
fn the_first_megabyte_is_verified_before_it_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    for (length, flipped, is_found) in [
        (100, 50, false),
        (900_000, 899_999, false),
        (3_000_000, 1_000_000, false),
        (3_000_000, 2_999_999, true),
    ] {
        disk.put(site, &page("/a", 0, &vec![7; length]), at(0))
            .unwrap();
        let file = files(&dir.path().join("entries")).pop().unwrap();
        let mut bytes = std::fs::read(&file).unwrap();
        let body = bytes.windows(100).position(|w| w == [7; 100]).unwrap();
        bytes[body + flipped] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        let nothing = MemoryBudget::new(0);
        match disk.get(site, b"/a", at(0), &nothing) {
            DiskLookup::Found(OnDisk::Pieces(_, pieces)) => {
                let last = (length as u64 - 1)..length as u64;
                assert!(
                    is_found && pieces.read(&last).is_err(),
                    "{length} {flipped}"
                );
            }
            DiskLookup::Found(OnDisk::Whole(_)) => panic!("without memory"),
            DiskLookup::Absent => assert!(!is_found, "{length} {flipped}"),
        }
        assert!(!file.exists(), "a damaged file is removed");
    }
}

#[test]
fn ages_continue_across_restarts_and_boots() {
    let dir = tempfile::tempdir().unwrap();
    let reopen = |now, boot| {
        let disk = Disk::open_in(dir.path(), LIMITS, [1; 16], now, boot).unwrap();
        let site = disk.site("a.test", 0);
        (disk, site)
    };
    let age = |disk: &Disk, site, now: DiskClock| match disk.get(
        site,
        b"/a",
        now,
        &MemoryBudget::new(99),
    ) {
        DiskLookup::Found(OnDisk::Whole(entry)) => entry.age(now.tick),
        other => panic!("{other:?}"),
    };
    let s = Duration::from_secs;
    assert_eq!(
        (lifetime().initial_age, lifetime().fresh),
        (s(2), s(60)),
        "what is counted on below"
    );
    let (disk, site) = reopen(at(0), BootClock::of([1; 16], 500_000));
    disk.put(site, &page("/a", 0, b"a"), at(10_000)).unwrap();
    assert_eq!(age(&disk, site, at(13_000)), s(15));
    drop(disk);
    // The process restarted 20 s later by the machine's clock. Its wall clock was set back by a day.
    let set_back = |tick| DiskClock {
        tick: Tick(tick),
        wall: UNIX_EPOCH + s(1_000_000 - 86_400),
    };
    let (disk, site) = reopen(set_back(0), BootClock::of([1; 16], 530_000));
    assert_eq!(age(&disk, site, set_back(0)), s(32));
    assert_eq!(age(&disk, site, set_back(4_000)), s(36));
    drop(disk);
    let (disk, site) = reopen(at(100_000), BootClock::of([2; 16], 0));
    assert_eq!(
        age(&disk, site, at(100_000)),
        s(102),
        "booted: by the wall clock"
    );
    drop(disk);
    let (disk, site) = reopen(set_back(0), BootClock::of([3; 16], 0));
    assert_eq!(
        age(&disk, site, set_back(0)),
        s(60),
        "booted, stored in the future: stale"
    );
    assert_eq!(
        age(&disk, site, set_back(5_000)),
        s(60),
        "no younger and no older: it is not known"
    );
}

#[test]
fn a_new_file_is_not_removed_in_place_of_a_bad_one() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    disk.put(site, &page("/a", 0, b"old"), at(0)).unwrap();
    let path = files(&dir.path().join("entries")).remove(0);
    let old = File::open(&path).unwrap();
    disk.put(site, &page("/a", 0, b"new"), at(0)).unwrap();
    let name = disk.shared.seal.name(site.id, b"/a");
    disk.shared.settle(&name, read::Miss::Bad(old));
    assert_eq!(body(&disk, site, "/a", at(0)).unwrap().1, "new");
    disk.shared
        .settle(&name, read::Miss::Bad(File::open(&path).unwrap()));
    assert!(body(&disk, site, "/a", at(0)).is_none());
    assert_eq!((disk.usage().damaged, disk.usage().entries), (1, 0));
}

#[test]
fn a_directory_emptied_by_hand_is_created_again() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    disk.put(site, &page("/a", 0, b"a"), at(0)).unwrap();
    for name in ["entries", "tmp"] {
        std::fs::remove_dir_all(dir.path().join(name)).unwrap();
    }
    assert!(body(&disk, site, "/a", at(0)).is_none());
    assert_eq!(disk.usage().entries, 0, "its row went too");
    disk.put(site, &page("/a", 0, b"a"), at(0)).unwrap();
    assert!(body(&disk, site, "/a", at(0)).is_some());
}

#[test]
fn the_scan_removes_unknown_files() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    disk.put(site, &page("/a", 0, b"a"), at(0)).unwrap();
    let ours = files(&dir.path().join("entries")).remove(0);
    let beside = ours.with_file_name("core");
    let moved = disk.shared.place.bucket(0).join(ours.file_name().unwrap());
    std::fs::write(&beside, b"x").unwrap();
    std::fs::create_dir_all(moved.parent().unwrap()).unwrap();
    std::fs::copy(&ours, &moved).unwrap();
    drop(disk);
    let (disk, _) = open(dir.path());
    while disk.scan_step() == ScanProgress::More {}
    assert_eq!(files(&dir.path().join("entries")), [ours]);
    assert_eq!(disk.usage().entries, 1);
}
