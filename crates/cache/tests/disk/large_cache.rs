//! A large cache: memory of the index, time to the first hit, and pace of the scan. The limits are generous; the tests print
//! exact numbers.

use std::time::Instant;

use super::*;

#[test]
fn a_cache_serves_hits_immediately_after_a_start() {
    test_start(3_000);
}

#[test]
#[ignore = "writes 100,000 files; for measuring, in release"]
fn a_large_cache_serves_hits_immediately_after_a_start() {
    test_start(100_000);
}

fn test_start(entries: u32) {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open_with(dir.path(), large(), at(0));
    let body = content(1, 10_000);
    let began = Instant::now();
    for number in 0..entries {
        disk.put(site, &page(&format!("/{number}"), 0, body.clone()), at(0))
            .unwrap();
    }
    println!("put, 10 KB: {:?} each", began.elapsed() / entries);
    let began = Instant::now();
    for number in 0..entries {
        assert!(read(&disk, site, &format!("/{number}"), at(0)).is_some());
    }
    println!("get, 10 KB: {:?} each", began.elapsed() / entries);
    let usage = disk.usage();
    let each = usage.index_bytes / usage.entries;
    println!("{each} bytes of index per entry, {} entries", usage.entries);
    // The fixed part of the index alone is 160 KB.
    assert!(
        each <= 40 + 170_000 / usage.entries,
        "{each} bytes per entry"
    );
    drop(disk);

    let first_hit = |what: &str| {
        let began = Instant::now();
        let (disk, site) = open_with(dir.path(), large(), at(0));
        assert!(read(&disk, site, "/77", at(0)).is_some());
        let elapsed = began.elapsed();
        // No entry has been scanned yet, as the counts below show.
        println!("first hit after {what}: {elapsed:?}");
        disk
    };
    let disk = first_hit("a kill");
    let began = Instant::now();
    let (mut steps, mut before, mut longest) = (0, 0, Duration::ZERO);
    loop {
        let step = Instant::now();
        let scanned = disk.scan_step();
        longest = longest.max(step.elapsed());
        let counted = disk.usage().entries;
        assert!(
            counted - before <= 600,
            "too many entries in a step: {}",
            counted - before
        );
        before = counted;
        steps += 1;
        if scanned == ScanProgress::Done {
            break;
        }
    }
    println!(
        "scan: {:?} in {steps} steps, longest {longest:?}",
        began.elapsed()
    );
    assert_eq!(before, u64::from(entries));
    let began = Instant::now();
    disk.close().unwrap();
    println!("close: {:?}", began.elapsed());
    drop(disk);
    let disk = first_hit("a clean stop");
    assert_eq!(disk.usage().entries, u64::from(entries));
}

fn large() -> DiskLimits {
    DiskLimits {
        bytes: 1 << 40,
        ..LIMITS
    }
}
