//! The counts and proven passwords of clients.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use galley_policy::access::{Bucket, RateLimit};
use galley_policy::class::Network;
use galley_policy::time::Tick;
use ipnet::IpNet;

use super::buckets::Buckets;
use super::connections::{ClientConnections, ConnectionSlot};
use super::passwords::{PasswordCheck, Passwords, Proofs};

/// Rate limit buckets, connection counts and proven passwords of all clients.
pub struct ClientState {
    buckets: Buckets,
    connections: Arc<ClientConnections>,
    exempt: Vec<IpNet>,
    proofs: Proofs,
}

impl ClientState {
    /// Without counts. `connections`: the maximum of one client; 0 for no limit.
    pub fn new(connections: usize, exempt: Vec<IpNet>) -> Self {
        Self {
            buckets: Buckets::new(),
            connections: Arc::new(ClientConnections::new(connections)),
            exempt,
            proofs: Proofs::new(),
        }
    }

    /// Takes a token for a client of the site with this mark; the error says when the next one is available.
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

    /// Counts one more connection of a client; `None` at the limit.
    pub fn seat(&self, client: IpAddr) -> Option<ConnectionSlot> {
        if self.is_exempt(client) {
            return Some(ConnectionSlot::uncounted());
        }
        self.connections.seat(Network::of(client))
    }

    /// Checks credentials, the text behind `Basic`.
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
