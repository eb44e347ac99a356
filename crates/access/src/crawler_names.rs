//! Forward-confirmed reverse DNS: the name of an address is below a domain of the crawler's operator, and leads back to the
//! address. The operator controls the second part, so nobody else can have such a name.
//!
//! Lookups run on threads of their own, because the sandbox keeps threads that serve clients from the files of the resolver. A
//! request never waits for one: its client is unproven meanwhile. Anyone can claim to be a
//! crawler, from any number of addresses, so lookups are bounded three times: in number at the same time, per second, and per
//! network of the client ([`crate::ClientState::confirms`]). Proofs and failures have [`MAX_RESULTS`] places each, so that false
//! crawlers displace no proof.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread;

use galley_policy::access::{RateLimit, TICKS_PER_S, TokenResult};
use galley_policy::crawlers::KnownCrawler;
use galley_policy::time::Tick;
use galley_sys::Lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What DNS says about an address that claims to be a crawler's.
#[derive(Debug)]
pub enum NameCheck {
    /// This name is the operator's, and leads to the address.
    Proven(String),
    /// This name is not the operator's.
    Foreign(String),
    /// This name looks like the operator's, but does not lead to the address.
    Unconfirmed(String),
    /// The address has no name, or its name servers do not respond.
    NoName(io::Error),
}

impl NameCheck {
    /// Looks up the name of an address, and the addresses of that name. Blocks for as long as the resolver of the system does, up to
    /// half a minute.
    pub fn of(crawler: &KnownCrawler, address: IpAddr) -> Self {
        let address = address.to_canonical();
        let name = match dns_lookup::lookup_addr(&address) {
            Ok(name) => name,
            Err(error) => return Self::NoName(error.into()),
        };
        if !crawler.owns(&name) {
            return Self::Foreign(name);
        }
        let leads_back = (name.as_str(), 0)
            .to_socket_addrs()
            .is_ok_and(|mut found| found.any(|one| one.ip().to_canonical() == address));
        if leads_back {
            Self::Proven(name)
        } else {
            Self::Unconfirmed(name)
        }
    }

    /// For how many minutes the result is used. Addresses keep their names for months; name servers fail for minutes.
    const fn lifetime(&self) -> u64 {
        match self {
            Self::Proven(_) => 24 * 60,
            Self::Foreign(_) | Self::Unconfirmed(_) => 60,
            Self::NoName(_) => 10,
        }
    }
}

/// The names of crawlers: the results of lookups, and the lookups that may begin.
pub(crate) struct CrawlerNames {
    results: Arc<NameResults>,
    lookups: Arc<Semaphore>,
    /// The bucket of all lookups: its moment of being full. Not in the table of buckets, where other owners could replace it.
    bucket: AtomicU64,
    /// To the thread that begins lookups, which ends when this is dropped.
    questions: SyncSender<NameQuestion>,
}

/// Failures and proofs: until which minute each counts.
#[derive(Default)]
struct NameResults(Lock<[HashMap<NamedAddress, u64>; 2]>);

/// A crawler's name, and an address that claims it.
type NamedAddress = (&'static str, IpAddr);

/// A lookup to begin.
struct NameQuestion {
    crawler: &'static KnownCrawler,
    address: IpAddr,
    now: Tick,
    /// Held until the lookup has ended.
    _permit: OwnedSemaphorePermit,
}

impl CrawlerNames {
    /// Starts the thread that begins lookups. The caller must not be in the sandbox of threads that serve clients, which the new
    /// thread would inherit.
    pub(crate) fn new() -> Self {
        let results = Arc::new(NameResults::default());
        // A place for each lookup in progress, so that it is never full.
        let (questions, asked) = mpsc::sync_channel(MAX_LOOKUPS);
        let sink = Arc::clone(&results);
        let begin = move || asked.iter().for_each(|one| begin(one, &sink));
        let thread = thread::Builder::new().name("crawler-names".to_owned());
        if let Err(error) = thread.spawn(begin) {
            tracing::warn!(%error, "cannot start the thread that looks up names of crawlers; only lists prove crawlers");
        }
        Self {
            results,
            lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)),
            bucket: AtomicU64::new(0),
            questions,
        }
    }

    /// As [`NameResults::find`].
    pub(crate) fn find(&self, crawler: &'static str, address: IpAddr, now: Tick) -> Option<bool> {
        self.results.find(crawler, address, now)
    }

    /// Permission for one more lookup; `None` if enough are in progress, or were begun within the last second. Takes nothing
    /// from the bucket, so that a client whose network has no lookup left takes none from others.
    pub(crate) fn permit(&self, now: Tick) -> Option<OwnedSemaphorePermit> {
        next_state(self.bucket.load(Ordering::Relaxed), now)?;
        Arc::clone(&self.lookups).try_acquire_owned().ok()
    }

    /// Takes a lookup from the bucket; false if other threads took the last one.
    pub(crate) fn spend(&self, now: Tick) -> bool {
        let next = |state| next_state(state, now);
        let order = Ordering::Relaxed;
        self.bucket.fetch_update(order, order, next).is_ok()
    }

    /// Looks up an address in the background.
    pub(crate) fn look_up(
        &self,
        permit: OwnedSemaphorePermit,
        crawler: &'static KnownCrawler,
        address: IpAddr,
        now: Tick,
    ) {
        // Further requests of this client meanwhile cause no further lookup.
        let results = &self.results;
        results.store(crawler.name, address, false, now, PENDING_MIN);
        // Without the thread nothing is looked up, which was logged when it did not start.
        let _ = self.questions.try_send(NameQuestion {
            crawler,
            address,
            now,
            _permit: permit,
        });
    }
}

/// Begins a lookup on a thread of its own: one that hangs delays no other.
fn begin(question: NameQuestion, results: &Arc<NameResults>) {
    let results = Arc::clone(results);
    let thread = thread::Builder::new().name("crawler-name".to_owned());
    if let Err(error) = thread.spawn(move || question.answer(&results)) {
        tracing::debug!(%error, "cannot start a thread to look up the name of a crawler");
    }
}

impl NameQuestion {
    fn answer(&self, results: &NameResults) {
        let (crawler, address) = (self.crawler, self.address);
        let check = NameCheck::of(crawler, address);
        let is_proven = matches!(check, NameCheck::Proven(_));
        results.store(crawler.name, address, is_proven, self.now, check.lifetime());
        tracing::debug!(crawler = crawler.name, %address, ?check, "looked up the name of a crawler");
    }
}

impl NameResults {
    /// Whether the address is proven to be the crawler's; `None`: not known.
    fn find(&self, crawler: &'static str, address: IpAddr, now: Tick) -> Option<bool> {
        let owner = (crawler, address.to_canonical());
        let [failed, proven] = &*self.0.lock();
        let is_valid = |results: &HashMap<NamedAddress, u64>| {
            results
                .get(&owner)
                .is_some_and(|until| *until > minutes(now))
        };
        if is_valid(proven) {
            return Some(true);
        }
        is_valid(failed).then_some(false)
    }

    fn store(
        &self,
        crawler: &'static str,
        address: IpAddr,
        is_proven: bool,
        now: Tick,
        lifetime: u64,
    ) {
        let owner = (crawler, address.to_canonical());
        let mut results = self.0.lock();
        let [failed, proven] = &mut *results;
        proven.remove(&owner);
        let results = if is_proven { proven } else { failed };
        if results.len() >= MAX_RESULTS {
            results.retain(|_, until| *until > minutes(now));
        }
        // Still full: any of them is looked up once more.
        let other = results.keys().next().copied();
        if let Some(other) = other.filter(|_| results.len() >= MAX_RESULTS) {
            results.remove(&other);
        }
        results.insert(owner, minutes(now) + lifetime + 1);
    }
}

/// The state of the bucket of all lookups after one more.
fn next_state(state: u64, now: Tick) -> Option<u64> {
    let (count, per_s, burst) = LOOKUPS;
    let now = now.0.saturating_mul(TICKS_PER_S / 1_000);
    match RateLimit::new(count, per_s, burst)?.take(state, now) {
        TokenResult::Token(state) => Some(state),
        TokenResult::None(_) => None,
    }
}

/// The minutes since the start of the process.
fn minutes(now: Tick) -> u64 {
    now.0 / 60_000
}

/// As many as all addresses of several search engines that visit within a day.
const MAX_RESULTS: usize = 4_096;

/// How long a lookup in progress counts as one without result.
const PENDING_MIN: u64 = 1;

/// Lookups in a number of seconds, and at once. Each sends a few packets to name servers that the client may have chosen.
const LOOKUPS: (u64, u64, u64) = (4, 1, 20);

/// The maximum number of concurrent lookups, each with a thread.
const MAX_LOOKUPS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(0xc000_0200 + number).into()
    }

    fn minute(number: u64) -> Tick {
        Tick(number * 60_000)
    }

    #[test]
    fn results_are_found_until_they_expire() {
        let names = NameResults::default();
        names.store("Googlebot", address(1), true, minute(5), 10);
        names.store("Googlebot", address(2), false, minute(5), 10);
        assert_eq!(names.find("Googlebot", address(1), minute(15)), Some(true));
        assert_eq!(names.find("Googlebot", address(2), minute(5)), Some(false));
        assert_eq!(names.find("Googlebot", address(3), minute(5)), None);
        assert_eq!(names.find("bingbot", address(1), minute(5)), None);
        let mapped = IpAddr::V6(Ipv4Addr::from_bits(0xc000_0201).to_ipv6_mapped());
        assert_eq!(names.find("Googlebot", mapped, minute(5)), Some(true));
        assert_eq!(names.find("Googlebot", address(1), minute(16)), None);
        names.store("Googlebot", address(1), false, minute(6), 10);
        assert_eq!(names.find("Googlebot", address(1), minute(6)), Some(false));
    }

    #[test]
    fn failures_never_replace_proofs() {
        let names = NameResults::default();
        for number in 0..100 {
            names.store("Googlebot", address(number), true, minute(0), 60);
        }
        for number in 0..10_000 {
            names.store("Googlebot", address(1_000 + number), false, minute(1), 60);
        }
        let kept = (0..100)
            .filter(|number| names.find("Googlebot", address(*number), minute(1)) == Some(true));
        assert_eq!(kept.count(), 100);
    }

    #[test]
    fn lookups_in_progress_are_limited() {
        let names = CrawlerNames::new();
        let permit = || names.permit(minute(1));
        let permits: Vec<_> = std::iter::from_fn(permit).collect();
        assert_eq!(permits.len(), MAX_LOOKUPS);
        drop(permits);
        assert!(permit().is_some());
    }
}
