//! A client's socket: TCP, a unix socket, or TLS over TCP.
//!
//! The layers above see bytes in both directions, with one difference: over TLS, written bytes may still be buffered here,
//! so a response is complete when [`Socket::send_rest`] has nothing left. A plain socket buffers nothing, and is the only
//! one to which the kernel can send a file directly ([`Socket::write_direct`]).
//!
//! A connection is registered with the runtime before the first wait for it (`super::accepted`).

use std::future::poll_fn;
use std::io::{self, BufRead, IoSlice, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use galley_policy::proxied::UNKNOWN_ADDRESS;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

use super::accepted::Accepted;

/// A client's socket.
pub(super) enum Socket {
    /// TCP without TLS, not registered with the runtime yet.
    Accepted(Accepted),
    /// TCP without TLS.
    Tcp(TcpStream),
    /// A unix socket.
    Unix(UnixStream),
    /// TLS, after the handshake. Boxed: its state is a kilobyte that plain connections do not need.
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection that knows how many of its bytes have not been acknowledged.
pub(super) trait UnacknowledgedBytes {
    /// Bytes in the kernel's send buffer; 0 if that is unknown.
    fn unsent(&self) -> u64;
}

impl UnacknowledgedBytes for Socket {
    fn unsent(&self) -> u64 {
        match self {
            // It has not been waited for.
            Self::Accepted(_) => 0,
            Self::Tcp(stream) => galley_sys::unsent(stream.as_fd()),
            Self::Unix(stream) => galley_sys::unsent(stream.as_fd()),
            Self::Tls(stream) => galley_sys::unsent(stream.get_ref().0.as_fd()),
        }
    }
}

impl Socket {
    /// A non-blocking TCP connection.
    pub(super) fn accepted(socket: OwnedFd) -> Self {
        Self::Accepted(Accepted::new(socket))
    }

    /// Registers the connection with the runtime.
    fn register(&mut self) -> io::Result<()> {
        if let Self::Accepted(accepted) = self {
            *self = Self::Tcp(TcpStream::from_std(accepted.take()?)?);
        }
        Ok(())
    }

    /// The TCP connection, if it has no TLS.
    pub(super) fn into_tcp(mut self) -> Option<TcpStream> {
        self.register().ok()?;
        match self {
            Self::Tcp(stream) => Some(stream),
            _ => None,
        }
    }

    /// Whether there are unread bytes, as far as is known without a system call.
    pub(super) fn has_unread(&self) -> bool {
        if let Self::Accepted(accepted) = self {
            return accepted.may_have_more();
        }
        let mut waker = Context::from_waker(Waker::noop());
        self.poll_ready_to_read(&mut waker).is_ready()
    }

    /// Whether the kernel sees the bytes unencrypted.
    pub(super) fn is_plain(&self) -> bool {
        match self {
            Self::Accepted(_) | Self::Tcp(_) | Self::Unix(_) => true,
            Self::Tls(_) => false,
        }
    }

    /// Ready if there may be something to read; otherwise the task is woken when there is. Only one task reads, so the runtime
    /// needs no list of waiters.
    pub(super) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Self::Accepted(accepted) = self {
            if accepted.may_have_more() {
                return Poll::Ready(Ok(()));
            }
            self.register()?;
        }
        self.poll_ready_to_read(cx)
    }

    fn poll_ready_to_read(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Accepted(_) => Poll::Pending,
            Self::Tcp(stream) => stream.poll_read_ready(cx),
            Self::Unix(stream) => stream.poll_read_ready(cx),
            Self::Tls(stream) => {
                let (tcp, session) = stream.get_ref();
                // Bytes that were decrypted with the last read, or the close notification: the kernel does not report these.
                if !session.wants_read() {
                    return Poll::Ready(Ok(()));
                }
                tcp.poll_read_ready(cx)
            }
        }
    }

    /// Reads the available bytes into the free capacity of `input`, and returns their number, 0 at the end. Cancel-safe.
    pub(super) async fn read_into(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read_into(cx, input)).await
    }

    /// As [`Socket::read_into`]; if there is nothing to read, `input` is unchanged and the task is woken when there is.
    pub(super) fn poll_read_into(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        let count = ready!(pin!(self.read_buf(input)).poll(cx))?;
        Poll::Ready(Ok(match self {
            Self::Tls(stream) => count + take_decrypted(stream, input),
            _ => count,
        }))
    }

    /// Writes as much as the socket accepts at once of contiguous bytes; `WouldBlock` if it accepts nothing.
    pub(super) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Accepted(stream) => stream.try_write(bytes),
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
            Self::Tls(_) => self.try_write_vectored(&[IoSlice::new(bytes)]),
        }
    }

    /// Writes as much as the socket accepts at once; `WouldBlock` if it accepts nothing.
    pub(super) fn try_write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Accepted(stream) => stream.try_write_vectored(slices),
            Self::Tcp(stream) => stream.try_write_vectored(slices),
            Self::Unix(stream) => stream.try_write_vectored(slices),
            Self::Tls(stream) => {
                let (tcp, session) = stream.get_mut();
                let taken = session.writer().write_vectored(slices)?;
                // `send_rest` sends what the kernel does not accept now.
                while session.wants_write() {
                    match session.write_tls(&mut Direct(tcp)) {
                        Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                        Ok(_) => {}
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                        Err(error) => return Err(error),
                    }
                }
                match taken {
                    0 => Err(io::ErrorKind::WouldBlock.into()),
                    taken => Ok(taken),
                }
            }
        }
    }

    /// Whether accepted bytes are buffered here.
    pub(super) fn has_buffered(&self) -> bool {
        match self {
            Self::Accepted(_) | Self::Tcp(_) | Self::Unix(_) => false,
            Self::Tls(stream) => stream.get_ref().1.wants_write(),
        }
    }

    /// Sends some of the buffered bytes; waits until at least one was sent. Cancel-safe.
    pub(super) async fn send_rest(&mut self) -> io::Result<()> {
        let Self::Tls(stream) = self else {
            return Ok(());
        };
        let (tcp, session) = stream.get_mut();
        while session.wants_write() {
            tcp.writable().await?;
            let sent = tcp.try_io(Interest::WRITABLE, || session.write_tls(&mut Raw(tcp)));
            match sent {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// One write of another kind, when a plain socket accepts bytes.
    pub(super) async fn write_direct(
        &mut self,
        write: &mut impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.register()?;
        match self {
            Self::Tcp(stream) => {
                let write = || write(stream.as_fd());
                stream.async_io(Interest::WRITABLE, write).await
            }
            Self::Unix(stream) => {
                let write = || write(stream.as_fd());
                stream.async_io(Interest::WRITABLE, write).await
            }
            Self::Accepted(_) | Self::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// One write of another kind, if a plain TCP socket accepts bytes at once; `None` for other sockets.
    pub(super) fn try_write_direct(
        &self,
        write: impl FnOnce(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        match self {
            Self::Accepted(accepted) => {
                let stream = accepted.stream();
                Some(stream.and_then(|stream| write(stream.as_fd())))
            }
            Self::Tcp(stream) => {
                let write = || write(stream.as_fd());
                Some(stream.try_io(Interest::WRITABLE, write))
            }
            Self::Unix(_) | Self::Tls(_) => None,
        }
    }

    /// Sends the close notification of TLS if the kernel accepts it at once. Without it a client cannot tell an end from
    /// a truncation (RFC 8446 section 6.1).
    pub(super) fn send_close_notify(&mut self) {
        if let Self::Tls(stream) = self {
            let (tcp, session) = stream.get_mut();
            session.send_close_notify();
            // A client that has disconnected gets nothing.
            let _ = session.write_tls(&mut Direct(tcp));
        }
    }

    /// The local address of the connection; [`UNKNOWN_ADDRESS`] if there is none. One system call.
    pub(super) fn local_address(&self) -> SocketAddr {
        let address = match self {
            Self::Accepted(stream) => stream.local_addr(),
            Self::Tcp(stream) => stream.local_addr(),
            Self::Tls(stream) => stream.get_ref().0.local_addr(),
            Self::Unix(_) => return UNKNOWN_ADDRESS,
        };
        address.unwrap_or(UNKNOWN_ADDRESS)
    }

    /// Makes closing the connection send a reset.
    pub(super) fn reset_at_end(&self) {
        // If the option cannot be set, the kernel closes the connection as usual.
        let linger = |socket: SockRef<'_>| drop(socket.set_linger(Some(Duration::ZERO)));
        match self {
            Self::Accepted(accepted) => drop(accepted.stream().map(|tcp| linger(tcp.into()))),
            Self::Tcp(tcp) => linger(tcp.into()),
            Self::Tls(stream) => linger(stream.get_ref().0.into()),
            Self::Unix(_) => {}
        }
    }
}

/// Takes the bytes that were decrypted with the first record of a read: requests that arrived together are answered together.
fn take_decrypted(stream: &mut TlsStream<TcpStream>, input: &mut BytesMut) -> usize {
    let mut reader = stream.get_mut().1.reader();
    let mut taken = 0;
    loop {
        let room = input.capacity() - input.len();
        let Ok(piece) = reader.fill_buf() else {
            return taken;
        };
        let count = piece.len().min(room);
        if count == 0 {
            return taken;
        }
        input.put_slice(piece.get(..count).unwrap_or_default());
        reader.consume(count);
        taken += count;
    }
}

/// Writes to a socket without waiting.
struct Direct<'s>(&'s TcpStream);

impl Write for Direct<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes inside of `try_io`, which tracks readiness itself.
struct Raw<'s>(&'s TcpStream);

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(self.0, bytes)?)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::io::writev(self.0, slices)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let socket = self.get_mut();
        if let Self::Accepted(accepted) = socket {
            match accepted.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => socket.register()?,
                done => return Poll::Ready(done),
            }
        }
        match socket {
            Self::Accepted(_) => Poll::Pending,
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let socket = self.get_mut();
        socket.register()?;
        match socket {
            Self::Accepted(_) => Poll::Pending,
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let socket = self.get_mut();
        socket.register()?;
        match socket {
            Self::Accepted(_) => Poll::Pending,
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = self.get_mut();
        socket.register()?;
        match socket {
            Self::Accepted(_) => Poll::Pending,
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = self.get_mut();
        socket.register()?;
        match socket {
            Self::Accepted(_) => Poll::Pending,
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
