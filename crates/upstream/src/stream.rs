//! Streams to FastCGI applications: a unix socket or TCP.
//!
//! A unix socket connects immediately or not at all, and accepts a usual request at once. It is therefore registered with the
//! runtime only after the request was sent; otherwise the runtime would first have to report it as writable, which costs an
//! extra poll.

use std::io::{self, IoSlice, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream as NewStream;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use galley_config::PhpAddress;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::resolve::ResolvedName;
use galley_sys::connect::to_socket;

/// The address of a FastCGI application, with the last addresses of its name.
pub(super) enum ConnectAddress {
    Unix(PathBuf),
    Tcp(ResolvedName),
}

impl ConnectAddress {
    pub(super) fn of(address: PhpAddress) -> Self {
        match address {
            PhpAddress::Unix(path) => Self::Unix(path),
            PhpAddress::Tcp(address) => {
                // The configuration was checked; port 0 is invalid.
                let (host, port) = address.rsplit_once(':').unwrap_or((&address, ""));
                Self::Tcp(ResolvedName::new(host, port.parse().unwrap_or_default()))
            }
        }
    }
}

/// A stream of either kind.
pub(super) enum UpstreamStream {
    /// A unix socket that is not registered with the runtime yet.
    New(NewStream),
    Unix(UnixStream),
    Tcp(TcpStream),
    /// The runtime failed to register the socket.
    Lost,
}

impl UpstreamStream {
    /// Connects. [`io::ErrorKind::WouldBlock`]: the listen queue of a unix socket is full.
    pub(super) async fn connect(
        address: &ConnectAddress,
        time_limit: Duration,
    ) -> io::Result<Self> {
        match address {
            ConnectAddress::Unix(path) => to_socket(path).map(Self::New),
            ConnectAddress::Tcp(name) => {
                let stream = name.connect(time_limit).await?;
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
        }
    }

    /// Registers the socket with the runtime.
    fn register(&mut self) -> io::Result<()> {
        if !matches!(self, Self::New(_)) {
            return Ok(());
        }
        if let Self::New(stream) = std::mem::replace(self, Self::Lost) {
            *self = Self::Unix(UnixStream::from_std(stream)?);
        }
        Ok(())
    }

    /// Writes for the first time, without waiting; `None`: the socket must be waited for.
    fn write_now(&mut self, slices: &[IoSlice<'_>]) -> Option<io::Result<usize>> {
        let Self::New(stream) = self else { return None };
        match stream.write_vectored(slices) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.register().err().map(Err)
            }
            written => Some(written),
        }
    }
}

fn lost() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

impl AsyncRead for UpstreamStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        stream.register()?;
        match stream {
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::New(_) | Self::Lost => Poll::Ready(Err(lost())),
        }
    }
}

impl AsyncWrite for UpstreamStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let stream = self.get_mut();
        if let Some(written) = stream.write_now(slices) {
            return Poll::Ready(written);
        }
        match stream {
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::New(_) | Self::Lost => Poll::Ready(Err(lost())),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::New(stream) => Poll::Ready(stream.shutdown(Shutdown::Write)),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Lost => Poll::Ready(Err(lost())),
        }
    }
}
