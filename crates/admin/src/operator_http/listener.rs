//! The listener of an operator's interface, and who its clients are.

use std::io;
use std::pin::Pin;

use galley_policy::class::Network;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

/// A listener.
#[derive(Debug)]
pub enum OperatorListener {
    /// IPv4 or IPv6.
    Tcp(TcpListener),
    /// A socket in the file system.
    Unix(UnixListener),
}

/// The client at the other end of a connection. Every request has it as an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// This process's own user or root, according to the kernel.
    Operator,
    /// Another user of this machine, according to the kernel.
    User(u32),
    /// A client over TCP.
    Network(Network),
}

/// An accepted connection.
pub(super) type OperatorStream = Pin<Box<dyn ClientStream>>;

/// What a connection can do.
pub(super) trait ClientStream: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> ClientStream for T {}

impl OperatorListener {
    /// A listener of the standard library. Call within a runtime.
    pub fn tcp(listener: std::net::TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener).map(Self::Tcp)
    }

    /// As [`OperatorListener::tcp`].
    pub fn unix(listener: std::os::unix::net::UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        UnixListener::from_std(listener).map(Self::Unix)
    }

    /// Accepts a connection. Cancel-safe.
    pub(super) async fn accept(&self) -> io::Result<(OperatorStream, Peer)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, client) = listener.accept().await?;
                Ok((Box::pin(stream), Peer::Network(Network::of(client.ip()))))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let peer = peer(&stream)?;
                Ok((Box::pin(stream), peer))
            }
        }
    }
}

fn peer(stream: &tokio::net::UnixStream) -> io::Result<Peer> {
    let own_uid = rustix::process::geteuid().as_raw();
    Ok(match stream.peer_cred()?.uid() {
        uid if uid == own_uid || uid == 0 => Peer::Operator,
        uid => Peer::User(uid),
    })
}
