//! A connection that was accepted and is not registered with the runtime yet.
//!
//! A client that gets a stored page and closes is never waited for: registering its socket would cost two `epoll_ctl`
//! and a turn of the runtime. So a socket is registered only before the first wait for it. The kernel reports a connection
//! with its first bytes ([`galley_sys::sockets`]), so the first read usually finds them.

use std::io::{self, IoSlice, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;

use rustix::net::RecvFlags;
use tokio::io::ReadBuf;

/// A socket that is not registered.
pub(super) struct Accepted {
    /// Non-blocking. `None` after it was taken.
    stream: Option<TcpStream>,
    /// Whether there may be unread bytes.
    may_have_more: bool,
}

impl Accepted {
    /// Wraps a non-blocking connection.
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self {
            stream: Some(socket.into()),
            may_have_more: true,
        }
    }

    /// Takes the socket, to register it.
    pub(super) fn take(&mut self) -> io::Result<TcpStream> {
        self.stream.take().ok_or_else(closed)
    }

    /// Whether a read may find bytes.
    pub(super) fn may_have_more(&self) -> bool {
        self.may_have_more
    }

    /// Reads the available bytes; `WouldBlock` if there are none. A read that does not fill the buffer has read everything, which the
    /// runtime assumes of its sockets, too.
    pub(super) fn read(&mut self, buffer: &mut ReadBuf<'_>) -> io::Result<()> {
        let wanted = buffer.remaining().min(READ_AT_ONCE);
        let stream = self.stream.as_ref().ok_or_else(closed)?;
        let room = buffer.initialize_unfilled_to(wanted);
        let read = rustix::net::recv(stream, room, RecvFlags::empty());
        let (count, _) = read.inspect_err(|_| self.may_have_more = false)?;
        self.may_have_more = count == wanted;
        buffer.advance(count);
        Ok(())
    }

    /// Writes as much as the socket accepts at once; `WouldBlock` if it accepts nothing.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.stream().and_then(|mut stream| stream.write(bytes))
    }

    /// As [`Accepted::try_write`].
    pub(super) fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.stream()
            .and_then(|mut stream| stream.write_vectored(slices))
    }

    /// The local address of the connection.
    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.stream().and_then(TcpStream::local_addr)
    }

    pub(super) fn stream(&self) -> io::Result<&TcpStream> {
        self.stream.as_ref().ok_or_else(closed)
    }
}

fn closed() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

/// Size of the buffer of the first read, which is zeroed: most heads are smaller.
const READ_AT_ONCE: usize = 4096;
