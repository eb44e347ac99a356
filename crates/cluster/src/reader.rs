//! Applies the purges of other nodes, and renews the lease.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use galley_policy::purge::Strength;
use galley_policy::time::Tick;

use crate::engine::{Engine, Session, StreamEntry};
use crate::engine_replies::KnownStream;
use crate::error::EngineError;
use crate::lease::LEASE;
use crate::point::{NotedPoints, StreamPoint};
use crate::position::{Position, PositionFile};
use crate::shared::{ClusterState, NotePoint, PurgeSink};
use crate::stream_id::StreamId;

/// Reads the stream while the node runs.
pub(crate) struct Reader {
    engine: Engine,
    shared: Arc<ClusterState>,
    sink: Arc<dyn PurgeSink>,
    file: Option<PositionFile>,
    tick_at: Box<dyn Fn(Instant) -> Tick + Send>,
    /// The entry that was applied last, and its engine.
    position: Option<Position>,
    epoch: Option<String>,
    /// To be recorded when the lease has begun: the purges that the node knew before it continued reading, and an entry such
    /// that all purges of other nodes among them are in the stream up to it.
    known: Option<(StreamId, NotePoint)>,
    /// The latest sequence number of each run of a node.
    sequences: HashMap<String, u64>,
    written: Instant,
}

impl Reader {
    pub(crate) fn new(
        engine: Engine,
        shared: Arc<ClusterState>,
        sink: Arc<dyn PurgeSink>,
        file: Option<PositionFile>,
        tick_at: Box<dyn Fn(Instant) -> Tick + Send>,
        inherited: Option<Position>,
    ) -> Self {
        // The position of another process of this node is not older than the one in the file.
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
            pause = if began.elapsed() > MAX_PAUSE {
                FIRST_PAUSE
            } else {
                (pause * 2).min(MAX_PAUSE)
            };
            std::thread::sleep(pause);
        }
    }

    /// Uses one connection until it fails or the node ends.
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

    /// Determines the position from which to read. Purges everything if purges may be missing. Returns the entry after which
    /// reading continues, if all purges of other nodes that this node knows are in the stream up to that entry, in this history
    /// of the engine's data.
    fn find_position(
        &mut self,
        session: &mut Session,
        is_same_epoch: bool,
    ) -> Result<Option<StreamId>, EngineError> {
        let engine = session.identity.word();
        let Some(position) = &self.position else {
            let has_pages = self.sink.has_earlier_pages();
            // A node without purges reads the newest ones, so that it can use pages that were shared before some of them.
            let is_new = !has_pages && !self.sink.has_earlier_purges();
            let last = if is_new {
                session.oldest_of_newest(MAX_EARLIER)?
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
            // Publishers restart their numbering, or publish missing purges again.
            self.sequences.clear();
            PurgeLoss::Noticed
        };
        let (last, had_lease) = (position.last, self.has_lease());
        // A node with a lease has applied every acknowledged purge. All other purges are published again.
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

    /// Applies the purges that were published while the node was disconnected, before the lease begins.
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

    /// Applies entries in order. Returns false if there were none.
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
            // This node has already applied its own purges.
            if message.node != self.shared.incarnation {
                purges.push(message.content);
            }
        }
        if self.sequences.len() > MAX_RUNS {
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

    /// Writes the node's progress and extends the lease. The stream must have been read to its end once, because purges of an
    /// earlier run may be anywhere in it. `before`: the last entry that was applied before the newest entries were read. As
    /// long as the stream contains that entry, the newest entries follow it without a gap.
    fn renew(&mut self, session: &mut Session, before: StreamId) -> Result<(), EngineError> {
        // In this order, and before the epoch is read, so that the recorded facts belong to this epoch.
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

    /// Records which entries are in the stream, and whether the purges of this node are.
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
        // The numbers were read when all entries up to the last one had a number. This node's purges get their numbers before
        // they are in the stream.
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

    /// Handles possibly missing purges. If publishers notice the loss, no missing purge is acknowledged while the lease is
    /// valid, and all are published again, so old pages may be sent once more. Otherwise this node's next renewal may
    /// acknowledge them. The caller applies the remaining entries of the stream again from its start, because an unread entry
    /// may be a hard purge.
    fn gap(&self, loss: PurgeLoss, why: &'static str) {
        self.shared.gaps.fetch_add(1, Ordering::Relaxed);
        let strength = if loss == PurgeLoss::Noticed && self.has_lease() {
            Strength::Soft
        } else {
            Strength::Hard
        };
        self.purge_everything(strength, why);
    }

    /// Handles a stream that has lost entries: it is read from its start.
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

/// Whether the publishers of lost purges notice the loss.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PurgeLoss {
    /// The engine or the epoch has changed.
    Noticed,
    /// Entries are missing.
    Unnoticed,
}

/// The timeout of each reply. Must exceed [`WAIT`].
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum wait of one read. The lease is renewed at least this often.
const WAIT: Duration = Duration::from_millis(500);

const FIRST_PAUSE: Duration = Duration::from_millis(25);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The interval of writing the position. The file may be older than the last applied entry.
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// The number of purges that a node without purges reads.
const MAX_EARLIER: usize = 1000;

/// The maximum number of runs whose sequence numbers are stored.
const MAX_RUNS: usize = 10_000;
