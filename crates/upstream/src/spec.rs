//! The address and limits of an upstream pool. Built once from the configuration, except the number of slots, which is read at
//! each request ([`PoolSpec::max_exchanges`]).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use galley_config::{LoadBalancing, PhpAddress, UpstreamLimits};

use super::balancer::BalancedServer;
use super::server_state::ServerEligibility;
use galley_tls::UpstreamTlsClient;

/// The address of an upstream, and the limits of its pool.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// The name of the site, for the log.
    pub site: String,
    /// The addresses.
    pub target: UpstreamAddress,
    /// States and shares of the servers, in the order of `target`.
    pub servers: Vec<BalancedServer>,
    /// How a server is chosen.
    pub balancing: LoadBalancing,
    /// The limits of the configuration; `in_flight` is at least 1.
    pub limits: UpstreamLimits,
    /// A lower maximum, which the supervisor of the upstream may change at any time; applies from the next request.
    pub slots: Option<Arc<AtomicUsize>>,
    /// The event that frees a slot.
    pub end: ExchangeEnd,
}

/// The event that frees a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeEnd {
    /// The end of the response.
    Response,
    /// The worker becomes free: PHP may continue after its response. FastCGI only.
    Worker,
}

/// The address of an upstream.
#[derive(Clone, Debug)]
pub enum UpstreamAddress {
    /// FastCGI servers.
    FastCgi(Vec<PhpAddress>),
    /// HTTP/1.1 servers.
    Http(Vec<HttpServer>),
}

impl fmt::Display for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// One HTTP/1.1 server.
#[derive(Clone, Debug)]
pub struct HttpServer {
    /// The name or address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The number of idle connections to the server, over all pools.
    pub idle: Arc<AtomicUsize>,
    /// The TLS client; `None`: plain HTTP.
    pub tls: Option<Arc<UpstreamTlsClient>>,
}

impl PoolSpec {
    /// The same upstream for runs of WordPress's scheduler: one run at a time, no queue, and the slot is free when the worker is.
    #[must_use]
    pub fn for_cron(&self, longest: Duration) -> Self {
        Self {
            limits: UpstreamLimits {
                in_flight: 1,
                queue: 0,
                first_byte_timeout: longest,
                read_timeout: longest,
                ..self.limits
            },
            slots: None,
            end: ExchangeEnd::Worker,
            ..self.clone()
        }
    }

    /// The current maximum of concurrent exchanges.
    pub fn max_exchanges(&self) -> usize {
        let live = self.slots.as_ref();
        let live = live.map_or(usize::MAX, |slots| slots.load(Ordering::Relaxed));
        self.limits.in_flight.min(live).min(self.capacity()).max(1)
    }

    /// The number of concurrent exchanges that the servers in use permit by their own limits.
    fn capacity(&self) -> usize {
        let capacity = |is_wanted: &dyn Fn(&BalancedServer) -> bool| {
            let mut servers = self
                .servers
                .iter()
                .filter(|server| is_wanted(server))
                .peekable();
            servers.peek()?;
            let capacity = servers.map(|server| {
                let max = server.share.max;
                max.map_or(usize::MAX, |max| server.state.most_of(max))
            });
            Some(capacity.fold(0, usize::saturating_add))
        };
        let is_up = |server: &BalancedServer| server.state.eligibility() == ServerEligibility::Up;
        capacity(&|server| is_up(server) && !server.share.is_backup)
            .or_else(|| capacity(&is_up))
            .or_else(|| capacity(&|_| true))
            .unwrap_or(usize::MAX)
    }
}
