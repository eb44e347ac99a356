//! The listeners of a configuration: bound while there are the rights for it, opened when everything behind them stands.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use galley_config::{Config, Listen};
use galley_policy::route::HostPattern;

use super::ServerStartError;
use crate::request::{Site, Sites};
use crate::server::{BoundListener, Listeners};
use crate::sys::sockets::{self, Bound, Listening, Passed, SocketFile};
use crate::tls::Acceptor;

/// Sockets that are bound and do not listen yet.
pub(super) struct Doors(Vec<(OpenListener, Bound)>);

/// A listener, and what is spoken there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct OpenListener {
    speaks_tls: bool,
    listen: Listen,
}

impl Doors {
    /// Binds every listener of the configuration, each once.
    pub(super) fn bind(config: &Config, cores: usize) -> Result<Self, ServerStartError> {
        let rows = rows(config);
        for door in rows.keys() {
            if let Listen::Tcp(address) = &door.listen {
                sockets::is_free(*address).map_err(|cause| door.failed(cause))?;
            }
        }
        let mut passed = None;
        let mut doors = Vec::with_capacity(rows.len());
        for door in rows.into_keys() {
            let bound = match &door.listen {
                Listen::Tcp(address) => Bound::tcp(*address, cores),
                Listen::Unix(path) => Bound::unix(path, config.server.socket_mode, cores),
                Listen::Passed(name) => {
                    let passed = passed.get_or_insert_with(Passed::take);
                    passed.bound(name, cores)
                }
            };
            let bound = bound.map_err(|cause| door.failed(cause))?;
            doors.push((door, bound));
        }
        Ok(Self(doors))
    }

    /// The sockets in the file system.
    pub(super) fn files(&self) -> impl Iterator<Item = &std::path::Path> {
        self.0.iter().filter_map(|(_, bound)| bound.path())
    }

    /// Has them listen for the sites of the configuration. `tls`: how handshakes are answered, if any site has a certificate.
    pub(super) fn open(
        self,
        config: &Config,
        all: &Arc<Vec<Arc<Site>>>,
        tls: Option<&Acceptor>,
        cores: usize,
    ) -> Result<OpenListeners, ServerStartError> {
        let mut rows = rows(config);
        let proxies = Arc::new(config.server.proxies.clone());
        let mut open = OpenListeners {
            per_core: (0..cores).map(|_| Vec::new()).collect(),
            reached: Vec::new(),
            files: Vec::new(),
        };
        for (door, bound) in self.0 {
            let hosts = rows.remove(&door).unwrap_or_default();
            let all = Arc::clone(all);
            let sites = Arc::new(Sites::new(hosts.into_iter(), all, Arc::clone(&proxies)));
            let speaks_proxy = config.server.proxy_protocol.contains(&door.listen);
            let tls = tls.filter(|_| door.speaks_tls);
            let opened = bound.listen(cores);
            let (sockets, file) = opened.map_err(|cause| door.failed(cause))?;
            open.files.extend(file);
            for socket in sockets.first().into_iter().flatten() {
                let url = door.url(socket);
                let url = url.map_err(|cause| door.failed(cause))?;
                open.reached.push((url, Arc::clone(&sites)));
            }
            for (core, sockets) in open.per_core.iter_mut().zip(sockets) {
                core.extend(sockets.into_iter().map(|socket| BoundListener {
                    socket,
                    sites: Arc::clone(&sites),
                    speaks_proxy,
                    tls: tls.cloned(),
                }));
            }
        }
        Ok(open)
    }
}

impl OpenListener {
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

    /// Where it is reached. The configuration lets no path speak TLS; what systemd hands over is seen only here.
    fn url(&self, socket: &Listening) -> io::Result<String> {
        if self.speaks_tls && matches!(socket, Listening::Unix(_)) {
            let why = "TLS is spoken over addresses only; name this socket in `listen`";
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
    /// Sockets in the file system, which leave with this.
    pub(super) files: Vec<SocketFile>,
}

/// Hosts with the number of their site, by listener.
type Rows = BTreeMap<OpenListener, Vec<(HostPattern, usize)>>;

fn rows(config: &Config) -> Rows {
    let mut rows = Rows::new();
    for (index, site) in config.sites.iter().enumerate() {
        let plain = site.listen.iter().map(|listen| (false, listen));
        let secure = site.listen_tls.iter().map(|listen| (true, listen));
        for (speaks_tls, listen) in plain.chain(secure) {
            let door = OpenListener {
                speaks_tls,
                listen: listen.clone(),
            };
            let hosts = site.hosts.iter().map(|host| (host.clone(), index));
            rows.entry(door).or_default().extend(hosts);
        }
    }
    rows
}
