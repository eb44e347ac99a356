//! A server that does not answer is left alone, and asked again now and then by one request (circuit breaker; Nygard,
//! "Release It!", 2007).
//!
//! ```text
//!            FAILURES on end                       pause over: one request goes through
//!   closed ------------------> open (500 ms ...) ---------------------------------------> probing
//!     ^                          ^                                                         |   |
//!     |                          +---- it fails: twice the pause, up to 8 s ---------------+   |
//!     +------------------------------- it is answered -----------------------------------------+
//! ```
//! Failures are connections that do not come to stand and answers that do not begin in time. An answer of whatever status, also
//! one that breaks off, says that somebody is there. What began before the server was left alone changes nothing any more. A
//! probe that is given up (its client left) lets the next one through at once.
//!
//! Who is not let through learns it at once instead of waiting out timeouts, with a place that others need.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::attempt::FailedAttempt;
use super::stats::{ServerStats, UpstreamStats};

/// The breaker of one server.
pub(super) struct Breaker {
    state: Cell<BreakerState>,
    site: String,
    stats: Arc<UpstreamStats>,
    /// Its place among the servers of the gauge.
    server: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BreakerState {
    Closed { failures: u32 },
    Open { until: Instant, pause: Duration },
    Probing { pause: Duration },
}

/// A request that was let through to a server. Say what came of it.
#[must_use = "dropped, it counts as given up"]
pub(super) struct Attempt<'b> {
    breaker: &'b Breaker,
    is_probe: bool,
    is_settled: bool,
}

impl Breaker {
    pub(super) fn new(site: &str, gauge: &Arc<UpstreamStats>, server: usize) -> Self {
        Self {
            state: Cell::new(BreakerState::Closed { failures: 0 }),
            site: site.to_owned(),
            stats: Arc::clone(gauge),
            server,
        }
    }

    /// Whether the server is asked as usual.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state.get(), BreakerState::Closed { .. })
    }

    /// How long nobody will be let through; zero where somebody would.
    pub(super) fn pause(&self, now: Instant) -> Duration {
        match self.state.get() {
            BreakerState::Closed { .. } => Duration::ZERO,
            BreakerState::Open { until, .. } => until.saturating_duration_since(now),
            BreakerState::Probing { pause } => pause,
        }
    }

    /// Lets a request through, if the server may be asked now.
    pub(super) fn pass(&self, now: Instant) -> Option<Attempt<'_>> {
        let is_probe = match self.state.get() {
            BreakerState::Closed { .. } => false,
            BreakerState::Open { until, pause } if until <= now => {
                self.state.set(BreakerState::Probing { pause });
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

    fn open(&self, pause: Duration) {
        let until = Instant::now() + pause;
        self.state.set(BreakerState::Open { until, pause });
    }

    fn server(&self) -> Option<&ServerStats> {
        self.stats.servers().get(self.server)
    }

    fn address(&self) -> &str {
        self.server().map_or("", |server| &server.address)
    }
}

impl Attempt<'_> {
    /// Judges by what came of it. True where the server was left alone until now, and answers.
    pub(super) fn record<T>(self, outcome: &Result<T, FailedAttempt>) -> bool {
        match outcome {
            Err(broken) if broken.is_absence() => {
                self.failed();
                false
            }
            Ok(_) | Err(_) => self.succeeded(),
        }
    }

    /// Somebody answered. True where the server was left alone until now.
    pub(super) fn succeeded(mut self) -> bool {
        self.is_settled = true;
        let breaker = self.breaker;
        if breaker.is_closed() {
            breaker.state.set(BreakerState::Closed { failures: 0 });
        }
        if !self.is_probe {
            return false;
        }
        breaker.state.set(BreakerState::Closed { failures: 0 });
        if let Some(server) = breaker.server() {
            server.resume();
        }
        tracing::info!(
            site = breaker.site,
            upstream = breaker.address(),
            "the upstream answers again"
        );
        true
    }

    /// Nobody was there, or nobody answered in time.
    pub(super) fn failed(mut self) {
        self.is_settled = true;
        let breaker = self.breaker;
        match breaker.state.get() {
            BreakerState::Closed { failures } if failures + 1 < FAILURES => {
                let failures = failures + 1;
                breaker.state.set(BreakerState::Closed { failures });
            }
            BreakerState::Closed { .. } => {
                breaker.open(FIRST_PAUSE);
                if let Some(server) = breaker.server() {
                    server.pause();
                }
                tracing::error!(
                    site = breaker.site,
                    upstream = breaker.address(),
                    "the upstream failed {FAILURES} times on end and is left alone; one request at a time tries it again"
                );
            }
            BreakerState::Probing { pause } if self.is_probe => {
                breaker.open((pause * 2).min(LONGEST_PAUSE));
            }
            BreakerState::Open { .. } | BreakerState::Probing { .. } => {}
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let (BreakerState::Probing { pause }, true, false) =
            (self.breaker.state.get(), self.is_probe, self.is_settled)
        {
            let until = Instant::now();
            self.breaker.state.set(BreakerState::Open { until, pause });
        }
    }
}

/// Failures on end that are no accident any more.
const FAILURES: u32 = 5;

/// A restart takes less.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Whoever mended it does not wait for long.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::limit::tests::spec;

    fn breaker() -> Breaker {
        let gauge = Arc::new(UpstreamStats::new(&spec(1, 1, Duration::ZERO)));
        Breaker::new("example.com", &gauge, 0)
    }

    fn fail(breaker: &Breaker, times: u32) {
        for _ in 0..times {
            breaker.pass(Instant::now()).unwrap().failed();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_opens_after_failures_on_end_only() {
        let breaker = breaker();
        for _ in 0..3 {
            fail(&breaker, FAILURES - 1);
            assert!(!breaker.pass(Instant::now()).unwrap().succeeded());
        }
        assert!(breaker.is_closed());
        fail(&breaker, FAILURES);
        assert!(!breaker.is_closed());
        assert!(breaker.pass(Instant::now()).is_none());
        let server = &breaker.stats.servers()[0];
        assert!(server.is_paused() && server.pauses() == 1);
    }

    #[tokio::test(start_paused = true)]
    async fn one_probe_at_a_time_and_pauses_that_grow() {
        let breaker = breaker();
        fail(&breaker, FAILURES);
        for pause_ms in [500, 1000, 2000, 4000, 8000, 8000] {
            tokio::time::advance(Duration::from_millis(pause_ms - 1)).await;
            assert!(breaker.pass(Instant::now()).is_none(), "{pause_ms}");
            tokio::time::advance(Duration::from_millis(1)).await;
            let probe = breaker.pass(Instant::now()).unwrap();
            assert!(breaker.pass(Instant::now()).is_none(), "one is enough");
            probe.failed();
        }
        tokio::time::advance(LONGEST_PAUSE).await;
        assert!(breaker.pass(Instant::now()).unwrap().succeeded());
        assert!(breaker.is_closed() && !breaker.stats.servers()[0].is_paused());
        fail(&breaker, FAILURES - 1);
        assert!(breaker.is_closed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_is_given_up_lets_the_next_through() {
        let breaker = breaker();
        fail(&breaker, FAILURES);
        tokio::time::advance(FIRST_PAUSE).await;
        drop(breaker.pass(Instant::now()).unwrap());
        let next = breaker.pass(Instant::now());
        assert!(next.unwrap().succeeded());
    }

    #[tokio::test(start_paused = true)]
    async fn what_began_before_changes_nothing() {
        let breaker = breaker();
        let (slow, late) = (
            breaker.pass(Instant::now()).unwrap(),
            breaker.pass(Instant::now()).unwrap(),
        );
        fail(&breaker, FAILURES);
        assert!(!slow.succeeded());
        assert!(!breaker.is_closed());
        tokio::time::advance(FIRST_PAUSE).await;
        let probe = breaker.pass(Instant::now()).unwrap();
        late.failed();
        assert!(probe.succeeded());
        assert!(breaker.is_closed());
    }
}
