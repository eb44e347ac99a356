//! What a node knows of the purges of all runs, and which nodes confirm that it is everything.
//!
//! A client of the engine without the cluster's key can remove entries of the stream, but cannot write entries or heads. So a
//! node compares what it has read with the heads of the others, at its start before it uses a stored page, and then
//! regularly. Three things tell it whether a head says enough:
//!
//! - It names a recent beat of this node, so it is not an older one ([`crate::head`]).
//! - Its writer has compared what it knew when it was stopped. Otherwise, two nodes that start at once would confirm each other.
//! - It has a lineage of this node's stored pages: all nodes with a lineage know the ends of all purges since that began. A node
//!   that lacks nothing of what another one knows takes over its ends and lineages. One that nobody confirms, or that has
//!   missed purges, purges everything and begins a lineage.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cluster_key::ClusterKey;
use crate::engine::random_word;
use crate::engine_replies::MemberHead;
use crate::head::{MAX_LINEAGES, MAX_SEEN, NodeHead};
use crate::kept_ledger::KeptLedger;
use crate::sequences::{EntryOrder, SequenceEnd, Sequences};
use crate::shared::node_of;
use crate::stream_id::StreamId;

/// See the module.
pub(crate) struct Ledger {
    pub(crate) key: Arc<ClusterKey>,
    pub(crate) kept: KeptLedger,
    /// The ledger of an earlier run of this node.
    restored: Option<KeptLedger>,
    /// The history of the engine's data, and the newest entry of a node that was read in it.
    data: String,
    last: StreamId,
    /// Whether other nodes have confirmed, since the start or the last gap, that nothing is missing.
    is_confirmed: bool,
    /// Whether what an earlier run knew was compared with the heads of others. Before, this node's heads confirm nothing.
    has_started: bool,
    /// Whether purges may have been missing in this run.
    had_gap: bool,
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
    fresh: Vec<NodeHead>,
    /// The newest beats of all runs whose heads were read, and when they came first.
    beats: HashMap<u128, (u64, Instant)>,
    /// The members whose lease holds that were heard, and when they were last.
    heard: HashMap<String, Instant>,
    /// The time from which the next exchange of heads is due.
    due: Instant,
}

/// The result of comparing what was read with the heads of other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadComparison {
    /// No other node has written a recent head that confirms anything.
    NoHead,
    /// Nothing is missing.
    Complete(Lineage),
    /// Another node knows of more.
    Missing,
}

/// Whether the other nodes know of all purges since this node's stored pages were compared with purges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lineage {
    Same,
    Other,
}

impl Ledger {
    pub(crate) fn new(key: Arc<ClusterKey>, run: u128, restored: Option<KeptLedger>) -> Self {
        let mut kept = restored.clone().unwrap_or(KeptLedger {
            lineages: vec![new_lineage()],
            run,
            is_alone: true,
            horizon: StreamId::START,
            sequences: Sequences::default(),
        });
        kept.run = run;
        let now = Instant::now();
        Self {
            has_started: restored.is_none(),
            key,
            kept,
            restored,
            data: String::new(),
            last: StreamId::START,
            is_confirmed: false,
            had_gap: false,
            counts_from: now,
            others_begin: StreamId::START,
            beat: 0,
            sent: VecDeque::new(),
            seen: Vec::new(),
            fresh: Vec::new(),
            beats: HashMap::new(),
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
    pub(crate) fn note(&mut self, entry: SequenceEnd, previous: StreamId) -> EntryOrder {
        self.kept.horizon = self.kept.horizon.max(entry.id);
        self.last = self.last.max(entry.id);
        let order = self.kept.sequences.note(entry, previous);
        // Earlier entries may be those of any earlier run of this node.
        let is_earlier = self.kept.sequences.begin() >= Some(entry.id);
        self.kept.is_alone &= is_earlier || self.is_own(entry.run);
        order
    }

    fn is_own(&self, run: u128) -> bool {
        let former = self.restored.as_ref();
        run == self.kept.run || former.is_some_and(|former| former.run == run)
    }

    /// Forgets what was known, because everything was purged or is published again.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.kept.sequences.restart(self.kept.horizon);
        self.kept.lineages = vec![new_lineage()];
        self.had_gap = true;
        self.is_confirmed = false;
        self.counts_from = now;
        self.fresh.clear();
    }

    /// An entry such that a page with a later point contains the effect of all purges that this node knows now; `None`: purges
    /// may be missing. `last`: the last purge that was applied, which may be one of a program that is no node. After a gap, the
    /// missing purges are before `mark`, an entry that this node has appended since.
    pub(crate) fn published_until(
        &self,
        last: StreamId,
        mark: Option<StreamId>,
    ) -> Option<StreamId> {
        let begin = self.kept.sequences.begin()?;
        let mark = if self.had_gap { mark? } else { StreamId::START };
        self.is_confirmed.then(|| last.max(begin).max(mark))
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

    /// Records that the ledger of an earlier run is compared, or that it is one of the process that this one replaces.
    pub(crate) const fn start(&mut self) {
        self.has_started = true;
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
        let own_end = own.map(|(sequence, id)| SequenceEnd { run, sequence, id });
        let head = NodeHead {
            run,
            beat: self.beat,
            begin: self.kept.sequences.begin().unwrap_or_default(),
            forgotten: self.kept.sequences.forgotten(),
            lineages: if self.has_started {
                self.kept.lineages.clone()
            } else {
                Vec::new()
            },
            ends: others.chain(own_end).collect(),
            seen: self.seen.clone(),
        };
        head.seal(&self.key)
    }

    /// The members that were heard. Their heads must be read, even if others displace them.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.keys().cloned().collect()
    }

    /// Records the heads of the members. Returns the node whose head is not renewed although its lease is.
    pub(crate) fn receive(&mut self, members: &[MemberHead], now: Instant) -> Option<String> {
        let pause = interval(heads(members));
        let is_late = now.saturating_duration_since(self.due) > SILENCE / 2;
        self.due = now + pause;
        self.seen.clear();
        self.beats.retain(|_, (_, at)| now - *at < FRESH);
        let heard = std::mem::take(&mut self.heard);
        let mut silent = None;
        for member in members {
            let is_fresh = match &member.head {
                Some(head) if head.run != self.kept.run => self.note_head(head, now),
                Some(_) | None => false,
            };
            let last = heard.get(&member.member).copied();
            if !member.is_present || (last.is_none() && !is_fresh) {
                continue;
            }
            let last = last.filter(|_| !is_fresh && !is_late).unwrap_or(now);
            let is_silent = now - last > SILENCE + pause * 4;
            if is_silent {
                silent = Some(node_of(&member.member).to_owned());
            }
            let last = if is_silent { now } else { last };
            self.heard.insert(member.member.clone(), last);
        }
        silent
    }

    /// Records the head of another run. Returns whether it is to be compared.
    fn note_head(&mut self, head: &NodeHead, now: Instant) -> bool {
        let former = self.beats.get(&head.run).map(|(beat, _)| *beat);
        // The sooner a new node is named, the sooner it can use its pages.
        if former.is_none() {
            self.due = now;
        }
        if self.seen.len() < MAX_SEEN {
            self.seen.push((head.run, head.beat));
        }
        if former.is_some_and(|former| former >= head.beat) {
            return false;
        }
        self.beats.insert(head.run, (head.beat, now));
        if !self.is_recent(head, now) {
            return false;
        }
        let ends = head.ends.iter().map(|end| end.id);
        self.kept.horizon = ends.fold(self.kept.horizon, StreamId::max);
        self.kept.is_alone &= self.is_own(head.run);
        self.fresh.push(head.clone());
        true
    }

    /// Whether a head was written recently: after a beat of this node that was.
    fn is_recent(&self, head: &NodeHead, now: Instant) -> bool {
        let own_beat = head.seen.iter().find(|(run, _)| *run == self.kept.run);
        let sent =
            own_beat.and_then(|(_, own_beat)| self.sent.iter().find(|(beat, _)| beat == own_beat));
        sent.is_some_and(|(_, at)| *at >= self.counts_from && now - *at < FRESH)
    }

    /// Whether a head that can confirm is to be compared.
    pub(crate) fn has_confirming(&self) -> bool {
        self.fresh.iter().any(NodeHead::confirms)
    }

    /// Compares all entries of the stream, which were read since the heads were received, with the heads.
    pub(crate) fn compare(&mut self) -> HeadComparison {
        let mut heads = std::mem::take(&mut self.fresh);
        let mut ends = heads.iter().flat_map(|head| &head.ends);
        if ends.any(|end| self.kept.sequences.lacks(end)) {
            return HeadComparison::Missing;
        }
        heads.retain(NodeHead::confirms);
        if heads.is_empty() {
            return HeadComparison::NoHead;
        }
        let begins = heads.iter().map(|head| head.begin);
        self.others_begin = begins.fold(self.others_begin, StreamId::max);
        self.is_confirmed = true;
        let (lineages, horizon) = match &self.restored {
            Some(restored) => (&restored.lineages, restored.horizon),
            None => (&self.kept.lineages, StreamId::START),
        };
        let is_same = heads.iter().any(|head| {
            let has_same = head.lineages.iter().any(|one| lineages.contains(one));
            has_same && head.forgotten <= horizon
        });
        for head in &heads {
            self.kept.sequences.learn(&head.ends, head.forgotten);
            self.add_lineages(&head.lineages);
        }
        HeadComparison::Complete(if is_same {
            Lineage::Same
        } else {
            Lineage::Other
        })
    }

    fn add_lineages(&mut self, lineages: &[u128]) {
        for lineage in lineages {
            if !self.kept.lineages.contains(lineage) {
                self.kept.lineages.push(*lineage);
            }
        }
        let more = self.kept.lineages.len().saturating_sub(MAX_LINEAGES);
        self.kept.lineages.drain(..more);
    }
}

fn new_lineage() -> u128 {
    u128::from_str_radix(&random_word(), 16).unwrap_or_default()
}

/// The number of heads that nodes have written.
fn heads(members: &[MemberHead]) -> usize {
    members
        .iter()
        .filter(|member| member.head.is_some())
        .count()
}

/// The pause between two exchanges. The heads of 10 nodes have 10 KB, those of 100 nodes 600 KB.
fn interval(heads: usize) -> Duration {
    let tens = u32::try_from(heads.div_ceil(10)).unwrap_or(u32::MAX);
    INTERVAL.saturating_mul(tens.clamp(1, 25))
}

/// The maximum wait of a node that starts for the heads of others.
pub(crate) fn start_wait(members: &[MemberHead]) -> Duration {
    START_WAIT + interval(heads(members)) * 3
}

/// Less than the time for which a reader without purges waits.
const INTERVAL: Duration = Duration::from_millis(400);

const START_WAIT: Duration = Duration::from_secs(1);

/// The maximum age of the beat that a head names. Twice the longest interval, with a margin.
const FRESH: Duration = Duration::from_secs(30);

/// The time after which a head that was not renewed is suspicious, with four intervals: a lease ends after 2 s.
const SILENCE: Duration = Duration::from_secs(4);

/// As many beats as are sent in [`FRESH`].
const MAX_BEATS: usize = 128;

#[cfg(test)]
mod tests;
