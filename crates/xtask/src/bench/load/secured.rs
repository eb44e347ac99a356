//! The client of the bench over TLS: HTTP/1.1 with one request under way on each connection, HTTP/2 with several.
//!
//! It is made of the crates that everybody makes clients of (rustls, h2) and runs in one thread. It costs about as much as the
//! servers that it asks, so rates are the lower of both sides'; what a request costs the server is measured at the server. All
//! contenders get the same cipher (AES-128-GCM), the same key exchange (X25519, which all of them know), and windows as large
//! as a browser's. Whether a handshake was full or resumed is checked, as is every answer's status and length.

use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use rustls::{
    ClientConfig, HandshakeKind, RootCertStore,
    client::Resumption,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, ServerName},
};
use tokio::{
    net::{TcpSocket, TcpStream},
    runtime::Runtime,
    task::{JoinSet, LocalSet},
    time::{sleep, timeout},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{Asks, Lasting, Seen, Spoken, answer::Answer, speak, speak::Open};
use crate::{bench::interrupt::Interrupt, demo::Complaint};

/// How to come in.
#[derive(Debug, Clone)]
pub(in super::super) struct Door {
    pub(in super::super) addr: SocketAddr,
    pub(in super::super) host: String,
    pub(in super::super) trusted: CertificateDer<'static>,
    pub(in super::super) spoken: Spoken,
    pub(in super::super) lasting: Lasting,
    /// What handshakes are to be.
    pub(in super::super) resumes: bool,
    pub(in super::super) connections: usize,
    /// Requests under way on each of them.
    pub(in super::super) streams: usize,
}

/// Connections to one server, ready to ask. May run several times.
#[derive(Debug)]
pub(in super::super) struct Secured<'a> {
    runtime: Runtime,
    tasks: LocalSet,
    host: Rc<Host>,
    open: Vec<Open>,
    interrupt: &'a Interrupt,
}

/// Where connections lead.
pub(super) struct Host {
    door: Door,
    name: ServerName<'static>,
    connector: TlsConnector,
    /// Counts up, to spread connections over local addresses.
    sources: Cell<u8>,
}

/// One run, as its tasks see it.
pub(super) struct Turn {
    asks: RefCell<Asks>,
    pub(super) seen: RefCell<Seen>,
    end: Instant,
    last_answer: Cell<Instant>,
    keeps_next: Cell<bool>,
}

impl<'a> Secured<'a> {
    /// Opens all connections, unless each is for one request only.
    ///
    /// # Errors
    /// When a handshake fails or takes longer than ten seconds.
    pub(in super::super) fn connect(
        door: Door,
        interrupt: &'a Interrupt,
    ) -> Result<Self, Complaint> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let tasks = LocalSet::new();
        let name = ServerName::try_from(door.host.clone())?;
        let host = Rc::new(Host {
            connector: TlsConnector::from(Arc::new(config(&door)?)),
            name,
            door,
            sources: Cell::new(0),
        });
        let count = match host.door.lasting {
            Lasting::Kept => host.door.connections,
            Lasting::OneRequest => 0,
        };
        let mut open = Vec::new();
        for _ in 0..count {
            interrupt.check()?;
            let opened = async { speak::open(host.door.spoken, host.shake().await?).await };
            let opened = tasks.block_on(&runtime, async { timeout(PATIENCE, opened).await });
            open.push(opened.map_err(|_| "a handshake takes too long")??);
        }
        Ok(Self {
            runtime,
            tasks,
            host,
            open,
            interrupt,
        })
    }

    /// Asks for so long, then waits for the answers that are under way; returns what was seen.
    ///
    /// # Errors
    /// When a signal asks the bench to end, or answers do not come within half a minute.
    pub(in super::super) fn run(&mut self, asks: Asks, time: Duration) -> Result<Seen, Complaint> {
        let began = Instant::now();
        let turn = Rc::new(Turn {
            asks: RefCell::new(asks),
            seen: RefCell::new(Seen::new()),
            end: began + time,
            last_answer: Cell::new(began),
            keeps_next: Cell::new(false),
        });
        let (open, host) = (std::mem::take(&mut self.open), &self.host);
        let interrupt = self.interrupt;
        let asked = async {
            let mut tasks = JoinSet::new();
            if host.door.lasting == Lasting::OneRequest {
                for _ in 0..host.door.connections {
                    tasks.spawn_local(one_each(Rc::clone(&turn), Rc::clone(host)));
                }
            }
            for one in open {
                tasks.spawn_local(speak::ask(Rc::clone(&turn), one, host.door.streams));
            }
            let mut open = Vec::new();
            loop {
                tokio::select! {
                    ended = tasks.join_next() => match ended {
                        Some(ended) => open.extend(ended?),
                        None => return Ok(open),
                    },
                    () = sleep(LOOK) => {
                        interrupt.check()?;
                        if Instant::now() > turn.end + LATE {
                            return Err("answers do not come".into());
                        }
                    }
                }
            }
        };
        let open: Result<Vec<Open>, Complaint> = self.tasks.block_on(&self.runtime, asked);
        self.open = open?;
        let mut seen = turn.seen.replace(Seen::new());
        seen.took = turn.last_answer.get().saturating_duration_since(began);
        Ok(seen)
    }
}

/// One connection after the other, each for one request.
async fn one_each(turn: Rc<Turn>, host: Rc<Host>) -> Option<Open> {
    let wanted = if host.door.resumes {
        HandshakeKind::Resumed
    } else {
        HandshakeKind::Full
    };
    while turn.goes_on() {
        let since = Instant::now();
        let stream = match host.shake().await {
            Ok(stream) => stream,
            Err(complaint) => {
                turn.broke(&complaint.to_string());
                continue;
            }
        };
        if stream.get_ref().1.handshake_kind() != Some(wanted) {
            turn.broke("a handshake of the wrong kind");
        }
        speak::last(&turn, stream, since).await;
    }
    None
}

impl Host {
    /// A connection after its handshake.
    async fn shake(&self) -> Result<TlsStream<TcpStream>, Complaint> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        // Each from another address, so that the kernel's memory of closed connections does not run out of ports.
        let source = self.sources.get();
        self.sources.set((source + 1) % SOURCES);
        socket.bind(SocketAddr::from(([127, 0, 0, 2 + source], 0)))?;
        let stream = socket.connect(self.door.addr).await?;
        stream.set_nodelay(true)?;
        Ok(self.connector.connect(self.name.clone(), stream).await?)
    }
}

impl Turn {
    pub(super) fn goes_on(&self) -> bool {
        Instant::now() < self.end && self.seen.borrow().broken < MOST_BROKEN
    }

    /// The number of the next request; `answer` becomes room for what comes.
    pub(super) fn next(&self, answer: &mut Answer) -> usize {
        let mut asks = self.asks.borrow_mut();
        let number = asks.next();
        answer.reset(self.keeps_next.take() || asks.is_sampled());
        number
    }

    /// The head of a request as bytes.
    pub(super) fn head(&self, number: usize) -> Vec<u8> {
        let asks = self.asks.borrow();
        asks.at(number)
            .map(|ask| ask.bytes.clone())
            .unwrap_or_default()
    }

    /// An answer is whole.
    pub(super) fn done(&self, number: usize, answer: &mut Answer, since: Instant) {
        let now = Instant::now();
        self.last_answer.set(now);
        let asks = self.asks.borrow();
        if let Some(ask) = asks.at(number) {
            let mut seen = self.seen.borrow_mut();
            let keeps = seen.note(number, ask.wanted, answer, now.duration_since(since));
            self.keeps_next.set(self.keeps_next.get() || keeps);
        }
    }

    pub(super) fn broke(&self, what: &str) {
        let mut seen = self.seen.borrow_mut();
        seen.broken += 1;
        seen.trouble(|| what.to_owned());
    }
}

fn config(door: &Door) -> Result<ClientConfig, Complaint> {
    let provider = CryptoProvider {
        cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![aws_lc_rs::kx_group::X25519],
        ..aws_lc_rs::default_provider()
    };
    let mut roots = RootCertStore::empty();
    roots.add(door.trusted.clone())?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![door.spoken.name().as_bytes().to_vec()];
    config.resumption = if door.resumes {
        Resumption::in_memory_sessions(SESSIONS)
    } else {
        Resumption::disabled()
    };
    Ok(config)
}

impl std::fmt::Debug for Host {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Host")
            .field("door", &self.door)
            .finish_non_exhaustive()
    }
}

const PATIENCE: Duration = Duration::from_secs(10);
/// How long answers may be awaited after the end.
const LATE: Duration = Duration::from_secs(30);
/// A signal is noticed so soon.
const LOOK: Duration = Duration::from_millis(50);
/// Local addresses in use: 60 times the kernel's 28,000 ports.
const SOURCES: u8 = 60;
/// Servers whose tickets are kept.
const SESSIONS: usize = 8;
/// What may break in one run before it is given up.
const MOST_BROKEN: u64 = 1000;

#[cfg(test)]
mod tests;
