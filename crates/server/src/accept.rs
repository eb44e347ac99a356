//! Accepts connections.

use std::io;
use std::net::{self, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use galley_policy::proxied::{Proxies, UNKNOWN_ADDRESS};
use rustix::net::SocketFlags;
use tokio::io::{Interest, unix::AsyncFd};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

use super::endpoints::Endpoints;
use super::proxy_protocol::read_client;
use super::socket::Socket;
use super::{BoundListener, Core, Phase, handshake, http1};
use galley_access::ConnectionSlot;
use galley_request::Sites;
use galley_sys::sockets::Listening;
use galley_telemetry::counters::Closed;
use galley_tls::Acceptor;

/// Accepts connections until the core drains. Connections that the kernel has accepted by then are still served, unless another
/// generation accepts on the same socket.
pub(super) async fn run(
    core: Rc<Core>,
    listener: BoundListener,
    mut phase: watch::Receiver<Phase>,
) {
    let is_removed = listener.is_removed;
    let behind = ListenerProtocols {
        sites: listener.sites,
        speaks_proxy: listener.speaks_proxy,
        tls: listener.tls,
    };
    let socket = match ListeningSocket::open(listener.socket) {
        Ok(socket) => socket,
        Err(error) => {
            tracing::error!(%error, "cannot use a listener");
            return;
        }
    };
    let mut paused = false;
    loop {
        if core.phase.get() == Phase::Retiring {
            if is_removed.load(Ordering::Acquire) {
                take_last(&core, socket, &behind);
            }
            return;
        }
        while core.connections.get() >= core.limits.connections && !core.stopping.get() {
            make_room(&core);
            // A connection that is idle now may send a request in a moment.
            let _ = tokio::time::timeout(LOOK_AGAIN, core.connection_ended.notified()).await;
        }
        let accepted = tokio::select! {
            biased;
            accepted = socket.accept() => accepted,
            now = is_over(&mut phase) => match now {
                Phase::Retiring => {
                    core.phase.set(now);
                    continue;
                }
                Phase::Running | Phase::Stopping => return take_last(&core, socket, &behind),
            },
        };
        match accepted {
            Ok((stream, client)) => {
                paused = false;
                spawn(&core, stream, client, &behind);
            }
            Err(error) if galley_sys::is_out_of_descriptors(&error) => {
                if !paused {
                    tracing::warn!(%error, "no file descriptors left: closing idle connections; raise `ulimit -n`");
                }
                paused = true;
                make_room(&core);
                tokio::time::sleep(OUT_OF_DESCRIPTORS_PAUSE).await;
            }
            // The client closed the connection before it was accepted, or a transient network error occurred: try the next.
            Err(error) => tracing::debug!(%error, "cannot accept a connection"),
        }
    }
}

/// Waits for the end of accepting, and returns the reason. A dropped sender is an end, too.
async fn is_over(phase: &mut watch::Receiver<Phase>) -> Phase {
    let now = phase.wait_for(|phase| *phase != Phase::Running).await;
    now.map_or(Phase::Stopping, |now| *now)
}

/// The protocols of a listener.
#[derive(Clone)]
struct ListenerProtocols {
    sites: Arc<Sites>,
    speaks_proxy: bool,
    tls: Option<Acceptor>,
}

/// A listening socket that is registered with the runtime.
enum ListeningSocket {
    Tcp(AsyncFd<net::TcpListener>),
    Unix(UnixListener),
}

impl ListeningSocket {
    #[expect(
        deprecated,
        reason = "its successor is unsafe; the descriptor is owned, and closed by nobody else"
    )]
    fn open(socket: Listening) -> io::Result<Self> {
        match socket {
            Listening::Tcp(listener) => {
                let listener = AsyncFd::with_interest(listener, Interest::READABLE)?;
                Ok(Self::Tcp(listener))
            }
            Listening::Unix(listener) => UnixListener::from_std(listener).map(Self::Unix),
            // UDP sockets are in `CoreSpec::quic`.
            Listening::Udp(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Cancel-safe.
    async fn accept(&self) -> io::Result<(Socket, SocketAddr)> {
        match self {
            Self::Tcp(listener) => listener.async_io(Interest::READABLE, accept_tcp).await,
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((Socket::Unix(stream), UNKNOWN_ADDRESS))
            }
        }
    }
}

/// Accepts one connection, in non-blocking mode.
fn accept_tcp(listener: &net::TcpListener) -> io::Result<(Socket, SocketAddr)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (socket, client) = rustix::net::acceptfrom_with(listener, flags)?;
    let client = client.and_then(|client| SocketAddr::try_from(client).ok());
    Ok((
        Socket::accepted(socket),
        client.map_or(UNKNOWN_ADDRESS, plain),
    ))
}

/// Accepts the connections in the kernel's queue that the runtime has not reported yet: closing the listener would reset them.
fn take_last(core: &Rc<Core>, socket: ListeningSocket, behind: &ListenerProtocols) {
    let next: Box<dyn Fn() -> io::Result<(Socket, SocketAddr)>> = match socket {
        ListeningSocket::Tcp(listener) => {
            let listener = listener.into_inner();
            Box::new(move || accept_tcp(&listener))
        }
        ListeningSocket::Unix(listener) => {
            let Ok(listener) = listener.into_std() else {
                return;
            };
            Box::new(move || {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok((Socket::Unix(UnixStream::from_std(stream)?), UNKNOWN_ADDRESS))
            })
        }
    };
    for _ in 0..MAX_LAST {
        let Ok((stream, client)) = next() else {
            return;
        };
        spawn(core, stream, client, behind);
    }
}

/// Unmaps an IPv4-mapped address, which a dual-stack socket reports; systemd may pass one.
pub(super) fn plain(client: SocketAddr) -> SocketAddr {
    SocketAddr::new(client.ip().to_canonical(), client.port())
}

/// Closes some idle connections for new ones, several at a time, so that this is not repeated for each new connection.
pub(super) fn make_room(core: &Core) {
    let most = (core.limits.connections / PARTS).max(1);
    for _ in 0..core.timers.close_idle(most) {
        core.counters.closed(Closed::GaveWay);
    }
}

fn spawn(core: &Rc<Core>, stream: Socket, client: SocketAddr, behind: &ListenerProtocols) {
    let Some(slot) = connection_slot(core, client, behind.sites.proxies()) else {
        return stream.reset_at_end();
    };
    let counted = (CountedConnection::begin(core), slot);
    let core = Rc::clone(core);
    // Two tasks, because a task is as large as its largest wait: a plain connection needs no memory for handshakes. The runtime copies
    // a task when it begins and twice when it ends, so it gets a pointer.
    if behind.tls.is_none() && !behind.speaks_proxy {
        let sites = Arc::clone(&behind.sites);
        let endpoints = Endpoints::plain(client);
        let task = Box::write(Box::new_uninit(), async move {
            http1::connection(core, stream, sites, endpoints).await;
            drop(counted);
        });
        tokio::task::spawn_local(Box::into_pin(task));
    } else {
        let behind = behind.clone();
        let task = Box::write(Box::new_uninit(), async move {
            begin(core, stream, client, behind).await;
            drop(counted);
        });
        tokio::task::spawn_local(Box::into_pin(task));
    }
}

/// A connection that begins with a PROXY header or a TLS handshake.
async fn begin(core: Rc<Core>, mut stream: Socket, client: SocketAddr, behind: ListenerProtocols) {
    let mut counted = None;
    let (mut client, mut local) = (client, None);
    if behind.speaks_proxy {
        let proxies = behind.sites.proxies();
        let own = stream.local_address();
        // Boxed: it ends before the first request, and its state would be part of every connection.
        let reading = read_client(&core, &mut stream, client, own, proxies);
        let Some((source, destination)) = Box::pin(reading).await else {
            return;
        };
        let Some(slot) = connection_slot(&core, source, proxies) else {
            return stream.reset_at_end();
        };
        counted = Some(slot);
        (client, local) = (source, Some(destination));
    }
    let endpoints = Endpoints {
        client,
        local,
        is_tls: behind.tls.is_some(),
        tls_version: None,
    };
    match behind.tls {
        None => http1::connection(core, stream, behind.sites, endpoints).await,
        Some(acceptor) => {
            handshake::connection(core, stream, acceptor, behind.sites, endpoints).await;
        }
    }
    drop(counted);
}

/// Counts the connection of a client, if the client may have one more. Trusted proxies, and clients without an address, are not
/// limited.
pub(super) fn connection_slot(
    core: &Core,
    client: SocketAddr,
    proxies: &Proxies,
) -> Option<ConnectionSlot> {
    if client == UNKNOWN_ADDRESS || proxies.trusts(client) {
        return Some(ConnectionSlot::uncounted());
    }
    let slot = core.services.clients.connection_slot(client.ip());
    if slot.is_none() {
        core.counters.closed(Closed::TooMany);
    }
    slot
}

pub(super) struct CountedConnection(Rc<Core>);

impl CountedConnection {
    pub(super) fn begin(core: &Rc<Core>) -> Self {
        core.connections.set(core.connections.get() + 1);
        core.counters.connections(core.connections.get());
        Self(Rc::clone(core))
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.connections.set(self.0.connections.get() - 1);
        self.0.counters.connections(self.0.connections.get());
        self.0.connection_ended.notify_waiters();
    }
}

/// Limit of connections accepted while draining: the kernel's maximum backlog. A flood of new ones must not delay the end.
const MAX_LAST: usize = 4096;

/// The part of the connections that is closed at one time.
const PARTS: usize = 64;

/// How long a full core waits before it looks for idle connections again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How long accepting pauses when the process has no free file descriptor. Connections end in this time, and the kernel keeps the queue.
const OUT_OF_DESCRIPTORS_PAUSE: Duration = Duration::from_millis(20);
