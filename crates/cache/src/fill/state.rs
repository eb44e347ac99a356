//! The state that the writer and the readers of a fill share, under one short lock.
//!
//! Every step is synchronous. It collects in [`DeferredActions`] the work that must be done after the lock is released. Positions are byte
//! offsets from the start of the body, so chunks can be dropped or joined without effect on the readers.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use galley_policy::outcome::NotStored;

use super::deferred::{Chunk, DeferredActions};
use super::parts::{BodyRetention, FillError, FillHead, FillRead, FillSharing, NoReaders};
use super::readers::Readers;
use crate::budget::{MemoryBudget, Reservation};

pub(super) struct FillState {
    head: Option<Arc<FillHead>>,
    phase: FillPhase,
    mode: RetainedBytes,
    /// Contiguous. Some readers may have read part of the first chunk.
    chunks: VecDeque<Chunk>,
    /// The number of bytes received so far.
    length: u64,
    /// Whether the writer has ended, and has joined the chunks if all were kept and there was memory.
    is_joined: bool,
    window: u64,
    /// A waiting writer continues when the backlog is less than this.
    wanted: u64,
    readers: Readers,
    /// Whether a handle exists by which readers can join.
    is_joinable: bool,
    /// Wakers of the writer: waiting for the backlog to shrink, and waiting for the readers to leave.
    backlog_wakers: Vec<Waker>,
    readers_gone_wakers: Vec<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FillPhase {
    Open,
    Done,
    Failed(FillError),
}

/// The bytes that are kept.
enum RetainedBytes {
    /// Before the head.
    Undecided(Option<BodyRetention>),
    /// All bytes, reserved from the budget.
    Kept {
        keep: BodyRetention,
        reservation: Reservation,
    },
    /// The bytes that the slowest reader has not read yet. The backlog of a fill that exceeded its limit stays reserved.
    Window(Option<Reservation>),
}

impl FillState {
    pub(super) fn new(window: u64, keep: Option<BodyRetention>) -> Self {
        Self {
            head: None,
            phase: FillPhase::Open,
            mode: RetainedBytes::Undecided(keep),
            chunks: VecDeque::new(),
            length: 0,
            is_joined: false,
            // With a window of 0 the writer could never continue.
            window: window.max(1),
            wanted: 0,
            readers: Readers::default(),
            is_joinable: true,
            backlog_wakers: Vec::new(),
            readers_gone_wakers: Vec::new(),
        }
    }

    // The writer's steps.

    pub(super) fn set_head(&mut self, head: FillHead, after: &mut DeferredActions) {
        let RetainedBytes::Undecided(keep) = &mut self.mode else {
            return;
        };
        let keep = keep.take();
        self.mode = match head.share {
            FillSharing::Private | FillSharing::File(_) => {
                self.readers
                    .exclude_all_but_first(FillError::Unstorable(NotStored::Private));
                RetainedBytes::Window(None)
            }
            // If the length is known, all of it is reserved here, so that a transfer in progress is not aborted midway.
            FillSharing::Shared { .. } => {
                match keep.and_then(|keep| Some((reserve(&keep, head.length)?, keep))) {
                    Some((reservation, keep)) => RetainedBytes::Kept { keep, reservation },
                    None => RetainedBytes::Window(None),
                }
            }
        };
        self.head = Some(Arc::new(head));
        self.readers.wake(after);
        self.wake_writer_without_readers(after);
    }

    pub(super) fn push(
        &mut self,
        bytes: Bytes,
        after: &mut DeferredActions,
    ) -> Result<(), NoReaders> {
        if matches!(self.mode, RetainedBytes::Undecided(_)) {
            // The permitted readers are not known before the head.
            self.fail(FillError::Malformed, after);
        }
        if bytes.is_empty() || self.phase != FillPhase::Open {
            return Ok(());
        }
        self.length += bytes.len() as u64;
        self.reserve_received(after);
        self.chunks.push_back(Chunk {
            end: self.length,
            bytes,
        });
        if self.is_unread() {
            self.trim(after);
            return Err(NoReaders);
        }
        self.readers.wake(after);
        Ok(())
    }

    /// Waits until the backlog is below the window of the fill.
    pub(super) fn poll_window(
        &mut self,
        cx: &Context<'_>,
        after: &mut DeferredActions,
    ) -> Poll<Result<(), NoReaders>> {
        self.poll_below(self.window, cx, after)
    }

    /// Waits until the backlog is below `bytes`, at least 1.
    pub(super) fn poll_below(
        &mut self,
        bytes: u64,
        cx: &Context<'_>,
        after: &mut DeferredActions,
    ) -> Poll<Result<(), NoReaders>> {
        match self.mode {
            _ if self.phase != FillPhase::Open => return Poll::Ready(Ok(())),
            RetainedBytes::Kept { .. } => return Poll::Ready(Ok(())),
            RetainedBytes::Undecided(_) | RetainedBytes::Window(_) => {}
        }
        if self.is_unread() {
            return Poll::Ready(Err(NoReaders));
        }
        self.wanted = bytes.max(1);
        if self.backlog() < self.wanted {
            return Poll::Ready(Ok(()));
        }
        register(&mut self.backlog_wakers, cx, after);
        Poll::Pending
    }

    pub(super) fn poll_readers_dropped(
        &mut self,
        cx: &Context<'_>,
        after: &mut DeferredActions,
    ) -> Poll<()> {
        if self.is_unread() {
            return Poll::Ready(());
        }
        register(&mut self.readers_gone_wakers, cx, after);
        Poll::Pending
    }

    pub(super) fn finish(
        &mut self,
        after: &mut DeferredActions,
    ) -> Option<(Vec<Bytes>, MemoryBudget)> {
        let length = self.length;
        let Some(head) = &self.head else {
            self.fail(FillError::Malformed, after);
            return None;
        };
        let is_shared = matches!(head.share, FillSharing::Shared { .. });
        if is_shared && head.length.is_some_and(|expected| expected != length) {
            // Too short or too long: an incomplete page must not be sent as complete and must not be stored.
            self.fail(FillError::Closed, after);
            return None;
        }
        if self.phase == FillPhase::Open {
            self.phase = FillPhase::Done;
        }
        self.readers.wake(after);
        match (&self.mode, self.phase) {
            (RetainedBytes::Kept { keep, .. }, FillPhase::Done) => {
                let chunks = self
                    .chunks
                    .iter()
                    .map(|chunk| chunk.bytes.clone())
                    .collect();
                Some((chunks, keep.budget.clone()))
            }
            _ => None,
        }
    }

    /// Replaces the chunks by the joined body, which has a separate reservation. `None`: they were not joined.
    pub(super) fn note_joined(&mut self, whole: Option<Bytes>, after: &mut DeferredActions) {
        self.is_joined = true;
        self.readers.wake(after);
        let Some(whole) = whole else {
            return;
        };
        after.drop_chunks.extend(self.chunks.drain(..));
        if !whole.is_empty() {
            self.chunks.push_back(Chunk {
                end: self.length,
                bytes: whole,
            });
        }
        if let RetainedBytes::Kept { reservation, .. } = &mut self.mode {
            reservation.shrink_to(0);
        }
    }

    pub(super) fn fail(&mut self, failure: FillError, after: &mut DeferredActions) {
        if self.phase != FillPhase::Open {
            return;
        }
        self.phase = FillPhase::Failed(failure);
        after.drop_chunks.extend(self.chunks.drain(..));
        self.mode = RetainedBytes::Window(None);
        self.readers.wake(after);
        self.wake_writer(after);
    }

    // The handle's steps.

    pub(super) fn join(&mut self) -> Option<usize> {
        let is_open = match (&self.mode, self.phase) {
            (_, FillPhase::Failed(_))
            | (RetainedBytes::Undecided(_) | RetainedBytes::Kept { .. }, _) => true,
            // No bytes have been dropped before the first reader joined, so it still gets all of them.
            (RetainedBytes::Window(_), _) => !self.readers.had_any(),
        };
        is_open.then(|| self.readers.add())
    }

    pub(super) fn close_joining(&mut self, after: &mut DeferredActions) {
        self.is_joinable = false;
        self.wake_writer_without_readers(after);
    }

    // A reader's steps.

    pub(super) fn poll_head(
        &mut self,
        slot: usize,
        cx: &Context<'_>,
        after: &mut DeferredActions,
    ) -> Poll<Result<Arc<FillHead>, FillError>> {
        if let Some(failure) = self.failure_for(slot) {
            return Poll::Ready(Err(failure));
        }
        if let Some(head) = &self.head {
            return Poll::Ready(Ok(Arc::clone(head)));
        }
        self.readers.register(slot, cx, after);
        Poll::Pending
    }

    pub(super) fn poll_next(
        &mut self,
        slot: usize,
        cx: &Context<'_>,
        after: &mut DeferredActions,
    ) -> Poll<Result<Option<Bytes>, FillError>> {
        match self.take(slot, after) {
            Ok(FillRead::Chunk(bytes)) => Poll::Ready(Ok(Some(bytes))),
            Ok(FillRead::End) => Poll::Ready(Ok(None)),
            Err(failure) => Poll::Ready(Err(failure)),
            Ok(FillRead::Pending) => {
                self.readers.register(slot, cx, after);
                Poll::Pending
            }
        }
    }

    /// Waits for the end of a kept fill. The body, if it is in one buffer; `None`: it must be read.
    pub(super) fn poll_joined(
        &mut self,
        slot: usize,
        cx: &Context<'_>,
        after: &mut DeferredActions,
    ) -> Poll<Result<Option<Bytes>, FillError>> {
        if let Some(failure) = self.failure_for(slot) {
            return Poll::Ready(Err(failure));
        }
        match self.mode {
            RetainedBytes::Window(_) => Poll::Ready(Ok(None)),
            RetainedBytes::Kept { .. } if self.is_joined => {
                let mut chunks = self.chunks.iter().map(|chunk| chunk.bytes.clone());
                let whole = chunks.next().unwrap_or_default();
                Poll::Ready(Ok(chunks.next().is_none().then_some(whole)))
            }
            RetainedBytes::Undecided(_) | RetainedBytes::Kept { .. } => {
                self.readers.register(slot, cx, after);
                Poll::Pending
            }
        }
    }

    pub(super) fn take(
        &mut self,
        slot: usize,
        after: &mut DeferredActions,
    ) -> Result<FillRead, FillError> {
        if let Some(failure) = self.failure_for(slot) {
            return Err(failure);
        }
        let position = self.readers.position(slot);
        let at = self.chunks.partition_point(|chunk| chunk.end <= position);
        let Some(chunk) = self.chunks.get(at) else {
            return Ok(if self.phase == FillPhase::Done {
                FillRead::End
            } else {
                FillRead::Pending
            });
        };
        let left = usize::try_from(chunk.end - position).unwrap_or(usize::MAX);
        let bytes = chunk.bytes.slice(chunk.bytes.len().saturating_sub(left)..);
        self.readers.advance(slot, chunk.end);
        self.advance_window(after);
        Ok(FillRead::Chunk(bytes))
    }

    pub(super) fn remove_reader(&mut self, slot: usize, after: &mut DeferredActions) {
        self.readers.remove(slot, after);
        self.advance_window(after);
        self.wake_writer_without_readers(after);
    }

    // What is known.

    pub(super) fn has_ended(&self) -> bool {
        self.phase != FillPhase::Open
    }

    pub(super) fn has_all(&self) -> bool {
        let announced = self.head.as_ref().and_then(|head| head.length);
        self.has_ended() || announced.is_some_and(|announced| self.length >= announced)
    }

    pub(super) fn whole_length(&self) -> Option<u64> {
        (self.phase == FillPhase::Done).then_some(self.length)
    }

    pub(super) fn has_head(&self) -> bool {
        self.head.is_some()
    }

    pub(super) fn readers(&self) -> usize {
        self.readers.count()
    }

    pub(super) fn has_readers(&self) -> bool {
        self.readers.has_any()
    }

    pub(super) fn is_kept(&self) -> bool {
        matches!(self.mode, RetainedBytes::Kept { .. })
    }

    fn failure_for(&self, slot: usize) -> Option<FillError> {
        match self.phase {
            FillPhase::Failed(failure) => Some(failure),
            FillPhase::Open | FillPhase::Done => self.readers.excluded(slot),
        }
    }

    /// Whether the fill has no readers, none can join, and the body is not kept.
    pub(super) fn is_unread(&self) -> bool {
        let can_join = match self.mode {
            RetainedBytes::Kept { .. } => return false,
            RetainedBytes::Undecided(_) => self.is_joinable,
            RetainedBytes::Window(_) => self.is_joinable && !self.readers.had_any(),
        };
        !can_join && !self.readers.has_any()
    }

    /// The number of bytes that the slowest reader has not read yet.
    pub(super) fn backlog(&self) -> u64 {
        self.length - self.readers.slowest().unwrap_or(0)
    }

    // Keeping and dropping bytes.

    /// Reserves all bytes up to `length`. If that fails, the fill becomes a window.
    fn reserve_received(&mut self, after: &mut DeferredActions) {
        let RetainedBytes::Kept { keep, reservation } = &mut self.mode else {
            return;
        };
        let missing = self.length.saturating_sub(reservation.bytes());
        if self.length <= keep.max_bytes && reservation.try_grow(missing).is_ok() {
            return;
        }
        if let RetainedBytes::Kept { reservation, .. } =
            mem::replace(&mut self.mode, RetainedBytes::Window(None))
        {
            self.mode = RetainedBytes::Window(Some(reservation));
        }
        self.trim(after);
        self.wake_writer_without_readers(after);
    }

    /// Called after a reader advanced or left: drops the bytes that all readers have read, and wakes the writer if it can continue.
    fn advance_window(&mut self, after: &mut DeferredActions) {
        self.trim(after);
        // Checked last, because it visits every reader, and a kept fill may have thousands.
        if !self.backlog_wakers.is_empty() && self.backlog() < self.wanted {
            after.wake.append(&mut self.backlog_wakers);
        }
    }

    fn trim(&mut self, after: &mut DeferredActions) {
        let RetainedBytes::Window(reservation) = &mut self.mode else {
            return;
        };
        let read_by_all = match self.readers.slowest() {
            Some(slowest) => slowest,
            None if self.readers.had_any() || !self.is_joinable => self.length,
            None => 0,
        };
        while self
            .chunks
            .front()
            .is_some_and(|chunk| chunk.end <= read_by_all)
        {
            after.drop_chunks.extend(self.chunks.pop_front());
        }
        if let Some(reservation) = reservation {
            let first = self.chunks.front();
            let start = first.map_or(self.length, |chunk| chunk.end - chunk.bytes.len() as u64);
            reservation.shrink_to(self.length - start);
        }
    }

    fn wake_writer_without_readers(&mut self, after: &mut DeferredActions) {
        if self.is_unread() {
            self.wake_writer(after);
        }
    }

    fn wake_writer(&mut self, after: &mut DeferredActions) {
        after.wake.append(&mut self.backlog_wakers);
        after.wake.append(&mut self.readers_gone_wakers);
    }
}

/// Reserves the body when the head is received. `None`: the body cannot be kept.
fn reserve(keep: &BodyRetention, length: Option<u64>) -> Option<Reservation> {
    let length = length.unwrap_or(0);
    if length > keep.max_bytes {
        None
    } else {
        keep.budget.try_reserve(length)
    }
}

/// Adds a task's waker unless the list contains it.
fn register(wakers: &mut Vec<Waker>, cx: &Context<'_>, after: &mut DeferredActions) {
    if wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
        return;
    }
    // The writer has one relevant future at a time. A few more wakers only cause unnecessary wakeups.
    if wakers.len() >= WRITER_WAKERS {
        after.wake.append(wakers);
    }
    wakers.push(cx.waker().clone());
}

/// The maximum number of wakers of the writer.
const WRITER_WAKERS: usize = 8;
