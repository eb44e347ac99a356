//! The listeners of a configuration: bound while the process has the rights to bind, opened when everything behind them is
//! ready.
//!
//! The control thread holds every socket as long as some configuration names it. Each generation of front threads
//! accepts from its own descriptors of the same sockets: closing the last descriptor of one of several sockets on a port
//! would reset the connections in its queue.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use galley_config::{Config, Listen};

use super::ServerStartError;
use super::open_listener::{ListenerKind, OpenListener, Removals, Rows, rows};
use super::quic::{self, InheritedQuic, MissingQuic};
use crate::binary_upgrade::ListenerName;
use galley_request::{Site, Sites};
use galley_server::{BoundListener, Listeners, QuicListener, QuicRouter, QuicSecret};
use galley_sys::sockets::{self, BoundSockets, Listening, Passed, SocketFile};
use galley_tls::Acceptor;

/// Sockets that are bound but do not listen yet.
#[derive(Default)]
pub(super) struct NewListeners {
    bound: Vec<NewListener>,
    /// UDP addresses that Galley serves without, because the configuration does not name them.
    missing: Vec<MissingQuic>,
}

struct NewListener {
    listener: OpenListener,
    bound: BoundSockets,
    /// Whether another process has handed them over, and may still receive from them.
    is_inherited: bool,
}

/// Listening sockets, by their names.
pub(super) struct HeldListeners {
    cores: usize,
    held: BTreeMap<OpenListener, ListenerSockets>,
    /// The sockets from systemd that no listener uses yet.
    passed: Passed,
    /// The sockets from the previous process that no listener uses yet.
    inherited: BTreeMap<ListenerName, InheritedSockets>,
    /// What the endpoints of HTTP/3 share.
    router: Arc<QuicRouter>,
    /// The secret for HTTP/3 of all nodes of the cluster.
    cluster: Option<QuicSecret>,
}

/// The sockets of one listener of another process, with their file.
#[derive(Default)]
pub(super) struct InheritedSockets {
    pub(super) sockets: Vec<OwnedFd>,
    pub(super) file: Option<PathBuf>,
}

struct ListenerSockets {
    per_core: Vec<Vec<Listening>>,
    /// For UDP: whether a datagram to their address arrives.
    answers: bool,
    /// Removed when this is dropped.
    file: Option<SocketFile>,
}

impl NewListeners {
    /// The paths of the sockets in the file system.
    pub(super) fn files(&self) -> impl Iterator<Item = &std::path::Path> {
        self.bound.iter().filter_map(|new| new.bound.path())
    }

    /// Goes on without a listener of HTTP/3 that the configuration does not name. Others are an error.
    fn refuse(
        &mut self,
        config: &Config,
        listener: &OpenListener,
        cause: io::Error,
    ) -> Result<(), ServerStartError> {
        if !listener.is_quic() || config.server.listen_quic.is_some() {
            return Err(listener.failed(cause));
        }
        let listen = listener.listen.clone();
        self.missing.push(MissingQuic { listen, cause });
        Ok(())
    }
}

impl HeldListeners {
    /// Starts without listeners. Must be called while there is one thread. `cluster`: the secret for HTTP/3 of all nodes.
    ///
    /// Errors: there is no randomness for keys.
    pub(super) fn new(cores: usize, cluster: Option<QuicSecret>) -> io::Result<Self> {
        Ok(Self {
            cores,
            held: BTreeMap::new(),
            passed: Passed::take(),
            inherited: BTreeMap::new(),
            router: QuicRouter::new(QuicSecret::random()?, cluster.as_ref(), 0)?,
            cluster,
        })
    }

    /// What the endpoints of HTTP/3 share, if there are any. Without them a process takes over that knows nothing of HTTP/3.
    pub(super) fn router(&self) -> Option<&Arc<QuicRouter>> {
        let is_used = self.held.keys().any(OpenListener::is_quic);
        is_used.then_some(&self.router)
    }

    /// Makes listeners use these sockets instead of binding new ones, and the endpoints of HTTP/3 know the connections of the process
    /// that they come from.
    pub(super) fn inherit(
        &mut self,
        sockets: BTreeMap<ListenerName, InheritedSockets>,
        quic: Option<InheritedQuic>,
    ) -> io::Result<()> {
        self.inherited = sockets;
        if let Some(InheritedQuic { heritage, line }) = quic {
            let secret = QuicSecret::from_bytes(heritage.secret);
            let epoch = heritage.epoch.wrapping_add(1);
            self.router = QuicRouter::new(secret, self.cluster.as_ref(), epoch)?;
            self.router.set_predecessor(Some(line.into()))?;
        }
        Ok(())
    }

    /// All sockets, for another process.
    pub(super) fn sockets(&self) -> impl Iterator<Item = HeldSocket<'_>> {
        self.held.iter().flat_map(|(listener, held)| {
            let file = held.file.as_ref().map(SocketFile::path);
            let sockets = held.per_core.iter().flatten();
            sockets.map(move |socket| HeldSocket {
                name: listener.name(),
                file,
                socket: socket.as_fd(),
            })
        })
    }

    /// Keeps the socket files, for another process.
    pub(super) fn keep_files(&mut self) {
        let files = self.held.values_mut().filter_map(|held| held.file.take());
        files.for_each(SocketFile::keep);
    }

    /// Binds each listener of a configuration that is not held yet.
    pub(super) fn bind(&mut self, config: &Config) -> Result<NewListeners, ServerStartError> {
        let rows = rows(config);
        let new = rows
            .keys()
            .filter(|listener| self.socket(listener, &rows).is_none());
        let mut listeners = NewListeners::default();
        let mut free = Vec::new();
        for listener in new {
            match self.check(listener) {
                Ok(()) => free.push(listener),
                Err(cause) => listeners.refuse(config, listener, cause)?,
            }
        }
        // TLS listeners before those of HTTP/3, which have the same ports.
        for listener in free {
            let inherited = self.inherited.remove(&listener.name());
            let is_inherited = inherited.is_some();
            let bound = match inherited {
                Some(inherited) => inherited.bound(self.cores),
                None => self.bind_one(config, listener, &listeners),
            };
            match bound {
                Ok(bound) => listeners.bound.push(NewListener {
                    listener: listener.clone(),
                    bound,
                    is_inherited,
                }),
                Err(cause) => listeners.refuse(config, listener, cause)?,
            }
        }
        Ok(listeners)
    }

    /// Whether no other process uses the port of a listener.
    fn check(&self, listener: &OpenListener) -> io::Result<()> {
        let Listen::Tcp(address) = &listener.listen else {
            return Ok(());
        };
        if self.has_port(listener.is_quic(), address.port())
            || self.inherited.contains_key(&listener.name())
        {
            return Ok(());
        }
        match listener.kind {
            ListenerKind::Quic => sockets::is_udp_free(*address),
            ListenerKind::Plain | ListenerKind::Tls => sockets::is_free(*address),
        }
    }

    /// Binds a listener. `new`: those that were bound before.
    fn bind_one(
        &mut self,
        config: &Config,
        listener: &OpenListener,
        new: &NewListeners,
    ) -> io::Result<BoundSockets> {
        let cores = self.cores;
        match &listener.listen {
            Listen::Tcp(address) if listener.is_quic() => {
                let tls = self.tls_address(listener, new).filter(|_| {
                    let is_named = config.server.listen_quic.is_some();
                    address.port() == 0 && !is_named
                });
                if let Some(tls) = tls {
                    sockets::is_udp_free(tls)?;
                }
                BoundSockets::udp(tls.unwrap_or(*address), cores)
            }
            Listen::Tcp(address) => BoundSockets::tcp(*address, cores),
            Listen::Unix(path) => {
                BoundSockets::unix(path, config.server.process.socket_mode, cores)
            }
            Listen::Passed(name) if listener.is_quic() => self.passed.bound_udp(name, cores),
            Listen::Passed(name) => self.passed.bound(name, cores),
        }
    }

    /// The address of the TLS listener of the same name, which port 0 has selected.
    fn tls_address(&self, quic: &OpenListener, new: &NewListeners) -> Option<SocketAddr> {
        let tls = OpenListener {
            kind: ListenerKind::Tls,
            listen: quic.listen.clone(),
        };
        let new = new.bound.iter().find(|new| new.listener == tls);
        let held = || self.held.get(&tls)?.per_core.first()?.first()?.address();
        new.map_or_else(held, |new| new.bound.address())
    }

    /// Starts listening on bound sockets, and holds them. If one fails, none of them is held.
    pub(super) fn add(
        &mut self,
        listeners: NewListeners,
    ) -> Result<Vec<OpenListener>, ServerStartError> {
        let mut added = Vec::with_capacity(listeners.bound.len());
        listeners.missing.iter().for_each(MissingQuic::warn);
        for new in listeners.bound {
            let NewListener {
                listener,
                bound,
                is_inherited,
            } = new;
            match bound.listen(self.cores) {
                Ok((per_core, file)) => {
                    let answers = is_inherited || quic::answers(&listener.listen, &per_core);
                    let held = ListenerSockets {
                        per_core,
                        answers,
                        file,
                    };
                    self.held.insert(listener.clone(), held);
                    added.push(listener);
                }
                Err(cause) => {
                    self.forget(&added);
                    return Err(listener.failed(cause));
                }
            }
        }
        Ok(added)
    }

    /// Closes the given listeners.
    pub(super) fn forget(&mut self, listeners: &[OpenListener]) {
        for listener in listeners {
            self.held.remove(listener);
        }
    }

    /// Duplicates the sockets for the threads of one generation, with the sites of its configuration. `tls`: the acceptor for
    /// handshakes, if any site has a certificate.
    pub(super) fn open(
        &self,
        config: &Config,
        all: &Arc<Vec<Arc<Site>>>,
        tls: Option<&Acceptor>,
    ) -> Result<OpenListeners, ServerStartError> {
        let rows = rows(config);
        let proxies = Arc::new(config.server.proxies.clone());
        let mut open = OpenListeners {
            per_core: (0..self.cores).map(|_| Vec::new()).collect(),
            quic: (0..self.cores).map(|_| Vec::new()).collect(),
            addresses: Vec::new(),
            reached: Vec::new(),
            removals: BTreeMap::new(),
        };
        for (listener, hosts) in &rows {
            let Some((_, held)) = self.socket(listener, &rows) else {
                continue;
            };
            let hosts = hosts.iter().cloned();
            let sites = Arc::new(Sites::new(hosts, Arc::clone(all), Arc::clone(&proxies)));
            if listener.is_quic() {
                if let Some(tls) = tls {
                    self.open_quic(listener, held, &sites, tls, &mut open)?;
                }
                continue;
            }
            let tls = tls.filter(|_| listener.kind == ListenerKind::Tls);
            for socket in held.per_core.first().into_iter().flatten() {
                let url = listener.url(socket);
                let url = url.map_err(|cause| listener.failed(cause))?;
                open.reached.push((url, Arc::clone(&sites)));
            }
            let is_removed = Arc::new(AtomicBool::new(false));
            for (core, sockets) in open.per_core.iter_mut().zip(&held.per_core) {
                for socket in sockets {
                    core.push(BoundListener {
                        socket: socket.try_clone().map_err(|cause| listener.failed(cause))?,
                        sites: Arc::clone(&sites),
                        speaks_proxy: config.server.proxy_protocol.contains(&listener.listen),
                        tls: tls.cloned(),
                        is_removed: Arc::clone(&is_removed),
                    });
                }
            }
            open.removals.insert(listener.clone(), is_removed);
        }
        Ok(open)
    }

    /// Duplicates the UDP sockets of a listener.
    fn open_quic(
        &self,
        listener: &OpenListener,
        held: &ListenerSockets,
        sites: &Arc<Sites>,
        tls: &Acceptor,
        open: &mut OpenListeners,
    ) -> Result<(), ServerStartError> {
        let is_removed = Arc::new(AtomicBool::new(false));
        let first = held.per_core.iter().flatten().next();
        open.addresses.extend(first.and_then(Listening::address));
        for (core, sockets) in open.quic.iter_mut().zip(&held.per_core) {
            for socket in sockets {
                let socket = socket.try_clone().map_err(|cause| listener.failed(cause))?;
                if let Listening::Udp(socket) = socket {
                    core.push(QuicListener {
                        socket,
                        sites: Arc::clone(sites),
                        tls: tls.clone(),
                        router: Arc::clone(&self.router),
                        is_removed: Arc::clone(&is_removed),
                    });
                }
            }
        }
        open.removals.insert(listener.clone(), is_removed);
        Ok(())
    }

    /// The configuration with `Alt-Svc` for the sites that HTTP/3 reaches.
    pub(super) fn with_alternatives(&self, config: &Config) -> Config {
        let mut with = config.clone();
        for (site, with) in config.sites.iter().zip(&mut with.sites) {
            let udp = self.answering_ports(ListenerKind::Quic, &config.quic_listeners(site));
            let tls = self.answering_ports(ListenerKind::Tls, &site.listen_tls);
            with.policy.alt_svc = quic::alternatives(&udp, &tls);
        }
        with
    }

    /// The ports of listeners.
    fn answering_ports(&self, kind: ListenerKind, listeners: &[Listen]) -> Vec<u16> {
        let held = listeners.iter().filter_map(|listen| {
            let listen = listen.clone();
            self.held.get(&OpenListener { kind, listen })
        });
        let sockets = held
            .filter(|held| held.answers)
            .filter_map(|held| held.per_core.iter().flatten().find_map(Listening::address));
        sockets.map(|address| address.port()).collect()
    }

    /// Closes the listeners that `config` does not name. `removals`: the flags of the previous generation, which is then the last
    /// to accept from them. Must be called before that generation retires.
    pub(super) fn keep(&mut self, config: &Config, removals: &Removals) {
        let rows = rows(config);
        let mut kept = BTreeMap::new();
        for listener in rows.keys() {
            let name = self.socket(listener, &rows).map(|(name, _)| name.clone());
            if let Some(held) = name.and_then(|name| self.held.remove(&name)) {
                kept.insert(listener.clone(), held);
            }
        }
        let gone = std::mem::replace(&mut self.held, kept);
        for (name, held) in gone {
            if matches!(name.listen, Listen::Passed(_)) {
                // This process could not open it again, and systemd keeps it open in any case.
                self.held.insert(name, held);
                continue;
            }
            if let Some(mark) = removals.get(&name) {
                mark.store(true, Ordering::Release);
            }
        }
    }

    /// Closes all listeners, so that the front threads are the last to accept. The socket files are removed when the result
    /// is dropped.
    pub(super) fn close(self) -> Vec<SocketFile> {
        self.held
            .into_values()
            .filter_map(|held| held.file)
            .collect()
    }

    /// The socket for a listener: its own, or one on the same address that another protocol used until now and that no entry of
    /// `rows` names any more.
    fn socket(
        &self,
        listener: &OpenListener,
        rows: &Rows,
    ) -> Option<(&OpenListener, &ListenerSockets)> {
        let other = OpenListener {
            kind: match listener.kind {
                ListenerKind::Plain => ListenerKind::Tls,
                ListenerKind::Tls => ListenerKind::Plain,
                ListenerKind::Quic => return self.held.get_key_value(listener),
            },
            listen: listener.listen.clone(),
        };
        let is_any = matches!(&listener.listen, Listen::Tcp(address) if address.port() == 0);
        self.held.get_key_value(listener).or_else(|| {
            let free = !is_any && !rows.contains_key(&other);
            self.held.get_key_value(&other).filter(|_| free)
        })
    }

    /// Whether a socket of this process has this port on any address. A new socket then shares the port only with this process.
    fn has_port(&self, is_quic: bool, port: u16) -> bool {
        let inherited = self.inherited.keys();
        let inherited = inherited.filter(|name| name.is_quic == is_quic);
        let inherited = inherited.filter_map(|name| {
            let address: Option<SocketAddr> = name.listen.parse().ok();
            address
        });
        let held = self
            .held
            .keys()
            .filter(|listener| listener.is_quic() == is_quic)
            .filter_map(|listener| match &listener.listen {
                Listen::Tcp(address) => Some(*address),
                Listen::Unix(_) | Listen::Passed(_) => None,
            });
        held.chain(inherited).any(|address| address.port() == port)
    }
}

/// A socket of a listener, for another process.
pub(super) struct HeldSocket<'h> {
    pub(super) name: ListenerName,
    /// The socket's path in the file system.
    pub(super) file: Option<&'h Path>,
    pub(super) socket: BorrowedFd<'h>,
}

impl InheritedSockets {
    fn bound(self, cores: usize) -> io::Result<BoundSockets> {
        let file = self.file.as_deref().map(SocketFile::of).transpose()?;
        BoundSockets::inherited(self.sockets, file, cores)
    }
}

/// The open listeners of a generation.
pub(super) struct OpenListeners {
    pub(super) per_core: Vec<Listeners>,
    /// The UDP sockets of each core.
    pub(super) quic: Vec<Vec<QuicListener>>,
    /// Their addresses.
    pub(super) addresses: Vec<SocketAddr>,
    /// The URL of each listener with its sites.
    pub(super) reached: Vec<(String, Arc<Sites>)>,
    pub(super) removals: Removals,
}
