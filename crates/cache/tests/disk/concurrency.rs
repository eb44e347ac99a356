//! Concurrent writers, readers, removals and scans.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use galley_cache::disk::NotStored;

use super::*;

#[test]
fn the_newest_of_concurrently_written_entries_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    let start = Barrier::new(5);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4_u64)
            .map(|thread| {
                let (disk, start) = (&disk, &start);
                scope.spawn(move || {
                    start.wait();
                    for round in 0..100_u64 {
                        // Each thread uses another order, so that older entries are often written after newer ones.
                        let born = (round * 37 + thread * 13) % 100 * 4 + thread;
                        let entry = page("/a", born, content(born, 5_000));
                        match disk.put(site, &entry, at(0)) {
                            Ok(()) | Err(NotStored::Superseded) => {}
                            Err(other) => panic!("{other}"),
                        }
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            start.wait();
            let mut last = 0;
            while !done.load(Ordering::Relaxed) {
                if let Some((born, body)) = read(&disk, site, "/a", at(0)) {
                    assert!(born >= last, "born {born} after {last}");
                    assert!(body == content(born, 5_000), "mixed bytes");
                    last = born;
                }
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert_eq!(read(&disk, site, "/a", at(0)).unwrap().0, 399);
    assert_eq!(disk.usage().entries, 1);
    assert_eq!(disk.usage().reserved, 0);
}

#[test]
fn concurrent_writers_stay_below_the_limits() {
    let dir = tempfile::tempdir().unwrap();
    let limits = DiskLimits {
        bytes: 100 * 4096,
        site_bytes: Some(70 * 4096),
        ..LIMITS
    };
    let (disk, _) = open_with(dir.path(), limits, at(0));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let disk = &disk;
            scope.spawn(move || {
                let site = disk.site(["a", "b"][thread % 2], 0);
                for number in 0..150 {
                    let body = content(number, 1 + usize::try_from(number).unwrap() * 97 % 20_000);
                    let entry = page(&format!("/{thread}/{number}"), 0, body);
                    let _ = disk.put(site, &entry, at(number));
                    let usage = disk.usage();
                    assert!(usage.bytes + usage.reserved <= limits.bytes);
                    assert!(disk.site_bytes(site.id) <= 70 * 4096);
                }
            });
        }
    });
    let usage = disk.usage();
    assert!(
        usage.evictions > 0 && usage.bytes > limits.bytes / 2,
        "{usage:?}"
    );
    let blocks = |path: PathBuf| path.metadata().unwrap().len().div_ceil(4096);
    let real: u64 = files(dir.path()).into_iter().map(blocks).sum();
    assert_eq!(real * 4096, usage.bytes);
}

#[test]
fn concurrent_removals_scans_and_reads_keep_index_and_files_consistent() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    for number in 0..400 {
        disk.put(site, &page(&format!("/{number}"), 0, "x"), at(0))
            .unwrap();
    }
    drop(disk);
    let (disk, site) = open(dir.path());
    std::thread::scope(|scope| {
        scope.spawn(|| scan(&disk));
        scope.spawn(|| {
            for number in (0..400).step_by(2) {
                disk.remove(site, format!("/{number}").as_bytes());
            }
        });
        scope.spawn(|| {
            for number in (1..400).step_by(2) {
                assert!(read(&disk, site, &format!("/{number}"), at(0)).is_some());
            }
        });
    });
    assert_eq!((disk.usage().entries, files(dir.path()).len()), (200, 200));
}
