//! Opens connections to the target: TCP, and TLS if requested.

use std::{
    cell::{Cell, RefCell},
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use rustls::{HandshakeKind, pki_types::ServerName};
use tokio::{
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::either::Either;

use crate::{LoadError, trust::Trust};

/// Where requests go, and over what kind of connections.
#[derive(Debug, Clone)]
pub struct Target {
    /// Of the server.
    pub addr: SocketAddr,
    /// Over TLS; `None`: in plain, where only HTTP/1.1 is spoken.
    pub tls: Option<TargetTls>,
    /// How long connections last.
    pub connections: Connections,
    /// A field of responses, such as `cache-status`, whose values are counted.
    pub watch: Option<String>,
}

/// How to connect over TLS.
#[derive(Debug, Clone)]
pub struct TargetTls {
    /// The name that the certificate must have.
    pub name: String,
    /// Which certificates are trusted.
    pub trusted: Trust,
    /// The protocol.
    pub protocol: TargetProtocol,
    /// Handshakes may resume the session of one before. With [`Trust::Only`] they must, or must not; others count as broken.
    pub resumes: bool,
}

/// The protocol over TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetProtocol {
    /// One request at a time on each connection.
    Http1,
    /// So many requests at a time on each connection.
    Http2 {
        /// At least one.
        streams: usize,
    },
}

/// How long connections last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// As long as the server lets them.
    Kept,
    /// A new one for each request (HTTP/1.1 only). The requests should say `Connection: close`.
    PerRequest,
}

/// An open connection.
pub(crate) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// What all connections of a client share.
pub(crate) struct Dialer {
    pub(crate) target: Target,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// Counts up, to spread connections over local addresses.
    sources: Cell<u8>,
    /// Full handshakes that should have been resumed, or the other way round.
    pub(crate) wrong_handshakes: Cell<u64>,
    /// What connections read into, one after the other.
    pub(crate) buffer: RefCell<Box<[u8]>>,
}

impl Dialer {
    pub(crate) fn new(target: Target) -> Result<Self, LoadError> {
        let broken = |error: &dyn std::error::Error| LoadError::Tls(error.to_string());
        let tls = target.tls.as_ref().map(|tls| -> Result<_, LoadError> {
            let name = ServerName::try_from(tls.name.clone()).map_err(|error| broken(&error))?;
            let config = tls.trusted.client_config(tls.protocol.name(), tls.resumes);
            let config = config.map_err(|error| broken(&error))?;
            Ok((TlsConnector::from(Arc::new(config)), name))
        });
        Ok(Self {
            tls: tls.transpose()?,
            target,
            sources: Cell::new(0),
            wrong_handshakes: Cell::new(0),
            buffer: RefCell::new(vec![0; BUFFER].into_boxed_slice()),
        })
    }

    /// A connection after its handshake.
    pub(crate) async fn open(&self) -> io::Result<Stream> {
        let opened = timeout(PATIENCE, async {
            let stream = self.connect().await?;
            match &self.tls {
                None => Ok(Stream::Left(stream)),
                Some((connector, name)) => {
                    let stream = connector.connect(name.clone(), stream).await?;
                    self.check(&stream)?;
                    Ok(Stream::Right(Box::new(stream)))
                }
            }
        });
        opened
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    pub(crate) async fn connect(&self) -> io::Result<TcpStream> {
        let addr = self.target.addr;
        let socket = if addr.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        if let IpAddr::V4(ip) = addr.ip()
            && ip.is_loopback()
        {
            // Each from another address, so that the kernel's memory of closed connections does not run out of ports.
            let source = self.sources.get();
            self.sources.set((source + 1) % SOURCES);
            socket.set_reuseaddr(true)?;
            socket.bind(SocketAddr::from(([127, 0, 0, 2 + source], 0)))?;
        }
        let stream = socket.connect(addr).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn check(&self, stream: &TlsStream<TcpStream>) -> io::Result<()> {
        let session = stream.get_ref().1;
        let Some(tls) = &self.target.tls else {
            return Ok(());
        };
        let spoken = session.alpn_protocol();
        // A server that knows no such negotiation speaks HTTP/1.1.
        let is_wanted = spoken == Some(tls.protocol.name())
            || (spoken.is_none() && tls.protocol == TargetProtocol::Http1);
        if !is_wanted {
            return Err(io::Error::other("the server does not speak that protocol"));
        }
        let wanted = if tls.resumes {
            HandshakeKind::Resumed
        } else {
            HandshakeKind::Full
        };
        let is_checked = matches!(tls.trusted, Trust::Only(_));
        if is_checked && session.handshake_kind() != Some(wanted) {
            // It is used all the same: the first connections bring the tickets that others resume with.
            self.wrong_handshakes.set(self.wrong_handshakes.get() + 1);
        }
        Ok(())
    }
}

impl TargetProtocol {
    /// As handshakes name it (RFC 7301).
    fn name(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 { .. } => b"h2",
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(10);
/// Local addresses in use: 60 times the kernel's 28,000 ports.
const SOURCES: u8 = 60;
/// Of one read. Large enough that a large file costs few of them.
const BUFFER: usize = 256 * 1024;
