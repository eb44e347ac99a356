//! The arguments with which a front core is started.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::http3::QuicListener;
use super::speed::MinRate;
use galley_access::Countries;
use galley_request::{Services, Sites};
use galley_sys::sandbox::Sandbox;
use galley_sys::sockets::Listening;
use galley_telemetry::access::LogWriter;
use galley_telemetry::counters::CoreCounters;
use galley_telemetry::fields::LoggedHeaders;
use galley_tls::Acceptor;

/// The phase in the life of a front core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It accepts connections.
    Running,
    /// A reload has replaced it: it accepts no connections, and closes each connection with its next response.
    /// Idle connections stay open for a moment, because a request may be in transit. Responses are not interrupted.
    Retiring,
    /// The server stops: idle connections are closed at once, all others within `drain_timeout`.
    Stopping,
}

/// Limits on clients, from `[server]`.
#[derive(Clone, Debug)]
pub struct ClientLimits {
    /// Maximum size of a request head, in bytes.
    pub head_bytes: usize,
    /// Maximum time to receive a head, from its first byte.
    pub head_timeout: Duration,
    /// Maximum time to wait for the first byte of the next request.
    pub idle_timeout: Duration,
    /// Minimum speed at which a client must send a body.
    pub body_speed: MinRate,
    /// Minimum speed at which a client must receive a response.
    pub response_speed: MinRate,
    /// Maximum time for exchanges in progress when the server stops.
    pub drain_timeout: Duration,
    /// Maximum number of connections per core.
    pub connections: usize,
    /// Whether hits may take the fast path.
    pub fast_path: bool,
    /// Whether HTTP/2 without TLS is accepted.
    pub h2c: bool,
}

/// A listening socket, and its protocols.
pub struct BoundListener {
    /// The listening socket.
    pub socket: Listening,
    /// The sites that this listener serves.
    pub sites: Arc<Sites>,
    /// Whether each connection begins with a header of the PROXY protocol.
    pub speaks_proxy: bool,
    /// Accepts TLS handshakes; `None`: the listener has no TLS.
    pub tls: Option<Acceptor>,
    /// Whether the configuration has removed the listener, so that no other core accepts on it.
    pub is_removed: Arc<AtomicBool>,
}

/// A core's share of the listeners.
pub type Listeners = Vec<BoundListener>;

/// The arguments of one front core.
pub struct CoreSpec {
    /// The index, for the thread's name and request ids.
    pub index: usize,
    /// The listeners.
    pub listeners: Listeners,
    /// The UDP sockets for HTTP/3.
    pub quic: Vec<QuicListener>,
    /// The limits on clients.
    pub limits: ClientLimits,
    /// The shared services.
    pub services: Arc<Services>,
    /// The access log buffers: the server's, then those of sites with a separate log.
    pub logs: Vec<LogWriter>,
    /// Header fields that the configuration adds to access lines.
    pub logged: LoggedHeaders,
    /// The countries of clients, if access lines contain them.
    pub countries: Option<Arc<Countries>>,
    /// The counters of the core.
    pub counters: CoreCounters,
    /// The prefix of all request ids of this process.
    pub id_prefix: String,
    /// The phase that the control thread sets.
    pub phase: watch::Receiver<Phase>,
    /// Dropped when the core accepts no more connections.
    pub accepting: oneshot::Sender<()>,
    /// The sandbox of the thread.
    pub sandbox: Option<Sandbox>,
}
