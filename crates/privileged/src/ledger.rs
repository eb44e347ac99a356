//! Which process runs in which pool, and which commands are executed.
//!
//! Pools and their places are fixed when the ledger is made. No command adds a pool, a place, or a process.

use crate::packet::PrivilegedOrder;

/// Of all pools.
#[derive(Clone, Debug)]
pub struct PoolLedger {
    pools: Vec<Vec<Option<u32>>>,
}

/// A main process that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// Number of its pool.
    pub pool: u32,
    /// Its place there.
    pub place: u32,
    /// The process.
    pub process: u32,
}

/// Why a command is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderRefusal {
    /// Its bytes are invalid.
    NotAnOrder,
    /// No pool has this number.
    NoSuchPool,
    /// The pool has no such place.
    NoSuchPlace,
    /// A process is there already.
    Taken,
    /// The process is not a main process of the pool.
    NotItsProcess,
    /// The pool has no process that could have workers.
    Empty,
}

impl OrderRefusal {
    /// The sentence for it.
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
    /// Pools by their number, with how many processes each may have at a time.
    pub fn new(places: impl IntoIterator<Item = usize>) -> Self {
        let pools = places.into_iter().map(|places| vec![None; places]);
        Self {
            pools: pools.collect(),
        }
    }

    /// The command of a packet, if it may be executed now. Changes nothing. A worker that is to be replaced must still be
    /// found among the children of [`PoolLedger::processes`].
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

    /// The process that runs in a place of a pool.
    pub fn process(&self, pool: u32, place: u32) -> Option<u32> {
        let place = usize::try_from(place).ok()?;
        self.pool(pool).ok()?.get(place).copied().flatten()
    }

    /// A process that was started for a place which was free.
    pub fn started(&mut self, pool: u32, place: u32, process: u32) {
        let places = usize::try_from(pool)
            .ok()
            .and_then(|pool| self.pools.get_mut(pool));
        let place = usize::try_from(place).ok();
        if let Some(free) = places.zip(place).and_then(|(all, at)| all.get_mut(at)) {
            *free = Some(process);
        }
    }

    /// A process has ended: its place is free again. Returns the pool's number; `None` if it was unknown.
    pub fn ended(&mut self, process: u32) -> Option<u32> {
        for (number, places) in (0..).zip(&mut self.pools) {
            if let Some(place) = places.iter_mut().find(|place| **place == Some(process)) {
                *place = None;
                return Some(number);
            }
        }
        None
    }

    /// The main processes of a pool that run.
    pub fn processes(&self, pool: u32) -> impl Iterator<Item = u32> {
        let places = self.pool(pool).unwrap_or_default();
        places.iter().copied().flatten()
    }

    /// All main processes that run.
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
    use crate::packet::How;
    use proptest::prelude::*;

    fn judged(ledger: &PoolLedger, order: PrivilegedOrder) -> Option<OrderRefusal> {
        ledger.judge(&order.bytes()).err()
    }

    #[test]
    fn orders_are_about_ones_own() {
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
            how: How::Kill,
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
        /// Whatever is sent, no more run than there are places, and only running processes are signalled.
        #[test]
        fn no_bytes_go_beyond_the_pools(packets in prop::collection::vec((0_u8..6, 0_u8..5, 0_u32..4, 0_u32..12), 0..60)) {
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
