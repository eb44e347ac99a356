//! The circuit breaker of a server: a server that does not respond is paused, then probed by one request at a time (Nygard,
//! "Release It!", 2007).
//!
//! ```text
//!            FAILURES in a row                     pause over: one request probes
//!   closed ------------------> open (500 ms ...) ---------------------------------------> probing
//!     ^                          ^                                                         |   |
//!     |                          +---- it fails: twice the pause, up to 8 s ---------------+   |
//!     +------------------------------- a response arrives -------------------------------------+
//! ```
//! Failures are connections that cannot be established and responses that do not begin in time. Any response, even with an error
//! status or if it ends early, proves that the server is reachable. The outcome of a request sent before the breaker opened is
//! ignored. A canceled probe (its client disconnected) lets the next request probe immediately.
//!
//! While the breaker is open, requests fail immediately instead of holding a slot until they time out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::attempt::FailedAttempt;
use galley_sys::Lock;

/// The breaker of one server, shared by all pools that send to it. Its lock is held for a few instructions.
#[derive(Debug)]
pub(super) struct Breaker {
    shared: Lock<BreakerShared>,
    site: String,
    address: String,
    /// The number of times that the breaker has opened.
    pauses: AtomicU64,
}

#[derive(Debug)]
struct BreakerShared {
    state: BreakerState,
    /// The time when the breaker last opened from closed, or closed.
    since: Option<Instant>,
    /// The time when the breaker last closed.
    resumed: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BreakerState {
    Closed { failures: u32 },
    Open { until: Instant, pause: Duration },
    Probing { pause: Duration },
}

/// A request that the breaker has admitted. The caller records its outcome.
#[must_use = "dropped, it counts as cancelled"]
pub(super) struct Attempt<'b> {
    breaker: &'b Breaker,
    is_probe: bool,
    is_settled: bool,
}

impl Breaker {
    pub(super) fn new(site: &str, address: &str) -> Self {
        Self {
            shared: Lock::new(BreakerShared {
                state: BreakerState::Closed { failures: 0 },
                since: None,
                resumed: None,
            }),
            site: site.to_owned(),
            address: address.to_owned(),
            pauses: AtomicU64::new(0),
        }
    }

    /// The number of times that the breaker has opened.
    pub(super) fn pauses(&self) -> u64 {
        self.pauses.load(Ordering::Relaxed)
    }

    /// The time when the breaker last opened or closed; `None`: it was never open.
    pub(super) fn since(&self) -> Option<Instant> {
        self.shared.lock().since
    }

    /// The time when the breaker last closed.
    pub(super) fn resumed(&self) -> Option<Instant> {
        self.shared.lock().resumed
    }

    /// Whether requests are sent as usual.
    pub(super) fn is_closed(&self) -> bool {
        self.shared.lock().is_closed()
    }

    /// How long requests are blocked; zero if one would be admitted.
    pub(super) fn pause(&self, now: Instant) -> Duration {
        match self.shared.lock().state {
            BreakerState::Closed { .. } => Duration::ZERO,
            BreakerState::Open { until, .. } => until.saturating_duration_since(now),
            BreakerState::Probing { pause } => pause,
        }
    }

    /// Admits a request, if the server may be tried now.
    pub(super) fn try_acquire(&self, now: Instant) -> Option<Attempt<'_>> {
        let mut shared = self.shared.lock();
        let is_probe = match shared.state {
            BreakerState::Closed { .. } => false,
            BreakerState::Open { until, pause } if until <= now => {
                shared.state = BreakerState::Probing { pause };
                true
            }
            BreakerState::Open { .. } | BreakerState::Probing { .. } => return None,
        };
        Some(Attempt {
            breaker: self,
            is_probe,
            is_settled: false,
        })
    }

    /// Closes the breaker, because the server is known to respond.
    pub(super) fn close(&self) {
        let mut shared = self.shared.lock();
        if !shared.is_closed() {
            shared.close();
        }
    }
}

impl BreakerShared {
    fn is_closed(&self) -> bool {
        matches!(self.state, BreakerState::Closed { .. })
    }

    fn open(&mut self, pause: Duration) {
        let until = Instant::now() + pause;
        self.state = BreakerState::Open { until, pause };
    }

    fn close(&mut self) {
        let now = Some(Instant::now());
        self.state = BreakerState::Closed { failures: 0 };
        (self.since, self.resumed) = (now, now);
    }
}

impl Attempt<'_> {
    /// Records an outcome. Returns whether it closes the breaker.
    pub(super) fn record<T>(self, outcome: &Result<T, FailedAttempt>) -> bool {
        match outcome {
            Err(failed) if failed.is_server_failure() => {
                self.failed();
                false
            }
            Ok(_) | Err(_) => self.succeeded(),
        }
    }

    /// Records a response. Returns whether it closes the breaker.
    pub(super) fn succeeded(mut self) -> bool {
        self.is_settled = true;
        let breaker = self.breaker;
        let mut shared = breaker.shared.lock();
        if shared.is_closed() {
            shared.state = BreakerState::Closed { failures: 0 };
        }
        if !self.is_probe {
            return false;
        }
        shared.close();
        drop(shared);
        tracing::info!(
            site = breaker.site,
            upstream = breaker.address,
            "the upstream responds again: the circuit breaker is closed"
        );
        true
    }

    /// Records that the connection failed, or that no response began in time.
    pub(super) fn failed(mut self) {
        self.is_settled = true;
        let breaker = self.breaker;
        let mut shared = breaker.shared.lock();
        match shared.state {
            BreakerState::Closed { failures } if failures + 1 < FAILURES => {
                let failures = failures + 1;
                shared.state = BreakerState::Closed { failures };
            }
            BreakerState::Closed { .. } => {
                shared.open(MIN_PAUSE);
                shared.since = Some(Instant::now());
                drop(shared);
                breaker.pauses.fetch_add(1, Ordering::Relaxed);
                tracing::error!(
                    site = breaker.site,
                    upstream = breaker.address,
                    "the upstream failed {FAILURES} times in a row: the circuit breaker is open, and one request at a time probes the upstream"
                );
            }
            BreakerState::Probing { pause } if self.is_probe => {
                shared.open((pause * 2).min(MAX_PAUSE));
            }
            BreakerState::Open { .. } | BreakerState::Probing { .. } => {}
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let mut shared = self.breaker.shared.lock();
        if let (BreakerState::Probing { pause }, true, false) =
            (shared.state, self.is_probe, self.is_settled)
        {
            let until = Instant::now();
            shared.state = BreakerState::Open { until, pause };
        }
    }
}

/// The number of consecutive failures that open the breaker.
const FAILURES: u32 = 5;

/// The first pause: longer than a restart.
const MIN_PAUSE: Duration = Duration::from_millis(500);

/// The longest pause: a repaired upstream is used again within this time.
const MAX_PAUSE: Duration = Duration::from_secs(8);

#[cfg(test)]
mod tests {
    use super::*;

    fn breaker() -> Breaker {
        Breaker::new("example.com", "10.0.0.1:80")
    }

    fn fail(breaker: &Breaker, times: u32) {
        for _ in 0..times {
            breaker.try_acquire(Instant::now()).unwrap().failed();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_opens_only_after_consecutive_failures() {
        let breaker = breaker();
        for _ in 0..3 {
            fail(&breaker, FAILURES - 1);
            assert!(!breaker.try_acquire(Instant::now()).unwrap().succeeded());
        }
        assert!(breaker.is_closed());
        fail(&breaker, FAILURES);
        assert!(!breaker.is_closed());
        assert!(breaker.try_acquire(Instant::now()).is_none());
        assert_eq!(breaker.pauses(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn one_probe_at_a_time_and_growing_pauses() {
        let breaker = breaker();
        fail(&breaker, FAILURES);
        for pause_ms in [500, 1000, 2000, 4000, 8000, 8000] {
            tokio::time::advance(Duration::from_millis(pause_ms - 1)).await;
            assert!(breaker.try_acquire(Instant::now()).is_none(), "{pause_ms}");
            tokio::time::advance(Duration::from_millis(1)).await;
            let probe = breaker.try_acquire(Instant::now()).unwrap();
            assert!(
                breaker.try_acquire(Instant::now()).is_none(),
                "one is enough"
            );
            probe.failed();
        }
        tokio::time::advance(MAX_PAUSE).await;
        assert!(breaker.try_acquire(Instant::now()).unwrap().succeeded());
        assert!(breaker.is_closed());
        fail(&breaker, FAILURES - 1);
        assert!(breaker.is_closed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_canceled_probe_admits_the_next_request() {
        let breaker = breaker();
        fail(&breaker, FAILURES);
        tokio::time::advance(MIN_PAUSE).await;
        drop(breaker.try_acquire(Instant::now()).unwrap());
        let next = breaker.try_acquire(Instant::now());
        assert!(next.unwrap().succeeded());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_sent_before_the_breaker_opened_changes_nothing() {
        let breaker = breaker();
        let (slow, late) = (
            breaker.try_acquire(Instant::now()).unwrap(),
            breaker.try_acquire(Instant::now()).unwrap(),
        );
        fail(&breaker, FAILURES);
        assert!(!slow.succeeded());
        assert!(!breaker.is_closed());
        tokio::time::advance(MIN_PAUSE).await;
        let probe = breaker.try_acquire(Instant::now()).unwrap();
        late.failed();
        assert!(probe.succeeded());
        assert!(breaker.is_closed());
    }
}
