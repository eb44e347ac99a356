//! Measures and prints the cost of a purge on this disk, without assertions. Run with
//! `cargo test --release -p galley-cache --test purge_log_speed -- --ignored --nocapture`; `GALLEY_TEST_LOG_DISK` names a
//! directory on the disk to measure.

#![expect(clippy::unwrap_used, reason = "tests")]

mod blocking;

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use self::blocking::Wait as _;

use galley_cache::log::{Durability, PurgeLog};
use galley_cache::purge_table::PurgeTable;
use galley_policy::purge::{Purge, Scope, Strength};

const SITE: &str = "example.com";

fn purge(n: usize) -> Purge {
    Purge {
        scope: Scope::Tag(format!("post-{n}")),
        strength: Strength::Hard,
    }
}

/// The median time of `count` appends of the same size, each with fdatasync.
fn median_append(dir: &Path, count: u64) -> Duration {
    let file = std::fs::File::create(dir.join("bare")).unwrap();
    let record = [7; 75];
    let mut times: Vec<Duration> = (0..count)
        .map(|n| {
            let started = Instant::now();
            file.write_all_at(&record, n * record.len() as u64).unwrap();
            file.sync_data().unwrap();
            started.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// Purges per second, and the median time from publishing to the acknowledgement.
fn measure_purges(dir: &Path, callers: usize, each: usize) -> (f64, Duration) {
    let opened = PurgeLog::open(dir, SystemTime::now()).unwrap();
    let table = PurgeTable::new();
    opened.replay(SITE, &table);
    let started = Instant::now();
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..callers)
            .map(|caller| {
                let (log, table) = (&opened.log, &table);
                scope.spawn(move || {
                    let purge_once = |n: usize| {
                        let purge = purge(caller * 10 + n % 10);
                        let started = Instant::now();
                        let published = log.publish(SITE, table, &purge, SystemTime::now());
                        assert_eq!(published.ticket.wait(), Durability::Kept);
                        started.elapsed()
                    };
                    (0..each).map(purge_once).collect::<Vec<_>>()
                })
            })
            .collect();
        callers
            .into_iter()
            .flat_map(|caller| caller.join().unwrap())
            .collect()
    });
    let count = u32::try_from(times.len()).unwrap();
    let per_second = f64::from(count) / started.elapsed().as_secs_f64();
    times.sort_unstable();
    (per_second, times[times.len() / 2])
}

#[test]
#[ignore = "prints measurements"]
fn purges_per_second() {
    let disk =
        std::env::var_os("GALLEY_TEST_LOG_DISK").unwrap_or_else(|| std::env::temp_dir().into());
    for _ in 0..3 {
        let dir = tempfile::tempdir_in(&disk).unwrap();
        println!(
            "bare append and fdatasync: {:?}",
            median_append(dir.path(), 2_000)
        );
        for (callers, each) in [(1, 2_000), (100, 200)] {
            let (per_second, median) = measure_purges(&dir.path().join("log"), callers, each);
            println!("{callers} callers: {per_second:.0} purges/s, {median:?} each");
        }
    }
}
