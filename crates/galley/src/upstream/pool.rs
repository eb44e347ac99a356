//! The way to one upstream: its connections, and the limit in front of them.

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

/// The way to one upstream, and the limit on it.
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
    /// A pool that has not connected yet. `gauge`: where it tells what it does.
    pub fn new(spec: &PoolSpec, gauge: &Arc<UpstreamStats>) -> Self {
        let limit = ConcurrencyLimit::new(spec, gauge);
        let kind = match spec.target.clone() {
            UpstreamAddress::FastCgi(address) => {
                UpstreamKind::FastCgi(FastCgiUpstream::new(address, spec, gauge))
            }
            UpstreamAddress::Http(servers) => {
                UpstreamKind::Http(HttpConnections::new(servers, spec, gauge))
            }
        };
        Self {
            limit,
            stats: Arc::clone(gauge),
            kind,
        }
    }

    /// Whether work that can wait may go up: nobody waits for a place, and less than half of them are taken.
    pub fn has_room(&self) -> bool {
        let (taken, waiting, places) = self.limit.load();
        waiting == 0 && taken * 2 < places
    }

    /// Waits for a place. Cancel-safe: who leaves holds nothing.
    ///
    /// Errors: [`FillError::Overload`] when none comes free in time, [`FillError::Paused`] when the upstream is left alone.
    pub async fn enter(&self, who: QueueIdentity, turn: &QueueTurn) -> Result<Slot, FillError> {
        let pause = self.pause();
        if !pause.is_zero() {
            self.stats.set_retry_after(pause.as_secs_f64());
            return Err(FillError::Paused);
        }
        self.limit.enter(who, turn).await
    }

    /// How long no server is asked; zero where one may be.
    fn pause(&self) -> Duration {
        match &self.kind {
            UpstreamKind::FastCgi(connections) => connections.pause(),
            UpstreamKind::Http(connections) => connections.pause(),
        }
    }

    /// Somebody else wants what this request is for: it waits in his name, if that is sooner.
    pub fn promote(&self, turn: &QueueTurn, who: QueueIdentity) {
        self.limit.promote(turn, who);
    }

    /// Sends `ask` and returns when the answer's head has arrived.
    ///
    /// `sending` is called immediately before the first byte of each attempt: what a purge orders before that moment is
    /// composed in. Cancel-safe: dropping it closes the connection, which PHP-FPM takes as an abort.
    pub async fn send(
        &self,
        place: Slot,
        ask: &UpstreamCall,
        sending: &dyn Fn(),
    ) -> Result<IncomingResponse, FillError> {
        let mut first = None;
        loop {
            sending();
            place.asks();
            let attempt = match &self.kind {
                UpstreamKind::FastCgi(connections) => connections.send(ask).await,
                UpstreamKind::Http(connections) => connections.send(ask).await,
            };
            match attempt {
                Ok((incoming, standing)) => {
                    place.response_arrived();
                    if standing == UpstreamHealth::Recovered {
                        self.limit.restart();
                    }
                    return Ok(incoming.holding(place));
                }
                Err(broken) if broken.retry == Retry::Harmless && first.is_none() => {
                    first = Some(broken.failure);
                }
                Err(broken) => return Err(self.failed(&place, broken.failure, first)),
            }
        }
    }

    /// What a request that failed says; `first`: what it met before it was tried again.
    fn failed(&self, place: &Slot, failure: FillError, first: Option<FillError>) -> FillError {
        if failure == FillError::Timeout {
            place.response_arrived();
        } else if failure == FillError::Paused {
            self.stats.set_retry_after(self.pause().as_secs_f64());
        }
        // What this request met itself says more than that the server is left alone since.
        first
            .filter(|_| failure == FillError::Paused)
            .unwrap_or(failure)
    }
}
