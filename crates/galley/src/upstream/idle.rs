//! Connections to an HTTP upstream that are kept without a request.
//!
//! A kept connection occupies a child of a prefork Apache as a request does, also against other sites on it and against
//! people who reach it directly. So they are few (a share of the places that there are now, for each server over all sites that
//! use it), and they are closed when they were not needed for a while. The one used last is used first: the others age. It
//! is shorter than Apache's own five seconds, so that a request seldom meets a connection that is just being closed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::stats::UpstreamStats;

/// The kept connections of one pool.
pub(super) struct Idle<C> {
    /// The oldest first.
    connections: RefCell<Vec<IdleConnection<C>>>,
    /// In hundredths of the places.
    share: usize,
    age: Duration,
    stats: Arc<UpstreamStats>,
    is_watched: Cell<bool>,
}

struct IdleConnection<C> {
    connection: C,
    server: usize,
    since: Instant,
    #[expect(dead_code, reason = "held for its drop")]
    count: IdleCount,
}

impl<C: 'static> Idle<C> {
    pub(super) fn new(share: usize, age: Duration, gauge: &Arc<UpstreamStats>) -> Self {
        Self {
            connections: RefCell::default(),
            share,
            age,
            stats: Arc::clone(gauge),
            is_watched: Cell::new(false),
        }
    }

    /// The connection that was used last, with its server.
    pub(super) fn take(&self) -> Option<(usize, C)> {
        let taken = self.connections.borrow_mut().pop();
        self.publish();
        taken.map(|kept| (kept.server, kept.connection))
    }

    /// Keeps a connection, if there is room for it. `all`: those to this server that anybody keeps. Call within a
    /// `LocalSet`.
    pub(super) fn keep(self: &Rc<Self>, server: usize, connection: C, all: &Arc<AtomicUsize>) {
        let most = self.stats.load().limit.saturating_mul(self.share) / 100;
        let Some(count) = IdleCount::within(all, most) else {
            return;
        };
        let mut kept = self.connections.borrow_mut();
        if kept.len() >= most {
            return;
        }
        kept.push(IdleConnection {
            connection,
            server,
            since: Instant::now(),
            count,
        });
        drop(kept);
        self.publish();
        if !self.is_watched.replace(true) {
            tokio::task::spawn_local(Rc::clone(self).watch());
        }
    }

    /// Closes what was not needed, until none is left.
    async fn watch(self: Rc<Self>) {
        loop {
            let oldest = self.connections.borrow().first().map(|kept| kept.since);
            let Some(oldest) = oldest else { break };
            sleep_until(oldest + self.age).await;
            let now = Instant::now();
            let young = |kept: &IdleConnection<C>| kept.since + self.age > now;
            let mut kept = self.connections.borrow_mut();
            let old = kept.iter().position(young).unwrap_or(kept.len());
            let closed: Vec<IdleConnection<C>> = kept.drain(..old).collect();
            drop(kept);
            drop(closed);
            self.publish();
        }
        self.is_watched.set(false);
    }

    fn publish(&self) {
        self.stats.set_idle(self.connections.borrow().len());
    }
}

/// One of a number of all that exist.
struct IdleCount(Arc<AtomicUsize>);

impl IdleCount {
    fn within(all: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let more = |count: usize| (count < most).then_some(count + 1);
        all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        Some(Self(Arc::clone(all)))
    }
}

impl Drop for IdleCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::limit::tests::spec;

    fn idle(places: usize, share: usize) -> Rc<Idle<u32>> {
        let gauge = Arc::new(UpstreamStats::new(&spec(places, 1, Duration::ZERO)));
        Rc::new(Idle::new(share, Duration::from_secs(4), &gauge))
    }

    fn kept(idle: &Idle<u32>) -> usize {
        assert_eq!(idle.stats.load().idle, idle.connections.borrow().len());
        idle.connections.borrow().len()
    }

    #[tokio::test(start_paused = true)]
    async fn a_share_of_the_places_is_kept_over_all_sites_of_a_server() {
        let local = tokio::task::LocalSet::new();
        let test = async {
            let (one, other) = (idle(20, 25), idle(20, 25));
            let (shared, alone) = (Arc::default(), Arc::default());
            for connection in 0..10 {
                one.keep(0, connection, &shared);
                other.keep(0, connection, &shared);
            }
            assert_eq!(kept(&one) + kept(&other), 5);
            other.keep(1, 10, &alone);
            assert_eq!(other.take(), Some((1, 10)));
            while one.take().is_some() || other.take().is_some() {}
            assert_eq!(
                shared.load(Ordering::Relaxed) + alone.load(Ordering::Relaxed),
                0
            );
            for (places, share, most) in [(20, 0, 0), (3, 25, 0), (4, 25, 1), (8, 100, 8)] {
                let idle = idle(places, share);
                for connection in 0..20 {
                    idle.keep(0, connection, &Arc::default());
                }
                assert_eq!(kept(&idle), most, "{share} of {places}");
            }
        };
        local.run_until(test).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_needed_is_closed_and_the_rest_stays() {
        let local = tokio::task::LocalSet::new();
        let test = async {
            let (idle, all) = (idle(20, 25), Arc::default());
            for connection in 0..3 {
                idle.keep(0, connection, &all);
            }
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let (server, connection) = idle.take().unwrap();
                assert_eq!(connection, 2, "the one that was used last");
                idle.keep(server, connection, &all);
            }
            assert_eq!(kept(&idle), 1);
            tokio::time::sleep(Duration::from_millis(4100)).await;
            assert_eq!(kept(&idle), 0);
            assert_eq!(all.load(Ordering::Relaxed), 0);
            // And it is watched again.
            idle.keep(0, 9, &all);
            tokio::time::sleep(Duration::from_millis(4100)).await;
            assert_eq!(kept(&idle), 0);
        };
        local.run_until(test).await;
    }
}
