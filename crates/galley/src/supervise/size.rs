//! How many workers this machine carries: one per 64 MiB of half the memory (what a WordPress request takes, with the
//! other half for the database, the cache and the kernel) and four per core (a worker waits for the database much of its
//! time), between 2 and 32. Memory is that of the machine or of the tightest control group around us, whichever is less.

use std::path::Path;

/// Workers for this machine, where the site's file names no number (0).
pub fn workers(named: usize) -> usize {
    if named != 0 {
        return named;
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    fitting(galley_config::memory(Path::new("/")), cores)
}

/// `memory` in bytes, `None` if unknown.
fn fitting(memory: Option<u64>, cores: usize) -> usize {
    let by_memory = memory.map_or(usize::MAX, |bytes| {
        usize::try_from(bytes / 2 / WORKER_BYTES).unwrap_or(usize::MAX)
    });
    by_memory
        .min(cores.saturating_mul(WORKERS_PER_CORE))
        .clamp(LEAST, MOST)
}

const WORKER_BYTES: u64 = 64 * 1024 * 1024;
const WORKERS_PER_CORE: usize = 4;
const LEAST: usize = 2;
const MOST: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_follow_memory_and_cores() {
        const MIB: u64 = 1 << 20;
        for (memory, cores, workers) in [
            (Some(256 * MIB), 1, 2),
            (Some(64 * MIB), 4, 2),
            (Some(512 * MIB), 2, 4),
            (Some(1024 * MIB), 2, 8),
            (Some(2048 * MIB), 2, 8),
            (Some(4096 * MIB), 16, 32),
            (Some(u64::MAX), 64, 32),
            (Some(0), 64, 2),
            (None, 1, 4),
        ] {
            assert_eq!(
                fitting(memory, cores),
                workers,
                "{memory:?} bytes, {cores} cores"
            );
        }
    }
}
