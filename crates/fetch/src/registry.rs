//! The pages that a fetch thread is fetching, for threads that cannot read its table.
//!
//! It counts fetches in progress by a part of their keys' hashes. A count of zero is certain: no such page is being
//! fetched. Another count may come from a page that shares the counter. It also contains the waiters of fetches that other
//! threads can wait for. Only the fetch thread writes it; any thread reads it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use galley_cache::key::Key;
use galley_sys::Lock;

use super::waiters::Waiters;

/// The fetches in progress of one fetch thread.
pub(super) struct FetchRegistry {
    counts: Box<[AtomicU32]>,
    waiters: Lock<HashMap<Key, Arc<Waiters>>>,
}

impl FetchRegistry {
    pub(super) fn new() -> Self {
        Self {
            counts: (0..COUNTERS).map(|_| AtomicU32::new(0)).collect(),
            waiters: Lock::default(),
        }
    }

    /// Records a fetch for `key`, which replaces any earlier one. Other threads can wait for it through `waiters`.
    pub(super) fn insert(&self, key: &Key, waiters: &Arc<Waiters>) {
        let before = self.waiters.lock().insert(key.clone(), Arc::clone(waiters));
        if before.is_none()
            && let Some(count) = self.of(key)
        {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The waiters of the fetch for `key`, if other threads can wait for it.
    pub(super) fn waiters(&self, key: &Key) -> Option<Arc<Waiters>> {
        if !self.may_have(key) {
            return None;
        }
        self.waiters.lock().get(key).map(Arc::clone)
    }

    /// Removes the fetch for `key`, which has ended and was not replaced.
    pub(super) fn remove(&self, key: &Key) {
        if self.waiters.lock().remove(key).is_some()
            && let Some(count) = self.of(key)
        {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether a fetch for `key` is in progress.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.may_have(key) && self.waiters.lock().contains_key(key)
    }

    /// Whether a fetch for `key` may be in progress; takes no lock.
    fn may_have(&self, key: &Key) -> bool {
        self.of(key)
            .is_some_and(|count| count.load(Ordering::Relaxed) > 0)
    }

    fn of(&self, key: &Key) -> Option<&AtomicU32> {
        let index = key.hash() % COUNTERS;
        self.counts.get(usize::try_from(index).ok()?)
    }
}

/// Twenty times the default queue, so that few pages share a counter; 16 KiB.
const COUNTERS: u64 = 4096;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use galley_cache::fill;
    use galley_policy::class::{Class, Network, Standing, Trust};
    use tokio::sync::mpsc;

    use super::*;
    use crate::Handle;
    use galley_config::{BalanceMethod, LoadBalancing, PhpAddress, UpstreamLimits};
    use galley_upstream::{ExchangeEnd, PoolSpec, QueueIdentity, UpstreamAddress, UpstreamStats};

    fn stats() -> Arc<UpstreamStats> {
        let second = Duration::from_secs(1);
        Arc::new(UpstreamStats::new(&PoolSpec {
            site: "example.com".to_owned(),
            target: UpstreamAddress::FastCgi(vec![PhpAddress::Tcp("127.0.0.1:9000".to_owned())]),
            servers: Vec::new(),
            balancing: LoadBalancing {
                method: BalanceMethod::RoundRobin,
                slow_start: Duration::ZERO,
                check: None,
            },
            limits: UpstreamLimits {
                in_flight: 1,
                queue: 1,
                queue_timeout: second,
                lock_age: second,
                waiters: 1,
                connect_timeout: second,
                first_byte_timeout: second,
                read_timeout: second,
                idle_share: 25,
                idle_age: second,
            },
            slots: None,
            end: ExchangeEnd::Response,
        }))
    }

    /// A page that shares the counter of `key`.
    fn sharing_a_counter_with(key: &Key) -> Key {
        let mut others = (0_u32..).map(|number| Key::new(&number.to_be_bytes()));
        let shares = |other: &Key| other.hash() % COUNTERS == key.hash() % COUNTERS;
        others.find(shares).unwrap()
    }

    #[test]
    fn requests_for_a_full_queue_are_rejected_unless_the_page_is_being_fetched() {
        // No fetch thread: a job would not be received.
        let (commands, _) = mpsc::channel(1);
        let stats = stats();
        let handle = Handle {
            commands,
            activity: Arc::default(),
            upstream_stats: [Arc::clone(&stats)].into(),
            registry: Arc::new(FetchRegistry::new()),
        };
        let (crawl, other) = [1, 2]
            .map(Network::V4)
            .map(|client| QueueIdentity {
                class: Class::Crawler,
                trust: Trust::Proven,
                client,
            })
            .into();
        let (page, key) = (Some(b"page".as_slice()), Key::new(b"page"));
        assert!(
            !handle.rejects_early(0, crawl, page, false),
            "there is room"
        );
        stats.set_full_for(Some(crawl), &[]);
        assert!(handle.rejects_early(0, crawl, page, false));
        assert!(handle.rejects_early(0, crawl, None, false));
        assert!(!handle.rejects_early(0, other, page, false));
        assert!(
            !handle.rejects_early(1, crawl, page, false),
            "there is no such pool"
        );
        let (_writer, fill) = fill::fill(1, None);
        handle
            .registry
            .insert(&key, &Arc::new(Waiters::new(fill, 1)));
        assert!(!handle.rejects_early(0, crawl, page, false), "it may join");
        assert!(handle.rejects_early(0, crawl, None, false));
        let sharing = sharing_a_counter_with(&key);
        assert!(handle.registry.may_have(&sharing));
        assert!(!handle.registry.has(&sharing), "another page");
        handle.registry.remove(&key);
        assert!(!handle.registry.may_have(&sharing));
        assert!(handle.rejects_early(0, crawl, page, false));
        let proven = |class| Standing {
            class,
            trust: Trust::Proven,
        };
        stats.set_full_for(None, &[proven(Class::Crawler)]);
        assert!(
            handle.rejects_early(0, other, page, false),
            "nobody of the class"
        );
        stats.set_full_for(None, &[proven(Class::Visitor)]);
        assert!(!handle.rejects_early(0, crawl, page, false));
        let of_crawlers = stats.classes().find(|of| of.class == Class::Crawler);
        assert_eq!(of_crawlers.unwrap().rejected, 5);
    }
}
