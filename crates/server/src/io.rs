//! A client's socket with its buffers: reads input, writes complete responses, closes gracefully.

use std::cell::Cell;
use std::fs::File;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use galley_sys::PageSender;
use rustix::net::SendFlags;
use tokio::io::AsyncWriteExt;

use super::batch::{HitBatch, MAX_SLICES, SLICES_OF_ONE};
use super::pending_body::{PendingBody, SLICES};
use super::pool::BufferPool;
use super::socket::Socket;
use super::speed::{MinRate, ReceiveProgress, SendProgress, at_once};
use super::timer::{Deadline, DeadlinePassed, Timer};

/// A connection to a client.
pub(super) struct ClientConnection {
    pub(super) stream: Socket,
    /// Received bytes that have not been used.
    pub(super) input: BytesMut,
    /// The head that is being written; kept for its memory.
    pub(super) output: Vec<u8>,
    pub(super) timer: Timer,
    /// The core's `Date`, for responses without their own.
    pub(super) date: Rc<Cell<HttpDate>>,
    pool: Rc<BufferPool>,
    send_speed: MinRate,
    /// Whether the client has announced that it sends nothing after the current request, which has been read completely.
    pub(super) is_last_request: bool,
}

/// An IMF-fixdate (RFC 9110 §5.6.7).
pub(super) type HttpDate = [u8; 29];

/// Why a read or a write ended.
#[derive(Debug)]
pub(super) enum IoError {
    /// The connection was closed, reset, or broken.
    Closed,
    /// The deadline passed.
    Late,
}

impl From<DeadlinePassed> for IoError {
    fn from(_: DeadlinePassed) -> Self {
        Self::Late
    }
}

impl From<io::Error> for IoError {
    fn from(_: io::Error) -> Self {
        Self::Closed
    }
}

impl ClientConnection {
    pub(super) fn new(
        stream: Socket,
        timer: Timer,
        date: Rc<Cell<HttpDate>>,
        pool: Rc<BufferPool>,
        send_speed: MinRate,
    ) -> Self {
        Self {
            stream,
            input: BytesMut::new(),
            output: Vec::new(),
            timer,
            date,
            pool,
            send_speed,
            is_last_request: false,
        }
    }

    /// Returns the buffers to the pool: a connection that is idle or ends holds none.
    pub(super) fn return_buffers(&mut self) {
        self.pool.put_back(&mut self.input, &mut self.output);
    }

    /// The socket, and the input that has not been used.
    pub(super) fn into_parts(self) -> (Socket, BytesMut) {
        (self.stream, self.input)
    }

    /// Reads the available bytes into `input`, waiting for at least one; `Closed` at the end. Cancel-safe.
    pub(super) async fn fill(stream: &mut Socket, input: &mut BytesMut) -> Result<(), IoError> {
        input.reserve(READ_AT_ONCE);
        match stream.read_into(input).await? {
            0 => Err(IoError::Closed),
            _ => Ok(()),
        }
    }

    /// As [`ClientConnection::fill`], for the rest of a head.
    pub(super) async fn fill_head(&mut self, deadline: Deadline) -> Result<(), IoError> {
        let Self {
            stream,
            input,
            timer,
            ..
        } = self;
        timer
            .head_before(deadline, Self::fill(stream, input))
            .await?
    }

    /// As [`ClientConnection::fill`], for the rest of a body that must not come too slowly.
    pub(super) async fn fill_body(
        &mut self,
        progress: &mut ReceiveProgress,
    ) -> Result<(), IoError> {
        let before = self.input.len();
        loop {
            match self.fill_before(progress.until).await {
                Ok(()) => {
                    progress.add(self.input.len() - before);
                    return Ok(progress.judge(&self.timer)?);
                }
                Err(IoError::Late) => progress.judge(&self.timer)?,
                Err(gone) => return Err(gone),
            }
        }
    }

    /// As [`ClientConnection::fill`], for the first byte of a request, which may never come.
    pub(super) async fn fill_idle(&mut self, limit: Duration) -> Result<(), IoError> {
        // The first byte of the next request gets other buffers.
        self.return_buffers();
        self.timer.begin_idle(limit);
        let mut has_waited = false;
        let came = poll_fn(|cx| self.poll_idle(cx, &mut has_waited)).await;
        self.timer.end_idle();
        came
    }

    fn poll_idle(
        &mut self,
        cx: &mut Context<'_>,
        has_waited: &mut bool,
    ) -> Poll<Result<(), IoError>> {
        // A woken task reads at once. Before the first wait there is usually nothing to read, so no buffer is needed.
        if mem::replace(has_waited, true) || self.stream.poll_readable(cx)?.is_ready() {
            let Self {
                stream,
                input,
                output,
                pool,
                ..
            } = self;
            pool.take(input, output);
            input.reserve(READ_AT_ONCE);
            match stream.poll_read_into(cx, input)? {
                Poll::Ready(0) => return Poll::Ready(Err(IoError::Closed)),
                Poll::Ready(_) => return Poll::Ready(Ok(())),
                Poll::Pending => pool.put_back(input, output),
            }
        }
        self.timer.poll_late(cx).map(|()| Err(IoError::Late))
    }

    /// As [`ClientConnection::fill`], until a deadline.
    pub(super) async fn fill_before(&mut self, deadline: Deadline) -> Result<(), IoError> {
        let Self {
            stream,
            input,
            timer,
            ..
        } = self;
        timer.before(deadline, Self::fill(stream, input)).await?
    }

    /// Waits until the client disconnects, and reads what it sends until then, up to a limit. Never returns otherwise. Cancel-safe.
    pub(super) async fn vanished(&mut self) {
        while self.input.len() < MAX_AHEAD {
            self.input.reserve(READ_AT_ONCE);
            match self.stream.read_into(&mut self.input).await {
                Ok(0) => {
                    // The client may only have closed its sending side: a response that is ready in a moment still reaches it.
                    let _ = self
                        .timer
                        .within(HALF_CLOSED, std::future::pending::<()>())
                        .await;
                    return;
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
        std::future::pending::<()>().await;
    }

    /// The parts for a tunnel: the socket, the input from it, and the timer.
    pub(super) fn tunnel(&mut self) -> (&mut Socket, &mut BytesMut, &Timer) {
        (&mut self.stream, &mut self.input, &self.timer)
    }

    /// Removes the first `count` received bytes.
    pub(super) fn used(&mut self, count: usize) {
        if count == self.input.len() {
            // Resets the buffer: memory at its front would have to be reclaimed.
            self.input.clear();
        } else {
            self.input.advance(count);
        }
    }

    /// The input, and the parts that write a response.
    pub(super) fn parts(&mut self) -> (&BytesMut, ResponseSender<'_>) {
        let sender = ResponseSender {
            stream: &mut self.stream,
            output: &mut self.output,
            timer: &mut self.timer,
            date: &self.date,
            pages: &self.pool.pages,
            send_speed: self.send_speed,
        };
        (&self.input, sender)
    }

    /// Writes the head in `output`, then `body`.
    pub(super) async fn send(&mut self, body: &[Bytes]) -> Result<(), IoError> {
        self.parts().1.send(body).await
    }

    /// Whether the kernel can send a file directly on this connection.
    pub(super) fn takes_files(&self) -> bool {
        self.stream.is_plain()
    }

    /// Writes the head in `output`, if there is one, and lets the kernel hold it back for the bytes that follow. Plain sockets only.
    pub(super) async fn send_head_before_more(&mut self) -> Result<(), IoError> {
        let mut written = 0;
        while written < self.output.len() {
            let head = mem::take(&mut self.output);
            let rest = head.get(written..).unwrap_or_default();
            let sent = self
                .write_with(|socket| Ok(rustix::net::send(socket, rest, SendFlags::MORE)?))
                .await;
            self.output = head;
            written += sent?;
        }
        self.output.clear();
        Ok(())
    }

    /// Sends up to `most` bytes of a file from `at`, without copying them, and returns how many. Waits for the disk if they are
    /// not in memory. Plain sockets only.
    pub(super) async fn send_of_file(
        &mut self,
        file: &File,
        at: u64,
        most: u64,
    ) -> Result<u64, IoError> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let sent = self
            .write_with(|socket| {
                let mut at = at;
                Ok(rustix::fs::sendfile(socket, file, Some(&mut at), most)?)
            })
            .await?;
        match sent {
            // The file was truncated after its length was sent.
            0 => Err(IoError::Closed),
            sent => Ok(sent as u64),
        }
    }

    /// One write of another kind; ends if the client is too slow.
    async fn write_with(
        &mut self,
        mut write: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Result<usize, IoError> {
        let mut progress = match at_once(self.stream.write_direct(&mut write)).await {
            Some(written) => return Ok(written?),
            None => SendProgress::begin(self.send_speed, &self.stream),
        };
        loop {
            let writing = self.stream.write_direct(&mut write);
            match self.timer.within(self.send_speed.window, writing).await {
                Ok(written) => return Ok(written?),
                Err(DeadlinePassed) => progress.judge(&self.stream)?,
            }
        }
    }

    /// The local address of the connection.
    pub(super) fn local_address(&self) -> SocketAddr {
        self.stream.local_address()
    }
}

/// The sending half of a connection.
pub(super) struct ResponseSender<'w> {
    stream: &'w mut Socket,
    /// The head that is being written.
    pub(super) output: &'w mut Vec<u8>,
    timer: &'w mut Timer,
    /// The core's `Date`.
    pub(super) date: &'w Cell<HttpDate>,
    pages: &'w PageSender,
    send_speed: MinRate,
}

impl ResponseSender<'_> {
    /// Writes the head in `output`, then `body`, in as few calls as the socket allows; ends if the client is too slow.
    pub(super) async fn send(&mut self, body: &[Bytes]) -> Result<(), IoError> {
        let Self {
            stream,
            output,
            timer,
            send_speed,
            ..
        } = self;
        let mut head = output.as_slice();
        let mut body = body.iter().cloned().collect::<PendingBody>();
        while !head.is_empty() || !body.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let used = body.slices(head, &mut slices);
            let slices = slices.get(..used).unwrap_or_default();
            let mut written = write(stream, timer, *send_speed, slices).await?;
            let of_head = written.min(head.len());
            head = head.get(of_head..).unwrap_or_default();
            written -= of_head;
            body.advance(written);
        }
        output.clear();
        self.send_rest().await
    }

    /// Waits until everything has been sent: over TLS, written bytes may still be buffered.
    async fn send_rest(&mut self) -> Result<(), IoError> {
        while self.stream.has_buffered() {
            if let Some(sent) = at_once(self.stream.send_rest()).await {
                sent?;
                continue;
            }
            let mut progress = SendProgress::begin(self.send_speed, &*self.stream);
            loop {
                let sending = self.stream.send_rest();
                match self.timer.within(self.send_speed.window, sending).await {
                    Ok(sent) => break sent?,
                    Err(DeadlinePassed) => progress.judge(&*self.stream)?,
                }
            }
        }
        Ok(())
    }
}

/// Writes a batch in one call, as far as the socket accepts it at once.
fn try_write(stream: &mut Socket, batch: &HitBatch<'_>, heads: &[u8]) -> io::Result<usize> {
    match batch.responses() {
        _ if batch.is_contiguous() => stream.try_write(heads),
        [_] => {
            let mut room = [IoSlice::new(&[]); SLICES_OF_ONE];
            stream.try_write_vectored(batch.slices(heads, 0, &mut room))
        }
        _ => {
            let mut room = [IoSlice::new(&[]); MAX_SLICES];
            stream.try_write_vectored(batch.slices(heads, 0, &mut room))
        }
    }
}

/// Writes at least one byte of `slices`; ends if the client is too slow.
async fn write(
    stream: &mut Socket,
    timer: &Timer,
    speed: MinRate,
    slices: &[IoSlice<'_>],
) -> Result<usize, IoError> {
    let taken = |written: io::Result<usize>| match written? {
        0 => Err(IoError::Closed),
        written => Ok(written),
    };
    if let Some(written) = at_once(stream.write_vectored(slices)).await {
        return taken(written);
    }
    let mut progress = SendProgress::begin(speed, stream);
    loop {
        let writing = stream.write_vectored(slices);
        match timer.within(speed.window, writing).await {
            Ok(written) => return taken(written),
            Err(DeadlinePassed) => progress.judge(stream)?,
        }
    }
}

impl ResponseSender<'_> {
    /// Writes the heads in `output`, each before its body, in as few calls as the socket allows. `written` counts the bytes that were
    /// sent, even if this ends with an error.
    pub(super) async fn send_batch(
        &mut self,
        batch: &HitBatch<'_>,
        written: &mut usize,
    ) -> Result<(), IoError> {
        // The socket nearly always accepts everything, and then there is nothing to wait for and no deadline is needed.
        let sent = self.try_send_pages(batch);
        match sent.unwrap_or_else(|| try_write(self.stream, batch, self.output)) {
            Ok(count) => *written += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        if *written < batch.length(self.output) || self.stream.has_buffered() {
            // Boxed: otherwise its state would be created and moved for each hit.
            Box::pin(self.send_rest_of(batch, written)).await?;
        }
        Ok(())
    }

    /// Sends a response whose body is in pages of its own, without copying it, as far as the socket accepts it at once; `None` for
    /// other responses and sockets.
    fn try_send_pages(&mut self, batch: &HitBatch<'_>) -> Option<io::Result<usize>> {
        let [ready] = batch.responses() else {
            return None;
        };
        let pages = ready.hit.pages()?;
        let (head, sender) = (self.output.as_slice(), self.pages);
        self.stream.try_write_direct(|socket| {
            let sent = rustix::net::send(socket, head, SendFlags::MORE)?;
            Ok(if sent < head.len() {
                sent
            } else {
                sent + sender.send(socket, pages)
            })
        })
    }

    /// Writes the bytes that the socket did not accept at once.
    async fn send_rest_of(
        &mut self,
        batch: &HitBatch<'_>,
        written: &mut usize,
    ) -> Result<(), IoError> {
        let all = batch.length(self.output);
        while *written < all {
            let mut room = [IoSlice::new(&[]); SLICES];
            let slices = batch.slices(self.output, *written, &mut room);
            *written += write(self.stream, self.timer, self.send_speed, slices).await?;
        }
        self.send_rest().await
    }

    /// Whether written bytes are sent unchanged, so that copying short bodies behind their heads saves the kernel a list of
    /// pieces.
    pub(super) fn is_plain(&self) -> bool {
        self.stream.is_plain()
    }
}

/// Buffer size of a read: a browser's head has 600 to 900 bytes; a pipeline or a body arrives in larger pieces.
const READ_AT_ONCE: usize = 16 * 1024;

/// Maximum number of bytes that a client may send while its response is being generated.
const MAX_AHEAD: usize = 64 * 1024;

/// How long a response may take for a client that has closed its sending side: a file or a page from memory is sent at
/// once, and PHP is not kept busy for a client that has disconnected.
const HALF_CLOSED: Duration = Duration::from_secs(2);
