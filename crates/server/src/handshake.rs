//! A TLS connection, from its first byte: the handshake under one deadline, then the negotiated protocol.
//!
//! Failures are counted, and logged only at `debug`, because scanners cause many. A client that sends nothing at
//! all costs as much as an idle connection, and is closed under the same rules.

use std::rc::Rc;
use std::sync::Arc;

use rustls::{HandshakeKind, ProtocolVersion};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Core;
use super::endpoints::Endpoints;
use super::http1;
use super::http2;
use super::socket::Socket;
use super::timer::Timer;
use galley_request::Sites;
use galley_telemetry::counters::Handshake;
use galley_tls::{ACME, Acceptor, H2, SelectedCertificates};

/// Serves a connection until it ends.
pub(super) async fn connection(
    core: Rc<Core>,
    socket: Socket,
    acceptor: Acceptor,
    sites: Arc<Sites>,
    mut endpoints: Endpoints,
) {
    // Only TCP sockets have TLS.
    let Some(stream) = socket.into_tcp() else {
        return;
    };
    let timer = core.timers.register();
    if first_byte(&core, &stream, &timer).await.is_none() {
        return;
    }
    // Boxed: the state of a handshake must not stay allocated for the life of the connection.
    let handshake = Box::pin(shake(&core, stream, &acceptor, &timer, endpoints)).await;
    let Some(stream) = handshake else { return };
    drop(timer);
    let session = stream.get_ref().1;
    endpoints.tls_version = session.protocol_version().and_then(version_name);
    let presented = SelectedCertificates::new(&acceptor.certificates, session.server_name());
    let protocol = session.alpn_protocol();
    // A certificate authority has seen the certificate that it validates, and sends no request (RFC 8737 section 3).
    if protocol == Some(ACME) {
        return;
    }
    let sites = Arc::new(sites.under(presented));
    let is_h2 = protocol == Some(H2);
    let socket = Socket::Tls(stream);
    if is_h2 {
        endpoints
            .local
            .get_or_insert_with(|| socket.local_address());
        // Boxed, so that an HTTP/1 connection does not allocate its state.
        Box::pin(http2::connection(core, socket, sites, endpoints)).await;
    } else {
        http1::connection(core, socket, sites, endpoints).await;
    }
}

/// The TLS version for logs.
fn version_name(version: ProtocolVersion) -> Option<&'static str> {
    match version {
        ProtocolVersion::TLSv1_2 => Some("1.2"),
        ProtocolVersion::TLSv1_3 => Some("1.3"),
        // Other versions are not accepted.
        _ => None,
    }
}

/// Waits for the client's first byte; while the server stops, only for bytes that have arrived already.
async fn first_byte(core: &Core, stream: &TcpStream, timer: &Timer) -> Option<()> {
    let limit = core.timeout(core.limits.head_timeout);
    timer.idle_within(limit, stream.readable()).await.ok()?.ok()
}

async fn shake(
    core: &Core,
    stream: TcpStream,
    acceptor: &Acceptor,
    timer: &Timer,
    endpoints: Endpoints,
) -> Option<Box<TlsStream<TcpStream>>> {
    let acceptor = TlsAcceptor::from(Arc::clone(&acceptor.config));
    let limit = core.limits.head_timeout;
    let client = endpoints.client.ip();
    match timer.within(limit, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => {
            let is_resumed = stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed);
            core.counters.handshake(if is_resumed {
                Handshake::Resumed
            } else {
                Handshake::Full
            });
            Some(Box::new(stream))
        }
        Ok(Err(error)) => {
            core.counters.handshake(Handshake::Failed);
            tracing::debug!(%client, %error, "a TLS handshake failed");
            None
        }
        Err(_late) => {
            core.counters.handshake(Handshake::Failed);
            tracing::debug!(%client, "a TLS handshake took too long");
            None
        }
    }
}
