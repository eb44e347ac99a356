//! The listeners of a configuration: bound while the process has the rights for it, opened when everything behind them is
//! ready.
//!
//! The control thread holds every socket as long as some configuration names it, and each generation of front threads
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
use galley_policy::route::HostPattern;

use super::ServerStartError;
use crate::binary_upgrade::ListenerName;
use crate::request::{Site, Sites};
use crate::server::{BoundListener, Listeners};
use crate::sys::sockets::{self, Bound, Listening, Passed, SocketFile};
use crate::tls::Acceptor;

/// Sockets that are bound and do not listen yet.
#[derive(Default)]
pub(super) struct NewListeners(Vec<(OpenListener, Bound)>);

/// A listener and its protocols.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OpenListener {
    speaks_tls: bool,
    listen: Listen,
}

/// Listening sockets, by their names.
pub(super) struct HeldListeners {
    cores: usize,
    held: BTreeMap<OpenListener, Held>,
    /// What systemd has handed over and nothing has taken.
    passed: Passed,
    /// What the process before has handed over and nothing has taken.
    inherited: BTreeMap<ListenerName, InheritedSockets>,
}

/// The sockets of one listener of another process.
#[derive(Default)]
pub(super) struct InheritedSockets {
    pub(super) sockets: Vec<OwnedFd>,
    pub(super) file: Option<PathBuf>,
}

struct Held {
    per_core: Vec<Vec<Listening>>,
    /// Dropped with this.
    file: Option<SocketFile>,
}

impl NewListeners {
    /// The sockets in the file system.
    pub(super) fn files(&self) -> impl Iterator<Item = &std::path::Path> {
        self.0.iter().filter_map(|(_, bound)| bound.path())
    }
}

impl HeldListeners {
    /// None yet. To be called while there is one thread.
    pub(super) fn new(cores: usize) -> Self {
        Self {
            cores,
            held: BTreeMap::new(),
            passed: Passed::take(),
            inherited: BTreeMap::new(),
        }
    }

    /// Has listeners take these sockets rather than bind their own.
    pub(super) fn inherit(&mut self, sockets: BTreeMap<ListenerName, InheritedSockets>) {
        self.inherited = sockets;
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

    /// Leaves the files of sockets to another process.
    pub(super) fn keep_files(&mut self) {
        let files = self.held.values_mut().filter_map(|held| held.file.take());
        files.for_each(SocketFile::keep);
    }

    /// Binds the listeners of a configuration that are not held, each once.
    pub(super) fn bind(&mut self, config: &Config) -> Result<NewListeners, ServerStartError> {
        let rows = rows(config);
        let new: Vec<&OpenListener> = rows
            .keys()
            .filter(|listener| self.socket(listener, &rows).is_none())
            .collect();
        for listener in &new {
            if let Listen::Tcp(address) = &listener.listen
                && !self.has_port(address.port())
                && !self.inherited.contains_key(&listener.name())
            {
                sockets::is_free(*address).map_err(|cause| listener.failed(cause))?;
            }
        }
        let mut listeners = Vec::with_capacity(new.len());
        for listener in new {
            let inherited = self.inherited.remove(&listener.name());
            let bound = match (&listener.listen, inherited) {
                (_, Some(inherited)) => inherited.bound(self.cores),
                (Listen::Tcp(address), None) => Bound::tcp(*address, self.cores),
                (Listen::Unix(path), None) => {
                    Bound::unix(path, config.server.socket_mode, self.cores)
                }
                (Listen::Passed(name), None) => self.passed.bound(name, self.cores),
            };
            let bound = bound.map_err(|cause| listener.failed(cause))?;
            listeners.push((listener.clone(), bound));
        }
        Ok(NewListeners(listeners))
    }

    /// Starts listening on bound sockets, and holds them. If one fails, none of them is held.
    pub(super) fn add(
        &mut self,
        listeners: NewListeners,
    ) -> Result<Vec<OpenListener>, ServerStartError> {
        let mut added = Vec::with_capacity(listeners.0.len());
        for (listener, bound) in listeners.0 {
            match bound.listen(self.cores) {
                Ok((per_core, file)) => {
                    let held = Held { per_core, file };
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

    /// Closes these.
    pub(super) fn forget(&mut self, listeners: &[OpenListener]) {
        for listener in listeners {
            self.held.remove(listener);
        }
    }

    /// Descriptors for the threads of one generation, with the sites of its configuration behind them. `tls`: how handshakes are
    /// answered, if any site has a certificate.
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
            reached: Vec::new(),
            removals: BTreeMap::new(),
        };
        for (listener, hosts) in &rows {
            let Some((_, held)) = self.socket(listener, &rows) else {
                continue;
            };
            let hosts = hosts.iter().cloned();
            let sites = Arc::new(Sites::new(hosts, Arc::clone(all), Arc::clone(&proxies)));
            let tls = tls.filter(|_| listener.speaks_tls);
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

    /// Closes the listeners that `config` does not name. `removals` are the marks of the generation before, which accepts for
    /// the last time from them; to be called before it retires.
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
                // This process cannot open it again, and systemd holds it in any case.
                self.held.insert(name, held);
                continue;
            }
            if let Some(mark) = removals.get(&name) {
                mark.store(true, Ordering::Release);
            }
        }
    }

    /// Closes all of them, so that the front threads are the last to accept; the files of sockets are removed when the result
    /// is dropped.
    pub(super) fn close(self) -> Vec<SocketFile> {
        self.held
            .into_values()
            .filter_map(|held| held.file)
            .collect()
    }

    /// The socket for a listener: its own, or the one of the same address on which another protocol was spoken and which nothing in
    /// `rows` names any more.
    fn socket(&self, listener: &OpenListener, rows: &Rows) -> Option<(&OpenListener, &Held)> {
        let other = OpenListener {
            speaks_tls: !listener.speaks_tls,
            listen: listener.listen.clone(),
        };
        let is_any = matches!(&listener.listen, Listen::Tcp(address) if address.port() == 0);
        self.held.get_key_value(listener).or_else(|| {
            let free = !is_any && !rows.contains_key(&other);
            self.held.get_key_value(&other).filter(|_| free)
        })
    }

    /// Whether a socket of this process has this port, on any address: then it only shares the port with this process.
    fn has_port(&self, port: u16) -> bool {
        let inherited = self.inherited.keys().filter_map(|name| {
            let address: Option<SocketAddr> = name.listen.parse().ok();
            address
        });
        let held = self
            .held
            .keys()
            .filter_map(|listener| match &listener.listen {
                Listen::Tcp(address) => Some(*address),
                Listen::Unix(_) | Listen::Passed(_) => None,
            });
        held.chain(inherited).any(|address| address.port() == port)
    }
}

/// A socket of a listener.
pub(super) struct HeldSocket<'h> {
    pub(super) name: ListenerName,
    /// Its path in the file system.
    pub(super) file: Option<&'h Path>,
    pub(super) socket: BorrowedFd<'h>,
}

impl InheritedSockets {
    fn bound(self, cores: usize) -> io::Result<Bound> {
        let file = self.file.as_deref().map(SocketFile::of).transpose()?;
        Bound::inherited(self.sockets, file, cores)
    }
}

impl OpenListener {
    fn name(&self) -> ListenerName {
        ListenerName {
            speaks_tls: self.speaks_tls,
            listen: self.listen.to_string(),
        }
    }

    fn failed(&self, cause: io::Error) -> ServerStartError {
        ServerStartError::Listen {
            listen: self.listen.clone(),
            list: if self.speaks_tls {
                "listen_tls"
            } else {
                "listen"
            },
            cause,
        }
    }

    /// Its address. The configuration does not allow TLS on a path; sockets from systemd are checked only here.
    fn url(&self, socket: &Listening) -> io::Result<String> {
        if self.speaks_tls && matches!(socket, Listening::Unix(_)) {
            let why = "TLS needs an address; name this socket in `listen`";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        socket.url(if self.speaks_tls { "https" } else { "http" })
    }
}

/// Listeners that take connections.
pub(super) struct OpenListeners {
    pub(super) per_core: Vec<Listeners>,
    /// Where each is reached, and the sites that are reached there.
    pub(super) reached: Vec<(String, Arc<Sites>)>,
    pub(super) removals: Removals,
}

/// Tells a generation that nobody accepts from a socket after it.
pub(super) type Removals = BTreeMap<OpenListener, Arc<AtomicBool>>;

/// Hosts with the number of their site, by listener.
type Rows = BTreeMap<OpenListener, Vec<(HostPattern, usize)>>;

fn rows(config: &Config) -> Rows {
    let mut rows = Rows::new();
    for (index, site) in config.sites.iter().enumerate() {
        let plain = site.listen.iter().map(|listen| (false, listen));
        let secure = site.listen_tls.iter().map(|listen| (true, listen));
        for (speaks_tls, listen) in plain.chain(secure) {
            let listener = OpenListener {
                speaks_tls,
                listen: listen.clone(),
            };
            let hosts = site.hosts.iter().map(|host| (host.clone(), index));
            rows.entry(listener).or_default().extend(hosts);
        }
    }
    rows
}
