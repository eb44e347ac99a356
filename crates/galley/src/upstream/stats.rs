//! What the way to one upstream looks like from outside: for `status`, `why`, metrics, and `Retry-After`.
//!
//! Written by the fetch thread's thread, but for counts of those whom a front core turned away; read by any. Each number is right by itself; together they may be of two moments.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use galley_policy::class::Class;

use super::queue::QueueIdentity;
use super::{PoolSpec, UpstreamAddress};

/// One upstream of one site.
#[derive(Debug)]
pub struct UpstreamStats {
    /// Places taken.
    in_flight: AtomicUsize,
    /// Requests waiting for one.
    waiting: AtomicUsize,
    /// Places that there are now.
    limit: AtomicUsize,
    /// Places that there may be at most.
    most: AtomicUsize,
    /// Connections kept without a request.
    idle: AtomicUsize,
    /// After how many seconds a place may be free.
    retry_after_s: AtomicU32,
    /// For each class, in the order of [`Class::ALL`]: let in, and turned away.
    classes: Vec<(AtomicU64, AtomicU64)>,
    /// The mark of whom the queue has no room for, [`NOBODY`] if it has.
    shut: AtomicU64,
    /// A bit for each class of which it has no room for anybody, in the order of [`Class::ALL`].
    shut_classes: AtomicU8,
    /// Seeds the marks, so that nobody can choose an address with the mark of another.
    marks: RandomState,
    /// Requests that moved to another line.
    hurried: AtomicU64,
    /// Its servers, in the order of the configuration.
    servers: Vec<ServerStats>,
}

/// One server of an upstream.
#[derive(Debug)]
pub struct ServerStats {
    /// Where it is, as people write it.
    pub address: String,
    is_paused: AtomicBool,
    pauses: AtomicU64,
}

/// A moment of a [`UpstreamStats`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Places taken.
    pub in_flight: usize,
    /// Requests waiting for one.
    pub waiting: usize,
    /// Places now.
    pub limit: usize,
    /// Places at most.
    pub most: usize,
    /// Connections kept without a request.
    pub idle: usize,
}

/// What became of the requests of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfClass {
    /// Which.
    pub class: Class,
    /// Let in.
    pub let_in: u64,
    /// Turned away, because no place was free in time.
    pub turned_away: u64,
}

impl UpstreamStats {
    /// The gauge of an upstream that nobody has asked yet.
    pub fn new(spec: &PoolSpec) -> Self {
        let servers = match &spec.target {
            UpstreamAddress::FastCgi(address) => vec![ServerStats::new(address.to_string())],
            UpstreamAddress::Http(servers) => {
                let servers = servers.iter();
                servers
                    .map(|server| ServerStats::new(format!("{}:{}", server.host, server.port)))
                    .collect()
            }
        };
        let most = spec.most();
        Self {
            in_flight: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            limit: AtomicUsize::new(most),
            most: AtomicUsize::new(most),
            idle: AtomicUsize::new(0),
            retry_after_s: AtomicU32::new(1),
            classes: Class::ALL.iter().map(|_| Default::default()).collect(),
            shut: AtomicU64::new(NOBODY),
            shut_classes: AtomicU8::new(0),
            marks: RandomState::new(),
            hurried: AtomicU64::new(0),
            servers,
        }
    }

    /// The numbers of this moment.
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
    pub fn classes(&self) -> impl Iterator<Item = OfClass> {
        let counts = Class::ALL.iter().zip(&self.classes);
        counts.map(|(class, (let_in, turned_away))| OfClass {
            class: *class,
            let_in: let_in.load(Ordering::Relaxed),
            turned_away: turned_away.load(Ordering::Relaxed),
        })
    }

    /// Its servers; never empty.
    pub fn servers(&self) -> &[ServerStats] {
        &self.servers
    }

    /// What a client that was turned away is told to wait, in seconds; at least 1.
    pub fn retry_after_s(&self) -> u32 {
        self.retry_after_s
            .load(Ordering::Relaxed)
            .clamp(1, LONGEST_RETRY_S)
    }

    /// Whether the queue has no room for one more request of `who` at this moment: for nobody of that class, or not for this
    /// client. Of several clients who get none it knows the last.
    pub fn is_shut_for(&self, who: QueueIdentity) -> bool {
        if self.shut_classes.load(Ordering::Relaxed) & bit(who.class) != 0 {
            return true;
        }
        let shut = self.shut.load(Ordering::Relaxed);
        shut != NOBODY && shut == self.mark(who)
    }

    /// Notes for whom the queue has no room: a client, and everybody of some classes.
    pub(crate) fn shut_for(&self, who: Option<QueueIdentity>, classes: &[Class]) {
        let bits = classes.iter().fold(0, |bits, class| bits | bit(*class));
        self.shut_classes.store(bits, Ordering::Relaxed);
        let mark = who.map_or(NOBODY, |who| self.mark(who));
        self.shut.store(mark, Ordering::Relaxed);
    }

    fn mark(&self, who: QueueIdentity) -> u64 {
        self.marks.hash_one((who.class.word(), who.client)).max(1)
    }

    /// Requests that moved to a line in which they are served sooner, because somebody else wanted the same page.
    pub fn hurried_on(&self) -> u64 {
        self.hurried.load(Ordering::Relaxed)
    }

    pub(super) fn hurried(&self) {
        self.hurried.fetch_add(1, Ordering::Relaxed);
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
        let seconds = seconds.ceil().clamp(1.0, f64::from(LONGEST_RETRY_S));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped above"
        )]
        self.retry_after_s.store(seconds as u32, Ordering::Relaxed);
    }

    pub(super) fn let_in(&self, class: Class) {
        if let Some((let_in, _)) = self.of(class) {
            let_in.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts one of a class that was turned away.
    pub fn turned_away(&self, class: Class) {
        if let Some((_, turned_away)) = self.of(class) {
            turned_away.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn of(&self, class: Class) -> Option<&(AtomicU64, AtomicU64)> {
        let at = Class::ALL.iter().position(|one| *one == class)?;
        self.classes.get(at)
    }
}

impl ServerStats {
    fn new(address: String) -> Self {
        Self {
            address,
            is_paused: AtomicBool::new(false),
            pauses: AtomicU64::new(0),
        }
    }

    /// Whether it is left alone because it failed.
    pub fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    /// How often that has begun.
    pub fn pauses(&self) -> u64 {
        self.pauses.load(Ordering::Relaxed)
    }

    pub(super) fn pause(&self) {
        self.is_paused.store(true, Ordering::Relaxed);
        self.pauses.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn resume(&self) {
        self.is_paused.store(false, Ordering::Relaxed);
    }
}

/// Its place among the classes, as a bit.
fn bit(class: Class) -> u8 {
    let at = Class::ALL.iter().position(|one| *one == class);
    at.map_or(0, |at| 1 << at)
}

const _: () = assert!(Class::ALL.len() <= 8);

/// The mark that no client has.
const NOBODY: u64 = 0;

/// Nobody is told to stay away for longer than a minute: by then all may be well.
const LONGEST_RETRY_S: u32 = 60;
