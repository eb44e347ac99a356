//! The pool of one upstream: its connections and its concurrency limit.

use std::sync::Arc;
use std::time::Duration;

use galley_cache::fill::FillError;

use super::attempt::{Retry, UpstreamHealth};
use super::call::UpstreamCall;
use super::fastcgi::FastCgiUpstream;
use super::http1::HttpConnections;
use super::incoming::IncomingResponse;
use super::limit::{ConcurrencyLimit, QueueTurn, Slot};
use super::queue::QueueIdentity;
use super::spec::{PoolSpec, UpstreamAddress};
use super::stats::UpstreamStats;

/// The connections to one upstream, and the concurrency limit in front of them.
pub struct UpstreamPool {
    limit: ConcurrencyLimit,
    stats: Arc<UpstreamStats>,
    kind: UpstreamKind,
}

enum UpstreamKind {
    FastCgi(FastCgiUpstream),
    Http(HttpConnections),
}

impl UpstreamPool {
    /// A pool without connections. It publishes what it does in `stats`.
    pub fn new(spec: &PoolSpec, stats: &Arc<UpstreamStats>) -> Self {
        let limit = ConcurrencyLimit::new(spec, stats);
        let kind = match spec.target.clone() {
            UpstreamAddress::FastCgi(address) => {
                UpstreamKind::FastCgi(FastCgiUpstream::new(address, spec, stats))
            }
            UpstreamAddress::Http(servers) => {
                UpstreamKind::Http(HttpConnections::new(servers, spec, stats))
            }
        };
        Self {
            limit,
            stats: Arc::clone(stats),
            kind,
        }
    }

    /// Whether deferrable work may be sent: the queue is empty, and less than half of the slots are taken.
    pub fn has_room(&self) -> bool {
        let (taken, waiting, slots) = self.limit.load();
        waiting == 0 && taken * 2 < slots
    }

    /// Waits for a slot. Cancel-safe: a cancelled request holds no slot and is not queued.
    ///
    /// Errors: [`FillError::Overload`] if no slot becomes free in time, [`FillError::Paused`] if the circuit breaker is open.
    pub async fn enter(
        &self,
        identity: QueueIdentity,
        turn: &QueueTurn,
    ) -> Result<Slot, FillError> {
        let pause = self.pause();
        if !pause.is_zero() {
            self.stats.set_retry_after(pause.as_secs_f64());
            return Err(FillError::Paused);
        }
        self.limit.enter(identity, turn).await
    }

    /// How long the circuit breaker blocks all requests; zero if one may be sent now.
    fn pause(&self) -> Duration {
        match &self.kind {
            UpstreamKind::FastCgi(connections) => connections.pause(),
            UpstreamKind::Http(connections) => connections.pause(),
        }
    }

    /// Moves a queued request to the class and client of `identity`, if it is served sooner there: that client waits for the same
    /// page.
    pub fn promote(&self, turn: &QueueTurn, identity: QueueIdentity) {
        self.limit.promote(turn, identity);
    }

    /// Sends `call` and returns when the head of the response has arrived.
    ///
    /// `sending` is called immediately before the first byte of each attempt: the response reflects every purge published
    /// before that moment. Cancel-safe: dropping it closes the connection, which PHP-FPM takes as an abort.
    pub async fn send(
        &self,
        slot: Slot,
        call: &UpstreamCall,
        sending: &dyn Fn(),
    ) -> Result<IncomingResponse, FillError> {
        let mut first = None;
        loop {
            sending();
            slot.request_sent();
            let attempt = match &self.kind {
                UpstreamKind::FastCgi(connections) => connections.send(call).await,
                UpstreamKind::Http(connections) => connections.send(call).await,
            };
            match attempt {
                Ok((incoming, standing)) => {
                    slot.response_arrived();
                    if standing == UpstreamHealth::Recovered {
                        self.limit.restart();
                    }
                    return Ok(incoming.with_slot(slot));
                }
                Err(broken) if broken.retry == Retry::Harmless && first.is_none() => {
                    first = Some(broken.failure);
                }
                Err(broken) => return Err(self.failed(&slot, broken.failure, first)),
            }
        }
    }

    /// The error of a failed request; `first`: the error of its first attempt, if it was retried.
    fn failed(&self, slot: &Slot, failure: FillError, first: Option<FillError>) -> FillError {
        if failure == FillError::Timeout {
            slot.response_arrived();
        } else if failure == FillError::Paused {
            self.stats.set_retry_after(self.pause().as_secs_f64());
        }
        // The error that this request met itself says more than that the server is paused since.
        first
            .filter(|_| failure == FillError::Paused)
            .unwrap_or(failure)
    }
}
