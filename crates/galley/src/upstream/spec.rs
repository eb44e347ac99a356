//! Which upstream a pool talks to, and within what limits. Made once from the configuration; one number may change later, and
//! is read anew each time ([`PoolSpec::most`]).

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::tls::UpstreamTlsClient;

/// Which upstream a pool talks to, and how much of it.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// Whose it is, for the log.
    pub site: String,
    /// Where it is.
    pub target: UpstreamAddress,
    /// Exchanges at once, at most.
    pub in_flight: usize,
    /// A lower number of them, written at any time by whoever runs the upstream; holds from the next request on.
    pub slots: Option<Arc<AtomicUsize>>,
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
    /// What part of the places may be connections that are kept without a request, in hundredths.
    pub idle_share: usize,
    /// How long such a connection is kept.
    pub idle_age: Duration,
    /// What ends an exchange.
    pub end: ExchangeEnd,
}

/// What ends an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeEnd {
    /// Its answer.
    Answer,
    /// The worker is free again: PHP may work on after its answer. Over FastCGI only.
    Worker,
}

/// Where an upstream is.
#[derive(Clone, Debug)]
pub enum UpstreamAddress {
    /// A FastCGI application.
    FastCgi(FastCgiAddress),
    /// HTTP/1.1 servers, asked in turn.
    Http(Vec<HttpServer>),
}

/// Where a FastCGI application listens.
#[derive(Clone, Debug)]
pub enum FastCgiAddress {
    /// A socket in the file system.
    Unix(PathBuf),
    /// `host:port`.
    Tcp(String),
}

impl fmt::Display for FastCgiAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => f.write_str(address),
        }
    }
}

/// One HTTP/1.1 server.
#[derive(Clone, Debug)]
pub struct HttpServer {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Connections to it that are kept without a request, by all pools that ask it.
    pub idle: Arc<AtomicUsize>,
    /// How it is spoken with over TLS; `None`: in plain.
    pub tls: Option<Arc<UpstreamTlsClient>>,
}

impl PoolSpec {
    /// The same upstream for runs of WordPress's scheduler: one at a time, in no queue, to the end of its work.
    #[must_use]
    pub fn for_cron(&self, longest: Duration) -> Self {
        Self {
            in_flight: 1,
            slots: None,
            queue: 0,
            first_byte_timeout: longest,
            read_timeout: longest,
            end: ExchangeEnd::Worker,
            ..self.clone()
        }
    }

    /// Exchanges at once that are allowed at this moment.
    pub fn most(&self) -> usize {
        let live = self.slots.as_ref();
        let live = live.map_or(usize::MAX, |places| places.load(Ordering::Relaxed));
        self.in_flight.min(live).max(1)
    }
}
