//! The shared state of one server: requests in progress, circuit breaker, health checks, and the time of its last recovery.
//!
//! A state belongs to a server of a site; the number of requests in progress belongs to an address, over all sites that use it.
//! If several sites do and the server has a limit, one of them cannot use all of it: a site gets another permit only while at
//! least a third as many as it has would remain free. A site alone gets three quarters, two get 3/7 each, and there is always
//! one permit for the next site (dynamic thresholds, Choudhury and Hahne, 1998). Both outlive a configuration: a reload reuses
//! the states of servers that remain ([`ServerStates`]). Fetch threads and the task that checks the server write; the admin
//! interface reads. Hits do not use them.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use galley_config::HealthCheckConfig;
use galley_policy::outcome::words;
use tokio::time::Instant;

use super::breaker::Breaker;
use galley_sys::Lock;
use galley_sys::connect::ConnectFailure;

/// The state of one server of one site; see the module.
#[derive(Debug)]
pub struct ServerState {
    /// The address, in the notation of the configuration.
    pub address: String,
    pub(super) breaker: Breaker,
    /// The state that is shared by all sites with this address.
    shared: Arc<SharedAddress>,
    /// The requests in progress of this site.
    own: Arc<AtomicUsize>,
    requests: AtomicU64,
    failures: AtomicU64,
    checks: Lock<Checks>,
    /// Whether `connect_failure` is set: connections succeed without its lock.
    is_unreachable: AtomicBool,
    /// The failure of the last connection, and the time of the first failure since a success.
    connect_failure: Lock<Option<(ConnectFailure, Instant)>>,
}

/// The state of an address that one or several sites use.
#[derive(Debug, Default)]
struct SharedAddress {
    /// The requests in progress of all sites.
    in_flight: AtomicUsize,
    /// The number of sites that use the address.
    sites: AtomicUsize,
}

/// The results of the health checks of a server.
#[derive(Debug)]
struct Checks {
    health: CheckedHealth,
    /// The time when `health` last changed between in and out.
    since: Instant,
    /// The time when the checks last ended an outage.
    returned: Option<Instant>,
}

/// Whether a server passes its health checks, and the number of consecutive checks with the opposite result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckedHealth {
    In { failed: u32 },
    Out { passed: u32 },
}

/// The change that a check has caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthChange {
    /// No change.
    None,
    /// The server no longer gets requests.
    TakenOut,
    /// The server gets requests again.
    BroughtBack,
}

words! {
    /// Whether a server gets requests.
    ServerEligibility {
        /// The server gets requests.
        Up = "up",
        /// The circuit breaker is open, because the server does not respond.
        Paused = "paused",
        /// The server fails its health checks.
        Down = "down",
    }
}

/// The permit for one request at a server; dropping it ends the request.
#[derive(Debug)]
pub(super) struct ServerPermit {
    shared: Arc<SharedAddress>,
    own: Arc<AtomicUsize>,
}

/// The states of all servers of this process, by site and address.
#[derive(Debug, Default)]
pub struct ServerStates {
    states: Lock<HashMap<(String, String), Weak<ServerState>>>,
    addresses: Lock<HashMap<String, Weak<SharedAddress>>>,
}

impl ServerState {
    fn new(site: &str, address: &str, shared: Arc<SharedAddress>) -> Self {
        shared.sites.fetch_add(1, Ordering::Relaxed);
        Self {
            address: address.to_owned(),
            breaker: Breaker::new(site, address),
            shared,
            own: Arc::default(),
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            checks: Lock::new(Checks {
                health: CheckedHealth::In { failed: 0 },
                since: Instant::now(),
                returned: None,
            }),
            is_unreachable: AtomicBool::new(false),
            connect_failure: Lock::default(),
        }
    }

    /// The requests in progress of all sites.
    pub fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Ordering::Relaxed)
    }

    /// The number of requests that were sent to the server.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// The number of requests without a response, and of failed connection attempts.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// How often the circuit breaker has opened.
    pub fn pauses(&self) -> u64 {
        self.breaker.pauses()
    }

    /// Whether the server gets requests.
    pub fn eligibility(&self) -> ServerEligibility {
        if self.is_out() {
            ServerEligibility::Down
        } else if self.breaker.is_closed() {
            ServerEligibility::Up
        } else {
            ServerEligibility::Paused
        }
    }

    /// Whether the next request is sent to the server, perhaps as the probe after an outage.
    pub fn may_be_tried(&self, now: Instant) -> bool {
        !self.is_out() && self.breaker.pause(now).is_zero()
    }

    /// The time since the last change of the server's state.
    pub fn unchanged_for(&self, now: Instant) -> Duration {
        let checked = self.checks.lock().since;
        let latest = self.breaker.since().map_or(checked, |at| at.max(checked));
        now.saturating_duration_since(latest)
    }

    /// Whether the health checks took the server out of use.
    pub(super) fn is_out(&self) -> bool {
        matches!(self.checks.lock().health, CheckedHealth::Out { .. })
    }

    /// The time of the last recovery, by the checks or the circuit breaker; `None` if there was no outage.
    pub(super) fn returned(&self) -> Option<Instant> {
        self.breaker.resumed().max(self.checks.lock().returned)
    }

    /// Whether this site may have one more request in progress, if all sites together may have `max`.
    pub(super) fn has_capacity(&self, max: usize) -> bool {
        let own_requests = self.own.load(Ordering::Relaxed);
        let others = self.in_flight().saturating_sub(own_requests);
        others < max && own_requests < self.most_of(max - others)
    }

    /// The number of requests in progress that this site may have while others have none, of `max` in total.
    pub(super) fn most_of(&self, max: usize) -> usize {
        match self.shared.sites.load(Ordering::Relaxed) {
            0 | 1 => max,
            _ => max.saturating_sub(1) * TAKEN / (TAKEN + LEFT_FREE) + 1,
        }
    }

    /// Returns the permit for one more request, unless the server has `max` requests in progress, or the site has its share of
    /// them.
    pub(super) fn acquire(&self, max: Option<usize>) -> Option<ServerPermit> {
        let most = max.unwrap_or(usize::MAX);
        if max.is_some_and(|max| !self.has_capacity(max)) {
            return None;
        }
        let more = |count: usize| (count < most).then_some(count + 1);
        self.shared
            .in_flight
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        self.own.fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        Some(ServerPermit {
            shared: Arc::clone(&self.shared),
            own: Arc::clone(&self.own),
        })
    }

    /// Records the result of a connection attempt.
    pub(super) fn connected(&self, error: Option<&io::Error>) {
        let failure = error.map(|error| ConnectFailure::new(&self.address, error));
        self.reached(failure.map_or(Ok(()), Err));
    }

    /// As `ServerState::connected`, for an attempt of another thread.
    pub fn reached(&self, result: Result<(), ConnectFailure>) {
        if result.is_ok() && !self.is_unreachable.load(Ordering::Relaxed) {
            return;
        }
        let mut last_failure = self.connect_failure.lock();
        self.is_unreachable
            .store(result.is_err(), Ordering::Relaxed);
        let since = last_failure.as_ref().map(|(_, since)| *since);
        let failure = result.err();
        *last_failure = failure.map(|failure| (failure, since.unwrap_or_else(Instant::now)));
    }

    /// Why the last connection failed; `None` if it succeeded, or if there was none yet.
    pub fn connect_failure(&self) -> Option<ConnectFailure> {
        let last_failure = self.connect_failure.lock();
        last_failure.as_ref().map(|(failure, _)| failure.clone())
    }

    /// The time since which no connection succeeds; `None` if the last one did.
    pub fn unreachable_for(&self, now: Instant) -> Option<Duration> {
        let last_failure = self.connect_failure.lock();
        (last_failure.as_ref()).map(|(_, since)| now.saturating_duration_since(*since))
    }

    pub(super) fn count_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Records the result of a health check.
    pub fn checked(&self, passed: bool, config: &HealthCheckConfig, now: Instant) -> HealthChange {
        let mut checks = self.checks.lock();
        let (health, change) = checks.health.after(passed, config);
        checks.health = health;
        match change {
            HealthChange::None => {}
            HealthChange::TakenOut => checks.since = now,
            HealthChange::BroughtBack => {
                checks.since = now;
                checks.returned = Some(now);
            }
        }
        drop(checks);
        if change == HealthChange::BroughtBack {
            self.breaker.close();
        }
        change
    }

    /// Discards the results of health checks when the checks end: from then on only failed requests count.
    pub fn forget_checks(&self) {
        let mut checks = self.checks.lock();
        if matches!(checks.health, CheckedHealth::Out { .. }) {
            checks.since = Instant::now();
        }
        checks.health = CheckedHealth::In { failed: 0 };
    }
}

impl CheckedHealth {
    fn after(self, passed: bool, config: &HealthCheckConfig) -> (Self, HealthChange) {
        match (self, passed) {
            (Self::In { .. }, true) => (Self::In { failed: 0 }, HealthChange::None),
            (Self::Out { .. }, false) => (Self::Out { passed: 0 }, HealthChange::None),
            (Self::In { failed }, false) if failed + 1 < config.fall => {
                let failed = failed + 1;
                (Self::In { failed }, HealthChange::None)
            }
            (Self::In { .. }, false) => (Self::Out { passed: 0 }, HealthChange::TakenOut),
            (Self::Out { passed }, true) if passed + 1 < config.rise => {
                let passed = passed + 1;
                (Self::Out { passed }, HealthChange::None)
            }
            (Self::Out { .. }, true) => (Self::In { failed: 0 }, HealthChange::BroughtBack),
        }
    }
}

impl Drop for ServerPermit {
    fn drop(&mut self) {
        self.own.fetch_sub(1, Ordering::Relaxed);
        self.shared.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for ServerState {
    fn drop(&mut self) {
        self.shared.sites.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ServerStates {
    /// The state of a server of a site, created if there is none.
    pub fn of(&self, site: &str, address: &str) -> Arc<ServerState> {
        let shared = self.shared(address);
        let mut states = self.states.lock();
        states.retain(|_, state| state.strong_count() > 0);
        let key = (site.to_owned(), address.to_owned());
        if let Some(known) = states.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        let state = Arc::new(ServerState::new(site, address, shared));
        states.insert(key, Arc::downgrade(&state));
        state
    }

    fn shared(&self, address: &str) -> Arc<SharedAddress> {
        let mut addresses = self.addresses.lock();
        addresses.retain(|_, shared| shared.strong_count() > 0);
        if let Some(known) = addresses.get(address).and_then(Weak::upgrade) {
            return known;
        }
        let shared = Arc::default();
        addresses.insert(address.to_owned(), Arc::downgrade(&shared));
        shared
    }
}

/// A site may use `TAKEN` permits of a shared server for each `LEFT_FREE` that remain free.
const TAKEN: usize = 3;
const LEFT_FREE: usize = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> HealthCheckConfig {
        HealthCheckConfig {
            rise: 2,
            fall: 3,
            ..HealthCheckConfig::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn consecutive_checks_take_a_server_out_and_bring_it_back() {
        let state = ServerStates::default().of("example.com", "10.0.0.1:80");
        let mut changes = Vec::new();
        // Two failures are no outage, and one success among failures is no recovery.
        for passed in "--+---+-+++".chars().map(|mark| mark == '+') {
            tokio::time::advance(Duration::from_secs(1)).await;
            let change = state.checked(passed, &config(), Instant::now());
            changes.push((change, state.eligibility()));
        }
        let (none, up, down) = (
            HealthChange::None,
            ServerEligibility::Up,
            ServerEligibility::Down,
        );
        let out = (HealthChange::TakenOut, down);
        let back = (HealthChange::BroughtBack, up);
        let mut wanted = vec![(none, up); 5];
        wanted.push(out);
        wanted.extend([(none, down); 3]);
        wanted.extend([back, (none, up)]);
        assert_eq!(changes, wanted);
        assert_eq!(state.unchanged_for(Instant::now()).as_secs(), 1);
        assert!(state.returned().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_is_in_use_again_when_its_checks_end() {
        let state = ServerStates::default().of("example.com", "10.0.0.1:80");
        for _ in 0..3 {
            state.checked(false, &config(), Instant::now());
        }
        assert_eq!(state.eligibility(), ServerEligibility::Down);
        state.forget_checks();
        assert_eq!(state.eligibility(), ServerEligibility::Up);
    }

    #[tokio::test]
    async fn a_reload_reuses_states_and_sites_share_the_count_of_an_address() {
        let states = ServerStates::default();
        let one = states.of("a.example", "10.0.0.1:80");
        let again = states.of("a.example", "10.0.0.1:80");
        assert!(Arc::ptr_eq(&one, &again));
        let other = states.of("b.example", "10.0.0.1:80");
        assert!(!Arc::ptr_eq(&one, &other));
        let permit = one.acquire(Some(1)).unwrap();
        assert_eq!(other.in_flight(), 1);
        assert!(other.acquire(Some(1)).is_none());
        drop(permit);
        assert!(other.acquire(Some(1)).is_some());
        drop((one, again));
        let new = states.of("a.example", "10.0.0.1:80");
        assert_eq!(new.requests(), 0, "nobody used the old one any more");
    }

    /// All permits that a site gets one after the other, while others hold theirs.
    fn take_all(state: &ServerState, max: usize) -> Vec<ServerPermit> {
        std::iter::from_fn(|| state.acquire(Some(max))).collect()
    }

    #[tokio::test]
    async fn no_site_uses_all_permits_of_a_shared_server() {
        for (max, first, second) in [(1, 1, 0), (2, 1, 1), (4, 3, 1), (8, 6, 1), (20, 15, 4)] {
            let states = ServerStates::default();
            let flooded = states.of("a.example", "10.0.0.1:80");
            let neighbor = states.of("b.example", "10.0.0.1:80");
            let taken = take_all(&flooded, max);
            assert_eq!(taken.len(), first, "of {max}");
            assert_eq!(take_all(&neighbor, max).len(), second, "of {max}");
            assert_eq!(flooded.most_of(max), first, "of {max}");
        }
    }

    #[tokio::test]
    async fn a_site_gets_all_permits_as_soon_as_no_other_site_uses_the_server() {
        let states = ServerStates::default();
        let one = states.of("a.example", "10.0.0.1:80");
        let other = states.of("b.example", "10.0.0.1:80");
        assert_eq!(take_all(&one, 4).len(), 3);
        drop(other);
        assert_eq!(take_all(&one, 4).len(), 4);
        let elsewhere = states.of("b.example", "10.0.0.2:80");
        assert_eq!(take_all(&elsewhere, 4).len(), 4, "another address");
        assert_eq!(take_all(&one, 4).len(), 4);
    }
}
