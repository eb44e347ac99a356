//! Applies the purges of other nodes, and renews the lease.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use galley_policy::purge::Strength;
use galley_policy::time::Tick;

use crate::cluster_key::ClusterKey;
use crate::engine::{Engine, Session};
use crate::engine_replies::KnownStream;
use crate::engine_stream::{MAX_ENTRIES, StreamEntry};
use crate::error::EngineError;
use crate::lease::LEASE;
use crate::ledger::Ledger;
use crate::message::Message;
use crate::position::{Position, PositionFile};
use crate::sequences::{EntryOrder, SequenceEnd};
use crate::shared::{ClusterState, NotePoint, PurgeSink};
use crate::stream_id::StreamId;

/// Reads the stream while the node runs.
pub(crate) struct Reader {
    engine: Engine,
    pub(crate) shared: Arc<ClusterState>,
    pub(crate) sink: Arc<dyn PurgeSink>,
    file: Option<PositionFile>,
    tick_at: Box<dyn Fn(Instant) -> Tick + Send>,
    /// The entry that was applied last, and its engine.
    position: Option<Position>,
    epoch: Option<String>,
    /// To be recorded when the lease has begun: the purges that the node knew before it continued reading, and an entry such
    /// that all purges of other nodes among them are in the stream up to it.
    pub(crate) known: Option<(StreamId, NotePoint)>,
    /// The latest sequence number of each run of a node, in entries without a seal.
    sequences: HashMap<String, u64>,
    /// What the node knows of entries with a seal; `None` without a key.
    pub(crate) ledger: Option<Ledger>,
    /// All purges of other nodes that were applied are in the stream up to here.
    pub(crate) last_purge: StreamId,
    /// Whether the position is that of the process that this one replaces.
    pub(crate) is_inherited: bool,
    /// Whether the other nodes were asked for missing purges.
    pub(crate) has_started: bool,
    /// The number of entries to read at a time. Less than [`MAX_ENTRIES`] where entries are long; 0: the next one is too long.
    batch: usize,
    warned: Option<Instant>,
    /// The last time at which the position was written.
    written: Option<Instant>,
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
        let is_inherited = inherited.is_some();
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
            ledger: None,
            last_purge: StreamId::START,
            is_inherited,
            has_started: false,
            batch: MAX_ENTRIES,
            warned: None,
            written: None,
        }
    }

    /// The same with the cluster's key, which other nodes have, too.
    pub(crate) fn with_key(mut self, key: Option<Arc<ClusterKey>>) -> Self {
        let number = |word: &str| u128::from_str_radix(word, 16).unwrap_or_default();
        let position = self.position.as_ref();
        let restored = position.and_then(|position| position.ledger.clone());
        let run = number(&self.shared.incarnation);
        self.ledger = key.map(|key| Ledger::new(key, run, restored));
        self
    }

    pub(crate) fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        while !self.shared.is_stopped() {
            let began = Instant::now();
            let Err(error) = self.follow() else { break };
            if matches!(error, EngineError::TooLong) {
                // Sixteen entries of nodes are not that long.
                if (2..SMALLER_BATCH).contains(&self.batch) {
                    self.gap(PurgeLoss::Unnoticed, "an entry of the stream is too long");
                }
                self.batch /= SMALLER_BATCH;
            }
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
        let data = self.data(&session);
        if let Some(ledger) = &mut self.ledger {
            ledger.use_data(&data);
        }
        if self.batch == 0 {
            self.skip_long(&mut session)?;
        }
        let position = self.find_position(&mut session, is_same_epoch)?;
        self.known = position.map(|last| (last, self.sink.numbers()));
        self.catch_up(&mut session)?;
        self.confirm_start(&mut session)?;
        self.shared.set_position(self.position().as_ref());
        self.renew(&mut session, self.last())?;
        self.connected(&session);
        self.shared.has_read.store(true, Ordering::Relaxed);
        while !self.shared.is_stopped() {
            let before = self.last();
            let entries = self.read(&mut session, Some(WAIT))?;
            let is_end = entries.len() < self.batch;
            self.apply(entries);
            if is_end {
                self.compare();
            }
            self.renew(&mut session, before)?;
            self.exchange_when_due(&mut session)?;
        }
        Ok(())
    }

    fn read(
        &self,
        session: &mut Session,
        wait: Option<Duration>,
    ) -> Result<Vec<StreamEntry>, EngineError> {
        let key = self.ledger.as_ref().map(|ledger| &*ledger.key);
        session.read(self.last(), wait, self.batch, key)
    }

    /// Removes the next entry, which no node has written: its size would be the memory that each node needs.
    fn skip_long(&mut self, session: &mut Session) -> Result<(), EngineError> {
        self.batch = 1;
        let Some(entry) = session.remove_long(self.last())? else {
            return Ok(());
        };
        if self.warned.is_none_or(|at| at.elapsed() > WARN_EVERY) {
            self.warned = Some(Instant::now());
            tracing::error!(
                entry,
                "removed an entry of more than 1 MiB from the purges in the cluster's engine, which no node has written: let only nodes write there, and change its password"
            );
        }
        Ok(())
    }

    pub(crate) fn last(&self) -> StreamId {
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
            self.go_on(engine, last);
            return Ok(Some(last).filter(|last| is_new && *last != StreamId::START));
        };
        let is_there = position.last == StreamId::START || session.has(position.last)?;
        let (last, is_same) = (position.last, position.engine == engine);
        let loss = if is_same && is_same_epoch {
            PurgeLoss::Unnoticed
        } else {
            // Publishers restart their numbering, or publish missing purges again.
            self.sequences.clear();
            if self.has_started {
                self.restart_ledger();
            }
            PurgeLoss::Noticed
        };
        let had_lease = self.has_lease();
        // A node with a lease has applied every acknowledged purge. All other purges are published again.
        if is_there && (is_same || had_lease) {
            self.go_on(engine, last);
            return Ok(Some(last).filter(|last| is_same && *last != StreamId::START));
        }
        let why = if is_there {
            "another engine became the primary while the node was disconnected"
        } else {
            "the stream no longer contains the last entry"
        };
        self.gap(loss, why);
        self.go_on(engine, StreamId::START);
        Ok(None)
    }

    fn go_on(&mut self, engine: String, last: StreamId) {
        self.last_purge = self.last_purge.max(last);
        self.position = Some(Position {
            engine,
            last,
            ledger: None,
        });
    }

    /// Applies the purges that were published while the node was disconnected, before the lease begins.
    pub(crate) fn catch_up(&mut self, session: &mut Session) -> Result<(), EngineError> {
        loop {
            let before = self.last();
            let entries = self.read(session, None)?;
            if before != StreamId::START && !session.has(before)? {
                return Err(self.lost(PurgeLoss::Unnoticed));
            }
            if !self.apply(entries) {
                self.batch = MAX_ENTRIES;
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
        for StreamEntry {
            id,
            message,
            previous,
        } in entries
        {
            let Some(message) = message else { continue };
            if self.follows(&message, id, previous) == EntryOrder::Missing {
                self.gap(
                    PurgeLoss::Unnoticed,
                    "entries are missing within the stream",
                );
            }
            // This node has already applied its own purges.
            if message.content.is_some() {
                self.last_purge = self.last_purge.max(id);
            }
            if message.node != self.shared.incarnation {
                purges.extend(message.content);
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
        self.shared.set_position(self.position().as_ref());
        true
    }

    /// Whether entries are missing before this one. `previous`: the one before in the same run, if the entry has a seal. Others are
    /// applied, too, because nodes of earlier versions write them.
    fn follows(
        &mut self,
        message: &Message,
        id: StreamId,
        previous: Option<StreamId>,
    ) -> EntryOrder {
        let (node, sequence) = (&message.node, message.sequence);
        if let (Some(ledger), Some(previous)) = (&mut self.ledger, previous)
            && let Ok(run) = u128::from_str_radix(node, 16)
        {
            return ledger.note(SequenceEnd { run, sequence, id }, previous);
        }
        let last = self.sequences.insert(node.clone(), sequence);
        if last.is_some_and(|last| sequence > last.saturating_add(1)) {
            EntryOrder::Missing
        } else {
            EntryOrder::Follows
        }
    }

    /// Writes the node's progress and extends the lease. The stream must have been read to its end once, because purges of an
    /// earlier run may be anywhere in it. `before`: the last entry that was applied before the newest entries were read. As
    /// long as the stream contains that entry, the newest entries follow it without a gap.
    fn renew(&mut self, session: &mut Session, before: StreamId) -> Result<(), EngineError> {
        // In this order, and before the epoch is read, so that the recorded facts belong to this epoch.
        let note = self.sink.numbers();
        let own_newest = self.shared.own.newest(&session.identity.word());
        let sent = Instant::now();
        let stream = KnownStream {
            epoch: self.epoch.as_deref().unwrap_or_default(),
            before,
        };
        let renewal = session.renew(&self.shared.member, &stream, self.last())?;
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
        self.note_point(session, note, own_newest);
        Ok(())
    }

    /// The history of the engine's data.
    pub(crate) fn data(&self, session: &Session) -> String {
        let epoch = self.epoch.as_deref().unwrap_or_default();
        format!("{}/{epoch}", session.identity.word())
    }

    /// The position with what must be known for it.
    fn position(&self) -> Option<Position> {
        let mut position = self.position.clone()?;
        position.ledger = self.ledger.as_ref().map(|ledger| ledger.kept.clone());
        Some(position)
    }

    fn write_position(&mut self) {
        let Some(file) = &self.file else { return };
        // At once in each run, so that the next one knows whose entries this one has written.
        if self.written.is_some_and(|at| at.elapsed() < WRITE_EVERY) {
            return;
        }
        let Some(position) = self
            .position()
            .filter(|now| file.read().as_ref() != Some(now))
        else {
            return;
        };
        self.written = Some(Instant::now());
        if let Err(error) = file.write(&position) {
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
    pub(crate) fn gap(&mut self, loss: PurgeLoss, why: &'static str) {
        self.restart_ledger();
        self.shared.gaps.fetch_add(1, Ordering::Relaxed);
        let strength = if loss == PurgeLoss::Noticed && self.has_lease() {
            Strength::Soft
        } else {
            Strength::Hard
        };
        self.purge_everything(strength, why);
    }

    /// Forgets what was known of the purges, because some may be missing.
    pub(crate) fn restart_ledger(&mut self) {
        self.known = None;
        if let Some(ledger) = &mut self.ledger {
            ledger.restart(Instant::now());
            self.shared.own.request_mark();
        }
    }

    /// Handles a stream that has lost entries: it is read from its start.
    fn lost(&mut self, loss: PurgeLoss) -> EngineError {
        self.gap(loss, "the cluster's engine has lost data");
        if let Some(position) = &mut self.position {
            position.last = StreamId::START;
        }
        EngineError::Lost
    }

    pub(crate) fn purge_everything(&self, strength: Strength, why: &'static str) {
        tracing::warn!(strength = strength.word(), "everything is purged: {why}");
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
pub(crate) enum PurgeLoss {
    /// The engine or the epoch has changed.
    Noticed,
    /// Entries are missing.
    Unnoticed,
}

/// The timeout of each reply. Must exceed [`WAIT`].
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum wait of one read. The lease is renewed at least this often.
const WAIT: Duration = Duration::from_millis(500);

/// 512 entries, then 16, then 1, then none: the next one is removed if it is too long.
const SMALLER_BATCH: usize = 32;

/// The interval of warnings about entries that are too long.
const WARN_EVERY: Duration = Duration::from_secs(600);

const FIRST_PAUSE: Duration = Duration::from_millis(25);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The interval of writing the position. The file may be older than the last applied entry.
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// The number of purges that a node without purges reads.
const MAX_EARLIER: usize = 1000;

/// The maximum number of runs whose sequence numbers are stored.
const MAX_RUNS: usize = 10_000;
