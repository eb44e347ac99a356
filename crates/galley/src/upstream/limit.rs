//! The limit on exchanges at once, with its queue.
//!
//! Places are given in the order of asking. A request that finds the queue full, or waits longer than the queue allows,
//! gets [`Failure::Overload`] at once: PHP that is behind gains nothing from a longer line.
//!
//! The number of places may change while requests are under way ([`Limit::bounded_by`]): nobody loses the place that he has.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use galley_store::fill::Failure;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A number of places and a bounded line in front of them.
pub(super) struct Limit {
    places: Arc<Semaphore>,
    bound: Bound,
    waiting: Rc<Cell<usize>>,
    queue: usize,
    patience: Duration,
}

/// One place; dropping it lets the next in, unless there have come to be too many.
pub(super) struct Place {
    permit: Option<OwnedSemaphorePermit>,
    bound: Bound,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.bound.surplus() > 0
            && let Some(permit) = self.permit.take()
        {
            permit.forget();
            self.bound.lower(1);
        }
    }
}

/// How many places there are, and how many there may be.
#[derive(Clone)]
struct Bound {
    most: usize,
    /// A lower number, written by whoever runs the upstream.
    live: Option<Arc<AtomicUsize>>,
    /// Those that exist: taken, or free in the semaphore.
    total: Rc<Cell<usize>>,
}

impl Bound {
    fn wanted(&self) -> usize {
        let live = self.live.as_ref();
        let live = live.map_or(self.most, |live| live.load(Ordering::Relaxed));
        live.clamp(1, self.most)
    }

    fn surplus(&self) -> usize {
        self.total.get().saturating_sub(self.wanted())
    }

    fn lower(&self, by: usize) {
        self.total.set(self.total.get().saturating_sub(by));
    }
}

impl Limit {
    pub(super) fn new(places: usize, queue: usize, patience: Duration) -> Self {
        let total = places.max(1);
        Self {
            places: Arc::new(Semaphore::new(total)),
            bound: Bound {
                most: total,
                live: None,
                total: Rc::new(Cell::new(total)),
            },
            waiting: Rc::new(Cell::new(0)),
            queue,
            patience,
        }
    }

    /// With fewer places than it was made with, as long as `live` says so.
    pub(super) fn bounded_by(mut self, live: Option<Arc<AtomicUsize>>) -> Self {
        self.bound.live = live;
        self.fit();
        self
    }

    /// Takes away free places that are too many, and adds what may be added. To be called now and then.
    pub(super) fn fit(&self) {
        let surplus = self.bound.surplus();
        if surplus > 0 {
            self.bound.lower(self.places.forget_permits(surplus));
        }
        let (total, wanted) = (self.bound.total.get(), self.bound.wanted());
        if total < wanted {
            self.places.add_permits(wanted - total);
            self.bound.total.set(wanted);
        }
    }

    /// Waits for a place. Cancel-safe.
    pub(super) async fn enter(&self) -> Result<Place, Failure> {
        self.fit();
        let place = |permit| Place {
            permit: Some(permit),
            bound: self.bound.clone(),
        };
        if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(place(permit));
        }
        if self.waiting.get() >= self.queue {
            return Err(Failure::Overload);
        }
        let _waiting = Waiting::join(&self.waiting);
        match tokio::time::timeout(self.patience, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(place(permit)),
            Ok(Err(_closed)) => Err(Failure::Aborted),
            Err(_elapsed) => Err(Failure::Overload),
        }
    }

    /// All places.
    pub(super) fn total(&self) -> usize {
        self.bound.total.get()
    }

    /// Places taken and requests waiting.
    pub(super) fn load(&self) -> (usize, usize) {
        let total = self.total();
        (
            total - self.places.available_permits().min(total),
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
    async fn the_number_of_places_changes_while_they_are_taken() {
        let live = Arc::new(AtomicUsize::new(2));
        let limit = Limit::new(4, 9, Duration::from_secs(10)).bounded_by(Some(Arc::clone(&live)));
        let (first, second) = (limit.enter().await, limit.enter().await);
        assert!(first.is_ok() && second.is_ok());
        assert_eq!((limit.total(), limit.load()), (2, (2, 0)));
        live.store(3, Ordering::Relaxed);
        let third = limit.enter().await;
        assert_eq!((third.is_ok(), limit.total()), (true, 3));
        // Nobody loses his place, and who waits gets none until there are few enough.
        live.store(0, Ordering::Relaxed);
        let waits = limit.enter();
        tokio::pin!(waits);
        assert!(is_pending(waits.as_mut()).await);
        assert_eq!((limit.total(), limit.load()), (3, (3, 1)));
        drop((first, second));
        assert!(is_pending(waits.as_mut()).await);
        assert_eq!((limit.total(), limit.load()), (1, (1, 1)));
        drop(third);
        let fourth = waits.await;
        assert!(fourth.is_ok());
        // Never more than it was made with.
        live.store(100, Ordering::Relaxed);
        limit.fit();
        assert_eq!((limit.total(), limit.load()), (4, (1, 0)));
    }

    /// Whether a future is not ready when it is asked once.
    async fn is_pending(future: impl Future) -> bool {
        tokio::pin!(future);
        std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_pending()))
            .await
    }

    #[tokio::test(start_paused = true)]
    async fn a_freed_place_goes_to_who_waits() {
        let limit = Limit::new(1, 5, Duration::from_secs(10));
        let first = limit.enter().await;
        let (second, ()) = tokio::join!(limit.enter(), async { drop(first) });
        assert!(second.is_ok());
    }
}
