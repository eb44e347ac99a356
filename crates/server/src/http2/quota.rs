//! Limits the memory that the streams of one connection of HTTP/2 or HTTP/3 may use.
//!
//! A client decides how long its streams last: it can leave a window closed or a body half sent, a hundred times on each of
//! its connections. So each stream that is passed to the library reserves its memory in one budget of the process; if that
//! fails, the stream is rejected (`REFUSED_STREAM`, so that the client may send it again). One connection gets at most a
//! quarter of what is currently free: the more is reserved, the less each connection may have. A connection that then has
//! more, in responses that its client does not read, is closed, so greedy clients free memory for others. Stored bodies are
//! shared and not counted here.

use std::cell::Cell;
use std::rc::Rc;

use galley_cache::budget::{MemoryBudget, Reservation};
use http::HeaderMap;

/// The quota of one connection; see the module.
pub(crate) struct Quota {
    budget: MemoryBudget,
    /// The bytes that the connection's streams have reserved.
    held: Cell<u64>,
    /// The number of streams whose response waits for the client to open a window.
    waiting: Cell<u32>,
    /// The number of streams since the last check that were reset because the client did not open a window.
    starved: Cell<u32>,
}

impl Quota {
    /// A quota within `budget`.
    pub(crate) fn new(budget: &MemoryBudget) -> Rc<Self> {
        Rc::new(Self {
            budget: budget.clone(),
            held: Cell::new(0),
            waiting: Cell::new(0),
            starved: Cell::new(0),
        })
    }

    /// Reserves the memory of a request whose fields need `fields` bytes; `None` if the connection has used its share.
    pub(crate) fn admit(self: &Rc<Self>, fields: u64) -> Option<StreamReservation> {
        let bytes = fields + REQUEST_BYTES;
        let all = self.held.get() + bytes;
        let reservation = (all <= self.share()).then(|| self.budget.try_reserve(bytes))?;
        let reservation = reservation?;
        self.held.set(all);
        Some(StreamReservation {
            reservation,
            fields,
            quota: Rc::clone(self),
        })
    }

    /// The number of bytes that one connection may currently reserve.
    fn share(&self) -> u64 {
        let free = self.budget.limit().saturating_sub(self.budget.used());
        free / SHARE_DIVISOR
    }

    /// Whether the connection uses more than its current share, in responses that its client does not receive.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.is_waiting()
            && self.held.get() > self.share().max(RESPONSE_BYTES * MIN_WAITING_RESPONSES)
    }

    /// Whether a response waits for its client.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.get() > 0
    }

    /// Returns the number of streams that were starved since the last call.
    pub(crate) fn take_starved_count(&self) -> u32 {
        self.starved.take()
    }
}

/// The memory that one stream has reserved, until its end.
pub(crate) struct StreamReservation {
    reservation: Reservation,
    /// The bytes of the request's fields, which are kept for the access record.
    fields: u64,
    quota: Rc<Quota>,
}

impl StreamReservation {
    /// Reduces the reservation to that of a response, because the request has been handled.
    pub(crate) fn hold_response(&mut self) {
        let before = self.reservation.bytes();
        self.reservation.shrink_to(self.fields + RESPONSE_BYTES);
        let released = before - self.reservation.bytes();
        self.quota.held.set(self.quota.held.get() - released);
    }

    /// Counts the stream as waiting for its client, until the guard is dropped.
    pub(crate) fn wait(&self) -> ReservationWait<'_> {
        let waiting = &self.quota.waiting;
        waiting.set(waiting.get() + 1);
        ReservationWait(waiting)
    }

    /// Records that the client opened no window in time.
    pub(crate) fn starve(&self) {
        let starved = &self.quota.starved;
        starved.set(starved.get().saturating_add(1));
    }
}

impl Drop for StreamReservation {
    fn drop(&mut self) {
        let held = &self.quota.held;
        held.set(held.get() - self.reservation.bytes());
    }
}

/// Counts a waiting stream; see [`StreamReservation::wait`].
pub(crate) struct ReservationWait<'q>(&'q Cell<u32>);

impl Drop for ReservationWait<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// The memory of fields, in bytes. Hundreds of one-byte fields fit into a few hundred bytes (the "HTTP/2 bomb", CVE-2026-49975).
pub(crate) fn bytes_of(fields: &HeaderMap) -> u64 {
    let bytes: usize = fields
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + FIELD_BYTES)
        .sum();
    bytes as u64
}

/// The memory of a field in a map in addition to its bytes, including the spare capacity of the map.
const FIELD_BYTES: usize = 160;

/// The memory of a request until its response is known, without its fields: its task and the library's part.
pub(crate) const REQUEST_BYTES: u64 = 16 * 1024;

/// The memory of a response that waits for a window.
pub(crate) const RESPONSE_BYTES: u64 = 6 * 1024;

/// The number of responses that may wait on a connection for any usage of others: what a visitor downloads at one time.
const MIN_WAITING_RESPONSES: u64 = 4;

/// The divisor of the free memory for one connection.
const SHARE_DIVISOR: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greedy_connections_leave_memory_for_others() {
        let budget = MemoryBudget::new(200 * REQUEST_BYTES);
        let mut held = Vec::new();
        let mut last = usize::MAX;
        for connection in 0..20 {
            let quota = Quota::new(&budget);
            let before = held.len();
            while let Some(one) = quota.admit(0) {
                held.push(one);
            }
            let got = held.len() - before;
            assert!((1..=40).contains(&got), "{got} for connection {connection}");
            assert!(got <= last);
            last = got;
        }
        assert!(budget.used() < budget.limit());
        for one in &mut held {
            one.hold_response();
        }
        assert_eq!(budget.used(), held.len() as u64 * RESPONSE_BYTES);
        let quota = Rc::clone(&held[0].quota);
        held.clear();
        assert_eq!((budget.used(), quota.held.get()), (0, 0));
    }

    #[test]
    fn fields_are_counted_by_number_and_length() {
        let budget = MemoryBudget::new(1 << 20);
        let quota = Quota::new(&budget);
        let mut fields = HeaderMap::new();
        for _ in 0..900 {
            fields.append("cookie", http::HeaderValue::from_static("a"));
        }
        let mut held = quota.admit(bytes_of(&fields)).unwrap();
        assert!(budget.used() > 900 * 160 + REQUEST_BYTES);
        held.hold_response();
        assert!(budget.used() > 900 * 160, "the record needs some of them");
        assert!(quota.admit(bytes_of(&fields)).is_none());
    }

    #[test]
    fn a_stream_waits_until_its_guard_is_dropped() {
        let quota = Quota::new(&MemoryBudget::new(1 << 20));
        let held = quota.admit(0).unwrap();
        assert!(!quota.is_waiting());
        let waits = held.wait();
        assert!(quota.is_waiting());
        drop(waits);
        assert!(!quota.is_waiting());
        held.starve();
        assert_eq!(
            (quota.take_starved_count(), quota.take_starved_count()),
            (1, 0)
        );
    }
}
