//! HTTP/3 on one connection, with a UDP socket of its own.

use std::{
    future::poll_fn,
    io,
    net::{SocketAddr, UdpSocket},
    sync::Arc,
};

use bytes::{Buf, Bytes};
use h3::{
    client::SendRequest,
    error::{Code, StreamError},
};
use h3_quinn::OpenStreams;
use quinn::{
    ClientConfig, Endpoint, EndpointConfig, TokioRuntime, TransportConfig, VarInt,
    crypto::rustls::QuicClientConfig,
};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use tokio::task::spawn_local;

use crate::{
    LoadError,
    connect::Dialer,
    http2::{CONNECTION_WINDOW, STREAM_WINDOW, request},
    multiplexed::{ExchangeError, Multiplexed},
    response::ReceivedResponse,
};

/// A connection; clones share it. It is closed when all are dropped.
pub(crate) type Http3Sender = SendRequest<OpenStreams, Bytes>;

/// Creates the settings of QUIC.
pub(crate) fn client_config(tls: rustls::ClientConfig) -> Result<ClientConfig, LoadError> {
    let tls = QuicClientConfig::try_from(tls).map_err(|error| LoadError::Tls(error.to_string()))?;
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        // Connections are silent between runs; only the server ends them.
        .max_idle_timeout(None);
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// Opens a connection from this socket and starts HTTP/3 on it.
pub(crate) async fn open(
    socket: UdpSocket,
    config: ClientConfig,
    addr: SocketAddr,
    name: &str,
) -> io::Result<Http3Sender> {
    // Only root may exceed the limit of the system.
    let _ = set_socket_recv_buffer_size_force(&socket, SOCKET_BUFFER);
    let runtime = Arc::new(TokioRuntime);
    let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, runtime)?;
    let connecting = endpoint.connect_with(config, addr, name);
    let connection = connecting.map_err(io::Error::other)?.await?;
    let connection = h3_quinn::Connection::new(connection);
    let opened = h3::client::new(connection).await;
    let (mut driver, requests) = opened.map_err(io::Error::other)?;
    spawn_local(async move {
        // The streams see errors of the connection.
        let _ = poll_fn(|context| driver.poll_close(context)).await;
    });
    Ok(requests)
}

impl Multiplexed for Http3Sender {
    async fn open(link: &Dialer) -> io::Result<Self> {
        link.open_quic().await
    }

    async fn exchange(
        &mut self,
        head: &[u8],
        response: &mut ReceivedResponse,
    ) -> Result<(), ExchangeError> {
        let request = request(head).ok_or_else(|| ExchangeError {
            ends_connection: false,
            is_unprocessed: false,
            source: io::ErrorKind::InvalidInput.into(),
        })?;
        let exchanged = exchange(request, self, response).await;
        exchanged.map_err(|error| ExchangeError {
            ends_connection: !matches!(error, StreamError::StreamError { .. }),
            is_unprocessed: is_unprocessed(&error),
            source: io::Error::other(error),
        })
    }
}

/// Whether the server closes the connection and did not process the request (RFC 9114 section 5.2).
fn is_unprocessed(error: &StreamError) -> bool {
    match error {
        StreamError::RemoteClosing { .. } => true,
        StreamError::RemoteTerminate { code, .. } => *code == Code::H3_REQUEST_REJECTED,
        other => other.is_h3_no_error(),
    }
}

async fn exchange(
    request: http::Request<()>,
    requests: &mut Http3Sender,
    response: &mut ReceivedResponse,
) -> Result<(), StreamError> {
    let mut stream = requests.send_request(request).await?;
    stream.finish().await?;
    let (head, ()) = stream.recv_response().await?.into_parts();
    response.begins(&head);
    while let Some(mut piece) = stream.recv_data().await? {
        while piece.has_remaining() {
            let bytes = piece.chunk();
            let length = bytes.len();
            response.bytes += length as u64;
            response.take(bytes);
            piece.advance(length);
        }
    }
    Ok(())
}

/// So large that the receive buffer does not limit a connection of the loopback interface, in bytes.
const SOCKET_BUFFER: usize = 4 * 1024 * 1024;
