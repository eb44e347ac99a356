//! What a node knows of the purges of all runs, and which nodes confirm that it is everything.
//!
//! A client of the engine without the cluster's key can remove entries of the stream, but cannot write entries or heads. So a
//! node compares what it has read with the heads of the others, at its start before it uses a stored page, and then
//! regularly. Two things tell it whether a head says enough:
//!
//! - It names a recent beat of this node, so it is not an older one ([`crate::head`]).
//! - It is of the lineage of this node's stored pages. A node that starts takes over the lineage of a node that confirms it.
//!   If there is none, it may miss purges, so it purges everything and begins a lineage of its own, which says:
//!   who was started since knows all purges since.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cluster_key::ClusterKey;
use crate::engine_replies::MemberHead;
use crate::head::{Head, MAX_SEEN};
use crate::sequences::{EntryOrder, RunEnd, Sequences};
use crate::shared::{node_of, run_of};
use crate::stream_id::StreamId;

/// The part that survives a restart, with the position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptLedger {
    pub(crate) lineage: u128,
    /// The run of the node that has written this.
    pub(crate) run: u128,
    /// Whether no other node has been seen in this lineage.
    pub(crate) is_alone: bool,
    /// The newest entry of a node that is known, also from heads.
    pub(crate) horizon: StreamId,
    pub(crate) sequences: Sequences,
}

/// See the module.
pub(crate) struct Ledger {
    pub(crate) key: Arc<ClusterKey>,
    pub(crate) kept: KeptLedger,
    /// The ledger of an earlier run of this node.
    restored: Option<KeptLedger>,
    /// A lineage that this run may begin.
    new_lineage: u128,
    /// The history of the engine's data, and the newest entry of a node that was read in it.
    data: String,
    last: StreamId,
    /// Whether other nodes have confirmed, since the start or the last gap, that nothing is missing.
    is_confirmed: bool,
    /// Only heads count that were written after this.
    counts_from: Instant,
    /// The largest entry after which one of the other nodes has seen everything.
    others_begin: StreamId,
    beat: u64,
    /// The times of this node's beats.
    sent: VecDeque<(u64, Instant)>,
    /// The newest beats of others.
    seen: Vec<(u128, u64)>,
    /// Heads that are to be compared at the end of the stream.
    fresh: Vec<Head>,
    /// The times at which others were last heard.
    heard: HashMap<u128, Instant>,
    /// The time from which the next exchange of heads is due.
    due: Instant,
}

/// The result of comparing what was read with the heads of other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// No other node has written a recent head.
    NoHead,
    /// Nothing is missing. Contains the lineage of the other node.
    Complete(u128),
    /// Another node knows of more.
    Missing,
}

impl Ledger {
    pub(crate) fn new(
        key: Arc<ClusterKey>,
        run: u128,
        new_lineage: u128,
        restored: Option<KeptLedger>,
    ) -> Self {
        let mut kept = restored.clone().unwrap_or(KeptLedger {
            lineage: new_lineage,
            run,
            is_alone: true,
            horizon: StreamId::START,
            sequences: Sequences::default(),
        });
        kept.run = run;
        let now = Instant::now();
        Self {
            key,
            kept,
            restored,
            new_lineage,
            data: String::new(),
            last: StreamId::START,
            is_confirmed: false,
            counts_from: now,
            others_begin: StreamId::START,
            beat: 0,
            sent: VecDeque::new(),
            seen: Vec::new(),
            fresh: Vec::new(),
            heard: HashMap::new(),
            due: now,
        }
    }

    /// The ledger of an earlier run of this node, if any.
    pub(crate) const fn restored(&self) -> Option<&KeptLedger> {
        self.restored.as_ref()
    }

    /// Records the history of the engine's data. Entries of another one cannot be compared.
    pub(crate) fn use_data(&mut self, data: &str) {
        if self.data != data {
            data.clone_into(&mut self.data);
            self.last = StreamId::START;
        }
    }

    /// Records an entry that a node has written.
    pub(crate) fn note(&mut self, entry: RunEnd, previous: StreamId) -> EntryOrder {
        self.kept.horizon = self.kept.horizon.max(entry.id);
        self.last = self.last.max(entry.id);
        self.kept.is_alone &= self.is_own(entry.run);
        self.kept.sequences.note(entry, previous)
    }

    fn is_own(&self, run: u128) -> bool {
        let former = self.restored.as_ref();
        run == self.kept.run || former.is_some_and(|former| former.run == run)
    }

    /// Forgets what was known, because everything was purged or is published again.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.kept.sequences.restart(self.kept.horizon);
        self.is_confirmed = false;
        self.counts_from = now;
        self.fresh.clear();
    }

    /// Begins a lineage: nobody confirms what was read before.
    pub(crate) fn begin_lineage(&mut self) {
        self.kept.lineage = self.new_lineage;
        self.kept.is_alone = true;
    }

    /// An entry such that a page with a later point contains the effect of all purges that this node knows now; `None`: purges
    /// may be missing. `last`: the last entry that was applied, which may be one of a program that is no node.
    pub(crate) fn published_until(&self, last: StreamId) -> Option<StreamId> {
        self.is_confirmed.then(|| last.max(self.kept.horizon))
    }

    /// The same for the purges that this node knew before it read the stream from `last` on.
    pub(crate) fn known_until(&self, last: StreamId) -> Option<StreamId> {
        let began = match self.restored {
            Some(_) => StreamId::START,
            None => self.others_begin.max(self.kept.sequences.begin()?),
        };
        self.is_confirmed.then(|| last.max(began))
    }

    /// The newest entry of a node that was applied; `None`: none was.
    pub(crate) fn applied_until(&self) -> Option<StreamId> {
        (self.last != StreamId::START).then_some(self.last)
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }

    /// The next head of this node. `own`: the last entry that it has published.
    pub(crate) fn next_head(&mut self, own: Option<(u64, StreamId)>, now: Instant) -> Vec<u8> {
        self.beat += 1;
        self.sent.push_back((self.beat, now));
        if self.sent.len() > MAX_BEATS {
            self.sent.pop_front();
        }
        let run = self.kept.run;
        let others = self.kept.sequences.ends().filter(|end| end.run != run);
        let own = own.map(|(sequence, id)| RunEnd { run, sequence, id });
        let head = Head {
            run,
            beat: self.beat,
            lineage: self.kept.lineage,
            begin: self.kept.sequences.begin().unwrap_or_default(),
            ends: others.chain(own).collect(),
            seen: self.seen.clone(),
        };
        head.seal(&self.key)
    }

    /// Records the heads of the members. Returns the node whose head is not renewed although its lease is.
    pub(crate) fn receive(&mut self, members: &[MemberHead], now: Instant) -> Option<String> {
        let pause = interval(members.len());
        self.due = now + pause;
        let former = std::mem::take(&mut self.seen);
        let mut silent = None;
        for member in members {
            let head = Head::open(&self.key, &member.head);
            let run = run_of(&member.member);
            let head = head.filter(|head| Some(head.run) == run && head.run != self.kept.run);
            let is_fresh = head.as_ref().is_some_and(|head| self.is_fresh(head, now));
            let before = run.and_then(|run| self.heard.get(&run));
            let is_silent =
                member.is_present && before.is_some_and(|at| now - *at > SILENCE + pause * 4);
            if let Some(run) = run
                && (is_fresh || is_silent)
            {
                self.heard.insert(run, now);
            }
            if is_silent && !is_fresh {
                silent = Some(node_of(&member.member).to_owned());
            }
            let Some(head) = head else { continue };
            if self.seen.len() < MAX_SEEN {
                self.seen.push((head.run, head.beat));
            }
            // The sooner a new node is named, the sooner it can use its pages.
            if !former.iter().any(|(run, _)| *run == head.run) {
                self.due = now;
            }
            if is_fresh {
                let ends = head.ends.iter().map(|end| end.id);
                self.kept.horizon = ends.fold(self.kept.horizon, StreamId::max);
                self.kept.is_alone &= self.is_own(head.run);
                self.fresh.push(head);
            }
        }
        self.heard.retain(|_, at| now - *at < FORGET);
        silent
    }

    /// Whether a head was written recently: after a beat of this node that was.
    fn is_fresh(&self, head: &Head, now: Instant) -> bool {
        let seen = head.seen.iter().find(|(run, _)| *run == self.kept.run);
        let sent = seen.and_then(|(_, seen)| self.sent.iter().find(|(beat, _)| beat == seen));
        sent.is_some_and(|(_, at)| *at >= self.counts_from && now - *at < FRESH)
    }

    /// Whether heads are to be compared.
    pub(crate) fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Compares all entries of the stream, which were read since the heads were received, with the heads.
    pub(crate) fn compare(&mut self) -> Comparison {
        let heads = std::mem::take(&mut self.fresh);
        let Some(first) = heads.first() else {
            return Comparison::NoHead;
        };
        let mut ends = heads.iter().flat_map(|head| &head.ends);
        if ends.any(|end| self.kept.sequences.lacks(end)) {
            return Comparison::Missing;
        }
        let begins = heads.iter().map(|head| head.begin);
        self.others_begin = begins.fold(self.others_begin, StreamId::max);
        self.is_confirmed = true;
        let is_same = heads.iter().any(|head| head.lineage == self.kept.lineage);
        Comparison::Complete(if is_same {
            self.kept.lineage
        } else {
            first.lineage
        })
    }
}

/// The pause between two exchanges. The heads of 10 nodes have 10 KB, those of 100 nodes 600 KB.
fn interval(members: usize) -> Duration {
    let tens = u32::try_from(members.div_ceil(10)).unwrap_or(u32::MAX);
    INTERVAL.saturating_mul(tens.clamp(1, 25))
}

/// The maximum wait of a node that starts for the heads of others.
pub(crate) fn start_wait(members: usize) -> Duration {
    START_WAIT + interval(members) * 3
}

/// Less than the time for which a reader without purges waits.
const INTERVAL: Duration = Duration::from_millis(400);

const START_WAIT: Duration = Duration::from_secs(1);

/// The maximum age of the beat that a head names. Twice the longest interval, with a margin.
const FRESH: Duration = Duration::from_secs(30);

/// The time after which a head that was not renewed is suspicious, with four intervals: a lease ends after 2 s.
const SILENCE: Duration = Duration::from_secs(4);

const FORGET: Duration = Duration::from_secs(600);

/// As many beats as are sent in [`FRESH`].
const MAX_BEATS: usize = 128;
