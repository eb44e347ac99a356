//! The side that composes: PHP over FastCGI, or Apache over HTTP.
//!
//! A [`UpstreamPool`] belongs to one fetch thread thread. It makes connections, and it holds the one limit that matters: at most as many
//! exchanges at once as the upstream has workers, over all front cores together, with a bounded and fair queue in front
//! (`limit`). Who was let in has a [`Slot`]; with it a request is sent, and what comes back, an [`IncomingResponse`], keeps it until
//! it has been read to the end or dropped. A server that fails again and again is left alone for a while (`breaker`).
//!
//! One retry, and only where nothing was received and the method is safe, or where the request was never sent.

mod adaptive;
mod admission;
mod breaker;
mod fastcgi;
mod http1;
mod idle;
pub mod interim;
mod limit;
mod queue;
mod queue_deadline;
mod resolve;
mod spec;
mod stats;
mod stream;
mod strict;
pub mod switch;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use galley_cache::budget::MemoryBudget;
use galley_cache::fill::FillError;
use galley_policy::cache_status;
use galley_policy::cgi::Script;
use galley_policy::class::{Class, Network};
use galley_policy::decoded;
use galley_policy::forward::{Client, UpstreamRequest};
use galley_policy::outcome::NotStored;
use galley_policy::site::UpstreamTimeouts;
use http::{HeaderMap, StatusCode};

use crate::body::RequestBody;
use crate::codec::decode::{BodyDecoder, CodingError as Undecodable, DecodeStep};
use limit::ConcurrencyLimit;
use tokio::time::Instant;

pub use fastcgi::FastCgiAddress;
pub use limit::{QueueTurn, Slot};
pub use queue::QueueIdentity;
pub use spec::{ExchangeEnd, HttpServer, PoolSpec, UpstreamAddress};
pub use stats::{Gauge, Load, OfClass, ServerGauge};

/// One request for an upstream, complete.
pub struct UpstreamCall {
    /// Method, path and fields as they are to be sent.
    pub request: UpstreamRequest,
    /// The script that FastCGI is to run; HTTP upstreams do not look at it.
    pub script: Option<Script>,
    /// Beside whom it waits for a place.
    pub class: Class,
    /// The client's address.
    pub client_address: IpAddr,
    /// The client's port.
    pub client_port: u16,
    /// The request's id.
    pub request_id: String,
    /// The port that the client came in by.
    pub server_port: u16,
    /// The address that the client came in by.
    pub server_address: Option<IpAddr>,
    /// The body, arrived completely.
    pub body: RequestBody,
    /// What a rule says about waiting for it.
    pub patience: UpstreamTimeouts,
    /// Where interim responses go; `None`: nowhere, which is where FastCGI has them from.
    pub interim: Option<interim::InterimSender>,
    /// The protocol that its client asks for in place of HTTP; HTTP upstreams only.
    pub switch: Option<switch::Switch>,
}

impl UpstreamCall {
    /// In whose name it waits for a place.
    pub fn who(&self) -> QueueIdentity {
        QueueIdentity {
            class: self.class,
            client: Network::of(self.client_address),
        }
    }

    fn client(&self) -> Client<'_> {
        Client {
            address: self.client_address,
            port: self.client_port,
            request_id: &self.request_id,
        }
    }

    /// The same request, to be changed and sent without a body.
    #[must_use]
    pub fn without_body(&self) -> Self {
        Self {
            request: self.request.clone(),
            script: self.script.clone(),
            class: self.class,
            client_address: self.client_address,
            client_port: self.client_port,
            request_id: self.request_id.clone(),
            server_port: self.server_port,
            server_address: self.server_address,
            body: RequestBody::Empty,
            patience: self.patience,
            interim: self.interim.clone(),
            switch: None,
        }
    }

    /// Whether the method is safe (RFC 9110 §9.2.1), so that sending it twice does no harm.
    pub fn is_safe(&self) -> bool {
        matches!(self.request.method.as_str(), "GET" | "HEAD" | "OPTIONS")
    }
}

/// The way to one upstream, and the limit on it.
pub struct UpstreamPool {
    limit: ConcurrencyLimit,
    gauge: Arc<Gauge>,
    kind: UpstreamKind,
}

enum UpstreamKind {
    FastCgi(fastcgi::FastCgiUpstream),
    Http(http1::HttpConnections),
}

impl UpstreamPool {
    /// A pool that has not connected yet. `gauge`: where it tells what it does.
    pub fn new(spec: &PoolSpec, gauge: &Arc<Gauge>) -> Self {
        let limit = ConcurrencyLimit::new(spec, gauge);
        let kind = match spec.target.clone() {
            UpstreamAddress::FastCgi(address) => {
                UpstreamKind::FastCgi(fastcgi::FastCgiUpstream::new(address, spec, gauge))
            }
            UpstreamAddress::Http(servers) => {
                UpstreamKind::Http(http1::HttpConnections::new(servers, spec, gauge))
            }
        };
        Self {
            limit,
            gauge: Arc::clone(gauge),
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
            self.gauge.set_retry_after(pause.as_secs_f64());
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
    pub fn hurry(&self, turn: &QueueTurn, who: QueueIdentity) {
        self.limit.hurry(turn, who);
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
                    place.is_answered();
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
            place.is_answered();
        } else if failure == FillError::Paused {
            self.gauge.set_retry_after(self.pause().as_secs_f64());
        }
        // What this request met itself says more than that the server is left alone since.
        first
            .filter(|_| failure == FillError::Paused)
            .unwrap_or(failure)
    }
}

/// How an upstream stood when it answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UpstreamHealth {
    /// As ever.
    Usual,
    /// No server of it had been asked for a while.
    Recovered,
}

impl UpstreamHealth {
    fn of(has_recovered: bool) -> Self {
        if has_recovered {
            Self::Recovered
        } else {
            Self::Usual
        }
    }
}

/// An answer whose head has arrived.
pub struct IncomingResponse {
    /// Final status.
    pub status: StatusCode,
    /// End-to-end fields.
    pub fields: HeaderMap,
    body: IncomingBody,
    expected: Option<u64>,
    received: u64,
    place: Option<Slot>,
    decoder: Option<Box<BodyDecoder>>,
}

enum IncomingBody {
    FastCgi(Box<fastcgi::FastCgiBody>),
    Http(http1::HttpBody),
}

impl IncomingResponse {
    fn new(status: StatusCode, mut fields: HeaderMap, body: IncomingBody, is_head: bool) -> Self {
        cache_status::drop_own(&mut fields);
        // A 304 may tell the length that a 200 would have (RFC 9110 §8.6); the others have no content to tell of.
        let is_bare = is_head || has_no_content(status);
        let expected = if is_bare {
            None
        } else {
            content_length(&fields)
        };
        Self {
            status,
            fields,
            body,
            expected,
            received: 0,
            place: None,
            decoder: None,
        }
    }

    fn holding(mut self, place: Slot) -> Self {
        self.place = Some(place);
        self
    }

    /// Undoes the codings that the upstream applied unasked: from here on fields and pieces are those of the plain body.
    /// `free`: the longest body that could be kept, up to which it may be however much larger than what came.
    ///
    /// Errors say why it cannot be done; nothing has changed then.
    pub fn decode(&mut self, budget: &MemoryBudget, free: u64) -> Result<(), NotStored> {
        if !self.fields.contains_key(http::header::CONTENT_ENCODING) {
            return Ok(());
        }
        let applied = decoded::applied(&self.fields).map_err(|_| NotStored::Coding)?;
        if applied.is_empty() {
            self.fields.remove(http::header::CONTENT_ENCODING);
            return Ok(());
        }
        let decoder = BodyDecoder::new(&applied, budget, free).ok_or(NotStored::Memory)?;
        self.decoder = Some(Box::new(decoder));
        decoded::undo(&mut self.fields);
        Ok(())
    }

    /// Length of the body, where the upstream announced one.
    pub fn length(&self) -> Option<u64> {
        match self.decoder {
            Some(_) => None,
            None => self.expected,
        }
    }

    /// The length that its head tells, also where no body comes: of an answer to `HEAD`.
    pub fn announced(&self) -> Option<u64> {
        content_length(&self.fields)
    }

    /// The next piece of the body, `None` when it is complete.
    ///
    /// Errors: [`FillError::Closed`] when it ends before its announced length, [`FillError::Malformed`] when it is longer or
    /// not what its coding says, [`FillError::Timeout`] when no byte comes in time. After an error or the end the place is free again. Cancel-safe.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, FillError> {
        if self.decoder.is_some() {
            // A body that is large once decoded leaves the thread to others between its pieces.
            tokio::task::yield_now().await;
        }
        loop {
            let Some(decoder) = &mut self.decoder else {
                return self.raw().await;
            };
            match decoder.step() {
                Ok(DecodeStep::Piece(piece)) => return Ok(Some(piece)),
                Ok(DecodeStep::Working) => tokio::task::yield_now().await,
                Ok(DecodeStep::Hungry) => match self.raw().await? {
                    Some(coded) => self.feed(coded),
                    None => return self.decoded_end(),
                },
                Err(Undecodable) => {
                    self.place = None;
                    return Err(FillError::Malformed);
                }
            }
        }
    }

    fn feed(&mut self, coded: Bytes) {
        if let Some(decoder) = &mut self.decoder {
            decoder.push(coded);
        }
    }

    fn decoded_end(&self) -> Result<Option<Bytes>, FillError> {
        let ended = self
            .decoder
            .as_ref()
            .map_or(Ok(()), |decoder| decoder.end());
        ended
            .map(|()| None)
            .map_err(|Undecodable| FillError::Closed)
    }

    /// The next piece as it came.
    async fn raw(&mut self) -> Result<Option<Bytes>, FillError> {
        let next = match &mut self.body {
            // WordPress ends a 204 of its REST API with `null`. The records say where that ends, so it is dropped.
            IncomingBody::FastCgi(reading) if has_no_content(self.status) => reading.skip().await,
            IncomingBody::FastCgi(reading) => reading.chunk().await,
            IncomingBody::Http(reading) => reading.chunk().await,
        };
        let judged = next.and_then(|chunk| self.count(chunk));
        if !matches!(judged, Ok(Some(_))) {
            self.place = None;
        }
        judged
    }

    /// Whether the program that composed it said that it ended well; asked after the end.
    pub fn ended_well(&self) -> bool {
        match &self.body {
            IncomingBody::FastCgi(reading) => reading.ended_well(),
            IncomingBody::Http(_) => true,
        }
    }

    fn count(&mut self, chunk: Option<Bytes>) -> Result<Option<Bytes>, FillError> {
        let Some(chunk) = chunk else {
            return match self.expected {
                Some(expected) if self.received < expected => Err(FillError::Closed),
                _ => Ok(None),
            };
        };
        self.received += chunk.len() as u64;
        match self.expected {
            Some(expected) if self.received > expected => Err(FillError::Malformed),
            _ => Ok(Some(chunk)),
        }
    }
}

/// An attempt that gave no answer.
struct FailedAttempt {
    failure: FillError,
    retry: Retry,
}

/// Whether an attempt may be made again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Retry {
    /// Nothing was received, and the request was not sent or is safe.
    Harmless,
    /// It may have been carried out.
    Never,
}

impl FailedAttempt {
    fn unsent(failure: FillError) -> Self {
        Self {
            failure,
            retry: Retry::Harmless,
        }
    }

    /// The server is left alone.
    fn paused() -> Self {
        Self {
            failure: FillError::Paused,
            retry: Retry::Never,
        }
    }

    /// Whether this says that nobody is there.
    fn is_absence(&self) -> bool {
        matches!(self.failure, FillError::Connect | FillError::Timeout)
    }

    fn sent(failure: FillError, ask: &UpstreamCall) -> Self {
        let retry = match (&failure, ask.is_safe()) {
            (FillError::Closed, true) => Retry::Harmless,
            _ => Retry::Never,
        };
        Self { failure, retry }
    }
}

/// Whether a response with this status has no content, whatever the upstream sends (RFC 9110 §6.4.1, §15.3.6).
fn has_no_content(status: StatusCode) -> bool {
    matches!(status.as_u16(), 204 | 205 | 304)
}

fn content_length(fields: &HeaderMap) -> Option<u64> {
    fields
        .get(http::header::CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}
