//! A request body that is sent to the upstream while it is received.
//!
//! A front thread receives it and a fetch thread sends it. Between them is a channel for a few parts, whose memory is reserved
//! before the first one is received: a slow upstream slows its client down, and a slow client its upstream. Each side is notified
//! when the other one ends. A body can be read once, so a request is not repeated after a part of it was taken.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use galley_cache::budget::Reservation;
use galley_sys::Lock;
use tokio::sync::{Notify, mpsc};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout, timeout_at};

use super::body_spools::BodySpools;

/// Creates the two ends of a body of `length` bytes, or without a known length. `None`: there is no memory for its parts.
pub fn stream(spools: &BodySpools, length: Option<u64>) -> Option<(BodySender, StreamedBody)> {
    let reservation = spools.memory().try_reserve((PARTS * PART_BYTES) as u64)?;
    let (sender, parts) = mpsc::channel(PARTS);
    let shared = Arc::new(StreamShared {
        parts: Lock::new(parts),
        progress: Lock::default(),
        wanted: Notify::new(),
        broken: Notify::new(),
        _reservation: reservation,
    });
    let sender = BodySender {
        shared: Arc::clone(&shared),
        parts: sender,
    };
    Some((sender, StreamedBody { shared, length }))
}

#[derive(Debug)]
struct StreamShared {
    /// Read only by the connection to the upstream.
    parts: Lock<mpsc::Receiver<BodyPart>>,
    progress: Lock<StreamProgress>,
    /// Notified when the upstream requests the first part.
    wanted: Notify,
    /// Notified when the body is aborted.
    broken: Notify,
    /// The reservation for the parts in the channel.
    _reservation: Reservation,
}

#[derive(Debug)]
enum BodyPart {
    Data(Bytes),
    End,
}

/// The progress that both sides use.
#[derive(Debug, Default)]
struct StreamProgress {
    /// Whether the upstream has requested a part.
    is_wanted: bool,
    /// The time when the upstream took the last part, or the end.
    taken_at: Option<Instant>,
    /// Whether the upstream has taken everything that was received, and waits for the client.
    is_awaited: bool,
    /// Whether the upstream has taken the end.
    is_complete: bool,
    end: SenderEnd,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SenderEnd {
    /// More parts follow.
    #[default]
    Open,
    /// The end was sent.
    Sent,
    /// No more parts are forwarded, but the upstream may still respond.
    Stopped,
    /// The client has disconnected, or its input was rejected.
    Broken,
}

/// The client's end. Dropping it before [`PartPermit::end`] aborts the body and the request to the upstream.
#[derive(Debug)]
pub struct BodySender {
    shared: Arc<StreamShared>,
    parts: mpsc::Sender<BodyPart>,
}

impl BodySender {
    /// Whether the upstream has requested the first part.
    pub fn is_wanted(&self) -> bool {
        self.shared.progress.lock().is_wanted
    }

    /// Waits until the upstream requests the first part. Cancel-safe.
    pub async fn wanted(&self) {
        if !self.is_wanted() {
            self.shared.wanted.notified().await;
        }
    }

    /// Reserves a place for one part in the channel, if there is one now.
    pub fn try_reserve_part(&self) -> Option<PartPermit<'_>> {
        let part = self.parts.try_reserve().ok()?;
        Some(self.permit(part))
    }

    /// Waits for a place for one part in the channel; `None`: the upstream takes no more. Cancel-safe.
    pub async fn reserve_part(&self) -> Option<PartPermit<'_>> {
        let part = self.parts.reserve().await.ok()?;
        Some(self.permit(part))
    }

    fn permit<'s>(&'s self, part: mpsc::Permit<'s, BodyPart>) -> PartPermit<'s> {
        PartPermit {
            part,
            shared: &self.shared,
        }
    }

    /// Waits until the upstream takes no more. Cancel-safe.
    pub async fn closed(&self) {
        self.parts.closed().await;
    }

    /// Forwards no more parts. While this sender exists, the upstream may continue its response; its timeouts begin now.
    pub fn stop(&self) {
        self.shared.progress.lock().end = SenderEnd::Stopped;
    }
}

impl Drop for BodySender {
    fn drop(&mut self) {
        let mut progress = self.shared.progress.lock();
        if progress.end != SenderEnd::Sent {
            progress.end = SenderEnd::Broken;
            drop(progress);
            self.shared.broken.notify_one();
        }
    }
}

/// A reserved place for one part in the channel.
pub struct PartPermit<'s> {
    part: mpsc::Permit<'s, BodyPart>,
    shared: &'s StreamShared,
}

impl PartPermit<'_> {
    /// Forwards a part of at most [`PART_BYTES`].
    pub fn send(self, bytes: Bytes) {
        self.part.send(BodyPart::Data(bytes));
    }

    /// Declares the body complete.
    pub fn end(self) {
        self.shared.progress.lock().end = SenderEnd::Sent;
        self.part.send(BodyPart::End);
    }
}

/// The upstream's end. Dropping it notifies the client's end that no more parts are taken.
#[derive(Debug)]
pub struct StreamedBody {
    shared: Arc<StreamShared>,
    length: Option<u64>,
}

impl StreamedBody {
    /// The announced length, in bytes.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// A reader that continues where the last one stopped.
    pub fn reader(&self) -> StreamReader {
        StreamReader(Arc::clone(&self.shared))
    }

    /// Whether the upstream may have received a part, so that the request cannot be sent again.
    pub fn is_taken(&self) -> bool {
        self.shared.progress.lock().taken_at.is_some()
    }

    /// Whether the body was aborted.
    pub fn is_broken(&self) -> bool {
        self.shared.progress.lock().end == SenderEnd::Broken
    }

    /// Waits until the body is aborted. Only one task may wait. Cancel-safe.
    pub async fn broken(&self) {
        if !self.is_broken() {
            self.shared.broken.notified().await;
        }
    }

    /// The progress of the body, for the upstream's timeouts.
    pub fn pace(&self) -> UploadPace {
        UploadPace(Some(Arc::clone(&self.shared)))
    }
}

impl Drop for StreamedBody {
    fn drop(&mut self) {
        self.shared.parts.lock().close();
    }
}

/// Reads a [`StreamedBody`].
pub struct StreamReader(Arc<StreamShared>);

impl StreamReader {
    /// The next part, `None` at the end. Errors: the body was aborted.
    pub(super) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        let polled = self.0.parts.lock().poll_recv(cx);
        let mut progress = self.0.progress.lock();
        let is_first = !std::mem::replace(&mut progress.is_wanted, true);
        progress.is_awaited = polled.is_pending();
        let taken = match polled {
            Poll::Pending => Poll::Pending,
            _ if progress.is_complete => Poll::Ready(Ok(None)),
            Poll::Ready(Some(part)) => {
                progress.taken_at = Some(Instant::now());
                Poll::Ready(Ok(match part {
                    BodyPart::Data(bytes) => Some(bytes),
                    BodyPart::End => {
                        progress.is_complete = true;
                        None
                    }
                }))
            }
            Poll::Ready(None) => Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
        };
        drop(progress);
        if is_first {
            self.0.wanted.notify_one();
        }
        taken
    }
}

/// The progress of a request body, for the upstream's timeouts: an upstream that waits for the client, or still takes parts, is
/// not silent. Has no effect for bodies that were received completely.
#[derive(Clone, Debug, Default)]
pub struct UploadPace(Option<Arc<StreamShared>>);

impl UploadPace {
    /// Waits for `work`, with a timeout of `limit` that starts again whenever the upstream takes a part.
    pub async fn within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, Elapsed> {
        let Some(shared) = &self.0 else {
            return timeout(limit, work).await;
        };
        let mut work = std::pin::pin!(work);
        let mut deadline = Instant::now() + limit;
        loop {
            let elapsed = match timeout_at(deadline, work.as_mut()).await {
                Ok(done) => return Ok(done),
                Err(elapsed) => elapsed,
            };
            let since = shared.progress.lock().last_movement(Instant::now());
            match since.map(|since| since + limit) {
                Some(later) if later > deadline => deadline = later,
                _ => return Err(elapsed),
            }
        }
    }

    /// Whether the upstream has not taken all of the body.
    pub fn is_unfinished(&self) -> bool {
        let shared = self.0.as_ref();
        shared.is_some_and(|shared| !shared.progress.lock().is_complete)
    }
}

impl StreamProgress {
    /// The last time at which the upstream was not silent: now, if it waits for the client.
    fn last_movement(&self, now: Instant) -> Option<Instant> {
        let waits = self.is_awaited && self.end == SenderEnd::Open;
        if waits { Some(now) } else { self.taken_at }
    }
}

/// The maximum size of a part, in bytes: two frames of HTTP/2, or a record of FastCGI.
pub const PART_BYTES: usize = 32 * 1024;

/// The number of parts in the channel: enough that neither side waits for the other to be scheduled after each part.
const PARTS: usize = 4;
