//! The pool of one upstream: its connections and its concurrency limit.

use std::sync::Arc;
use std::time::Duration;

use galley_cache::fill::FillError;
use tokio::time::Instant;

use super::attempt::{FailedAttempt, Retry, UpstreamHealth};
use super::attempt_span::AttemptSpan;
use super::balancer::{Balancer, ChosenServer, ServerChoice};
use super::call::UpstreamCall;
use super::fastcgi::FastCgiUpstream;
use super::http1::HttpConnections;
use super::incoming::IncomingResponse;
use super::limit::{ConcurrencyLimit, QueuePosition, Slot};
use super::queue::QueueIdentity;
use super::spec::{PoolSpec, UpstreamAddress};
use super::stats::UpstreamStats;

/// The connections to one upstream, and the concurrency limit in front of them.
pub struct UpstreamPool {
    limit: ConcurrencyLimit,
    stats: Arc<UpstreamStats>,
    balancer: Balancer,
    queue_timeout: Duration,
    kind: UpstreamKind,
}

enum UpstreamKind {
    FastCgi(FastCgiUpstream),
    Http(HttpConnections),
}

impl UpstreamPool {
    /// A pool without connections. It publishes its statistics in `stats`.
    pub fn new(spec: &PoolSpec, stats: &Arc<UpstreamStats>) -> Self {
        let limit = ConcurrencyLimit::new(spec, stats);
        let kind = match spec.target.clone() {
            UpstreamAddress::FastCgi(servers) => {
                UpstreamKind::FastCgi(FastCgiUpstream::new(servers, spec, stats))
            }
            UpstreamAddress::Http(servers) => {
                UpstreamKind::Http(HttpConnections::new(servers, spec, stats))
            }
        };
        Self {
            limit,
            stats: Arc::clone(stats),
            balancer: Balancer::new(spec.servers.clone(), spec.balancing.clone()),
            queue_timeout: spec.limits.queue_timeout,
            kind,
        }
    }

    /// Whether deferrable work may be sent: the queue is empty, and less than half of the slots are taken.
    pub fn has_spare_slots(&self) -> bool {
        let (taken, waiting, slots) = self.limit.load();
        waiting == 0 && taken * 2 < slots
    }

    /// Waits for a slot. Cancel-safe: a canceled request holds no slot and is not queued.
    ///
    /// Errors: [`FillError::Overload`] if no slot becomes free in time, [`FillError::Paused`] if the circuit breaker is open.
    pub async fn acquire(
        &self,
        identity: QueueIdentity,
        turn: &QueuePosition,
    ) -> Result<Slot, FillError> {
        let pause = self.pause();
        if !pause.is_zero() {
            self.stats.set_retry_after(pause.as_secs_f64());
            return Err(FillError::Paused);
        }
        self.limit.acquire(identity, turn).await
    }

    /// How long the circuit breakers block all requests; zero if one may be sent now.
    fn pause(&self) -> Duration {
        self.balancer.pause(Instant::now())
    }

    /// Moves a queued request to the class and client of `identity`, if it is served sooner there, because that client waits for
    /// the same page.
    pub fn promote(&self, turn: &QueuePosition, identity: QueueIdentity) {
        self.limit.promote(turn, identity);
    }

    /// Sends `call` and returns when the head of the response has been received.
    ///
    /// `sending` is called immediately before the first byte of each attempt: the response reflects every purge published before
    /// that. If a server fails, or responds with 502, 503 or 504, a request that may be sent again is sent to another server. A
    /// request whose streamed body was partly sent may not be sent again.
    /// Cancel-safe: dropping the future closes the connection, which PHP-FPM treats as an abort.
    pub async fn send(
        &self,
        slot: Slot,
        call: &UpstreamCall,
        sending: &dyn Fn(),
    ) -> Result<IncomingResponse, FillError> {
        let (mut first, mut tried) = (None, Vec::new());
        let mut attempt = 0;
        loop {
            sending();
            if call.body.streamed().is_none() {
                // The time that a streamed body takes depends on its client, not on the upstream.
                slot.request_sent();
            }
            match self.attempt(call, attempt, &mut tried).await {
                Ok((incoming, health)) => {
                    slot.response_arrived();
                    if health == UpstreamHealth::Recovered {
                        self.limit.restart();
                    }
                    if !incoming.is_unavailable() || !call.is_safe() || !self.has_other(&tried) {
                        return Ok(incoming.with_slot(slot));
                    }
                    self.count_failure(&tried);
                }
                Err(failed) => {
                    if failed.is_after_connecting() {
                        self.count_failure(&tried);
                    }
                    let is_last = !self.has_other(&tried);
                    let retry = if call.is_body_spent() {
                        Retry::Never
                    } else {
                        failed.retry
                    };
                    match retry {
                        Retry::Harmless if is_last && first.is_none() => tried.clear(),
                        Retry::Harmless | Retry::Elsewhere if !is_last => {}
                        Retry::Harmless | Retry::Elsewhere | Retry::Never => {
                            return Err(self.failed(&slot, failed.failure, first));
                        }
                    }
                    first.get_or_insert(failed.failure);
                }
            }
            attempt += 1;
        }
    }

    /// Attempt number `attempt`, with its span.
    async fn attempt(
        &self,
        call: &UpstreamCall,
        attempt: usize,
        tried: &mut Vec<usize>,
    ) -> Result<(IncomingResponse, UpstreamHealth), FailedAttempt> {
        let mut span = AttemptSpan::begin(call, attempt);
        match self.try_servers(call, tried, &mut span).await {
            Ok((incoming, health)) => {
                let span = span.responded(incoming.status);
                Ok((incoming.with_span(span), health))
            }
            Err(failed) => {
                span.failed(failed.failure);
                Err(failed)
            }
        }
    }

    /// Sends the request to a server that is not among `tried`, and adds the servers that were tried. Skips servers that cannot be
    /// reached.
    async fn try_servers(
        &self,
        call: &UpstreamCall,
        tried: &mut Vec<usize>,
        span: &mut AttemptSpan,
    ) -> Result<(IncomingResponse, UpstreamHealth), FailedAttempt> {
        let key = self.balancer.key(call);
        let mut last = FailedAttempt::paused();
        loop {
            let choice = self.balancer.wait(key, tried, self.queue_timeout).await;
            let (index, permit) = match choice {
                ServerChoice::Server { index, permit } => (index, permit),
                ServerChoice::Full => return Err(FailedAttempt::overloaded()),
                ServerChoice::None => return Err(last),
            };
            tried.push(index);
            let Some(state) = self.balancer.state(index) else {
                continue;
            };
            let Some(attempt) = state.breaker.try_acquire(Instant::now()) else {
                continue;
            };
            let server = ChosenServer { index, state };
            let outcome = match &self.kind {
                UpstreamKind::FastCgi(connections) => {
                    // Evaluated late: another server may be paused while this one is connected.
                    let has_other = || self.balancer.has_other(tried, Instant::now());
                    connections.exchange(call, server, &has_other, span).await
                }
                UpstreamKind::Http(connections) => connections.exchange(call, server, span).await,
            };
            let was_alone = self.balancer.is_paused();
            let health = UpstreamHealth::of(attempt.record(&outcome) && was_alone);
            match outcome {
                Ok(incoming) => {
                    // Over an idle connection, too: another one may have failed before.
                    state.connected(None);
                    return Ok((incoming.with_permit(permit), health));
                }
                Err(failed) if failed.failure == FillError::Connect => {
                    state.count_failure();
                    last = failed;
                }
                Err(failed) => return Err(failed),
            }
        }
    }

    /// Whether the request may be sent to one more server.
    fn has_other(&self, tried: &[usize]) -> bool {
        tried.len() < MAX_TRIED && self.balancer.has_other(tried, Instant::now())
    }

    /// Counts a failure of the last server that was tried.
    fn count_failure(&self, tried: &[usize]) {
        let last = tried.last().and_then(|index| self.balancer.state(*index));
        if let Some(state) = last {
            state.count_failure();
        }
    }

    /// The error of a failed request; `first`: the error of its first attempt, if it was retried.
    fn failed(&self, slot: &Slot, failure: FillError, first: Option<FillError>) -> FillError {
        if failure == FillError::Timeout {
            slot.response_arrived();
        } else if failure == FillError::Paused {
            self.stats.set_retry_after(self.pause().as_secs_f64());
        }
        // The first error says more than the fact that the server is paused now.
        first
            .filter(|_| failure == FillError::Paused)
            .unwrap_or(failure)
    }
}

/// The maximum number of servers that one request may fail at, so that a request that crashes servers cannot crash many.
const MAX_TRIED: usize = 3;
