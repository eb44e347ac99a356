//! Divides the machine's memory, and computes how many PHP workers fit. Pure arithmetic; the table in the manual is generated
//! with it.
//!
//! The system and the database get a fixed part of the memory, Galley the size of its cache and a little more, PHP the rest: first
//! the opcode cache of each pool, which its workers share, then the workers. All pools have equal shares. A worker counts as
//! [`TYPICAL_WORKER_BYTES`] until it has been measured.
//!
//! The memory is that of the machine or the smallest limit of this process's control groups, whichever is less.

use std::path::Path;

/// The memory and cores to divide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineMemory {
    /// Memory, in bytes.
    pub memory: u64,
    /// The number of cores that may be used.
    pub cores: usize,
    /// The size of the cache (`[cache] memory`), in bytes.
    pub cache: u64,
    /// The number of pools that Galley runs: one per site and program.
    pub pools: usize,
}

impl MachineMemory {
    /// The memory of the machine whose file system is below `root`.
    pub fn at(root: &Path, cache: u64, pools: usize) -> Self {
        Self {
            memory: galley_config::memory(root).unwrap_or(UNKNOWN_MEMORY),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            cache,
            pools,
        }
    }
}

/// The parts of the memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryDivision {
    /// The memory to divide.
    pub machine: MachineMemory,
    /// The part for the kernel, its file cache, and other programs.
    pub system: u64,
    /// The part for MariaDB or another database on this machine.
    pub database: u64,
    /// The part for Galley with its cache.
    pub galley: u64,
    /// The size of the opcode cache of each pool.
    pub opcache: u64,
    /// The part for all workers of one pool together.
    pub share: u64,
}

impl MemoryDivision {
    /// Divides the memory of a machine.
    pub fn of(machine: MachineMemory) -> Self {
        let system = (machine.memory / 10).max(MIN_SYSTEM);
        let database = machine.memory / 5;
        // The metadata of stored pages needs at most an eighth of their size.
        let galley = machine.cache + machine.cache / 8 + GALLEY;
        let php = machine.memory.saturating_sub(system + database + galley);
        let pool = php / (machine.pools.max(1) as u64);
        let opcache = (pool / 4).clamp(MIN_OPCACHE, MAX_OPCACHE) >> 20 << 20;
        Self {
            machine,
            system,
            database,
            galley,
            opcache,
            share: pool.saturating_sub(opcache),
        }
    }

    /// The maximum number of workers of a pool: a few per core, because a worker spends much of its time waiting for the database.
    pub fn ceiling(&self) -> usize {
        self.machine
            .cores
            .saturating_mul(WORKERS_PER_CORE)
            .clamp(1, MAX_WORKERS)
    }

    /// The maximum number of concurrent requests of a pool whose workers use `worker` bytes each, the largest of them `largest`;
    /// at least 1.
    pub fn slots(&self, worker: u64, largest: u64) -> usize {
        let room = self.share.saturating_sub(largest.saturating_sub(worker));
        let fitting = room.checked_div(worker).unwrap_or(0);
        usize::try_from(fitting)
            .unwrap_or(usize::MAX)
            .clamp(1, self.ceiling())
    }

    /// The maximum number of concurrent requests before any measurement.
    pub fn slots_at_start(&self) -> usize {
        self.slots(TYPICAL_WORKER_BYTES, TYPICAL_WORKER_BYTES)
    }

    /// The reduced number of slots while the machine has only `available` bytes left, whatever uses the rest: half of `slots` if
    /// less than 1/25 of the memory is available, because the kernel then begins to kill processes.
    pub(super) fn slots_when_short(&self, slots: usize, available: Option<u64>) -> usize {
        let is_short = available.is_some_and(|left| left < self.machine.memory / SHORT_PART);
        if is_short { (slots / 2).max(1) } else { slots }
    }

    /// The memory limit of one script: two scripts at their limit fit at the same time, or all of them at their usual size.
    /// WordPress does not work with less than the lower bound, and never needs more than the upper one.
    pub fn memory_limit(&self) -> u64 {
        (self.share / 2).clamp(MIN_SCRIPT, MAX_SCRIPT) >> 20 << 20
    }

    /// The size above which a worker is replaced once it is idle.
    pub fn grown(&self, memory_limit: u64) -> u64 {
        (memory_limit / 2).max(MIN_GROWN)
    }
}

/// The assumed size of a worker with WordPress and some plugins, without the opcode cache, before this site's workers have
/// been measured. A worker with WordPress 6.1 alone was measured at 6 MiB to 12 MiB (46 MiB to 58 MiB resident, most of it
/// shared).
pub const TYPICAL_WORKER_BYTES: u64 = 20 << 20;

/// The assumed memory if it cannot be determined: that of a small machine, as for the configuration's defaults.
const UNKNOWN_MEMORY: u64 = 256 << 20;

const MIN_SYSTEM: u64 = 24 << 20;

/// The memory of Galley without its cache: code, connection buffers, queues.
const GALLEY: u64 = 16 << 20;

/// The minimum size of the opcode cache. WordPress without plugins uses 26 MiB, including its administration (measured: 6.1,
/// 551 scripts).
const MIN_OPCACHE: u64 = 32 << 20;

/// The maximum size of the opcode cache. A shop with fifty plugins does not fill it.
const MAX_OPCACHE: u64 = 256 << 20;

const MIN_SCRIPT: u64 = 64 << 20;

/// `WP_MAX_MEMORY_LIMIT`.
const MAX_SCRIPT: u64 = 256 << 20;

const SHORT_PART: u64 = 25;

const MIN_GROWN: u64 = 64 << 20;

const WORKERS_PER_CORE: usize = 4;

const MAX_WORKERS: usize = 32;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn budget(memory: u64, cores: usize, pools: usize) -> MemoryDivision {
        MemoryDivision::of(MachineMemory {
            memory: memory * MIB,
            cores,
            cache: (memory * MIB / 4).max(16 * MIB),
            pools,
        })
    }

    #[test]
    fn machines_of_all_sizes() {
        // Memory in MiB, cores, pools; opcode cache, share of the workers and limit of a script in MiB, slots at the start.
        for (memory, cores, pools, opcache, share, limit, slots) in [
            (128, 1, 1, 32, 0, 64, 1),
            (230, 1, 1, 32, 47, 64, 2),
            (256, 1, 1, 32, 59, 64, 2),
            (512, 1, 1, 49, 149, 74, 4),
            (1024, 1, 1, 103, 309, 154, 4),
            (1024, 8, 1, 103, 309, 154, 15),
            (1024, 2, 4, 32, 71, 64, 3),
            (8192, 4, 1, 256, 3158, 256, 16),
            (8192, 4, 10, 85, 256, 128, 12),
            (65_536, 64, 1, 256, 27_171, 256, 32),
            (0, 4, 1, 32, 0, 64, 1),
        ] {
            let budget = budget(memory, cores, pools);
            assert_eq!(
                (
                    budget.opcache / MIB,
                    budget.share / MIB,
                    budget.memory_limit() / MIB,
                    budget.slots_at_start()
                ),
                (opcache, share, limit, slots),
                "{memory} MiB, {cores} cores, {pools} pools: {budget:?}"
            );
        }
    }

    #[test]
    fn slots_depend_on_worker_size() {
        let budget = budget(1024, 8, 1);
        for (worker, largest, slots) in [
            (10, 10, 30),
            (20, 20, 15),
            (60, 60, 5),
            (60, 200, 2),
            (60, 400, 1),
            (400, 400, 1),
            (0, 0, 1),
        ] {
            assert_eq!(
                budget.slots(worker * MIB, largest * MIB),
                slots,
                "{worker} MiB, the largest {largest}"
            );
        }
    }

    #[test]
    fn slots_are_halved_while_memory_is_short() {
        let budget = budget(1000, 8, 1);
        for (slots, available, left) in [
            (8, None, 8),
            (8, Some(40), 8),
            (8, Some(39), 4),
            (3, Some(0), 1),
            (1, Some(0), 1),
        ] {
            let available = available.map(|mib| mib * MIB);
            assert_eq!(
                budget.slots_when_short(slots, available),
                left,
                "{available:?}"
            );
        }
    }

    proptest! {
        /// The parts never exceed the memory, except for the minimums on a machine that is too small for WordPress.
        #[test]
        fn parts_never_exceed_the_whole(memory in 512_u64..1 << 20, cores in 1_usize..256, pools in 1_usize..5, worker in 1_u64..2048) {
            let budget = budget(memory, cores, pools);
            let all = budget.system + budget.database + budget.galley + (budget.opcache + budget.share) * pools as u64;
            prop_assert!(all <= memory * MIB);
            let slots = budget.slots(worker * MIB, worker * MIB);
            prop_assert!(slots == 1 || slots as u64 * worker * MIB <= budget.share);
        }
    }
}
