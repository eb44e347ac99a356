//! The handles of a fill: for its writer, its readers, and requests that may join.

use std::future::poll_fn;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;

use super::after::{After, HeldWakers};
use super::parts::{FillError, FillHead, FillRead, Finished, Keep, NoReaders};
use super::state::{FillOutcome, FillState};
use crate::body::StoredBody;
use crate::sync::Mutex;

/// A new fill, without a head. `window_bytes`: how far a windowed writer may be ahead of its slowest reader (it stops at
/// the first chunk that reaches it). Without `keep`, a shared fill is windowed too.
pub fn fill(window_bytes: usize, keep: Option<Keep>) -> (FillWriter, Arc<Fill>) {
    let shared = Arc::new(FillShared {
        state: Mutex::new(FillState::new(window_bytes as u64, keep)),
    });
    let writer = FillWriter {
        shared: Arc::clone(&shared),
        ending: DropAction::Abort,
        held: None,
    };
    (writer, Arc::new(Fill { shared }))
}

/// The handle that requests join a fill by.
pub struct Fill {
    shared: Arc<FillShared>,
}

impl Fill {
    /// A reader from the first byte; `None` if joining is closed: the head was private or the fill became a window, and it has
    /// a reader already. A fill that has ended can still be read.
    pub fn reader(self: &Arc<Self>) -> Option<FillReader> {
        let slot = self.shared.with(|state, _| state.join())?;
        Some(FillReader {
            shared: Arc::clone(&self.shared),
            slot,
        })
    }

    /// How many read it or wait for it now.
    pub fn readers(&self) -> usize {
        self.shared.with(|state, _| state.readers())
    }

    /// Whether its head has come.
    pub fn has_head(&self) -> bool {
        self.shared.with(|state, _| state.has_head())
    }

    /// How many bytes it has, once all are there.
    pub fn whole_length(&self) -> Option<u64> {
        self.shared.with(|state, _| state.whole_length())
    }

    /// Whether a reader can have had all of it: it has ended, or all bytes have come that its head has promised.
    pub fn has_all(&self) -> bool {
        self.shared.with(|state, _| state.has_all())
    }

    /// Whether it has ended, in one way or the other.
    pub fn has_ended(&self) -> bool {
        self.shared.with(|state, _| state.has_ended())
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        self.shared.with(FillState::close_joining);
    }
}

/// The writing side. Dropped without [`FillWriter::finish`], the fill fails with [`FillError::Aborted`].
pub struct FillWriter {
    shared: Arc<FillShared>,
    ending: DropAction,
    /// See [`FillWriter::hold`].
    held: Option<HeldWakers>,
}

/// What has to be done when the writer is dropped.
#[derive(Clone, Copy)]
enum DropAction {
    Abort,
    Done,
}

impl FillWriter {
    /// From now on readers see new parts, but are not woken until [`FillWriter::release`], the end, or a wait for them: parts
    /// that are there together wake another thread once. The caller must release before it waits for anything else.
    pub fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Wakes the readers that are to be woken, and from now on at once.
    pub fn release(&mut self) {
        self.held = None;
    }

    fn with<T>(&mut self, step: impl FnOnce(&mut FillState, &mut After) -> T) -> T {
        let held = &mut self.held;
        self.shared.with(|state, after| {
            let result = step(state, after);
            if let Some(held) = held {
                held.take_from(after);
            }
            result
        })
    }

    /// Publishes the head, once, before any bytes. A later head is ignored.
    pub fn head(&mut self, head: FillHead) {
        self.with(|state, after| state.set_head(head, after));
    }

    /// Appends bytes. A kept fill never waits; a windowed one waits until the slowest reader is near enough.
    ///
    /// Cancel-safe in this sense: the bytes are taken at the first poll; dropping the future later only gives up waiting.
    pub async fn push(&mut self, chunk: Bytes) -> Result<(), NoReaders> {
        self.with(|state, after| state.push(chunk, after))?;
        self.release();
        poll_fn(|cx| self.shared.with(|state, after| state.poll_room(cx, after))).await
    }

    /// Appends bytes without waiting: the caller checks [`FillWriter::backlog`] first.
    pub fn put(&mut self, chunk: Bytes) -> Result<(), NoReaders> {
        self.with(|state, after| state.push(chunk, after))
    }

    /// Bytes that the slowest reader has not had yet.
    pub fn backlog(&self) -> u64 {
        self.shared.with(|state, _| state.backlog())
    }

    /// Waits until the backlog is less than `bytes`, at least 1; a kept fill never waits. Cancel-safe.
    pub async fn below(&mut self, bytes: u64) -> Result<(), NoReaders> {
        self.release();
        poll_fn(|cx| {
            self.shared
                .with(|state, after| state.poll_below(bytes, cx, after))
        })
        .await
    }

    /// Ends the body. Readers see the end first; then, where all was kept, one piece replaces the
    /// chunks.
    pub fn finish(mut self) -> Finished {
        self.ending = DropAction::Done;
        let FillOutcome { length, kept } = self.shared.with(FillState::finish);
        self.release();
        let body = kept.and_then(|(chunks, budget)| {
            let reservation = budget.try_reserve(length)?;
            let body = StoredBody::join(&chunks, usize::try_from(length).ok()?, reservation);
            self.shared
                .with(|state, after| state.replace_chunks(body.bytes().clone(), after));
            Some(body)
        });
        Finished { body, length }
    }

    /// Ends the fill for all readers, now.
    pub fn fail(mut self, failure: FillError) {
        self.ending = DropAction::Done;
        self.shared.with(|state, after| state.fail(failure, after));
    }

    /// Whether anybody reads now.
    pub fn has_readers(&self) -> bool {
        self.shared.with(|state, _| state.has_readers())
    }

    /// Whether the bytes have no use any more; see [`FillWriter::readers_gone`].
    pub fn is_unread(&self) -> bool {
        self.shared.with(|state, _| state.is_unread())
    }

    /// Whether all bytes so far are kept, so that the body may be stored at the end.
    pub fn is_kept(&self) -> bool {
        self.shared.with(|state, _| state.is_kept())
    }

    /// Waits until the bytes have no use any more: the fill is a window (private, or outgrown) and the last reader has
    /// gone, or none ever came and every handle has been dropped. Before the head: when all handles and readers are
    /// gone. Never true of a kept fill. Cancel-safe.
    pub async fn readers_gone(&self) {
        poll_fn(|cx| self.shared.with(|state, after| state.poll_gone(cx, after))).await;
    }
}

impl Drop for FillWriter {
    fn drop(&mut self) {
        match self.ending {
            DropAction::Abort => self
                .shared
                .with(|state, after| state.fail(FillError::Aborted, after)),
            DropAction::Done => {}
        }
    }
}

/// One reader, at its own pace. Dropping it leaves the fill.
pub struct FillReader {
    shared: Arc<FillShared>,
    slot: usize,
}

impl FillReader {
    /// The head, when it has come. Cancel-safe.
    pub async fn head(&mut self) -> Result<Arc<FillHead>, FillError> {
        poll_fn(|cx| self.poll_head(cx)).await
    }

    /// The next bytes, `None` at the end. Cancel-safe: bytes are taken only by the poll that returns them.
    pub async fn next(&mut self) -> Result<Option<Bytes>, FillError> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The parts that are there now, without waiting and without being woken later.
    pub fn try_next(&mut self) -> Result<FillRead, FillError> {
        self.shared
            .with(|state, after| state.take(self.slot, after))
    }

    /// As [`FillReader::head`], for polling. The last context's waker is kept, one per reader.
    pub fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Arc<FillHead>, FillError>> {
        self.shared
            .with(|state, after| state.poll_head(self.slot, cx, after))
    }

    /// As [`FillReader::next`], for polling.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, FillError>> {
        self.shared
            .with(|state, after| state.poll_next(self.slot, cx, after))
    }
}

impl Drop for FillReader {
    fn drop(&mut self) {
        self.shared
            .with(|state, after| state.leave(self.slot, after));
    }
}

struct FillShared {
    state: Mutex<FillState>,
}

impl FillShared {
    /// Runs `step` under the lock, and afterwards what it collected - wakers, bytes: dropping a waker may drop a task, and
    /// with it a reader of this very fill.
    fn with<T>(&self, step: impl FnOnce(&mut FillState, &mut After) -> T) -> T {
        let mut after = After::default();
        let result = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            step(&mut state, &mut after)
        };
        after.run();
        result
    }
}
