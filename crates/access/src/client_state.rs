//! The counters and verified passwords of clients.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use galley_cluster::{ClusterPublisher, LimitCharge};
use galley_policy::access::{Bucket, RateLimit};
use galley_policy::class::Network;
use galley_policy::crawlers::KnownCrawler;
use galley_policy::time::Tick;
use galley_sys::Lock;
use ipnet::IpNet;
use sha2::{Digest, Sha256};
use tokio::sync::OwnedSemaphorePermit;

use super::buckets::Buckets;
use super::connections::{ClientConnections, ConnectionSlot};
use super::crawler_names::CrawlerNames;
use super::passwords::{PasswordCheck, Passwords, VerifiedPasswords};
use super::visits::Visits;

/// The rate limit buckets, connection counts and verified passwords of all clients.
pub struct ClientState {
    buckets: Buckets,
    connections: Arc<ClientConnections>,
    exempt: Vec<IpNet>,
    verified: VerifiedPasswords,
    /// The visitors of each site that uses them, by the site's mark.
    visits: Lock<HashMap<u32, Weak<Visits>>>,
    names: CrawlerNames,
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

/// A crawler on one site. Clients that only claim to be the crawler have a pace of their own.
#[derive(Clone, Copy, Debug, Hash)]
pub struct PacedCrawler<'c> {
    /// The number of the site on this node.
    pub site: u32,
    /// The name of the crawler.
    pub name: &'c str,
    /// Whether it is proven.
    pub is_proven: bool,
}

impl ClientState {
    /// Creates empty state. `connections`: the maximum for one client; 0 for no limit. Starts a thread, so the caller must not be in
    /// the sandbox.
    pub fn new(connections: usize, exempt: Vec<IpNet>, cluster: Option<ClusterPublisher>) -> Self {
        Self {
            buckets: Buckets::new(),
            connections: Arc::new(ClientConnections::new(connections)),
            exempt,
            verified: VerifiedPasswords::new(),
            visits: Lock::default(),
            names: CrawlerNames::new(),
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

    /// Takes one of the pages with several facets that a proven client and its /24 or /48 get; false if either has had its share.
    pub fn take_combined(&self, site: u32, client: IpAddr, now: Tick) -> bool {
        let network = Network::of(client);
        let take = |whose: &str, owner: Network, (count, per_s, burst)| {
            let limit = RateLimit::new(count, per_s, burst);
            limit.is_some_and(|limit| {
                let taken = self.buckets.take(&(whose, site, owner), &limit, now);
                taken.is_ok()
            })
        };
        self.is_exempt(client)
            || take("facets of a client", network, COMBINED_OF_CLIENT)
                && take(
                    "facets of a network",
                    network.widened(),
                    COMBINED_OF_NETWORK,
                )
    }

    /// Counts requests of clients at other nodes.
    pub fn charge(&self, charges: &[LimitCharge], now: Tick) {
        for charge in charges {
            self.buckets.charge(&charge.owner, charge.ticks, now);
        }
    }

    /// The visitors of a site: those of the configuration before if the site was in it. Called when a site is built.
    pub fn visits(&self, mark: u32) -> Arc<Visits> {
        let mut sites = self.visits.lock();
        sites.retain(|_, visits| visits.strong_count() > 0);
        if let Some(known) = sites.get(&mark).and_then(Weak::upgrade) {
            return known;
        }
        let new = Arc::new(Visits::new());
        sites.insert(mark, Arc::downgrade(&new));
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

    /// Whether DNS has proved that the client at an address is the crawler that it claims to be. If that is not known, it is
    /// looked up in the background, as far as the limits permit; until then the client is unproven.
    pub fn confirms(&self, crawler: &'static KnownCrawler, address: IpAddr, now: Tick) -> bool {
        if let Some(known) = self.knows_name(crawler, address, now) {
            return known;
        }
        if let Some(permit) = self.lookup_permit(address, now) {
            self.names.look_up(permit, crawler, address, now);
        }
        false
    }

    /// Permission to look up the name of an address.
    fn lookup_permit(&self, address: IpAddr, now: Tick) -> Option<OwnedSemaphorePermit> {
        let permit = self.names.permit(now)?;
        let (count, per_s, burst) = LOOKUPS_OF_NETWORK;
        let limit = RateLimit::new(count, per_s, burst)?;
        let owner = ("crawler names", Network::of(address).widened());
        self.buckets.take(&owner, &limit, now).ok()?;
        self.names.spend(now).then_some(permit)
    }

    /// As [`confirms`](Self::confirms), without a lookup; `None`: not known.
    pub fn knows_name(&self, crawler: &KnownCrawler, address: IpAddr, now: Tick) -> Option<bool> {
        self.names.find(crawler.name, address, now)
    }

    /// Permits a crawler one page in each `delay`; the error is the time until the next one. Networks in `limit_exempt` are not
    /// exempt: all addresses of a crawler count together.
    pub fn pace(
        &self,
        crawler: &PacedCrawler<'_>,
        delay: Duration,
        now: Tick,
    ) -> Result<(), Duration> {
        match RateLimit::every(delay) {
            Some(limit) => self.buckets.take(crawler, &limit, now),
            None => Ok(()),
        }
    }

    fn is_exempt(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        self.exempt.iter().any(|network| network.contains(&client))
    }
}

/// Lookups of names in a number of seconds, and at once, for clients of one network. A search engine crawls from some dozens of
/// addresses of a network, and each is looked up once a day.
const LOOKUPS_OF_NETWORK: (u64, u64, u64) = (6, 60, 10);

/// Pages with several facets in a number of seconds, and at once. A person opens one every few seconds.
const COMBINED_OF_CLIENT: (u64, u64, u64) = (10, 60, 8);

/// The same for a /24 or /48: half of what the whole site gives, so that no network uses that up.
const COMBINED_OF_NETWORK: (u64, u64, u64) = (30, 60, 15);

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn clients() -> ClientState {
        ClientState::new(0, Vec::new(), None)
    }

    /// 70,000 false crawlers in ten seconds cause as many lookups as the limits permit.
    #[test]
    fn false_crawlers_cause_few_lookups() {
        let clients = clients();
        let permitted = |first: u32, step: u32| {
            let numbers = (0..70_000).map(|number: u32| (number, first + number * step));
            let permits = numbers.filter_map(|(number, bits)| {
                let address = IpAddr::V4(Ipv4Addr::from_bits(bits));
                clients.lookup_permit(address, Tick(u64::from(number) / 7))
            });
            permits.map(drop).count()
        };
        // One address each of as many networks, then all of a few hundred networks.
        assert_eq!(permitted(0x0a00_0000, 256), 20 + 4 * 10 - 1);
        assert!(permitted(0x0a00_0000, 1) < 20 + 4 * 10);
    }

    /// One network does not use up the lookups of the others.
    #[test]
    fn a_network_has_few_lookups() {
        let clients = clients();
        let of = |bits: u32| clients.lookup_permit(Ipv4Addr::from_bits(bits).into(), Tick(1_000));
        assert_eq!(
            (0..256)
                .filter_map(|low| of(0x0a00_0000 | low))
                .map(drop)
                .count(),
            10
        );
        assert!(of(0x0a00_0100).is_some());
    }

    #[test]
    fn a_crawler_gets_one_page_in_each_delay() {
        let clients = clients();
        let delay = Duration::from_millis(2_500);
        let pace = |site, name, is_proven, now| {
            let crawler = PacedCrawler {
                site,
                name,
                is_proven,
            };
            clients.pace(&crawler, delay, Tick(now))
        };
        assert_eq!(pace(1, "bingbot", true, 0), Ok(()));
        assert_eq!(pace(1, "bingbot", true, 500), Err(Duration::from_secs(2)));
        for other in [
            pace(2, "bingbot", true, 0),
            pace(1, "GPTBot", true, 0),
            pace(1, "bingbot", false, 0),
        ] {
            assert_eq!(other, Ok(()));
        }
        assert_eq!(pace(1, "bingbot", true, 2_500), Ok(()));
        let day = Duration::from_secs(86_400);
        let crawler = PacedCrawler {
            site: 1,
            name: "a",
            is_proven: true,
        };
        assert_eq!(clients.pace(&crawler, day, Tick(0)), Ok(()));
        let wait = clients.pace(&crawler, day, Tick(1_000)).unwrap_err();
        assert_eq!(wait.as_secs(), 86_399);
    }
}
