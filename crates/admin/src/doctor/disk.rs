//! Checks disks: free space, and the time of a durable write.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::{DoctorFinding, Severity, percent, size};

/// Checks the free space below a folder, in bytes and in files.
pub(super) fn free_space(folder: &Path) -> DoctorFinding {
    const CHECK: &str = "room";
    let stat = match rustix::fs::statvfs(folder) {
        Ok(stat) => stat,
        Err(error) => {
            return DoctorFinding::unknown(CHECK, format!("{}: {error}", folder.display()));
        }
    };
    let blocks = FreeSpace {
        free: stat.f_bavail,
        all: stat.f_blocks,
    };
    let files = FreeSpace {
        free: stat.f_favail,
        all: stat.f_files,
    };
    judge_free_space(folder, stat.f_frsize, &blocks, &files)
}

struct FreeSpace {
    free: u64,
    all: u64,
}

fn judge_free_space(
    folder: &Path,
    block: u64,
    blocks: &FreeSpace,
    files: &FreeSpace,
) -> DoctorFinding {
    const CHECK: &str = "room";
    let seen = format!(
        "{}: {} of {} free",
        folder.display(),
        size(blocks.free.saturating_mul(block)),
        size(blocks.all.saturating_mul(block))
    );
    // File systems without a fixed number of files report 0.
    let files_left = if files.all == 0 {
        100
    } else {
        percent(files.free, files.all)
    };
    let (level, seen) = match (percent(blocks.free, blocks.all), files_left) {
        (_, 0..5) => (
            Severity::Wrong,
            format!("{seen}, but only {} more files", files.free),
        ),
        (0..5, _) => (Severity::Wrong, seen),
        (5..10, _) => (Severity::Notice, seen),
        _ => return DoctorFinding::fine(CHECK, seen),
    };
    DoctorFinding::bad(
        level,
        CHECK,
        seen,
        "on a full disk the database stops, WordPress cannot store uploads and sessions, and pages are kept in memory only",
        format!(
            "find the largest folders: du -xh --max-depth=2 {} | sort -h | tail",
            folder.display()
        ),
    )
}

/// Checks the time of an `fdatasync` below a folder: every acknowledged purge and every commit of the database waits for one.
pub(super) fn speed(folder: &Path) -> DoctorFinding {
    const CHECK: &str = "sync";
    match synced(folder) {
        Ok(median) => judge_speed(folder, median),
        Err(error) => DoctorFinding::unknown(CHECK, format!("{}: {error}", folder.display())),
    }
}

fn judge_speed(folder: &Path, median: Duration) -> DoctorFinding {
    const CHECK: &str = "sync";
    let seen = format!(
        "{}: writing and syncing 4 KiB takes {:.1} ms",
        folder.display(),
        median.as_secs_f64() * 1000.0
    );
    let level = match median.as_millis() {
        0..20 => return DoctorFinding::fine(CHECK, seen),
        20..100 => Severity::Notice,
        _ => Severity::Wrong,
    };
    DoctorFinding::bad(
        level,
        CHECK,
        seen,
        "every purge waits for one such write and the database for one per change: saving a post becomes slow",
        "find the processes that write: iotop -o; an SSD takes less than 5 ms. On a virtual machine, ask the provider",
    )
}

/// Returns the median of a few synced writes.
fn synced(folder: &Path) -> io::Result<Duration> {
    let mut file: File = tempfile::tempfile_in(folder)?;
    let mut times = Vec::with_capacity(WRITES);
    for _ in 0..WRITES {
        let began = Instant::now();
        file.write_all(&[0; 4096])?;
        file.sync_data()?;
        times.push(began.elapsed());
    }
    times.sort();
    Ok(times.get(WRITES / 2).copied().unwrap_or_default())
}

const WRITES: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_bytes_and_files_are_judged() {
        let of = |(free, all)| FreeSpace { free, all };
        let judge =
            |blocks, files| judge_free_space(Path::new("/"), 4096, &of(blocks), &of(files)).level;
        assert_eq!(judge((50, 100), (50, 100)), Severity::Fine);
        assert_eq!(judge((7, 100), (50, 100)), Severity::Notice);
        assert_eq!(judge((4, 100), (50, 100)), Severity::Wrong);
        assert_eq!(judge((50, 100), (4, 100)), Severity::Wrong);
        assert_eq!(judge((50, 100), (0, 0)), Severity::Fine);
        assert_eq!(
            free_space(Path::new("/no/such/folder")).level,
            Severity::Unknown
        );
        assert_ne!(free_space(Path::new("/")).level, Severity::Unknown);
    }

    #[test]
    fn slow_disks_are_reported() {
        let judge = |ms| judge_speed(Path::new("/"), Duration::from_millis(ms)).level;
        assert_eq!(
            (judge(3), judge(20), judge(100)),
            (Severity::Fine, Severity::Notice, Severity::Wrong)
        );
        assert!(synced(&std::env::temp_dir()).is_ok());
        assert_eq!(speed(Path::new("/no/such/folder")).level, Severity::Unknown);
    }
}
