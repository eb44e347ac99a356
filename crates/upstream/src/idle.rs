//! Idle connections to an HTTP upstream.
//!
//! An idle connection occupies a child of a prefork Apache as a request does, also at the expense of other sites on that server
//! and of clients that connect to it directly. Their number is therefore small (a share of the current slots, for each server
//! over all sites that use it), and they are closed after a short time. The most recently used connection is reused first, so
//! that the others expire. The time is shorter than Apache's own five seconds, so that a request rarely uses a connection that
//! is just being closed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::stats::UpstreamStats;

/// The idle connections of one pool.
pub(super) struct IdleConnections<C> {
    /// The connections, the oldest first.
    connections: RefCell<Vec<IdleConnection<C>>>,
    /// The maximum share, in hundredths of the current slots.
    share: usize,
    age: Duration,
    stats: Arc<UpstreamStats>,
    has_expiry_task: Cell<bool>,
}

struct IdleConnection<C> {
    connection: C,
    server: usize,
    idle_since: Instant,
    #[expect(dead_code, reason = "held for its drop")]
    count: IdleCount,
}

impl<C: 'static> IdleConnections<C> {
    pub(super) fn new(share: usize, age: Duration, stats: &Arc<UpstreamStats>) -> Self {
        Self {
            connections: RefCell::default(),
            share,
            age,
            stats: Arc::clone(stats),
            has_expiry_task: Cell::new(false),
        }
    }

    /// The most recently used connection to a server.
    pub(super) fn take(&self, server: usize) -> Option<C> {
        let mut idle = self.connections.borrow_mut();
        let newest = idle.iter().rposition(|one| one.server == server)?;
        let taken = idle.remove(newest);
        drop(idle);
        self.publish();
        Some(taken.connection)
    }

    /// Stores a connection, if the limits permit it. `all`: idle connections to this server, over all pools. Call within a
    /// `LocalSet`.
    pub(super) fn put_back(self: &Rc<Self>, server: usize, connection: C, all: &Arc<AtomicUsize>) {
        let most = self.stats.load().limit.saturating_mul(self.share) / 100;
        let Some(count) = IdleCount::within(all, most) else {
            return;
        };
        let mut connections = self.connections.borrow_mut();
        if connections.len() >= most {
            return;
        }
        connections.push(IdleConnection {
            connection,
            server,
            idle_since: Instant::now(),
            count,
        });
        drop(connections);
        self.publish();
        if !self.has_expiry_task.replace(true) {
            tokio::task::spawn_local(Rc::clone(self).close_expired());
        }
    }

    /// Closes expired connections until none remains.
    async fn close_expired(self: Rc<Self>) {
        loop {
            let oldest = self
                .connections
                .borrow()
                .first()
                .map(|idle| idle.idle_since);
            let Some(oldest) = oldest else { break };
            sleep_until(oldest + self.age).await;
            let now = Instant::now();
            let young = |idle: &IdleConnection<C>| idle.idle_since + self.age > now;
            let mut connections = self.connections.borrow_mut();
            let old = connections
                .iter()
                .position(young)
                .unwrap_or(connections.len());
            let closed: Vec<IdleConnection<C>> = connections.drain(..old).collect();
            drop(connections);
            drop(closed);
            self.publish();
        }
        self.has_expiry_task.set(false);
    }

    fn publish(&self) {
        self.stats.set_idle(self.connections.borrow().len());
    }
}

/// Counts one idle connection until it is dropped.
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
    use crate::limit::tests::spec;

    fn idle(slots: usize, share: usize) -> Rc<IdleConnections<u32>> {
        let stats = Arc::new(UpstreamStats::new(&spec(slots, 1, Duration::ZERO)));
        Rc::new(IdleConnections::new(share, Duration::from_secs(4), &stats))
    }

    fn count(idle: &IdleConnections<u32>) -> usize {
        assert_eq!(idle.stats.load().idle, idle.connections.borrow().len());
        idle.connections.borrow().len()
    }

    #[tokio::test(start_paused = true)]
    async fn a_share_of_the_slots_is_the_maximum_over_all_sites_of_a_server() {
        let local = tokio::task::LocalSet::new();
        let test = async {
            let (one, other) = (idle(20, 25), idle(20, 25));
            let (shared, alone) = (Arc::default(), Arc::default());
            for connection in 0..10 {
                one.put_back(0, connection, &shared);
                other.put_back(0, connection, &shared);
            }
            assert_eq!(count(&one) + count(&other), 5);
            other.put_back(1, 10, &alone);
            assert_eq!(other.take(1), Some(10));
            while one.take(0).is_some() || other.take(0).is_some() {}
            assert_eq!(
                shared.load(Ordering::Relaxed) + alone.load(Ordering::Relaxed),
                0
            );
            for (slots, share, most) in [(20, 0, 0), (3, 25, 0), (4, 25, 1), (8, 100, 8)] {
                let idle = idle(slots, share);
                for connection in 0..20 {
                    idle.put_back(0, connection, &Arc::default());
                }
                assert_eq!(count(&idle), most, "{share} of {slots}");
            }
        };
        local.run_until(test).await;
    }

    #[tokio::test(start_paused = true)]
    async fn unused_connections_expire_and_the_rest_stays() {
        let local = tokio::task::LocalSet::new();
        let test = async {
            let (idle, all) = (idle(20, 25), Arc::default());
            for connection in 0..3 {
                idle.put_back(0, connection, &all);
            }
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let connection = idle.take(0).unwrap();
                assert_eq!(connection, 2, "the one that was used last");
                idle.put_back(0, connection, &all);
            }
            assert_eq!(count(&idle), 1);
            tokio::time::sleep(Duration::from_millis(4100)).await;
            assert_eq!(count(&idle), 0);
            assert_eq!(all.load(Ordering::Relaxed), 0);
            // A new task closes later connections.
            idle.put_back(0, 9, &all);
            tokio::time::sleep(Duration::from_millis(4100)).await;
            assert_eq!(count(&idle), 0);
        };
        local.run_until(test).await;
    }
}
