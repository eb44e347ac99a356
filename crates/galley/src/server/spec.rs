//! The arguments with which a front core is started.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::speed::Speed;
use crate::access::Countries;
use crate::request::{Services, Sites};
use crate::sys::sandbox::Sandbox;
use crate::sys::sockets::Listening;
use crate::telemetry::access::LogWriter;
use crate::telemetry::counters::CoreCounters;
use crate::telemetry::fields::LoggedHeaders;
use crate::tls::Acceptor;

/// How far a front core is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It accepts connections.
    Running,
    /// Another configuration has replaced it: it accepts none, and ends those that it has with their next response.
    /// Connections that ask nothing stay for a moment, because a request may be in transit; a response takes as long as it takes.
    Retiring,
    /// The server ends: connections that ask nothing are ended at once, all others within `drain_timeout`.
    Stopping,
}

/// Limits on clients; from `[server]`.
#[derive(Clone, Debug)]
pub struct ClientLimits {
    /// Bytes of a request head.
    pub head_bytes: usize,
    /// For a whole head, from its first byte.
    pub head_timeout: Duration,
    /// For the first byte of the next request.
    pub idle_timeout: Duration,
    /// How fast a body must come.
    pub coming: Speed,
    /// How fast an answer must be taken.
    pub leaving: Speed,
    /// For exchanges in progress when the server is stopped.
    pub drain_timeout: Duration,
    /// Connections per core.
    pub connections: usize,
    /// Whether hits may take the fast path.
    pub fast_path: bool,
    /// Whether HTTP/2 is spoken without TLS.
    pub h2c: bool,
}

/// A listening socket, and its protocols.
pub struct BoundListener {
    /// Where connections come in.
    pub socket: Listening,
    /// The sites that answer there.
    pub sites: Arc<Sites>,
    /// Whether each connection begins with a header of the PROXY protocol.
    pub speaks_proxy: bool,
    /// How handshakes are answered; `None`: clients come in plain.
    pub tls: Option<Acceptor>,
    /// Whether nobody accepts there after this core.
    pub is_removed: Arc<AtomicBool>,
}

/// A core's share of the listeners.
pub type Listeners = Vec<BoundListener>;

/// What one front core is started with.
pub struct CoreSpec {
    /// Its number, for the thread's name and request ids.
    pub index: usize,
    /// Its listeners.
    pub listeners: Listeners,
    /// Limits.
    pub limits: ClientLimits,
    /// Shared services.
    pub services: Arc<Services>,
    /// Its access log buffers: the server's, then those of sites with their own.
    pub logs: Vec<LogWriter>,
    /// Header fields that their lines have by configuration.
    pub logged: LoggedHeaders,
    /// The countries of clients, if access lines have them.
    pub countries: Option<Arc<Countries>>,
    /// Its counters.
    pub counters: CoreCounters,
    /// Start of all request ids of this process.
    pub id_prefix: String,
    /// Whether it is to drain.
    pub phase: watch::Receiver<Phase>,
    /// Dropped when it accepts no more.
    pub accepting: oneshot::Sender<()>,
    /// What confines its thread.
    pub sandbox: Option<Sandbox>,
}
