//! What is counted of clients, and what is known of their passwords: the state behind `galley_policy::access`.
//!
//! One for the process, shared by all cores, of fixed size. Nothing here makes a hit wait: counts are atomics, and the lock
//! of proven passwords is met only by requests that carry one, which pass the cache.

mod buckets;
mod connections;
mod hashes;
mod passwords;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use galley_policy::access::{Bucket, RateLimit};
use galley_policy::class::Network;
use galley_policy::time::Tick;
use ipnet::IpNet;

pub use buckets::Buckets;
use connections::ClientConnections;
pub use connections::ConnectionSlot;
use passwords::Proofs;
pub use passwords::{PasswordCheck, Passwords};

/// Clients, as far as something is counted of them.
pub struct ClientState {
    buckets: Buckets,
    connections: Arc<ClientConnections>,
    exempt: Vec<IpNet>,
    proofs: Proofs,
}

impl ClientState {
    /// Nothing counted yet. `connections` is the most of one client, 0 for any number.
    pub fn new(connections: usize, exempt: Vec<IpNet>) -> Self {
        Self {
            buckets: Buckets::new(),
            connections: Arc::new(ClientConnections::new(connections)),
            exempt,
            proofs: Proofs::new(),
        }
    }

    /// Takes a token for a client of the site with this mark; how long until there is one again.
    pub fn take(
        &self,
        site: u32,
        bucket: Bucket,
        limit: &RateLimit,
        client: IpAddr,
        now: Tick,
    ) -> Result<(), Duration> {
        if self.is_exempt(client) {
            return Ok(());
        }
        self.buckets
            .take(&(site, bucket, Network::of(client)), limit, now)
    }

    /// A place for one more connection of a client, if it may have one.
    pub fn seat(&self, client: IpAddr) -> Option<ConnectionSlot> {
        if self.is_exempt(client) {
            return Some(ConnectionSlot::uncounted());
        }
        self.connections.seat(Network::of(client))
    }

    /// Whether somebody may ask with these credentials, the text behind `Basic`.
    pub async fn prove(
        &self,
        passwords: &Arc<Passwords>,
        client: IpAddr,
        credentials: &[u8],
        now: Tick,
        may_compare: impl FnOnce() -> Result<(), Duration>,
    ) -> PasswordCheck {
        self.proofs
            .prove(
                passwords,
                Network::of(client),
                credentials,
                now,
                may_compare,
            )
            .await
    }

    fn is_exempt(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        self.exempt.iter().any(|network| network.contains(&client))
    }
}
