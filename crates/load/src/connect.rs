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

use crate::{LoadError, trust::TrustedCertificates};

/// The server, and the type of connections to it.
#[derive(Debug, Clone)]
pub struct Target {
    /// The address of the server.
    pub addr: SocketAddr,
    /// The settings of TLS; `None`: no TLS, with HTTP/1.1.
    pub tls: Option<TargetTls>,
    /// How long connections last.
    pub connections: Connections,
    /// A response field, such as `cache-status`, whose values are counted.
    pub watch: Option<String>,
}

/// The settings of TLS.
#[derive(Debug, Clone)]
pub struct TargetTls {
    /// The name that the certificate must contain.
    pub name: String,
    /// The trusted certificates.
    pub trusted: TrustedCertificates,
    /// The protocol.
    pub protocol: TargetProtocol,
    /// Whether handshakes may resume a previous session. With [`TrustedCertificates::Only`] they must, or must not; others count as broken.
    pub resumes: bool,
}

/// The protocol over TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetProtocol {
    /// One request at a time on each connection.
    Http1,
    /// This number of concurrent requests on each connection.
    Http2 {
        /// The number of requests, at least one.
        streams: usize,
    },
}

/// How long connections last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// Until the server closes them.
    Kept,
    /// For one request (HTTP/1.1 only). The requests should contain `Connection: close`.
    PerRequest,
}

/// An open connection.
pub(crate) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// The state that all connections of a client share.
pub(crate) struct Dialer {
    pub(crate) target: Target,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// A counter that distributes connections over local addresses.
    sources: Cell<u8>,
    /// The number of full handshakes that should have been resumed, or the reverse.
    pub(crate) wrong_handshakes: Cell<u64>,
    /// The read buffer that all connections share.
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

    /// Opens a connection, including the TLS handshake.
    pub(crate) async fn open(&self) -> io::Result<Stream> {
        let opened = timeout(CONNECT_TIMEOUT, async {
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
            // Each from another local address, because the kernel's memory of closed connections would exhaust the ports of one.
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
        // A server without ALPN speaks HTTP/1.1.
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
        let is_checked = matches!(tls.trusted, TrustedCertificates::Only(_));
        if is_checked && session.handshake_kind() != Some(wanted) {
            // The connection is used nevertheless: the first ones get the tickets with which others resume.
            self.wrong_handshakes.set(self.wrong_handshakes.get() + 1);
        }
        Ok(())
    }
}

impl TargetProtocol {
    /// The name in handshakes (RFC 7301).
    fn name(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 { .. } => b"h2",
        }
    }
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of local addresses: 60 times the kernel's 28,000 ports.
const SOURCES: u8 = 60;
/// The size of the read buffer: large enough for few reads of a large file.
const BUFFER: usize = 256 * 1024;
