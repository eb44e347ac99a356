//! Whether the servers of upstreams accept connections: tried at the start, and again while they have no requests or do not accept any.
//!
//! A wrong socket or a dead PHP is found before the first visitor finds it: a site whose visitors all get stored pages sends no
//! requests to PHP. The start does not wait and does not fail: PHP-FPM may start later.
//! The result is in the state of the server, where the log, `galley status` and `galley why` read it.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use galley_config::{Config, MachineFinding, OptionPath, SiteConfig, UpstreamConfig};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::health::CheckedServer;
use galley_sys::connect::{ConnectFailure, try_connect};
use galley_sys::reach::UserIdentity;
use galley_upstream::ServerState;

/// Starts a task for each server; they end when the result is dropped.
pub(super) fn start(servers: &[CheckedServer]) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for server in servers {
        tasks.spawn(keep(server.site.clone(), Arc::downgrade(&server.state)));
    }
    tasks
}

async fn keep(site: String, state: Weak<ServerState>) {
    let mut is_first = true;
    let (mut requests, mut failures) = (0, 0);
    loop {
        let Some(state) = state.upgrade() else { return };
        let last_failure = state.connect_failure();
        // A connection without TLS would succeed.
        let is_handshake = last_failure.as_ref().is_some_and(|last| last.is_handshake);
        let is_idle = state.requests() == requests && state.in_flight() == 0;
        requests = state.requests();
        if is_first || (!is_handshake && (is_idle || last_failure.is_some())) {
            let tried = connect(&state.address).await;
            let failure = tried.as_ref().err();
            if let (None, Some(failure)) = (&last_failure, failure) {
                let upstream = &state.address;
                tracing::warn!(site, upstream, cause = %failure.cause, "cannot connect to the upstream: {}", failure.remedy);
            }
            failures = if tried.is_ok() { 0 } else { failures + 1 };
            // Requests use the addresses that a name had before while name servers fail, so one failure is none yet.
            if tried.is_ok()
                || is_first
                || failures >= FAILURES_OF_NAMES
                || !is_name(&state.address)
            {
                state.reached(tried);
            }
        }
        drop(state);
        is_first = false;
        tokio::time::sleep(INTERVAL).await;
    }
}

/// As [`try_connect`], without a thread that blocks: one every two seconds would keep several threads alive for good.
async fn connect(address: &str) -> Result<(), ConnectFailure> {
    let connected = async {
        match address.strip_prefix("unix:") {
            Some(path) => match UnixStream::connect(path).await {
                // The queue of the socket is full, so somebody listens.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
                connected => connected.map(drop),
            },
            None => TcpStream::connect(address).await.map(drop),
        }
    };
    let connected = timeout(PATIENCE, connected).await;
    let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    connected.map_err(|error| ConnectFailure::new(address, &error))
}

/// The servers of all sites that accept no connection, for `galley check`. `who` is the user that would connect.
pub(super) fn unreachable(config: &Config, who: &UserIdentity) -> Vec<MachineFinding> {
    let sites = config.sites.iter().enumerate();
    let servers = sites.flat_map(|(index, site)| {
        let addresses = addresses(site).into_iter();
        addresses.map(move |(option, address)| (OptionPath::Site(index, option), address))
    });
    let servers: Vec<_> = servers.collect();
    let mut findings = Vec::new();
    for some in servers.chunks(AT_ONCE) {
        std::thread::scope(|scope| {
            let tries = some.iter().map(|(at, address)| {
                let tried = scope.spawn(|| tried_as(who, address));
                (at, address, tried)
            });
            for (at, address, tried) in tries.collect::<Vec<_>>() {
                let Ok(Err(failure)) = tried.join() else {
                    continue;
                };
                findings.push(MachineFinding {
                    at: at.clone(),
                    value: address.clone(),
                    why: format!("which cannot be connected to: {}", failure.cause),
                    help: failure.remedy.to_owned(),
                });
            }
        });
    }
    findings
}

/// The servers of a site that Galley does not run, with the options that name them.
pub fn addresses(site: &SiteConfig) -> Vec<(&'static str, String)> {
    let mut addresses = Vec::new();
    for upstream in site.further.iter().chain([&site.upstream]) {
        match upstream {
            UpstreamConfig::Php(servers) => {
                let servers = servers.iter().map(|one| one.address.to_string());
                addresses.extend(servers.map(|address| ("php", address)));
            }
            UpstreamConfig::Http(servers) => {
                let servers = servers.iter();
                addresses
                    .extend(servers.map(|one| ("upstream", format!("{}:{}", one.host, one.port))));
            }
            UpstreamConfig::Managed | UpstreamConfig::Program(_) | UpstreamConfig::Files => {}
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// Connects as the user of this process, if the user of the server may connect, too.
fn tried_as(who: &UserIdentity, address: &str) -> Result<(), ConnectFailure> {
    try_connect(address)?;
    let Some(path) = address
        .strip_prefix("unix:")
        .filter(|path| path.starts_with('/'))
    else {
        return Ok(());
    };
    let allowed = who.may_write(path.as_ref());
    allowed.map_err(|error| ConnectFailure::of_user(address, &error, who.uid()))
}

/// How many servers `galley check` tries at the same time: one behind a firewall takes seconds.
const AT_ONCE: usize = 32;

/// Whether an address is the name of a host.
fn is_name(address: &str) -> bool {
    !address.starts_with("unix:") && address.parse::<SocketAddr>().is_err()
}

/// Failures in a row after which an upstream with a name is out of reach.
const FAILURES_OF_NAMES: u32 = 3;

/// As long as `try_connect` waits for an address.
const PATIENCE: Duration = Duration::from_secs(2);

/// How soon it is noticed, without a request, that a server accepts no connections, or accepts them again.
const INTERVAL: Duration = Duration::from_secs(2);
