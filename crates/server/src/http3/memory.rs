//! The memory that the client of one connection can make Galley use: its windows, heads that are incomplete, and output that waits.
//!
//! Everything that depends on the client's behavior is reserved in the budget of HTTP/2 and HTTP/3 streams: the receive window while a
//! request is incomplete, and windows that have grown. Only what every connection has is not: the send window that it begins with, and
//! the receive window as long as there is no request. If the budget is used, windows do not grow, and incomplete requests are rejected.

use galley_cache::budget::{MemoryBudget, Reservation};

use super::settings::{MAX_RECEIVE_WINDOW, MAX_SEND_WINDOW, RECEIVE_WINDOW, SEND_WINDOW};

/// The reservations of one connection.
#[derive(Debug)]
pub(super) struct Http3Memory {
    budget: MemoryBudget,
    /// For the receive window, heads and output.
    held: Option<Reservation>,
    /// For the part of the send window that has grown.
    sending: Option<Reservation>,
    receive_window: u64,
}

impl Http3Memory {
    /// The memory of a new connection, within `budget`.
    pub(super) fn new(budget: &MemoryBudget) -> Self {
        Self {
            budget: budget.clone(),
            held: None,
            sending: None,
            receive_window: RECEIVE_WINDOW,
        }
    }

    /// The bytes that the client may send ahead.
    pub(super) fn receive_window(&self) -> u64 {
        self.receive_window
    }

    /// Holds exactly `bytes`. False: that is too much, and as much as before is held.
    pub(super) fn hold(&mut self, bytes: u64) -> bool {
        let held = self.held.as_ref().map_or(0, Reservation::bytes);
        if bytes > held {
            let free = self.budget.limit().saturating_sub(self.budget.used());
            let more = bytes - held;
            return more <= free / SHARE_DIVISOR && grow(&mut self.held, &self.budget, more);
        }
        if bytes == 0 {
            self.held = None;
        } else if let Some(held) = &mut self.held {
            held.shrink_to(bytes);
        }
        true
    }

    /// The receive window for a request body, if it grows now.
    pub(super) fn widen_receiving(&mut self) -> Option<u64> {
        let more = MAX_RECEIVE_WINDOW.saturating_sub(self.receive_window);
        if more == 0 || !self.may_widen(more) || !grow(&mut self.held, &self.budget, more) {
            return None;
        }
        self.receive_window = MAX_RECEIVE_WINDOW;
        Some(MAX_RECEIVE_WINDOW)
    }

    /// The send window for a path that takes `congestion_window` bytes at a time, if it grows now.
    pub(super) fn widen_sending(&mut self, congestion_window: u64) -> Option<u64> {
        let wanted = congestion_window.saturating_mul(2).min(MAX_SEND_WINDOW);
        let held = self.sending.as_ref().map_or(0, Reservation::bytes);
        let more = wanted.saturating_sub(SEND_WINDOW + held);
        // In few steps.
        let grows = more >= SEND_WINDOW
            && self.may_widen(more)
            && grow(&mut self.sending, &self.budget, more);
        grows.then_some(wanted)
    }

    /// Releases the windows of a connection without a request. True if they had grown.
    pub(super) fn narrow(&mut self) -> bool {
        let had_grown = self.sending.is_some() || self.receive_window > RECEIVE_WINDOW;
        self.held = None;
        self.sending = None;
        self.receive_window = RECEIVE_WINDOW;
        had_grown
    }

    /// Whether a window may grow: half of the budget is for streams, and the rest is shared.
    fn may_widen(&self, more: u64) -> bool {
        let for_windows = self.budget.limit() / 2;
        more <= for_windows.saturating_sub(self.budget.used()) / SHARE_DIVISOR
    }
}

fn grow(place: &mut Option<Reservation>, budget: &MemoryBudget, more: u64) -> bool {
    match place {
        Some(held) => held.try_grow(more).is_ok(),
        none => {
            *none = budget.try_reserve(more);
            none.is_some()
        }
    }
}

/// The divisor of the free memory for one connection, as for streams of HTTP/2.
const SHARE_DIVISOR: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_reserved_and_released() {
        let budget = MemoryBudget::new(16 << 20);
        let mut memory = Http3Memory::new(&budget);
        assert_eq!(memory.widen_sending(SEND_WINDOW / 2), None);
        assert_eq!(memory.widen_sending(SEND_WINDOW), Some(2 * SEND_WINDOW));
        assert_eq!(budget.used(), SEND_WINDOW);
        assert!(memory.hold(RECEIVE_WINDOW));
        assert_eq!(memory.widen_receiving(), Some(MAX_RECEIVE_WINDOW));
        assert_eq!(memory.widen_receiving(), None, "only once");
        assert_eq!(budget.used(), SEND_WINDOW + MAX_RECEIVE_WINDOW);
        assert!(memory.hold(memory.receive_window()));
        assert!(memory.narrow() && !memory.narrow());
        assert_eq!(
            (budget.used(), memory.receive_window()),
            (0, RECEIVE_WINDOW)
        );
    }

    #[test]
    fn windows_leave_half_of_the_budget_to_streams() {
        let budget = MemoryBudget::new(16 << 20);
        let mut connections: Vec<_> = (0..100).map(|_| Http3Memory::new(&budget)).collect();
        for connection in &mut connections {
            let mut path = SEND_WINDOW;
            while path < MAX_SEND_WINDOW {
                let _ = connection.widen_sending(path);
                path *= 2;
            }
            let _ = connection.widen_receiving();
        }
        assert!(budget.used() > 4 << 20 && budget.used() <= 8 << 20);
        drop(connections);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_connection_gets_at_most_a_quarter_of_what_is_free() {
        let budget = MemoryBudget::new(1000);
        let mut connections = [Http3Memory::new(&budget), Http3Memory::new(&budget)];
        assert!(!connections[0].hold(251));
        assert!(connections[0].hold(250));
        assert!(!connections[1].hold(188) && connections[1].hold(187));
        assert!(connections[0].hold(10));
        assert_eq!(budget.used(), 197);
        assert!(connections[0].hold(0));
        assert_eq!(budget.used(), 187);
    }
}
