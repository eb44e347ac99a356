//! Records which process runs in which pool, and decides which commands are executed.
//!
//! Pools and their slots are fixed at creation. No command adds a pool, a slot, or a process.

use crate::packet::PrivilegedCommand;

/// The processes of all pools.
#[derive(Clone, Debug)]
pub struct PrivilegedPools {
    pools: Vec<Vec<Option<u32>>>,
}

/// A running main process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// The number of the pool.
    pub pool: u32,
    /// The slot in the pool.
    pub slot: u32,
    /// The process id.
    pub process: u32,
}

/// Why a command is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandRefusal {
    /// The packet is not a valid command.
    NotACommand,
    /// No pool has this number.
    NoSuchPool,
    /// The pool has no such slot.
    NoSuchSlot,
    /// The slot has a process already.
    Taken,
    /// The process is not a main process of the pool, or the worker is one.
    NotItsProcess,
    /// The pool has no main process, and so no workers.
    Empty,
}

impl CommandRefusal {
    /// The text for log messages.
    pub fn text(self) -> &'static str {
        match self {
            Self::NotACommand => "it is not a command",
            Self::NoSuchPool => "there is no such pool",
            Self::NoSuchSlot => "the pool has no such slot",
            Self::Taken => "a process of the pool runs there",
            Self::NotItsProcess => "the process is not the pool's",
            Self::Empty => "nothing of the pool runs",
        }
    }
}

impl PrivilegedPools {
    /// Creates pools with this number of slots each, for one process each.
    pub fn new(slots: impl IntoIterator<Item = usize>) -> Self {
        let pools = slots.into_iter().map(|slots| vec![None; slots]);
        Self {
            pools: pools.collect(),
        }
    }

    /// Parses a command, and checks that it may be executed now. Changes nothing. The caller must still find a worker that is to be
    /// replaced among the children of [`PrivilegedPools::processes`].
    pub fn judge(&self, packet: &[u8]) -> Result<PrivilegedCommand, CommandRefusal> {
        let command = PrivilegedCommand::read(packet).ok_or(CommandRefusal::NotACommand)?;
        match command {
            PrivilegedCommand::Start { pool, slot } => {
                let slots = self.pool(pool)?;
                let slot = usize::try_from(slot).map_err(|_| CommandRefusal::NoSuchSlot)?;
                match slots.get(slot) {
                    None => Err(CommandRefusal::NoSuchSlot),
                    Some(Some(_)) => Err(CommandRefusal::Taken),
                    Some(None) => Ok(command),
                }
            }
            PrivilegedCommand::Signal { pool, process, .. } => {
                let is_its = self.pool(pool)?.contains(&Some(process));
                is_its
                    .then_some(command)
                    .ok_or(CommandRefusal::NotItsProcess)
            }
            PrivilegedCommand::Replace { pool, worker } => {
                let slots = self.pool(pool)?;
                if slots.iter().all(Option::is_none) {
                    return Err(CommandRefusal::Empty);
                }
                let is_main = slots.contains(&Some(worker));
                (!is_main)
                    .then_some(command)
                    .ok_or(CommandRefusal::NotItsProcess)
            }
            PrivilegedCommand::Connect => Ok(command),
        }
    }

    /// The process in a slot of a pool.
    pub fn process(&self, pool: u32, slot: u32) -> Option<u32> {
        let slot = usize::try_from(slot).ok()?;
        self.pool(pool).ok()?.get(slot).copied().flatten()
    }

    /// Records a process that was started for a free slot.
    pub fn started(&mut self, pool: u32, slot: u32, process: u32) {
        let slots = usize::try_from(pool)
            .ok()
            .and_then(|pool| self.pools.get_mut(pool));
        let slot = usize::try_from(slot).ok();
        if let Some(free) = slots.zip(slot).and_then(|(all, at)| all.get_mut(at)) {
            *free = Some(process);
        }
    }

    /// Records that a process has ended, which frees its slot. Returns the number of its pool; `None`: the process was unknown.
    pub fn ended(&mut self, process: u32) -> Option<u32> {
        for (number, slots) in (0..).zip(&mut self.pools) {
            if let Some(slot) = slots.iter_mut().find(|slot| **slot == Some(process)) {
                *slot = None;
                return Some(number);
            }
        }
        None
    }

    /// The running main processes of a pool.
    pub fn processes(&self, pool: u32) -> impl Iterator<Item = u32> {
        let slots = self.pool(pool).unwrap_or_default();
        slots.iter().copied().flatten()
    }

    /// All running main processes.
    pub fn all(&self) -> impl Iterator<Item = Running> {
        let pools = (0..).zip(&self.pools);
        pools.flat_map(|(pool, slots)| {
            (0..).zip(slots).filter_map(move |(slot, process)| {
                let process = (*process)?;
                Some(Running {
                    pool,
                    slot,
                    process,
                })
            })
        })
    }

    fn pool(&self, number: u32) -> Result<&[Option<u32>], CommandRefusal> {
        let pool = usize::try_from(number)
            .ok()
            .and_then(|at| self.pools.get(at));
        pool.map(Vec::as_slice).ok_or(CommandRefusal::NoSuchPool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::KillSignal;
    use proptest::prelude::*;

    fn judged(pools: &PrivilegedPools, command: PrivilegedCommand) -> Option<CommandRefusal> {
        pools.judge(&command.bytes()).err()
    }

    #[test]
    fn commands_only_affect_processes_of_the_pools() {
        let mut pools = PrivilegedPools::new([1, 2]);
        let start = |pool, slot| PrivilegedCommand::Start { pool, slot };
        assert_eq!(judged(&pools, start(0, 0)), None);
        assert_eq!(judged(&pools, start(1, 1)), None);
        assert_eq!(
            judged(&pools, start(0, 1)),
            Some(CommandRefusal::NoSuchSlot)
        );
        assert_eq!(
            judged(&pools, start(2, 0)),
            Some(CommandRefusal::NoSuchPool)
        );
        let replace = |pool, worker| PrivilegedCommand::Replace { pool, worker };
        assert_eq!(judged(&pools, replace(0, 12)), Some(CommandRefusal::Empty));
        pools.started(0, 0, 10);
        pools.started(1, 1, 11);
        assert_eq!(judged(&pools, start(0, 0)), Some(CommandRefusal::Taken));
        assert_eq!(judged(&pools, start(1, 0)), None);
        let signal = |pool, process| PrivilegedCommand::Signal {
            pool,
            process,
            how: KillSignal::Kill,
        };
        assert_eq!(judged(&pools, signal(0, 10)), None);
        for (pool, process) in [(0, 11), (1, 10), (0, 1), (1, 12)] {
            let refused = judged(&pools, signal(pool, process));
            assert_eq!(refused, Some(CommandRefusal::NotItsProcess));
        }
        assert_eq!(judged(&pools, replace(0, 12)), None);
        assert_eq!(
            judged(&pools, replace(0, 10)),
            Some(CommandRefusal::NotItsProcess)
        );
        let running = pools.all().map(|one| (one.pool, one.slot, one.process));
        assert_eq!(running.collect::<Vec<_>>(), [(0, 0, 10), (1, 1, 11)]);
        assert_eq!((pools.process(1, 1), pools.process(1, 0)), (Some(11), None));
        assert_eq!((pools.process(1, 2), pools.process(2, 0)), (None, None));
        assert_eq!(pools.ended(10), Some(0));
        assert_eq!(pools.ended(10), None);
        assert_eq!(
            judged(&pools, signal(0, 10)),
            Some(CommandRefusal::NotItsProcess)
        );
        assert_eq!(judged(&pools, start(0, 0)), None);
    }

    proptest! {
        /// Whatever is sent, no more processes run than there are slots, and only running processes are signaled.
        #[test]
        fn no_packets_exceed_the_pools(packets in prop::collection::vec((0_u8..6, 0_u8..5, 0_u32..4, 0_u32..12), 0..60)) {
            let mut pools = PrivilegedPools::new([1, 3]);
            let mut next = 1;
            for (kind, how, pool, number) in packets {
                let mut bytes = [0; crate::BYTES];
                bytes[..2].copy_from_slice(&[kind, how]);
                bytes[4..8].copy_from_slice(&pool.to_le_bytes());
                bytes[if kind == 1 { 12 } else { 8 }] = u8::try_from(number).unwrap();
                let running: Vec<_> = pools.all().collect();
                match pools.judge(&bytes) {
                    Ok(PrivilegedCommand::Start { pool, slot }) => {
                        pools.started(pool, slot, next);
                        next += 1;
                        prop_assert_eq!(pools.all().count(), running.len() + 1);
                    }
                    Ok(PrivilegedCommand::Signal { pool, process, .. }) => {
                        prop_assert!(running.iter().any(|one| one.pool == pool && one.process == process));
                        pools.ended(process);
                    }
                    Ok(PrivilegedCommand::Replace { pool, .. }) => prop_assert!(pools.processes(pool).count() > 0),
                    Ok(PrivilegedCommand::Connect) => prop_assert!(pools.all().eq(running)),
                    Err(_) => {}
                }
                prop_assert!(pools.processes(0).count() <= 1 && pools.processes(1).count() <= 3);
            }
        }
    }
}
