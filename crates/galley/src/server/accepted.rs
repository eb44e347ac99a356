//! A connection that was accepted and is not registered with the runtime yet.
//!
//! A client that sends its request with the connection, gets a stored page and closes never has to be waited for:
//! registering its socket would cost two `epoll_ctl` and a turn of the runtime. So a socket is registered only when it has
//! to be waited for. Whether requests arrive with their connections depends on how busy the core is: [`FirstReads`]
//! remembers it, so that an idle core does not read without need.

use std::cell::Cell;
use std::io::{self, IoSlice, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::net::RecvFlags;
use tokio::io::ReadBuf;

/// See the module.
pub(super) struct Accepted {
    /// Non-blocking. `None` after it was taken.
    stream: Option<TcpStream>,
    /// Whether bytes may be there that were not read.
    may_have_more: bool,
    /// Learns from the first read; `None` behind it.
    first_reads: Option<Rc<FirstReads>>,
}

/// How often the first reads of a listener's connections found something.
#[derive(Default)]
pub(super) struct FirstReads {
    /// Reads that may still fail before no further is tried.
    credit: Cell<u8>,
    /// Connections that were not read first since the last attempt.
    skipped: Cell<u8>,
}

impl FirstReads {
    /// Whether the next connection is read before it is registered.
    fn is_likely(&self) -> bool {
        if self.credit.get() > 0 || self.skipped.get() >= MOST_SKIPPED {
            self.skipped.set(0);
            return true;
        }
        self.skipped.set(self.skipped.get() + 1);
        false
    }

    fn note(&self, has_found: bool) {
        self.credit.set(if has_found {
            CREDIT
        } else {
            self.credit.get().saturating_sub(1)
        });
    }
}

impl Accepted {
    /// A connection that does not block.
    pub(super) fn new(socket: OwnedFd, first_reads: &Rc<FirstReads>) -> Self {
        let may_have_more = first_reads.is_likely();
        Self {
            stream: Some(socket.into()),
            may_have_more,
            first_reads: may_have_more.then(|| Rc::clone(first_reads)),
        }
    }

    /// The socket, for the runtime.
    pub(super) fn take(&mut self) -> io::Result<TcpStream> {
        self.stream.take().ok_or_else(closed)
    }

    /// Whether a read may find something.
    pub(super) fn may_have_more(&self) -> bool {
        self.may_have_more
    }

    /// Reads what is there; `WouldBlock` if there is nothing. A read that does not fill its room has taken everything, as the
    /// runtime assumes of its sockets too.
    pub(super) fn read(&mut self, buffer: &mut ReadBuf<'_>) -> io::Result<()> {
        let wanted = buffer.remaining().min(READ_AT_ONCE);
        let stream = self.stream.as_ref().ok_or_else(closed)?;
        let room = buffer.initialize_unfilled_to(wanted);
        let read = rustix::net::recv(stream, room, RecvFlags::empty());
        if let Some(first_reads) = self.first_reads.take() {
            first_reads.note(read.is_ok());
        }
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

    /// The address at which the client reached us.
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

/// Unsuccessful reads, one after the other, until connections are registered at once.
const CREDIT: u8 = 8;
/// Then every so many are read first, to notice that the core is busy.
const MOST_SKIPPED: u8 = 16;
/// Room for the first read, which is zeroed for it: most heads have less.
const READ_AT_ONCE: usize = 4096;
