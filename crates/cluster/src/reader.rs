//! Applies the purges of other nodes, and renews the lease.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use galley_policy::purge::Strength;
use galley_policy::time::Tick;

use crate::engine::{Engine, KnownStream, Session, StreamEntry};
use crate::error::EngineError;
use crate::lease::LEASE;
use crate::point::{NotedPoints, StreamPoint};
use crate::position::{Position, PositionFile};
use crate::shared::{NotePoint, PurgeSink, Shared};
use crate::stream_id::StreamId;

/// Reads the stream for as long as the node runs.
pub(crate) struct Reader {
    engine: Engine,
    shared: Arc<Shared>,
    sink: Arc<dyn PurgeSink>,
    file: Option<PositionFile>,
    tick_at: Box<dyn Fn(Instant) -> Tick + Send>,
    /// The entry that was applied last, and in which engine.
    position: Option<Position>,
    epoch: Option<String>,
    /// To be noted when the lease has begun: the purges that the node knew before it read on, and the entry that those of other nodes
    /// came with or before.
    known: Option<(StreamId, NotePoint)>,
    /// The newest sequence number of each run of a node.
    sequences: HashMap<String, u64>,
    written: Instant,
}

impl Reader {
    pub(crate) fn new(
        engine: Engine,
        shared: Arc<Shared>,
        sink: Arc<dyn PurgeSink>,
        file: Option<PositionFile>,
        tick_at: Box<dyn Fn(Instant) -> Tick + Send>,
        inherited: Option<Position>,
    ) -> Self {
        // The position that another process of this node has applied is not older than the one it has written.
        let position = inherited.or_else(|| file.as_ref().and_then(PositionFile::read));
        shared.set_position(position.as_ref());
        Self {
            engine,
            shared,
            sink,
            file,
            tick_at,
            position,
            epoch: None,
            known: None,
            sequences: HashMap::new(),
            written: Instant::now(),
        }
    }

    pub(crate) fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        while !self.shared.is_stopped() {
            let began = Instant::now();
            let Err(error) = self.follow() else { break };
            self.disconnected(&error);
            pause = if began.elapsed() > LONGEST_PAUSE {
                FIRST_PAUSE
            } else {
                (pause * 2).min(LONGEST_PAUSE)
            };
            std::thread::sleep(pause);
        }
    }

    /// One connection, until it fails or the node ends.
    fn follow(&mut self) -> Result<(), EngineError> {
        let mut session = self.engine.connect(REPLY_TIMEOUT)?;
        session.begin_stream()?;
        let epoch = session.join(&self.shared.member, self.last())?;
        let is_same_epoch = self.epoch == epoch;
        self.epoch = epoch;
        let known = self.find_position(&mut session, is_same_epoch)?;
        self.known = known.map(|last| (last, self.sink.numbers()));
        self.catch_up(&mut session)?;
        self.shared.set_position(self.position.as_ref());
        self.renew(&mut session, self.last())?;
        self.connected(&session);
        self.shared.has_read.store(true, Ordering::Relaxed);
        while !self.shared.is_stopped() {
            let before = self.last();
            let entries = session.read(before, Some(WAIT))?;
            self.apply(entries);
            self.renew(&mut session, before)?;
        }
        Ok(())
    }

    fn last(&self) -> StreamId {
        self.position
            .as_ref()
            .map_or(StreamId::START, |position| position.last)
    }

    /// Where to read on. Purges that can be missing are made up for by purging everything. What this returns: the entry to read on after,
    /// if all purges of other nodes that this node knows came with it or before, in this history of the engine's data.
    fn find_position(
        &mut self,
        session: &mut Session,
        is_same_epoch: bool,
    ) -> Result<Option<StreamId>, EngineError> {
        let engine = session.identity.word();
        let Some(position) = &self.position else {
            let has_pages = self.sink.has_earlier_pages();
            // A node that knows no purge reads the newest ones: it can use pages that were shared before some of them.
            let is_new = !has_pages && !self.sink.has_earlier_purges();
            let last = if is_new {
                session.oldest_of_newest(MOST_EARLIER)?
            } else {
                session.newest()?
            };
            if has_pages {
                self.purge_everything(
                    Strength::Hard,
                    "the node has stored pages and has never read the stream",
                );
            }
            self.position = Some(Position { engine, last });
            return Ok(Some(last).filter(|last| is_new && *last != StreamId::START));
        };
        let is_there = position.last == StreamId::START || session.has(position.last)?;
        let is_same = position.engine == engine;
        let loss = if is_same && is_same_epoch {
            PurgeLoss::Unnoticed
        } else {
            // Publishers start to count again, or publish again what is missing.
            self.sequences.clear();
            PurgeLoss::Noticed
        };
        let (last, had_lease) = (position.last, self.has_lease());
        // A node with a lease has applied every acknowledged purge, and the others are published again.
        if is_there && (is_same || had_lease) {
            self.position = Some(Position { engine, last });
            return Ok(Some(last).filter(|last| is_same && *last != StreamId::START));
        }
        let why = if is_there {
            "another engine became the primary while the node was disconnected"
        } else {
            "the stream no longer contains the last entry"
        };
        self.gap(loss, why);
        self.position = Some(Position {
            engine,
            last: StreamId::START,
        });
        Ok(None)
    }

    /// Applies the purges that came while the node was away, before the lease begins.
    fn catch_up(&mut self, session: &mut Session) -> Result<(), EngineError> {
        loop {
            let before = self.last();
            let entries = session.read(before, None)?;
            if before != StreamId::START && !session.has(before)? {
                return Err(self.lost(PurgeLoss::Unnoticed));
            }
            if !self.apply(entries) {
                return Ok(());
            }
        }
    }

    /// Applies entries in their order. False: there were none.
    fn apply(&mut self, entries: Vec<StreamEntry>) -> bool {
        let Some(newest) = entries.last().map(|entry| entry.id) else {
            return false;
        };
        let mut purges = Vec::with_capacity(entries.len());
        for message in entries.into_iter().filter_map(|entry| entry.message) {
            let previous = self
                .sequences
                .insert(message.node.clone(), message.sequence);
            if previous.is_some_and(|previous| message.sequence > previous + 1) {
                self.gap(
                    PurgeLoss::Unnoticed,
                    "entries are missing within the stream",
                );
            }
            // This node has applied its own.
            if message.node != self.shared.incarnation {
                purges.push(message.content);
            }
        }
        if self.sequences.len() > MOST_RUNS {
            self.sequences.clear();
        }
        let count = u64::try_from(purges.len()).unwrap_or(u64::MAX);
        self.sink.apply(&purges);
        self.shared.applied.fetch_add(count, Ordering::Relaxed);
        if let Some(position) = &mut self.position {
            position.last = newest;
        }
        self.shared.set_position(self.position.as_ref());
        true
    }

    /// Reports how far the node is, and extends the lease. The stream must have been read to its end once: purges of an
    /// earlier run may be anywhere in it. `before`: the entry that was applied last before the newest entries were read. As
    /// long as the stream has that entry, they follow it without a gap.
    fn renew(&mut self, session: &mut Session, before: StreamId) -> Result<(), EngineError> {
        // In this order, and before the epoch is read: the recorded facts were then true of this epoch.
        let note = self.sink.numbers();
        let own = self.shared.own.newest(&session.identity.word());
        let sent = Instant::now();
        let known = KnownStream {
            epoch: self.epoch.as_deref().unwrap_or_default(),
            before,
        };
        let renewal = session.renew(&self.shared.member, &known, self.last())?;
        if renewal.epoch != self.epoch {
            return Err(self.lost(PurgeLoss::Noticed));
        }
        if !renewal.is_whole {
            return Err(self.lost(PurgeLoss::Unnoticed));
        }
        if let Some(confirmed) = session.confirmed(sent)? {
            self.shared.lease.extend((self.tick_at)(confirmed + LEASE));
        }
        self.write_position();
        self.note_point(session, note, own);
        Ok(())
    }

    /// Reports which entries are in the stream, and which purges of this node are.
    fn note_point(&mut self, session: &Session, note: NotePoint, own: Option<StreamId>) {
        let epoch = self.epoch.as_deref().unwrap_or_default();
        let data: Arc<str> = format!("{}/{epoch}", session.identity.word()).into();
        if let Some(own) = own
            && let Some((last, note)) = self.known.take()
        {
            note(&NotedPoints {
                published: Some(StreamPoint::new(&data, last.max(own))),
                applied: None,
            });
        }
        // The numbers were read when all up to the last entry had one: own purges get theirs before they are in the stream.
        note(&NotedPoints {
            published: own.map(|own| StreamPoint::new(&data, self.last().max(own))),
            applied: Some(StreamPoint::new(&data, self.last())),
        });
    }

    fn write_position(&mut self) {
        let (Some(file), Some(position)) = (&self.file, &self.position) else {
            return;
        };
        if self.written.elapsed() < WRITE_EVERY || file.read().as_ref() == Some(position) {
            return;
        }
        self.written = Instant::now();
        if let Err(error) = file.write(position) {
            tracing::warn!(%error, "the position in the cluster's stream cannot be written: the next start purges everything");
        }
    }

    fn has_lease(&self) -> bool {
        self.shared.lease.holds((self.tick_at)(Instant::now()))
    }

    /// Purges may be missing. Of a loss that publishers notice, none is acknowledged while the lease holds, and all are published again:
    /// old pages may be used once more. Otherwise this node's next renewal may acknowledge them. What the stream still has is applied
    /// again from its start: an entry that was not read yet may be a hard purge.
    fn gap(&self, loss: PurgeLoss, why: &'static str) {
        self.shared.gaps.fetch_add(1, Ordering::Relaxed);
        let strength = if loss == PurgeLoss::Noticed && self.has_lease() {
            Strength::Soft
        } else {
            Strength::Hard
        };
        self.purge_everything(strength, why);
    }

    /// The stream has lost entries: it is read from its start.
    fn lost(&mut self, loss: PurgeLoss) -> EngineError {
        self.gap(loss, "the cluster's engine has lost data");
        if let Some(position) = &mut self.position {
            position.last = StreamId::START;
        }
        EngineError::Lost
    }

    fn purge_everything(&self, strength: Strength, why: &'static str) {
        tracing::warn!(?strength, "everything is purged: {why}");
        self.sink.apply_to_all(strength);
    }

    fn connected(&self, session: &Session) {
        let mut status = self.shared.status();
        if !status.is_connected {
            tracing::info!(engine = session.version, "reads the purges of the cluster");
        }
        status.is_connected = true;
        status.error = None;
        status.engine = Some(session.version.clone());
    }

    fn disconnected(&self, error: &EngineError) {
        let mut status = self.shared.status();
        let text = error.to_string();
        if status.is_connected || status.error.as_ref() != Some(&text) {
            let effect = if self.shared.serves_through_partitions {
                "purges of other nodes are not applied"
            } else {
                "stored pages are not used until the node reads the purges of the others again"
            };
            tracing::error!(%error, "the cluster's engine cannot be used: {effect}");
        }
        status.is_connected = false;
        status.error = Some(text);
    }
}

/// Whether the publishers of purges notice that these are lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PurgeLoss {
    /// The engine or the epoch is another one.
    Noticed,
    /// Entries are missing.
    Unnoticed,
}

/// For each reply: more than [`WAIT`].
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// How long one read waits: the lease is renewed at least so often.
const WAIT: Duration = Duration::from_millis(500);

const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The position may be older than the last applied entry.
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// Purges that a node reads which knows none.
const MOST_EARLIER: usize = 1000;

/// Runs of nodes whose sequence numbers are known.
const MOST_RUNS: usize = 10_000;
