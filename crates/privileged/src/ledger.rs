//! Records which process runs in which pool, and decides which commands are executed.
//!
//! Pools and their slots are fixed when the ledger is created. No command adds a pool, a slot, or a process.

use crate::packet::PrivilegedOrder;

/// The processes of all pools.
#[derive(Clone, Debug)]
pub struct PoolLedger {
    pools: Vec<Vec<Option<u32>>>,
}

/// A running main process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// The number of the pool.
    pub pool: u32,
    /// The slot in the pool.
    pub place: u32,
    /// The process id.
    pub process: u32,
}

/// Why a command is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderRefusal {
    /// The packet is not a valid command.
    NotAnOrder,
    /// No pool has this number.
    NoSuchPool,
    /// The pool has no such slot.
    NoSuchPlace,
    /// The slot has a process already.
    Taken,
    /// The process is not a main process of the pool, or the worker is one.
    NotItsProcess,
    /// The pool has no main process, and so no workers.
    Empty,
}

impl OrderRefusal {
    /// The text for log messages.
    pub fn text(self) -> &'static str {
        match self {
            Self::NotAnOrder => "it is not a command",
            Self::NoSuchPool => "there is no such pool",
            Self::NoSuchPlace => "the pool has no such slot",
            Self::Taken => "a process of the pool runs there",
            Self::NotItsProcess => "the process is not the pool's",
            Self::Empty => "nothing of the pool runs",
        }
    }
}

impl PoolLedger {
    /// Creates pools with this number of slots each, for one process each.
    pub fn new(places: impl IntoIterator<Item = usize>) -> Self {
        let pools = places.into_iter().map(|places| vec![None; places]);
        Self {
            pools: pools.collect(),
        }
    }

    /// Parses a command, and checks that it may be executed now. Changes nothing. The caller must still find a worker that is to be
    /// replaced among the children of [`PoolLedger::processes`].
    pub fn judge(&self, packet: &[u8]) -> Result<PrivilegedOrder, OrderRefusal> {
        let order = PrivilegedOrder::read(packet).ok_or(OrderRefusal::NotAnOrder)?;
        match order {
            PrivilegedOrder::Start { pool, place } => {
                let places = self.pool(pool)?;
                let place = usize::try_from(place).map_err(|_| OrderRefusal::NoSuchPlace)?;
                match places.get(place) {
                    None => Err(OrderRefusal::NoSuchPlace),
                    Some(Some(_)) => Err(OrderRefusal::Taken),
                    Some(None) => Ok(order),
                }
            }
            PrivilegedOrder::Signal { pool, process, .. } => {
                let is_its = self.pool(pool)?.contains(&Some(process));
                is_its.then_some(order).ok_or(OrderRefusal::NotItsProcess)
            }
            PrivilegedOrder::Replace { pool, worker } => {
                let places = self.pool(pool)?;
                if places.iter().all(Option::is_none) {
                    return Err(OrderRefusal::Empty);
                }
                let is_main = places.contains(&Some(worker));
                (!is_main)
                    .then_some(order)
                    .ok_or(OrderRefusal::NotItsProcess)
            }
            PrivilegedOrder::Connect => Ok(order),
        }
    }

    /// The process in a slot of a pool.
    pub fn process(&self, pool: u32, place: u32) -> Option<u32> {
        let place = usize::try_from(place).ok()?;
        self.pool(pool).ok()?.get(place).copied().flatten()
    }

    /// Records a process that was started for a free slot.
    pub fn started(&mut self, pool: u32, place: u32, process: u32) {
        let places = usize::try_from(pool)
            .ok()
            .and_then(|pool| self.pools.get_mut(pool));
        let place = usize::try_from(place).ok();
        if let Some(free) = places.zip(place).and_then(|(all, at)| all.get_mut(at)) {
            *free = Some(process);
        }
    }

    /// Records that a process has ended, which frees its slot. Returns the number of its pool; `None`: the process was unknown.
    pub fn ended(&mut self, process: u32) -> Option<u32> {
        for (number, places) in (0..).zip(&mut self.pools) {
            if let Some(place) = places.iter_mut().find(|place| **place == Some(process)) {
                *place = None;
                return Some(number);
            }
        }
        None
    }

    /// The running main processes of a pool.
    pub fn processes(&self, pool: u32) -> impl Iterator<Item = u32> {
        let places = self.pool(pool).unwrap_or_default();
        places.iter().copied().flatten()
    }

    /// All running main processes.
    pub fn all(&self) -> impl Iterator<Item = Running> {
        let pools = (0..).zip(&self.pools);
        pools.flat_map(|(pool, places)| {
            (0..).zip(places).filter_map(move |(place, process)| {
                let process = (*process)?;
                Some(Running {
                    pool,
                    place,
                    process,
                })
            })
        })
    }

    fn pool(&self, number: u32) -> Result<&[Option<u32>], OrderRefusal> {
        let pool = usize::try_from(number)
            .ok()
            .and_then(|at| self.pools.get(at));
        pool.map(Vec::as_slice).ok_or(OrderRefusal::NoSuchPool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::KillSignal;
    use proptest::prelude::*;

    fn judged(ledger: &PoolLedger, order: PrivilegedOrder) -> Option<OrderRefusal> {
        ledger.judge(&order.bytes()).err()
    }

    #[test]
    fn commands_only_affect_processes_of_the_pools() {
        let mut ledger = PoolLedger::new([1, 2]);
        let start = |pool, place| PrivilegedOrder::Start { pool, place };
        assert_eq!(judged(&ledger, start(0, 0)), None);
        assert_eq!(judged(&ledger, start(1, 1)), None);
        assert_eq!(
            judged(&ledger, start(0, 1)),
            Some(OrderRefusal::NoSuchPlace)
        );
        assert_eq!(judged(&ledger, start(2, 0)), Some(OrderRefusal::NoSuchPool));
        let replace = |pool, worker| PrivilegedOrder::Replace { pool, worker };
        assert_eq!(judged(&ledger, replace(0, 12)), Some(OrderRefusal::Empty));
        ledger.started(0, 0, 10);
        ledger.started(1, 1, 11);
        assert_eq!(judged(&ledger, start(0, 0)), Some(OrderRefusal::Taken));
        assert_eq!(judged(&ledger, start(1, 0)), None);
        let signal = |pool, process| PrivilegedOrder::Signal {
            pool,
            process,
            how: KillSignal::Kill,
        };
        assert_eq!(judged(&ledger, signal(0, 10)), None);
        for (pool, process) in [(0, 11), (1, 10), (0, 1), (1, 12)] {
            let refused = judged(&ledger, signal(pool, process));
            assert_eq!(refused, Some(OrderRefusal::NotItsProcess));
        }
        assert_eq!(judged(&ledger, replace(0, 12)), None);
        assert_eq!(
            judged(&ledger, replace(0, 10)),
            Some(OrderRefusal::NotItsProcess)
        );
        let running = ledger.all().map(|one| (one.pool, one.place, one.process));
        assert_eq!(running.collect::<Vec<_>>(), [(0, 0, 10), (1, 1, 11)]);
        assert_eq!(
            (ledger.process(1, 1), ledger.process(1, 0)),
            (Some(11), None)
        );
        assert_eq!((ledger.process(1, 2), ledger.process(2, 0)), (None, None));
        assert_eq!(ledger.ended(10), Some(0));
        assert_eq!(ledger.ended(10), None);
        assert_eq!(
            judged(&ledger, signal(0, 10)),
            Some(OrderRefusal::NotItsProcess)
        );
        assert_eq!(judged(&ledger, start(0, 0)), None);
    }

    proptest! {
        /// Whatever is sent, no more processes run than there are slots, and only running processes are signaled.
        #[test]
        fn no_packets_exceed_the_pools(packets in prop::collection::vec((0_u8..6, 0_u8..5, 0_u32..4, 0_u32..12), 0..60)) {
            let mut ledger = PoolLedger::new([1, 3]);
            let mut next = 1;
            for (kind, how, pool, number) in packets {
                let mut bytes = [0; crate::BYTES];
                bytes[..2].copy_from_slice(&[kind, how]);
                bytes[4..8].copy_from_slice(&pool.to_le_bytes());
                bytes[if kind == 1 { 12 } else { 8 }] = u8::try_from(number).unwrap();
                let running: Vec<_> = ledger.all().collect();
                match ledger.judge(&bytes) {
                    Ok(PrivilegedOrder::Start { pool, place }) => {
                        ledger.started(pool, place, next);
                        next += 1;
                        prop_assert_eq!(ledger.all().count(), running.len() + 1);
                    }
                    Ok(PrivilegedOrder::Signal { pool, process, .. }) => {
                        prop_assert!(running.iter().any(|one| one.pool == pool && one.process == process));
                        ledger.ended(process);
                    }
                    Ok(PrivilegedOrder::Replace { pool, .. }) => prop_assert!(ledger.processes(pool).count() > 0),
                    Ok(PrivilegedOrder::Connect) => prop_assert!(ledger.all().eq(running)),
                    Err(_) => {}
                }
                prop_assert!(ledger.processes(0).count() <= 1 && ledger.processes(1).count() <= 3);
            }
        }
    }
}
