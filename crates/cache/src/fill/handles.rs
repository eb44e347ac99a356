//! The handles of a fill: for its writer, its readers, and requests that may join.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use galley_policy::outcome::NotStored;

use super::deferred::{DeferredActions, DeferredWakers};
use super::parts::{BodyRetention, FillError, FillHead, FillRead, NoReaders};
use super::state::FillState;
use crate::body::{ReceivedBody, StoredBody};
use crate::budget::{OutOfBudget, Reservation};
use crate::sync::Lock;

/// A new fill, without a head. `window_bytes`: the maximum distance between a windowed writer and its slowest reader (the
/// writer stops at the first chunk that reaches it). Without `keep`, a shared fill is windowed, too.
pub fn fill(window_bytes: usize, keep: Option<BodyRetention>) -> (FillWriter, Arc<Fill>) {
    let shared = Arc::new(FillShared {
        state: Lock::new(FillState::new(window_bytes as u64, keep)),
    });
    let writer = FillWriter {
        shared: Arc::clone(&shared),
        ending: DropAction::Abort,
        delayed: None,
    };
    (writer, Arc::new(Fill { shared }))
}

/// The handle by which requests join a fill.
pub struct Fill {
    shared: Arc<FillShared>,
}

impl Fill {
    /// A reader from the first byte. `None`: the fill is closed to new readers, because its head was private or it became a
    /// window, and it already has had a reader. A fill that has ended can still be read.
    pub fn reader(self: &Arc<Self>) -> Option<FillReader> {
        let slot = self.shared.with(|state, _| state.join())?;
        Some(FillReader {
            shared: Arc::clone(&self.shared),
            slot,
        })
    }

    /// The number of readers.
    pub fn readers(&self) -> usize {
        self.shared.with(|state, _| state.readers())
    }

    /// Whether the head has been received.
    pub fn has_head(&self) -> bool {
        self.shared.with(|state, _| state.has_head())
    }

    /// The length of the body; `None` while it is incomplete.
    pub fn whole_length(&self) -> Option<u64> {
        self.shared.with(|state, _| state.whole_length())
    }

    /// Whether a reader may have read the whole body: the fill has ended, or all bytes that the head announced have been received.
    pub fn has_all(&self) -> bool {
        self.shared.with(|state, _| state.has_all())
    }

    /// Whether the fill has ended, successfully or not.
    pub fn has_ended(&self) -> bool {
        self.shared.with(|state, _| state.has_ended())
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        self.shared.with(FillState::close_joining);
    }
}

/// The writing side. If it is dropped without [`FillWriter::finish`], the fill fails with [`FillError::Aborted`].
pub struct FillWriter {
    shared: Arc<FillShared>,
    ending: DropAction,
    /// See [`FillWriter::hold`].
    delayed: Option<DeferredWakers>,
}

/// What dropping the writer does.
#[derive(Clone, Copy)]
enum DropAction {
    Abort,
    Done,
}

impl FillWriter {
    /// Delays waking readers until [`FillWriter::release`], the end, or a wait for readers. Readers see new parts all the same.
    /// So parts that arrive together wake another thread once. The caller must release before it waits for anything else.
    pub fn hold(&mut self) {
        self.delayed.get_or_insert_default();
    }

    /// Wakes the readers whose wakeup was delayed, and ends the delay.
    pub fn release(&mut self) {
        self.delayed = None;
    }

    fn with<T>(&mut self, step: impl FnOnce(&mut FillState, &mut DeferredActions) -> T) -> T {
        let delayed = &mut self.delayed;
        self.shared.with(|state, after| {
            let result = step(state, after);
            if let Some(delayed) = delayed {
                delayed.take_from(after);
            }
            result
        })
    }

    /// Publishes the head, before any bytes. Further heads are ignored.
    pub fn head(&mut self, head: FillHead) {
        self.with(|state, after| state.set_head(head, after));
    }

    /// Appends bytes. A kept fill never waits; a windowed one waits until the slowest reader is close enough.
    ///
    /// Cancel-safe: the bytes are appended by the first poll. Dropping the future later only ends the wait.
    pub async fn push(&mut self, chunk: Bytes) -> Result<(), NoReaders> {
        self.with(|state, after| state.push(chunk, after))?;
        self.release();
        poll_fn(|cx| {
            self.shared
                .with(|state, after| state.poll_window(cx, after))
        })
        .await
    }

    /// Appends bytes without waiting. The caller checks [`FillWriter::backlog`] first.
    pub fn put(&mut self, chunk: Bytes) -> Result<(), NoReaders> {
        self.with(|state, after| state.push(chunk, after))
    }

    /// The number of bytes that the slowest reader has not read yet.
    pub fn backlog(&self) -> u64 {
        self.shared.with(|state, _| state.backlog())
    }

    /// Waits until the backlog is less than `bytes`, at least 1. A kept fill never waits. Cancel-safe.
    pub async fn below(&mut self, bytes: u64) -> Result<(), NoReaders> {
        self.release();
        poll_fn(|cx| {
            self.shared
                .with(|state, after| state.poll_below(bytes, cx, after))
        })
        .await
    }

    /// Ends the body. Readers see the end first. Then, if all bytes were kept, one buffer replaces the chunks. Returns the whole
    /// body if it was kept: not for private fills, fills that exceeded their limits, and those whose length differs from that in
    /// their head.
    pub fn finish(mut self) -> Option<StoredBody> {
        self.ending = DropAction::Done;
        let kept = self.shared.with(FillState::finish);
        self.release();
        let body =
            kept.and_then(|(chunks, budget)| StoredBody::join(&chunks, budget.try_reserve(0)?));
        let whole = body.as_ref().map(|body| body.bytes().clone());
        self.shared
            .with(|state, after| state.note_joined(whole, after));
        body
    }

    /// Ends the fill for all readers immediately.
    pub fn fail(mut self, failure: FillError) {
        self.ending = DropAction::Done;
        self.shared.with(|state, after| state.fail(failure, after));
    }

    /// Whether the fill has readers now.
    pub fn has_readers(&self) -> bool {
        self.shared.with(|state, _| state.has_readers())
    }

    /// Whether the bytes are no longer needed; see [`FillWriter::all_readers_dropped`].
    pub fn is_unread(&self) -> bool {
        self.shared.with(|state, _| state.is_unread())
    }

    /// Whether all bytes so far are kept, so that the body may be stored at the end.
    pub fn is_kept(&self) -> bool {
        self.shared.with(|state, _| state.is_kept())
    }

    /// Waits until the bytes are no longer needed: the fill is a window (private, or over its limit) and the last reader has
    /// left, or no reader joined and every handle has been dropped. Before the head: when all handles and readers are gone.
    /// Never ends while the fill is kept. Cancel-safe.
    pub async fn all_readers_dropped(&self) {
        poll_fn(|cx| {
            self.shared
                .with(|state, after| state.poll_readers_dropped(cx, after))
        })
        .await;
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

/// One reader, which reads at its own pace. Dropping it leaves the fill.
pub struct FillReader {
    shared: Arc<FillShared>,
    slot: usize,
}

impl FillReader {
    /// Waits for the head. Cancel-safe.
    pub async fn head(&mut self) -> Result<Arc<FillHead>, FillError> {
        poll_fn(|cx| self.poll_head(cx)).await
    }

    /// The next bytes; `None` at the end. Cancel-safe: only the poll that returns the bytes consumes them.
    pub async fn next(&mut self) -> Result<Option<Bytes>, FillError> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The whole body. That of a kept fill is the buffer that may be stored, which all readers share; it needs no memory of
    /// its own. Another body is received into `room`, which grows.
    ///
    /// Errors: as [`FillReader::next`]; [`NotStored::TooLarge`] for more than `most` bytes, [`FillError::Memory`] without memory for them.
    pub async fn whole(mut self, room: Reservation, most: u64) -> Result<Bytes, FillError> {
        let joined = poll_fn(|cx| {
            self.shared
                .with(|state, after| state.poll_joined(self.slot, cx, after))
        });
        if let Some(whole) = joined.await? {
            return Ok(whole);
        }
        let mut body = ReceivedBody::new(room);
        while let Some(piece) = self.next().await? {
            if body.length() + piece.len() as u64 > most {
                return Err(FillError::Unstorable(NotStored::TooLarge));
            }
            body.push(piece).map_err(|OutOfBudget| FillError::Memory)?;
        }
        let (bytes, room) = body.joined();
        Ok(StoredBody::reserved(bytes, room).bytes().clone())
    }

    /// The next chunk if it is available. Does not wait and registers no waker.
    pub fn try_next(&mut self) -> Result<FillRead, FillError> {
        self.shared
            .with(|state, after| state.take(self.slot, after))
    }

    /// Like [`FillReader::head`], for polling. Keeps the last context's waker, one per reader.
    pub fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Arc<FillHead>, FillError>> {
        self.shared
            .with(|state, after| state.poll_head(self.slot, cx, after))
    }

    /// Like [`FillReader::next`], for polling.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, FillError>> {
        self.shared
            .with(|state, after| state.poll_next(self.slot, cx, after))
    }
}

impl Drop for FillReader {
    fn drop(&mut self) {
        self.shared
            .with(|state, after| state.remove_reader(self.slot, after));
    }
}

struct FillShared {
    state: Lock<FillState>,
}

impl FillShared {
    /// Runs `step` under the lock, then the work that it collected (waking and dropping). Dropping a waker may drop a task, and
    /// with it a reader of this fill.
    fn with<T>(&self, step: impl FnOnce(&mut FillState, &mut DeferredActions) -> T) -> T {
        let mut after = DeferredActions::default();
        let result = {
            let mut state = self.state.lock();
            step(&mut state, &mut after)
        };
        after.run();
        result
    }
}
