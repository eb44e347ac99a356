//! The task of one UDP socket: it receives, answers and sends for all connections of the socket.
//!
//! In each turn it receives a batch, lets the connections that the batch or a task has woken advance, and sends what they have to send. It
//! sleeps until the earliest deadline of a connection. When its configuration is replaced, it stops receiving: the endpoints of the next one
//! read the socket, and forward what belongs to it. If there is no next one, it receives until its last connection has ended.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use quinn_proto::{ConnectionHandle, DatagramEvent, Endpoint, Incoming, ServerConfig, Transmit};
use tokio::sync::{mpsc, oneshot, watch};

use super::clocks::Http3Stage;
use super::ids::addressee;
use super::link::{ConnectionLink, WakeList};
use super::listener::QuicListener;
use super::router::{QuicDatagram, RegisteredEndpoint};
use super::settings;
use super::state::Http3State;
use super::udp::QuicSocket;
use crate::accept::{make_room, plain};
use crate::endpoints::Endpoints;
use crate::{Core, Phase};
use galley_request::Sites;
use galley_tls::Acceptor;

/// Serves the clients of a socket. Returns when it begins no more connections; those that exist go on in a task of their own.
pub(crate) async fn run(core: Rc<Core>, listener: QuicListener, phase: watch::Receiver<Phase>) {
    let mut endpoint = match QuicEndpoint::open(&core, listener) {
        Ok(endpoint) => endpoint,
        Err(error) => {
            tracing::error!(%error, "cannot use a UDP socket");
            return;
        }
    };
    let (accepting, stopped) = oneshot::channel();
    tokio::task::spawn_local(async move {
        endpoint.serve(phase, accepting).await;
    });
    // An error means that the task has ended.
    let _ = stopped.await;
}

struct QuicEndpoint {
    core: Rc<Core>,
    socket: QuicSocket,
    quic: Endpoint,
    config: Arc<ServerConfig>,
    registered: RegisteredEndpoint,
    inbox: mpsc::Receiver<QuicDatagram>,
    sites: Arc<Sites>,
    tls: Acceptor,
    is_removed: Arc<AtomicBool>,
    connections: HashMap<ConnectionHandle, Served>,
    deadlines: BTreeSet<(Instant, ConnectionHandle)>,
    wakes: Rc<WakeList>,
    handshakes: usize,
    /// Datagrams that the socket had no room for.
    unsent: Option<(Transmit, Vec<u8>)>,
    checked: Instant,
    out: Vec<u8>,
}

/// A connection, and its place among the deadlines.
struct Served {
    link: Rc<ConnectionLink>,
    deadline: Option<Instant>,
    is_handshaking: bool,
}

/// What has happened.
enum Turn {
    Received,
    Forwarded(QuicDatagram),
    Woken,
    Room,
    Phase(Phase),
}

impl QuicEndpoint {
    fn open(core: &Rc<Core>, listener: QuicListener) -> io::Result<Self> {
        let QuicListener {
            socket,
            sites,
            tls,
            router,
            is_removed,
        } = listener;
        let socket = QuicSocket::open(socket)?;
        let (registered, inbox) = router.register();
        let config = settings::server(Arc::clone(&tls.quic), &registered, &core.limits);
        let config = config.ok_or_else(|| io::Error::other("QUIC needs TLS 1.3"))?;
        let quic = Endpoint::new(
            settings::endpoint(&registered),
            Some(Arc::clone(&config)),
            socket.never_fragments(),
            None,
        );
        Ok(Self {
            core: Rc::clone(core),
            socket,
            quic,
            config,
            registered,
            inbox,
            sites,
            tls,
            is_removed,
            connections: HashMap::new(),
            deadlines: BTreeSet::new(),
            wakes: Rc::default(),
            handshakes: 0,
            unsent: None,
            checked: Instant::now(),
            out: Vec::new(),
        })
    }

    async fn serve(&mut self, mut phase: watch::Receiver<Phase>, accepting: oneshot::Sender<()>) {
        let mut accepting = Some(accepting);
        let mut is_reading = true;
        let sleep = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(sleep);
        loop {
            let now = Instant::now();
            self.expire(now);
            self.attend(now);
            self.check(now);
            if accepting.is_none() && self.connections.is_empty() {
                return;
            }
            let next = self.next_deadline();
            if let Some(next) = next {
                sleep.as_mut().reset(next.into());
            }
            let is_blocked = self.unsent.is_some();
            let received = Cell::new(Vec::new());
            let turn = {
                let Self {
                    socket,
                    inbox,
                    wakes,
                    ..
                } = self;
                let socket = &*socket;
                wakes.set_attended(false);
                let has_work = !wakes.is_empty() && !is_blocked;
                // In random order: no flood of input keeps output or other input waiting.
                tokio::select! {
                    now = phase.wait_for(|phase| *phase != Phase::Running), if accepting.is_some() => {
                        Turn::Phase(now.map_or(Phase::Stopping, |now| *now))
                    }
                    Some(datagram) = inbox.recv() => Turn::Forwarded(datagram),
                    () = socket.receive(&received), if is_reading => Turn::Received,
                    () = poll_fn(|cx| socket.poll_room(cx)), if is_blocked => Turn::Room,
                    () = wakes.any(), if !has_work => Turn::Woken,
                    () = tokio::task::yield_now(), if has_work => Turn::Woken,
                    () = &mut sleep, if next.is_some() => Turn::Woken,
                }
            };
            self.wakes.set_attended(true);
            match turn {
                Turn::Received => {
                    let now = Instant::now();
                    received
                        .into_inner()
                        .into_iter()
                        .for_each(|one| self.route(now, one));
                }
                Turn::Forwarded(datagram) => self.handle(Instant::now(), datagram),
                Turn::Room => self.send_rest(),
                Turn::Woken => {}
                Turn::Phase(phase) => {
                    accepting = None;
                    is_reading =
                        phase == Phase::Stopping || self.is_removed.load(Ordering::Acquire);
                    if !is_reading && let Err(error) = self.socket.stop_reading() {
                        tracing::warn!(%error, "datagrams for other endpoints wake this one");
                    }
                    for served in self.connections.values() {
                        served.link.state.borrow_mut().begin_closing();
                        served.link.wake();
                    }
                }
            }
        }
    }

    /// The time of the next turn, if nothing happens before.
    fn next_deadline(&self) -> Option<Instant> {
        let check = (!self.connections.is_empty()).then(|| self.checked + CHECK_INTERVAL);
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        deadline.into_iter().chain(check).min()
    }

    /// Hands a datagram to its connection, or to the endpoint that owns it.
    fn route(&mut self, now: Instant, datagram: QuicDatagram) {
        let RegisteredEndpoint { router, owner } = &self.registered;
        let addressed = addressee(&datagram.bytes).and_then(|id| router.keys.owner(id));
        let datagram = match addressed {
            Some(other) if other != *owner => router.forward(other, datagram),
            _ => Some(datagram),
        };
        if let Some(datagram) = datagram {
            self.handle(now, datagram);
        }
    }

    fn handle(&mut self, now: Instant, datagram: QuicDatagram) {
        let QuicDatagram {
            client,
            local,
            ecn,
            bytes,
        } = datagram;
        self.out.clear();
        let length = bytes.len();
        let event = self
            .quic
            .handle(now, client, local, ecn, bytes, &mut self.out);
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(served) = self.connections.get(&handle) {
                    let mut state = served.link.state.borrow_mut();
                    let is_other = plain(client) != state.endpoints.client;
                    if is_other && state.stage == Http3Stage::Handshake {
                        // Early data would move the connection to a client that has never received anything at the address for which
                        // its requests count (RFC 9000 section 9).
                        return;
                    }
                    state.unvalidated.received(length);
                    state.quic.handle_event(event);
                    drop(state);
                    served.link.wake();
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.admit(now, incoming, length),
            Some(DatagramEvent::Response(transmit)) => self.respond(&transmit),
            None => {}
        }
    }

    /// Begins a connection, unless there are too many. `length`: that of its first datagram.
    fn admit(&mut self, now: Instant, incoming: Incoming, length: usize) {
        let core = &self.core;
        self.out.clear();
        if core.stopping.get() {
            let transmit = self.quic.refuse(incoming, &mut self.out);
            return self.respond(&transmit);
        }
        let is_full = core.connections.get() >= core.limits.connections;
        let is_validated = incoming.remote_address_validated();
        // Idle connections do not give way to clients that may not exist.
        if (is_full || self.handshakes >= UNVALIDATED) && !is_validated {
            match self.quic.retry(incoming, &mut self.out) {
                Ok(transmit) => self.respond(&transmit),
                Err(error) => self.quic.ignore(error.into_incoming()),
            }
            return;
        }
        if is_full {
            make_room(core);
            // The client sends its first datagram again in a moment.
            return self.quic.ignore(incoming);
        }
        if self.handshakes >= MAX_HANDSHAKES {
            return self.quic.ignore(incoming);
        }
        let client = plain(incoming.remote_address());
        let local = incoming.local_ip().map_or(self.socket.local(), |ip| {
            SocketAddr::new(ip, self.socket.local().port())
        });
        let config = Some(Arc::clone(&self.config));
        match self.quic.accept(incoming, now, &mut self.out, config) {
            Ok((handle, quic)) => {
                let endpoints = Endpoints {
                    client,
                    local: Some(plain(local)),
                    is_tls: true,
                    tls_version: Some("1.3"),
                };
                let (sites, certificates) =
                    (Arc::clone(&self.sites), Arc::clone(&self.tls.certificates));
                let mut state = Http3State::new(&self.core, quic, sites, certificates, endpoints);
                state.unvalidated.received(length);
                if is_validated {
                    state.unvalidated.end();
                }
                let link = ConnectionLink::new(&self.core, handle, state, &self.wakes);
                if is_validated && !link.take_slot(client, &self.sites) {
                    let mut state = link.state.borrow_mut();
                    state.close(
                        &self.core,
                        now,
                        galley_http::h3::H3Code::ExcessiveLoad,
                        None,
                    );
                }
                link.wake();
                self.handshakes += 1;
                let served = Served {
                    link,
                    deadline: None,
                    is_handshaking: true,
                };
                self.connections.insert(handle, served);
            }
            Err(error) => {
                if let Some(transmit) = error.response {
                    self.respond(&transmit);
                }
            }
        }
    }

    /// Sends a datagram that belongs to no connection. It is dropped if there is no room: the client asks again.
    fn respond(&mut self, transmit: &Transmit) {
        if self.unsent.is_none() {
            let bytes = self.out.get(..transmit.size).unwrap_or_default();
            self.socket.send(transmit, bytes);
        }
    }

    /// Lets deadlines of QUIC take effect.
    fn expire(&mut self, now: Instant) {
        while let Some(&(at, handle)) = self.deadlines.first()
            && at <= now
        {
            self.deadlines.pop_first();
            if let Some(served) = self.connections.get_mut(&handle) {
                served.deadline = None;
                served.link.state.borrow_mut().quic.handle_timeout(now);
                served.link.wake();
            }
        }
    }

    /// Checks the timeouts of HTTP/3.
    fn check(&mut self, now: Instant) {
        if now.saturating_duration_since(self.checked) < CHECK_INTERVAL {
            return;
        }
        self.checked = now;
        for served in self.connections.values() {
            let link = &served.link;
            if link.state.borrow_mut().check(link, now) {
                link.wake();
            }
        }
    }

    /// Lets the connections advance that have been woken by now, and sends their output.
    fn attend(&mut self, now: Instant) {
        // Those that are woken meanwhile have the next turn.
        for _ in 0..self.wakes.len() {
            if self.unsent.is_some() {
                return;
            }
            let Some(handle) = self.wakes.pop() else {
                return;
            };
            self.advance(handle, now);
        }
    }

    fn advance(&mut self, handle: ConnectionHandle, now: Instant) {
        let Some(served) = self.connections.get_mut(&handle) else {
            return;
        };
        let link = Rc::clone(&served.link);
        link.attended();
        let mut state = link.state.borrow_mut();
        state.advance(&link, now);
        let is_drained = events(&mut self.quic, &mut state, handle);
        let is_over = state.stage != Http3Stage::Handshake || is_drained;
        if is_over && std::mem::replace(&mut served.is_handshaking, false) {
            self.handshakes -= 1;
        }
        if is_drained {
            if let Some(at) = served.deadline.take() {
                self.deadlines.remove(&(at, handle));
            }
            super::ending::finish(&self.core, &mut state);
            drop(state);
            self.connections.remove(&handle);
            return;
        }
        let has_more = self.transmit(&mut state, now);
        let Some(served) = self.connections.get_mut(&handle) else {
            return;
        };
        let deadline = state.quic.poll_timeout();
        let before = std::mem::replace(&mut served.deadline, deadline);
        if before != deadline {
            if let Some(at) = before {
                self.deadlines.remove(&(at, handle));
            }
            self.deadlines.extend(deadline.map(|at| (at, handle)));
        }
        drop(state);
        if has_more {
            link.wake();
        }
    }

    /// Sends the output of a connection. True if there may be more.
    fn transmit(&mut self, state: &mut Http3State, now: Instant) -> bool {
        for _ in 0..MAX_ROUNDS {
            self.out.clear();
            let held = state.unvalidated.take_held(&mut self.out);
            let transmit = held.or_else(|| {
                let is_validated = state.unvalidated.is_over();
                let segments = if is_validated {
                    self.socket.max_segments()
                } else {
                    1
                };
                state.quic.poll_transmit(now, segments, &mut self.out)
            });
            let Some(transmit) = transmit else {
                return false;
            };
            let bytes = self.out.get(..transmit.size).unwrap_or_default();
            if !state.unvalidated.may_send(bytes.len()) {
                state.unvalidated.hold(transmit, bytes);
                return false;
            }
            if !self.socket.send(&transmit, bytes) {
                self.unsent = Some((transmit, std::mem::take(&mut self.out)));
                return true;
            }
        }
        true
    }

    /// Sends what the socket had no room for.
    fn send_rest(&mut self) {
        if let Some((transmit, bytes)) = self.unsent.take()
            && !self
                .socket
                .send(&transmit, bytes.get(..transmit.size).unwrap_or_default())
        {
            self.unsent = Some((transmit, bytes));
        }
    }
}

/// Passes events between a connection and its endpoint. True if the connection has ended and nothing follows.
fn events(quic: &mut Endpoint, state: &mut Http3State, handle: ConnectionHandle) -> bool {
    while let Some(event) = state.quic.poll_endpoint_events() {
        if event.is_drained() {
            let _ = quic.handle_event(handle, event);
            return true;
        }
        if let Some(event) = quic.handle_event(handle, event) {
            state.quic.handle_event(event);
        }
    }
    false
}

/// The number of handshakes of an endpoint from which on a client must show that it receives at its address (RFC 9000 section 8.1.2).
const UNVALIDATED: usize = 32;

/// The maximum number of handshakes at a time, with clients whose address is validated.
const MAX_HANDSHAKES: usize = 1024;

/// The interval of the checks of HTTP/3's timeouts.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Groups of datagrams that one connection sends before others advance.
const MAX_ROUNDS: usize = 8;
