//! The limit on exchanges at once, with its queue.
//!
//! Places are given in the order of asking. A request that finds the queue full, or waits longer than the queue allows,
//! gets [`Failure::Overload`] at once: PHP that is behind gains nothing from a longer line.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use galley_store::fill::Failure;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A number of places and a bounded line in front of them.
pub(super) struct Limit {
    places: Arc<Semaphore>,
    total: usize,
    waiting: Rc<Cell<usize>>,
    queue: usize,
    patience: Duration,
}

/// One place; dropping it lets the next in.
pub(super) struct Place(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

impl Limit {
    pub(super) fn new(places: usize, queue: usize, patience: Duration) -> Self {
        let total = places.max(1);
        Self {
            places: Arc::new(Semaphore::new(total)),
            total,
            waiting: Rc::new(Cell::new(0)),
            queue,
            patience,
        }
    }

    /// Waits for a place. Cancel-safe.
    pub(super) async fn enter(&self) -> Result<Place, Failure> {
        if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(Place(permit));
        }
        if self.waiting.get() >= self.queue {
            return Err(Failure::Overload);
        }
        let _waiting = Waiting::join(&self.waiting);
        match tokio::time::timeout(self.patience, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(Place(permit)),
            Ok(Err(_closed)) => Err(Failure::Aborted),
            Err(_elapsed) => Err(Failure::Overload),
        }
    }

    /// All places.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Places taken and requests waiting.
    pub(super) fn load(&self) -> (usize, usize) {
        (
            self.total - self.places.available_permits().min(self.total),
            self.waiting.get(),
        )
    }
}

struct Waiting(Rc<Cell<usize>>);

impl Waiting {
    fn join(count: &Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self(Rc::clone(count))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_and_a_long_wait_are_refused() {
        let limit = Limit::new(1, 1, Duration::from_secs(10));
        let first = limit.enter().await;
        assert!(first.is_ok());
        let (second, third) = tokio::join!(limit.enter(), limit.enter());
        assert!(
            matches!(second, Err(Failure::Overload)),
            "waited ten seconds"
        );
        assert!(
            matches!(third, Err(Failure::Overload)),
            "found the queue full"
        );
        assert_eq!(limit.load(), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_freed_place_goes_to_who_waits() {
        let limit = Limit::new(1, 5, Duration::from_secs(10));
        let first = limit.enter().await;
        let (second, ()) = tokio::join!(limit.enter(), async { drop(first) });
        assert!(second.is_ok());
    }
}
