//! The counters and verified passwords of clients.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use galley_cluster::{ClusterPublisher, LimitCharge};
use galley_policy::access::{Bucket, RateLimit};
use galley_policy::class::Network;
use galley_policy::time::Tick;
use ipnet::IpNet;
use sha2::{Digest, Sha256};

use super::buckets::Buckets;
use super::connections::{ClientConnections, ConnectionSlot};
use super::passwords::{PasswordCheck, Passwords, VerifiedPasswords};
use super::visits::Visits;

/// The rate limit buckets, connection counts and verified passwords of all clients.
pub struct ClientState {
    buckets: Buckets,
    connections: Arc<ClientConnections>,
    exempt: Vec<IpNet>,
    verified: VerifiedPasswords,
    /// The visitors of each site that uses them, by the site's mark.
    visits: Mutex<HashMap<u32, Weak<Visits>>>,
    /// The publisher that reports shared limits to other nodes.
    cluster: Option<ClusterPublisher>,
}

/// The site whose limits apply.
#[derive(Clone, Copy, Debug)]
pub struct LimitedSite<'s> {
    /// The number of the site on this node.
    pub mark: u32,
    /// The name of the site, which is the same on all nodes of a cluster.
    pub name: &'s str,
}

impl ClientState {
    /// Creates empty state. `connections`: the maximum for one client; 0 for no limit.
    pub fn new(connections: usize, exempt: Vec<IpNet>, cluster: Option<ClusterPublisher>) -> Self {
        Self {
            buckets: Buckets::new(),
            connections: Arc::new(ClientConnections::new(connections)),
            exempt,
            verified: VerifiedPasswords::new(),
            visits: Mutex::default(),
            cluster,
        }
    }

    /// Takes a token for a client of a site; the error is the time until the next one. A shared limit is counted here, and
    /// reported to the other nodes, without waiting for them.
    pub fn take(
        &self,
        site: LimitedSite<'_>,
        bucket: Bucket,
        limit: &RateLimit,
        client: IpAddr,
        now: Tick,
    ) -> Result<(), Duration> {
        if self.is_exempt(client) {
            return Ok(());
        }
        let network = Network::of(client);
        let Some(cluster) = self.cluster.as_ref().filter(|_| limit.is_shared()) else {
            return self.buckets.take(&(site.mark, bucket, network), limit, now);
        };
        let owner = shared_owner(site.name, bucket, network);
        self.buckets.take(&owner, limit, now)?;
        cluster.count(LimitCharge {
            owner,
            ticks: limit.interval(),
        });
        Ok(())
    }

    /// Counts requests of clients at other nodes.
    pub fn charge(&self, charges: &[LimitCharge], now: Tick) {
        for charge in charges {
            self.buckets.charge(&charge.owner, charge.ticks, now);
        }
    }

    /// The visitors of a site: those of the configuration before if the site was in it. Called when a site is built.
    pub fn visits(&self, mark: u32) -> Arc<Visits> {
        let mut all = self.visits.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, visits| visits.strong_count() > 0);
        if let Some(known) = all.get(&mark).and_then(Weak::upgrade) {
            return known;
        }
        let new = Arc::new(Visits::new());
        all.insert(mark, Arc::downgrade(&new));
        new
    }

    /// Counts a new connection of a client; `None` at the limit.
    pub fn connection_slot(&self, client: IpAddr) -> Option<ConnectionSlot> {
        if self.is_exempt(client) {
            return Some(ConnectionSlot::uncounted());
        }
        self.connections.connection_slot(Network::of(client))
    }

    /// Checks credentials: the value after `Basic` in `Authorization`.
    pub async fn verify(
        &self,
        passwords: &Arc<Passwords>,
        client: IpAddr,
        credentials: &[u8],
        now: Tick,
        may_compare: impl FnOnce() -> Result<(), Duration>,
    ) -> PasswordCheck {
        self.verified
            .verify(
                passwords,
                Network::of(client),
                credentials,
                now,
                may_compare,
            )
            .await
    }

    /// Checks credentials for a session, without the results of earlier checks.
    pub async fn compare(
        &self,
        passwords: &Arc<Passwords>,
        credentials: &[u8],
        may_compare: impl FnOnce() -> Result<(), Duration>,
    ) -> PasswordCheck {
        self.verified
            .compare(passwords, credentials, may_compare)
            .await
    }

    fn is_exempt(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        self.exempt.iter().any(|network| network.contains(&client))
    }
}

/// The owner of a shared bucket: the same on every node. The client's address can only be found in it by guessing.
fn shared_owner(site: &str, bucket: Bucket, network: Network) -> u128 {
    let (kind, bits) = match network {
        Network::V4(bits) => (4_u8, u64::from(bits)),
        Network::V6(bits) => (6, bits),
    };
    let mut hash = Sha256::new();
    hash.update(bucket.code().to_le_bytes());
    hash.update([kind]);
    hash.update(bits.to_le_bytes());
    hash.update(site.as_bytes());
    let hash = hash.finalize();
    let half = hash.iter().take(16);
    half.fold(0, |number, byte| number << 8 | u128::from(*byte))
}
