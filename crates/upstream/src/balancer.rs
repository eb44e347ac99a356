//! Chooses one of several servers for a request.
//!
//! Backup servers are chosen only while all others are unavailable. A server that fails its health checks is chosen only if no
//! other server is available, so that a wrong `health_check` does not take a site down (Envoy: panic mode). The methods for the
//! remaining servers:
//!
//! - round robin by weight, smoothly, as in nginx: each server gains its weight; the server with the most is chosen, and the sum of
//!   the weights is subtracted from it;
//! - least connections: requests in progress in relation to the weight; round robin among equals;
//! - affinity by weighted rendezvous hashing: the server with the highest score of (key, server) is chosen, so that adding or
//!   removing a server moves only the clients of that server. The hash is the same on every node.
//!
//! A server that has recovered begins with a tenth of its weight, which rises during `slow_start`; affinity does not depend on it.

use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use galley_config::{BalanceMethod, LoadBalancing, ServerShare};
use galley_policy::class::Network;
use galley_policy::cookie;
use http::header;
use siphasher::sip::SipHasher13;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::call::UpstreamCall;
use super::server_state::{ServerPermit, ServerState};

/// Chooses servers for the requests of one pool.
pub(super) struct Balancer {
    servers: Vec<BalancedServer>,
    balancing: LoadBalancing,
    /// The gained weight of each server in the round robin.
    gained: RefCell<Vec<i64>>,
}

/// A server and its share of the requests.
#[derive(Clone, Debug)]
pub struct BalancedServer {
    /// The state, shared by all users of the server.
    pub state: Arc<ServerState>,
    /// The weight, the limit, and whether the server is a backup.
    pub share: ServerShare,
}

/// The result of choosing.
pub(super) enum ServerChoice {
    /// A server.
    Server {
        /// The index of the server.
        index: usize,
        /// The permit for one request, to be held until the exchange has ended.
        permit: ServerPermit,
    },
    /// All servers that may be used have reached their limits.
    Full,
    /// No server may be used.
    None,
}

/// The server of an attempt.
#[derive(Clone, Copy)]
pub(super) struct ChosenServer<'b> {
    /// The index of the server.
    pub(super) index: usize,
    pub(super) state: &'b ServerState,
}

/// Indexes of servers; a longer list is allocated.
type Indexes = SmallVec<[usize; 8]>;

/// The hash of the client or cookie that determines the server.
#[derive(Clone, Copy)]
pub(super) struct AffinityKey(u64);

impl Balancer {
    pub(super) fn new(servers: Vec<BalancedServer>, balancing: LoadBalancing) -> Self {
        let gained = RefCell::new(vec![0; servers.len()]);
        Self {
            servers,
            balancing,
            gained,
        }
    }

    pub(super) fn state(&self, index: usize) -> Option<&Arc<ServerState>> {
        self.servers.get(index).map(|server| &server.state)
    }

    /// The time until a request may be sent to any server; zero if one may be used now.
    pub(super) fn pause(&self, now: Instant) -> Duration {
        let pauses = self.servers.iter();
        let pauses = pauses.map(|server| server.state.breaker.pause(now));
        pauses.min().unwrap_or_default()
    }

    /// Whether all servers are paused.
    pub(super) fn is_paused(&self) -> bool {
        !self.servers.iter().any(|one| one.state.breaker.is_closed())
    }

    /// The affinity key of a request; `None` if the method needs none.
    pub(super) fn key(&self, call: &UpstreamCall) -> Option<AffinityKey> {
        match &self.balancing.method {
            BalanceMethod::RoundRobin | BalanceMethod::LeastConnections => None,
            BalanceMethod::Client => Some(AffinityKey::of_client(call)),
            BalanceMethod::Cookie(name) => Some(
                AffinityKey::of_cookie(call, name).unwrap_or_else(|| AffinityKey::of_client(call)),
            ),
        }
    }

    /// Whether a server that is not among `tried` may be used.
    pub(super) fn has_other(&self, tried: &[usize], now: Instant) -> bool {
        let mut servers = self.servers.iter().enumerate();
        tried.len() < self.servers.len()
            && servers.any(|(index, server)| {
                !tried.contains(&index) && server.state.breaker.pause(now).is_zero()
            })
    }

    /// Chooses a server that is not among `tried`, with a permit for one request.
    pub(super) fn choose(
        &self,
        key: Option<AffinityKey>,
        tried: &[usize],
        now: Instant,
    ) -> ServerChoice {
        let mut candidates = self.candidates(tried, now);
        if candidates.is_empty() {
            return ServerChoice::None;
        }
        // Another thread may take the last permit after the choice.
        while let Some(index) = self.best(&candidates, key, now) {
            let server = self.servers.get(index);
            if let Some(permit) = server.and_then(|one| one.state.acquire(one.share.max)) {
                return ServerChoice::Server { index, permit };
            }
            candidates.retain(|one| *one != index);
        }
        ServerChoice::Full
    }

    /// Chooses a server, and waits for a permit if there is none; [`ServerChoice::Full`] after `longest`. Cancel-safe.
    pub(super) async fn wait(
        &self,
        key: Option<AffinityKey>,
        tried: &[usize],
        longest: Duration,
    ) -> ServerChoice {
        let end = Instant::now() + longest;
        loop {
            let now = Instant::now();
            match self.choose(key, tried, now) {
                ServerChoice::Full if now < end => tokio::time::sleep(RETRY_INTERVAL).await,
                choice => return choice,
            }
        }
    }

    /// The servers of the first group that is not empty: servers in use, backups in use, servers that fail their checks.
    fn candidates(&self, tried: &[usize], now: Instant) -> Indexes {
        let group = |is_wanted: &dyn Fn(&BalancedServer) -> bool| -> Indexes {
            let open = self.servers.iter().enumerate().filter(|(index, server)| {
                !tried.contains(index)
                    && is_wanted(server)
                    && server.state.breaker.pause(now).is_zero()
            });
            open.map(|(index, _)| index).collect()
        };
        let mut candidates = group(&|server| !server.share.is_backup && !server.state.is_out());
        if candidates.is_empty() {
            candidates = group(&|server| server.share.is_backup && !server.state.is_out());
        }
        if candidates.is_empty() {
            candidates = group(&|_| true);
        }
        candidates
    }

    fn best(&self, candidates: &[usize], key: Option<AffinityKey>, now: Instant) -> Option<usize> {
        let below_limit = candidates.iter().copied().filter(|index| {
            let server = self.servers.get(*index);
            server.is_some_and(|one| one.share.max.is_none_or(|max| one.state.has_capacity(max)))
        });
        let open: Indexes = below_limit.collect();
        match (key, &self.balancing.method) {
            (Some(key), _) => self.highest_score(&open, key),
            (None, BalanceMethod::LeastConnections) => {
                let idlest = self.least_loaded(&open, now);
                self.next_in_turn(&idlest, now)
            }
            (None, _) => self.next_in_turn(&open, now),
        }
    }

    fn next_in_turn(&self, open: &[usize], now: Instant) -> Option<usize> {
        let mut gained = self.gained.borrow_mut();
        let (mut sum, mut best) = (0, None);
        for index in open {
            let (Some(server), Some(own)) = (self.servers.get(*index), gained.get_mut(*index))
            else {
                continue;
            };
            let weight = i64::from(self.weight(server, now));
            *own += weight;
            sum += weight;
            if best.is_none_or(|(_, most)| *own > most) {
                best = Some((*index, *own));
            }
        }
        let (index, _) = best?;
        *gained.get_mut(index)? -= sum;
        Some(index)
    }

    /// The servers with the fewest requests in progress, in relation to their weights.
    fn least_loaded(&self, open: &[usize], now: Instant) -> Indexes {
        let mut least = Indexes::new();
        let mut lowest: Option<(u64, u64)> = None;
        for index in open {
            let Some(server) = self.servers.get(*index) else {
                continue;
            };
            let requests = server.state.in_flight() as u64 + 1;
            let weight = u64::from(self.weight(server, now));
            let order = lowest.map_or(
                std::cmp::Ordering::Less,
                |(other_requests, other_weight)| {
                    (requests * other_weight).cmp(&(other_requests * weight))
                },
            );
            if order.is_lt() {
                least.clear();
                lowest = Some((requests, weight));
            }
            if order.is_le() {
                least.push(*index);
            }
        }
        least
    }

    fn highest_score(&self, open: &[usize], key: AffinityKey) -> Option<usize> {
        let scored = open.iter().filter_map(|index| {
            let server = self.servers.get(*index)?;
            Some((
                *index,
                key.score(&server.state.address, server.share.weight),
            ))
        });
        let best = scored.max_by(|(_, one), (_, other)| one.total_cmp(other));
        best.map(|(index, _)| index)
    }

    /// The current weight, in hundredths.
    fn weight(&self, server: &BalancedServer, now: Instant) -> u32 {
        let whole = server.share.weight.saturating_mul(WHOLE);
        let Some(returned) = server.state.returned() else {
            return whole;
        };
        let passed = now.saturating_duration_since(returned);
        if passed >= self.balancing.slow_start {
            return whole;
        }
        let ramp = passed.as_secs_f64() / self.balancing.slow_start.as_secs_f64();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and the whole"
        )]
        let risen = (f64::from(whole) * ramp.max(SLOW_START_FLOOR)) as u32;
        risen.max(1)
    }
}

impl AffinityKey {
    fn of_client(call: &UpstreamCall) -> Self {
        Self::of(&Network::of(call.client_address))
    }

    fn of_cookie(call: &UpstreamCall, name: &str) -> Option<Self> {
        let fields = call.request.fields.iter();
        let mut cookies = fields.filter(|(field, _)| *field == header::COOKIE);
        cookies.find_map(|(_, value)| {
            let mut pairs = cookie::pairs(value.as_bytes());
            let pair = pairs.find(|pair| pair.name == name.as_bytes())?;
            Some(Self::of(&pair.value))
        })
    }

    fn of(what: &impl Hash) -> Self {
        let mut hasher = SipHasher13::new();
        what.hash(&mut hasher);
        Self(hasher.finish())
    }

    /// Weighted rendezvous hashing (Schindelhauer and Schomaker, 2005): -weight / ln(u), with u the hash as a number between 0
    /// and 1.
    fn score(self, address: &str, weight: u32) -> f64 {
        let mut hasher = SipHasher13::new_with_keys(self.0, 0);
        hasher.write(address.as_bytes());
        #[expect(
            clippy::cast_precision_loss,
            reason = "the upper 53 bits are what a float holds"
        )]
        let unit = ((hasher.finish() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        -f64::from(weight) / unit.ln()
    }
}

/// The interval between two attempts to get a permit. Requests of one pool queue for a slot, and there are at most as many slots as
/// permits; a permit is missing only if several pools use one server, or after a choice by affinity.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// The full weight in the unit in which it rises.
const WHOLE: u32 = 100;

/// The share of its weight with which a server begins: enough to be noticed, as in Envoy.
const SLOW_START_FLOOR: f64 = 0.1;

#[cfg(test)]
mod tests;
