//! The settings of QUIC, each with its reason.

use std::sync::Arc;
use std::time::Duration;

use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    EndpointConfig, IdleTimeout, MtuDiscoveryConfig, ServerConfig, TransportConfig, VarInt,
};

use super::congestion::PathCongestionConfig;
use super::ids::IdGenerator;
use super::router::RegisteredEndpoint;
use crate::ClientLimits;

/// The settings of an endpoint.
pub(super) fn endpoint(registered: &RegisteredEndpoint) -> Arc<EndpointConfig> {
    let (keys, owner) = (Arc::clone(&registered.router.keys), registered.owner);
    let mut config = EndpointConfig::new(keys.resets.clone());
    config
        .cid_generator(move || {
            let keys = Arc::clone(&keys);
            Box::new(IdGenerator { keys, owner })
        })
        .supported_versions(vec![VERSION_1]);
    Arc::new(config)
}

/// The settings of connections. `None`: the settings of TLS do not permit QUIC.
pub(super) fn server(
    tls: Arc<rustls::ServerConfig>,
    registered: &RegisteredEndpoint,
    limits: &ClientLimits,
) -> Option<Arc<ServerConfig>> {
    let crypto = QuicServerConfig::try_from(tls).ok()?;
    let tokens = registered.router.keys.tokens.clone();
    let mut config = ServerConfig::new(Arc::new(crypto), tokens);
    config
        .transport_config(Arc::new(transport(limits)))
        .max_incoming(MAX_INCOMING)
        .incoming_buffer_size(INCOMING_BYTES)
        .incoming_buffer_size_total(INCOMING_BYTES)
        .migration(true);
    Some(Arc::new(config))
}

fn transport(limits: &ClientLimits) -> TransportConfig {
    let mut config = TransportConfig::default();
    // HTTP/3 ends idle connections in an orderly way first.
    let idle = limits.idle_timeout.max(LEAST_IDLE) + BEHIND_IDLE;
    let idle = IdleTimeout::try_from(idle).unwrap_or(IdleTimeout::from(VarInt::MAX));
    let mut mtu = MtuDiscoveryConfig::default();
    mtu.upper_bound(MAX_PAYLOAD);
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(STREAMS))
        .max_concurrent_uni_streams(VarInt::from_u32(UNI_STREAMS))
        .max_idle_timeout(Some(idle))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(window(RECEIVE_WINDOW))
        .send_window(SEND_WINDOW)
        .congestion_controller_factory(Arc::new(PathCongestionConfig))
        .datagram_receive_buffer_size(None)
        .mtu_discovery_config(Some(mtu));
    config
}

/// A window as QUIC transports it.
pub(super) fn window(bytes: u64) -> VarInt {
    VarInt::from_u64(bytes).unwrap_or(VarInt::MAX)
}

/// QUIC version 1 (RFC 9000).
const VERSION_1: u32 = 1;

/// The maximum number of concurrent requests, as over HTTP/2.
pub(super) const STREAMS: u32 = 100;

/// The maximum number of open unidirectional streams: the control stream, the two of QPACK, and some of unknown types.
const UNI_STREAMS: u32 = 8;

/// The bytes of a request body that a client may send before Galley has read them, within the window of its connection.
const STREAM_WINDOW: u32 = 128 * 1024;

/// The bytes that a client may send on all streams of a connection before Galley has read them: the heads of a page's resources.
pub(super) const RECEIVE_WINDOW: u64 = 64 * 1024;

/// The same while a request body arrives.
pub(super) const MAX_RECEIVE_WINDOW: u64 = 256 * 1024;

/// The bytes of responses that may be sent and not acknowledged, on a new connection: more than its congestion window.
pub(super) const SEND_WINDOW: u64 = 32 * 1024;

/// The same on a connection whose congestion window has grown.
pub(super) const MAX_SEND_WINDOW: u64 = 4 * 1024 * 1024;

/// The maximum number of handshakes whose first datagram was read and not handled. They are handled at once.
const MAX_INCOMING: usize = 16;

/// The maximum memory for further datagrams of such handshakes, in bytes.
const INCOMING_BYTES: u64 = 64 * 1024;

/// The largest payload of a datagram that is tried: that of Ethernet, without the heads of IPv6 and UDP.
const MAX_PAYLOAD: u16 = 1452;

/// The shortest time after which QUIC ends a silent connection. Mobile clients are silent while they change networks.
const LEAST_IDLE: Duration = Duration::from_secs(10);

/// How much longer QUIC waits than HTTP/3.
const BEHIND_IDLE: Duration = Duration::from_secs(2);
