//! The number of connections of each client.
//!
//! Each connection is counted in two rows of fixed size, at positions that a hash with a random key of the process selects; a
//! client's count is the smaller of the two. So it is never too small, and too large only if both positions are shared with other
//! clients. Without the key no client can arrange that, and ordinary clients are far below the limit.
//!
//! All threads update the rows, when a connection begins and ends.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use galley_policy::class::Network;
use siphasher::sip::SipHasher13;

pub(super) struct ClientConnections {
    rows: [ClientRow; 2],
    /// The maximum for one client; 0: no limit.
    most: u32,
}

struct ClientRow {
    counts: Box<[AtomicU32]>,
    key: u64,
}

/// The count of one connection, which ends when this is dropped.
pub struct ConnectionSlot(Option<(Arc<ClientConnections>, [usize; 2])>);

impl ClientConnections {
    pub(super) fn new(most: usize) -> Self {
        Self {
            rows: [ClientRow::new(), ClientRow::new()],
            most: u32::try_from(most).unwrap_or(u32::MAX),
        }
    }

    pub(super) fn connection_slot(self: &Arc<Self>, client: Network) -> Option<ConnectionSlot> {
        if self.most == 0 {
            return Some(ConnectionSlot::uncounted());
        }
        let slots = self.rows.each_ref().map(|row| row.slot(client));
        let slot = ConnectionSlot(Some((Arc::clone(self), slots)));
        let before = self.each(slots, |count| count.fetch_add(1, Ordering::Relaxed));
        (before < self.most).then_some(slot)
    }

    fn each(&self, slots: [usize; 2], act: impl Fn(&AtomicU32) -> u32) -> u32 {
        let counts = self.rows.iter().zip(slots);
        let counts = counts.filter_map(|(row, place)| row.counts.get(place));
        counts.map(act).min().unwrap_or_default()
    }
}

impl ClientRow {
    fn new() -> Self {
        Self {
            counts: (0..ROW_SIZE).map(|_| AtomicU32::new(0)).collect(),
            key: u64::from_ne_bytes(galley_sys::random_bytes()),
        }
    }

    fn slot(&self, client: Network) -> usize {
        let mut hasher = SipHasher13::new_with_keys(self.key, !self.key);
        client.hash(&mut hasher);
        usize::try_from(hasher.finish()).unwrap_or_default() % ROW_SIZE
    }
}

impl ConnectionSlot {
    /// The slot of a client whose connections are not counted.
    pub fn uncounted() -> Self {
        Self(None)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        if let Some((connections, slots)) = self.0.take() {
            connections.each(slots, |count| count.fetch_sub(1, Ordering::Relaxed));
        }
    }
}

/// The number of counters in a row; both rows have 512 KiB.
const ROW_SIZE: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_a_connection_limit() {
        let connections = Arc::new(ClientConnections::new(3));
        let one = Network::V4(1);
        let mut seats: Vec<ConnectionSlot> = (0..3)
            .map(|_| connections.connection_slot(one).unwrap())
            .collect();
        assert!(
            connections.connection_slot(one).is_none()
                && connections.connection_slot(one).is_none()
        );
        assert!(connections.connection_slot(Network::V4(2)).is_some());
        seats.pop();
        let again = connections.connection_slot(one);
        assert!(again.is_some() && connections.connection_slot(one).is_none());
        drop((seats, again));
        assert_eq!(
            (0..5)
                .filter_map(|_| connections.connection_slot(one).map(std::mem::forget))
                .count(),
            3
        );
        let any = Arc::new(ClientConnections::new(0));
        assert!((0..100).all(|_| any.connection_slot(one).is_some()));
    }
}
