//! The side that composes: PHP over FastCGI, or Apache over HTTP.
//!
//! A [`Pool`] belongs to one compositor thread. It makes connections, and it holds the one limit that matters: as many
//! exchanges at once as the upstream has workers, over all front cores together, with a bounded queue and a deadline in
//! front. What it returns, an [`Incoming`], occupies its place until it has been read to the end or dropped.
//!
//! One retry, and only where nothing was received and the method is safe, or where the request was never sent.

mod fcgi;
mod http1;
pub mod interim;
mod limit;
#[cfg(test)]
mod adaptive;
#[cfg(test)]
mod patience;
#[cfg(test)]
mod queue;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use bytes::Bytes;
use galley_rules::cgi::Script;
use galley_rules::coded;
use galley_rules::forward::{Client, UpstreamRequest};
use galley_rules::outcome::NotStored;
use galley_store::budget::Budget;
use galley_store::fill::Failure;
use http::{HeaderMap, StatusCode};

use crate::body::RequestBody;
use crate::codec::decode::{Broken as Undecodable, Decoder, Step};
use limit::{Limit, Place};

pub use fcgi::Address;

/// One request for an upstream, complete.
pub struct Ask {
    /// Method, path and fields as they are to be sent.
    pub request: UpstreamRequest,
    /// The script that FastCGI is to run; HTTP upstreams do not look at it.
    pub script: Option<Script>,
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
    /// Where interim responses go; `None`: nowhere, which is where FastCGI has them from.
    pub interim: Option<interim::Sender>,
}

impl Ask {
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
            client_address: self.client_address,
            client_port: self.client_port,
            request_id: self.request_id.clone(),
            server_port: self.server_port,
            server_address: self.server_address,
            body: RequestBody::Empty,
            interim: self.interim.clone(),
        }
    }

    /// Whether the method is safe (RFC 9110 §9.2.1), so that sending it twice does no harm.
    pub fn is_safe(&self) -> bool {
        matches!(self.request.method.as_str(), "GET" | "HEAD" | "OPTIONS")
    }
}

/// Which upstream a pool talks to, and how much of it.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// Where it is.
    pub target: Target,
    /// Exchanges at once.
    pub in_flight: usize,
    /// Fewer, as long as this says so: written by whoever runs the upstream, 0 counts as 1.
    pub places: Option<Arc<AtomicUsize>>,
    /// Requests that may wait for a place.
    pub queue: usize,
    /// How long they may wait.
    pub queue_timeout: Duration,
    /// For a connection.
    pub connect_timeout: Duration,
    /// From the request sent to the first byte of the answer.
    pub first_byte_timeout: Duration,
    /// Between two pieces of the answer.
    pub read_timeout: Duration,
}

/// Where an upstream is.
#[derive(Clone, Debug)]
pub enum Target {
    /// A FastCGI application.
    FastCgi(Address),
    /// HTTP/1.1 servers, asked in turn: host and port.
    Http(Vec<(String, u16)>),
}

/// The way to one upstream, and the limit on it.
pub struct Pool {
    limit: Limit,
    kind: Kind,
}

enum Kind {
    FastCgi(fcgi::Connections),
    Http(http1::Connections),
}

impl Pool {
    /// A pool that has not connected yet.
    pub fn new(spec: &PoolSpec) -> Self {
        let limit = Limit::new(spec.in_flight, spec.queue, spec.queue_timeout)
            .bounded_by(spec.places.clone());
        let kind = match spec.target.clone() {
            Target::FastCgi(address) => Kind::FastCgi(fcgi::Connections::new(address, spec)),
            Target::Http(servers) => Kind::Http(http1::Connections::new(servers, spec)),
        };
        Self { limit, kind }
    }

    /// Exchanges under way and requests waiting, for `status`.
    pub fn load(&self) -> (usize, usize) {
        self.limit.fit();
        self.limit.load()
    }

    /// Whether work that can wait may go up: nobody waits for a place, and less than half of them are taken.
    pub fn has_room(&self) -> bool {
        let (taken, waiting) = self.limit.load();
        waiting == 0 && taken * 2 < self.limit.total()
    }

    /// Sends `ask` and returns when the answer's head has arrived.
    ///
    /// `sending` is called immediately before the first byte of each attempt: what a purge orders before that moment is
    /// composed in. Cancel-safe: dropping it closes the connection, which PHP-FPM takes as an abort.
    pub async fn send(&self, ask: &Ask, sending: &dyn Fn()) -> Result<Incoming, Failure> {
        let place = self.limit.enter().await?;
        let mut retried = false;
        loop {
            sending();
            let attempt = match &self.kind {
                Kind::FastCgi(connections) => connections.send(ask).await,
                Kind::Http(connections) => connections.send(ask).await,
            };
            match attempt {
                Ok(incoming) => return Ok(incoming.holding(place)),
                Err(broken) if broken.retry == Retry::Harmless && !retried => retried = true,
                Err(broken) => return Err(broken.failure),
            }
        }
    }
}

/// An answer whose head has arrived.
pub struct Incoming {
    /// Final status.
    pub status: StatusCode,
    /// End-to-end fields.
    pub fields: HeaderMap,
    body: IncomingBody,
    expected: Option<u64>,
    received: u64,
    place: Option<Place>,
    decoder: Option<Box<Decoder>>,
}

enum IncomingBody {
    FastCgi(Box<fcgi::Reading>),
    Http(http1::Reading),
}

impl Incoming {
    fn new(status: StatusCode, fields: HeaderMap, body: IncomingBody, is_head: bool) -> Self {
        // A 304 may tell the length that a 200 would have (RFC 9110 §8.6).
        let is_bare = is_head || status == StatusCode::NOT_MODIFIED;
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

    fn holding(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// Undoes the codings that the upstream applied unasked: from here on fields and pieces are those of the plain body.
    /// `free`: the longest body that could be kept, up to which it may be however much larger than what came.
    ///
    /// Errors say why it cannot be done; nothing has changed then.
    pub fn decode(&mut self, budget: &Budget, free: u64) -> Result<(), NotStored> {
        if !self.fields.contains_key(http::header::CONTENT_ENCODING) {
            return Ok(());
        }
        let applied = coded::applied(&self.fields).map_err(|_| NotStored::Coding)?;
        if applied.is_empty() {
            self.fields.remove(http::header::CONTENT_ENCODING);
            return Ok(());
        }
        let decoder = Decoder::new(&applied, budget, free).ok_or(NotStored::Memory)?;
        self.decoder = Some(Box::new(decoder));
        coded::undo(&mut self.fields);
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
    /// Errors: [`Failure::Closed`] when it ends before its announced length, [`Failure::Malformed`] when it is longer or
    /// not what its coding says, [`Failure::Timeout`] when no byte comes in time. After an error or the end the place is free again. Cancel-safe.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        if self.decoder.is_some() {
            // A body that is large once decoded leaves the thread to others between its pieces.
            tokio::task::yield_now().await;
        }
        loop {
            let Some(decoder) = &mut self.decoder else {
                return self.raw().await;
            };
            match decoder.step() {
                Ok(Step::Piece(piece)) => return Ok(Some(piece)),
                Ok(Step::Working) => tokio::task::yield_now().await,
                Ok(Step::Hungry) => match self.raw().await? {
                    Some(coded) => self.feed(coded),
                    None => return self.decoded_end(),
                },
                Err(Undecodable) => {
                    self.place = None;
                    return Err(Failure::Malformed);
                }
            }
        }
    }

    fn feed(&mut self, coded: Bytes) {
        if let Some(decoder) = &mut self.decoder {
            decoder.push(coded);
        }
    }

    fn decoded_end(&self) -> Result<Option<Bytes>, Failure> {
        let ended = self
            .decoder
            .as_ref()
            .map_or(Ok(()), |decoder| decoder.end());
        ended.map(|()| None).map_err(|Undecodable| Failure::Closed)
    }

    /// The next piece as it came.
    async fn raw(&mut self) -> Result<Option<Bytes>, Failure> {
        let next = match &mut self.body {
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

    fn count(&mut self, chunk: Option<Bytes>) -> Result<Option<Bytes>, Failure> {
        let Some(chunk) = chunk else {
            return match self.expected {
                Some(expected) if self.received < expected => Err(Failure::Closed),
                _ => Ok(None),
            };
        };
        self.received += chunk.len() as u64;
        match self.expected {
            Some(expected) if self.received > expected => Err(Failure::Malformed),
            _ => Ok(Some(chunk)),
        }
    }
}

/// An attempt that gave no answer.
struct Broken {
    failure: Failure,
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

impl Broken {
    fn unsent(failure: Failure) -> Self {
        Self {
            failure,
            retry: Retry::Harmless,
        }
    }

    fn sent(failure: Failure, ask: &Ask) -> Self {
        let retry = match (&failure, ask.is_safe()) {
            (Failure::Closed, true) => Retry::Harmless,
            _ => Retry::Never,
        };
        Self { failure, retry }
    }
}

fn content_length(fields: &HeaderMap) -> Option<u64> {
    fields
        .get(http::header::CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}
