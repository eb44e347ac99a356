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

#[cfg(feature = "http3")]
use {
    crate::http3,
    std::net::{Ipv4Addr, Ipv6Addr, UdpSocket},
};

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
    /// The same over QUIC. Handshakes are not checked.
    #[cfg(feature = "http3")]
    Http3 {
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
    #[cfg(feature = "http3")]
    quic: Option<quinn::ClientConfig>,
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
            Ok((Arc::new(config), name))
        });
        let tls = tls.transpose()?;
        Ok(Self {
            #[cfg(feature = "http3")]
            quic: match &tls {
                Some((config, _)) if target.is_http3() => {
                    Some(http3::client_config(config.as_ref().clone())?)
                }
                _ => None,
            },
            tls: tls.map(|(config, name)| (TlsConnector::from(config), name)),
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
        if let Some(source) = self.next_source() {
            // The kernel's memory of closed connections would exhaust the ports of one address.
            socket.set_reuseaddr(true)?;
            socket.bind(source)?;
        }
        let stream = socket.connect(addr).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Opens a connection of HTTP/3, including the handshake.
    #[cfg(feature = "http3")]
    pub(crate) async fn open_quic(&self) -> io::Result<http3::Http3Sender> {
        let (Some(config), Some(tls)) = (&self.quic, &self.target.tls) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let any: IpAddr = if self.target.addr.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        let source = self.next_source().unwrap_or_else(|| (any, 0).into());
        let socket = UdpSocket::bind(source)?;
        let opened = http3::open(socket, config.clone(), self.target.addr, &tls.name);
        let opened = timeout(CONNECT_TIMEOUT, opened).await;
        opened.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Another local address for each connection to a loopback address.
    fn next_source(&self) -> Option<SocketAddr> {
        let source = self.sources.get();
        let is_used = matches!(self.target.addr.ip(), IpAddr::V4(ip) if ip.is_loopback());
        is_used.then(|| {
            self.sources.set((source + 1) % SOURCES);
            SocketAddr::from(([127, 0, 0, 2 + source], 0))
        })
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

#[cfg(feature = "http3")]
impl Target {
    pub(crate) fn is_http3(&self) -> bool {
        let protocol = self.tls.as_ref().map(|tls| tls.protocol);
        matches!(protocol, Some(TargetProtocol::Http3 { .. }))
    }
}

impl TargetProtocol {
    /// The name in handshakes (RFC 7301).
    fn name(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 { .. } => b"h2",
            #[cfg(feature = "http3")]
            Self::Http3 { .. } => b"h3",
        }
    }
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of local addresses: 60 times the kernel's 28,000 ports.
const SOURCES: u8 = 60;
/// The size of the read buffer: large enough for few reads of a large file.
const BUFFER: usize = 256 * 1024;
