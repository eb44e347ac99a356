//! Limits on clients that the nodes count together.
//!
//! Each node counts locally, and no request waits for the engine. Ten times a second a node appends its clients' charges to a
//! stream, and adds those of other nodes to its own counts. So other nodes know a charge within 0.2 s, and until then
//! each node may grant its remaining allowance. A lost charge makes a limit wider, never tighter: without the engine each node
//! counts only its own clients.
//!
//! ```text
//! an entry:   n  the run of the node,  c  its charges
//! a charge:   owner (u128, little-endian), ticks (u64, little-endian)
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::stream_id::StreamId;
use galley_sys::Lock;

/// The use of a limit by a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitCharge {
    /// Identifies the client and the limit. The same number on every node.
    pub owner: u128,
    /// The time until the use expires, in ticks of the limit.
    pub ticks: u64,
}

/// Counts the charges of other nodes.
pub trait ChargeSink: Send + Sync {
    /// Counts charges. Never blocks.
    fn charge(&self, charges: &[LimitCharge]);
}

/// Charges of this node's clients that were not sent to the other nodes yet. Written by all threads of the server, read by the
/// exchange.
#[derive(Default)]
pub(crate) struct LimitQueue {
    charges: Lock<Vec<LimitCharge>>,
    sink: Lock<Option<Arc<dyn ChargeSink>>>,
    /// Whether charges are sent. Written by the exchange.
    is_connected: AtomicBool,
}

impl LimitQueue {
    /// Adds a charge, if charges are sent and the queue is not full.
    pub(crate) fn push(&self, charge: LimitCharge) {
        if !self.is_connected.load(Ordering::Relaxed) {
            return;
        }
        let mut charges = self.charges.lock();
        if charges.len() < MAX_WAITING {
            charges.push(charge);
        }
    }

    /// Sets the sink for charges of other nodes; `None`: limits are not shared.
    pub(crate) fn set_sink(&self, sink: Option<Arc<dyn ChargeSink>>) {
        *self.sink.lock() = sink;
    }

    /// The sink for charges of other nodes; `None`: limits are not shared.
    pub(crate) fn sink(&self) -> Option<Arc<dyn ChargeSink>> {
        self.sink.lock().clone()
    }

    /// Sets whether charges are sent. Drops queued charges, because they may be old.
    pub(crate) fn set_connected(&self, is_connected: bool) {
        drop(self.take());
        self.is_connected.store(is_connected, Ordering::Relaxed);
    }

    /// Removes the queued charges from the queue, added up for each owner.
    pub(crate) fn take(&self) -> Vec<LimitCharge> {
        let mut charges = self.charges.lock();
        let taken = std::mem::take(&mut *charges);
        drop(charges);
        let mut sums: HashMap<u128, u64> = HashMap::new();
        for charge in taken {
            let sum = sums.entry(charge.owner).or_default();
            *sum = sum.saturating_add(charge.ticks);
        }
        let charges = sums.into_iter();
        charges
            .map(|(owner, ticks)| LimitCharge { owner, ticks })
            .collect()
    }
}

/// An entry of the stream.
pub(crate) struct ChargeEntry {
    pub(crate) id: StreamId,
    pub(crate) node: String,
    pub(crate) charges: Vec<u8>,
}

/// Encodes charges as entries of the stream.
pub(crate) fn entries(charges: &[LimitCharge]) -> Vec<Vec<u8>> {
    charges.chunks(MAX_IN_ENTRY).map(encode).collect()
}

fn encode(charges: &[LimitCharge]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(charges.len() * CHARGE_BYTES);
    for charge in charges {
        bytes.extend_from_slice(&charge.owner.to_le_bytes());
        bytes.extend_from_slice(&charge.ticks.to_le_bytes());
    }
    bytes
}

/// Decodes an entry. Invalid charges are ignored.
pub(crate) fn decode(bytes: &[u8]) -> Vec<LimitCharge> {
    let charges = bytes.chunks_exact(CHARGE_BYTES).take(MAX_IN_ENTRY);
    charges
        .filter_map(|charge| {
            let (owner, rest) = charge.split_first_chunk()?;
            let (ticks, _) = rest.split_first_chunk()?;
            Some(LimitCharge {
                owner: u128::from_le_bytes(*owner),
                ticks: u64::from_le_bytes(*ticks),
            })
        })
        .collect()
}

const CHARGE_BYTES: usize = 16 + 8;

/// The maximum number of queued charges. Further requests of the interval are counted only on this node.
const MAX_WAITING: usize = 10_000;

/// The maximum number of charges in one entry: 1.5 KiB.
const MAX_IN_ENTRY: usize = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn charges_of_one_client_are_added_and_read_back() {
        let queue = LimitQueue::default();
        let charge = |owner, ticks| LimitCharge { owner, ticks };
        queue.push(charge(1, 5));
        assert!(queue.take().is_empty(), "nobody would get it");
        queue.is_connected.store(true, Ordering::Relaxed);
        queue.push(charge(1, 5));
        queue.push(charge(u128::MAX, u64::MAX));
        queue.push(charge(1, 6));
        let mut taken = queue.take();
        taken.sort_by_key(|charge| charge.owner);
        assert_eq!(taken, [charge(1, 11), charge(u128::MAX, u64::MAX)]);
        assert_eq!(decode(&encode(&taken)), taken);
        for _ in 0..2 * MAX_WAITING {
            queue.push(charge(1, 1));
        }
        assert_eq!(queue.take(), [charge(1, MAX_WAITING as u64)]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_panic(bytes: Vec<u8>) {
            prop_assert!(decode(&bytes).len() <= MAX_IN_ENTRY);
        }
    }
}
