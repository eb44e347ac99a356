//! Statistics of one upstream, for `status`, `why`, metrics and `Retry-After`.
//!
//! Written by the fetch thread, except the count of requests that a front thread rejected; read by any thread. Each number is
//! consistent in itself; two numbers may be from different moments.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use galley_policy::class::{Class, Standing, Trust};
use tokio::time::Instant;

use super::balancer::BalancedServer;
use super::pace;
use super::queue::QueueIdentity;
use super::spec::PoolSpec;
use galley_sys::connect::ConnectFailure;

/// Statistics of one upstream of one site.
#[derive(Debug)]
pub struct UpstreamStats {
    /// Slots in use.
    in_flight: AtomicUsize,
    /// Queued requests.
    waiting: AtomicUsize,
    /// The current limit.
    limit: AtomicUsize,
    /// The maximum of the limit.
    most: AtomicUsize,
    /// Idle connections.
    idle: AtomicUsize,
    /// Seconds until a slot is expected to be free.
    retry_after_s: AtomicU32,
    /// Admitted and rejected requests of each class, in the order of [`Class::ALL`].
    classes: Vec<(AtomicU64, AtomicU64)>,
    /// The hash of the client whose next request the full queue would reject; [`NO_CLIENT`] if none.
    full_client: AtomicU64,
    /// A bit for each class and trust, in the order of [`Class::ALL`]: whether the next request of such a client would be rejected.
    full_classes: AtomicU32,
    /// The end of the last rest of clients without proof, in microseconds after `started`.
    unseen_rests_until_us: AtomicU64,
    started: Instant,
    /// The seed of the hashes, so that a client cannot choose an address with the same hash as another client's.
    hash_seed: RandomState,
    /// Requests that were moved to a class or client that is served sooner.
    promoted: AtomicU64,
    /// The servers of the upstream, in the order of the configuration.
    servers: Vec<BalancedServer>,
}

/// A snapshot of [`UpstreamStats`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Slots in use.
    pub in_flight: usize,
    /// Queued requests.
    pub waiting: usize,
    /// The current limit.
    pub limit: usize,
    /// The maximum of the limit.
    pub most: usize,
    /// Idle connections.
    pub idle: usize,
}

/// Counts of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassCounts {
    /// The class.
    pub class: Class,
    /// Requests that got a slot.
    pub admitted: u64,
    /// Requests that timed out in the queue or found it full.
    pub rejected: u64,
}

impl UpstreamStats {
    /// Statistics of an upstream without requests.
    pub fn new(spec: &PoolSpec) -> Self {
        let most = spec.max_exchanges();
        Self {
            in_flight: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            limit: AtomicUsize::new(most),
            most: AtomicUsize::new(most),
            idle: AtomicUsize::new(0),
            retry_after_s: AtomicU32::new(1),
            classes: Class::ALL.iter().map(|_| Default::default()).collect(),
            full_client: AtomicU64::new(NO_CLIENT),
            full_classes: AtomicU32::new(0),
            unseen_rests_until_us: AtomicU64::new(0),
            started: Instant::now(),
            hash_seed: RandomState::new(),
            promoted: AtomicU64::new(0),
            servers: spec.servers.clone(),
        }
    }

    /// Whether a background request would take the last free slot.
    pub fn is_busy(&self) -> bool {
        let load = self.load();
        load.waiting > 0 || (load.in_flight > 0 && load.in_flight + 1 >= load.limit)
    }

    /// Whether deferrable work may be sent: no request waits, and less than half of the slots are taken.
    pub fn has_spare_slots(&self) -> bool {
        let load = self.load();
        load.waiting == 0 && load.in_flight * 2 < load.limit
    }

    /// A snapshot.
    pub fn load(&self) -> Load {
        let read = |number: &AtomicUsize| number.load(Ordering::Relaxed);
        Load {
            in_flight: read(&self.in_flight),
            waiting: read(&self.waiting),
            limit: read(&self.limit),
            most: read(&self.most),
            idle: read(&self.idle),
        }
    }

    /// Counts of all classes.
    pub fn classes(&self) -> impl Iterator<Item = ClassCounts> {
        let counts = Class::ALL.iter().zip(&self.classes);
        counts.map(|(class, (admitted, rejected))| ClassCounts {
            class: *class,
            admitted: admitted.load(Ordering::Relaxed),
            rejected: rejected.load(Ordering::Relaxed),
        })
    }

    /// The servers of the upstream; never empty.
    pub fn servers(&self) -> &[BalancedServer] {
        &self.servers
    }

    /// The servers that cannot be connected to, with the reason.
    pub fn connect_failures(&self) -> impl Iterator<Item = (&str, ConnectFailure)> {
        self.servers.iter().filter_map(|server| {
            let failure = server.state.connect_failure()?;
            Some((server.state.address.as_str(), failure))
        })
    }

    /// `Retry-After` for rejected requests, in seconds; at least 1.
    pub fn retry_after_s(&self) -> u32 {
        self.retry_after_s
            .load(Ordering::Relaxed)
            .clamp(1, MAX_RETRY_S)
    }

    /// Whether the full queue would reject one more request of `identity`: it rejects every request of the class, or those of this
    /// client. Of several such clients, only the last one is known. A client without proof is rejected, too, while its class rests.
    pub fn is_full_for(&self, identity: QueueIdentity) -> bool {
        if self.is_resting(identity) {
            return true;
        }
        if self.full_classes.load(Ordering::Relaxed) & bit(identity.class, identity.trust) != 0 {
            return true;
        }
        let full_client = self.full_client.load(Ordering::Relaxed);
        full_client != NO_CLIENT && full_client == self.hash(identity)
    }

    /// Records which requests the full queue would reject: those of a client, and all of some classes.
    pub fn set_full_for(&self, identity: Option<QueueIdentity>, classes: &[Standing]) {
        let bits = classes
            .iter()
            .fold(0, |bits, one| bits | bit(one.class, one.trust));
        self.full_classes.store(bits, Ordering::Relaxed);
        let hash = identity.map_or(NO_CLIENT, |identity| self.hash(identity));
        self.full_client.store(hash, Ordering::Relaxed);
    }

    /// Whether requests of such clients rest.
    pub(super) fn is_resting(&self, identity: QueueIdentity) -> bool {
        let until = Duration::from_micros(self.unseen_rests_until_us.load(Ordering::Relaxed));
        pace::rests(identity.standing()) && !until.is_zero() && self.started.elapsed() < until
    }

    pub(super) fn set_unseen_rest(&self, until: Instant) {
        let until = until.saturating_duration_since(self.started).as_micros();
        let until = u64::try_from(until).unwrap_or(0);
        self.unseen_rests_until_us.store(until, Ordering::Relaxed);
    }

    fn hash(&self, identity: QueueIdentity) -> u64 {
        self.hash_seed
            .hash_one((identity.class.word(), identity.trust, identity.client))
            .max(1)
    }

    /// The number of requests moved to a class or client that is served sooner, because another request needs the same page.
    pub fn promoted(&self) -> u64 {
        self.promoted.load(Ordering::Relaxed)
    }

    pub(super) fn count_promotion(&self) {
        self.promoted.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set_slots(&self, limit: usize, most: usize) {
        self.limit.store(limit, Ordering::Relaxed);
        self.most.store(most, Ordering::Relaxed);
    }

    pub(super) fn set_requests(&self, in_flight: usize, waiting: usize) {
        self.in_flight.store(in_flight, Ordering::Relaxed);
        self.waiting.store(waiting, Ordering::Relaxed);
    }

    pub(super) fn set_idle(&self, idle: usize) {
        self.idle.store(idle, Ordering::Relaxed);
    }

    pub(super) fn set_retry_after(&self, seconds: f64) {
        let seconds = seconds.ceil().clamp(1.0, f64::from(MAX_RETRY_S));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped above"
        )]
        self.retry_after_s.store(seconds as u32, Ordering::Relaxed);
    }

    pub(super) fn count_admitted(&self, class: Class) {
        if let Some((admitted, _)) = self.of(class) {
            admitted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a rejected request.
    pub fn count_rejected(&self, class: Class) {
        if let Some((_, rejected)) = self.of(class) {
            rejected.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn of(&self, class: Class) -> Option<&(AtomicU64, AtomicU64)> {
        let at = Class::ALL.iter().position(|one| *one == class)?;
        self.classes.get(at)
    }
}

/// A bit for a class and trust.
fn bit(class: Class, trust: Trust) -> u32 {
    let at = Class::ALL.iter().position(|one| *one == class);
    at.map_or(0, |at| 1 << (Trust::ALL.len() * at + trust as usize))
}

const _: () = assert!(Trust::ALL.len() * Class::ALL.len() <= 32);

/// A hash that no client has.
const NO_CLIENT: u64 = 0;

/// The longest `Retry-After`, in seconds: the overload may be over by then.
const MAX_RETRY_S: u32 = 60;
