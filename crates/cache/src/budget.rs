//! One memory limit for everything that contains bodies.
//!
//! Bytes are reserved before they are used, and released when the [`Reservation`] is dropped. So the limit is enforced on
//! admission, and needs no background task. Stored entries, fills, and bodies that slow readers still use share the same
//! [`MemoryBudget`].
//!
//! The budget does not evict. A caller that gets no reservation streams the response and does not store it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The reservation would exceed the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory limit is reached")]
pub struct OutOfBudget;

/// A limit on the bytes in use. Clones share the limit.
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    shared: Arc<BudgetShared>,
}

#[derive(Debug)]
struct BudgetShared {
    limit: u64,
    /// Changed by each reservation and release. Never above `limit`.
    used: AtomicU64,
}

impl MemoryBudget {
    /// A budget of `limit_bytes` without reservations.
    pub fn new(limit_bytes: u64) -> Self {
        Self {
            shared: Arc::new(BudgetShared {
                limit: limit_bytes,
                used: AtomicU64::new(0),
            }),
        }
    }

    /// The maximum number of reserved bytes.
    pub fn limit(&self) -> u64 {
        self.shared.limit
    }

    /// The number of reserved bytes.
    pub fn used(&self) -> u64 {
        self.shared.used.load(Ordering::Relaxed)
    }

    /// Reserves `bytes`; `None` if that would exceed the limit. Never waits.
    pub fn try_reserve(&self, bytes: u64) -> Option<Reservation> {
        self.take(bytes).ok()?;
        Some(Reservation {
            budget: self.clone(),
            bytes,
        })
    }

    fn take(&self, bytes: u64) -> Result<(), OutOfBudget> {
        let fits = |used: u64| {
            used.checked_add(bytes)
                .filter(|&sum| sum <= self.shared.limit)
        };
        match self
            .shared
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
        {
            Ok(_) => Ok(()),
            Err(_) => Err(OutOfBudget),
        }
    }

    fn release(&self, bytes: u64) {
        self.shared.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Reserved bytes of a [`MemoryBudget`]. Dropping the reservation releases them.
#[derive(Debug)]
pub struct Reservation {
    budget: MemoryBudget,
    bytes: u64,
}

impl Reservation {
    /// The number of reserved bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reserves `more` bytes. Changes nothing if that would exceed the limit.
    pub fn try_grow(&mut self, more: u64) -> Result<(), OutOfBudget> {
        self.budget.take(more)?;
        self.bytes += more;
        Ok(())
    }

    /// As [`Reservation::try_grow`], for what one client may have reserved while it reads: at least as much as it then has reserved
    /// stays free, and never less than a sixteenth of the limit, so that slow clients do not take the memory that the pages of all
    /// others need. Stored entries leave an eighth free.
    pub fn try_grow_for_client(&mut self, more: u64) -> Result<(), OutOfBudget> {
        let limit = self.budget.limit();
        let free = limit.saturating_sub(self.budget.used());
        let left = self.bytes.saturating_add(more).max(limit / 16);
        if more > 0 && left.saturating_add(more) > free {
            return Err(OutOfBudget);
        }
        self.try_grow(more)
    }

    /// Releases everything above `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.bytes -= surplus;
        self.budget.release(surplus);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_when_reserving() {
        let budget = MemoryBudget::new(100);
        let first = budget.try_reserve(60).unwrap();
        assert!(budget.try_reserve(41).is_none());
        assert!(budget.try_reserve(u64::MAX).is_none(), "no overflow");
        let mut second = budget.try_reserve(40).unwrap();
        assert_eq!(second.try_grow(1), Err(OutOfBudget));
        assert_eq!(second.bytes(), 40);
        drop(first);
        assert_eq!(second.try_grow(60), Ok(()));
        second.shrink_to(10);
        second.shrink_to(90);
        assert_eq!((second.bytes(), budget.used()), (10, 10));
        drop(second);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_client_leaves_as_much_free_as_it_reserves() {
        let budget = MemoryBudget::new(100);
        let mut clients = Vec::new();
        for (wanted, expected) in [(51, 0), (50, 50), (26, 0), (25, 25), (13, 0), (12, 12)] {
            let mut client = budget.try_reserve(0).unwrap();
            let _ = client.try_grow_for_client(wanted);
            assert_eq!(client.bytes(), expected);
            clients.push(client);
        }
        assert_eq!(
            (clients[5].try_grow_for_client(1), budget.used()),
            (Err(OutOfBudget), 87)
        );
        assert_eq!(clients[0].try_grow_for_client(0), Ok(()));
    }

    #[test]
    fn many_small_clients_leave_a_sixteenth_free() {
        let budget = MemoryBudget::new(1_600);
        let mut clients: Vec<_> = (0..2_000).map(|_| budget.try_reserve(0).unwrap()).collect();
        for client in &mut clients {
            let _ = client.try_grow_for_client(1);
        }
        assert_eq!(budget.used(), 1_500);
        assert!(budget.try_reserve(100).is_some(), "for the page of another");
    }

    #[test]
    fn threads_together_never_pass_it() {
        let budget = MemoryBudget::new(1_000);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for size in 0..5_000_u64 {
                        let held = budget.try_reserve(size % 400);
                        assert!(budget.used() <= 1_000);
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(budget.used(), 0);
    }
}
