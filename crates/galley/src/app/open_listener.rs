//! What identifies a listener, and which listeners a configuration has.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use galley_config::{Config, Listen};
use galley_policy::route::HostPattern;

use super::ServerStartError;
use super::quic;
use crate::binary_upgrade::ListenerName;
use galley_sys::sockets::Listening;

/// A listener and its protocols.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OpenListener {
    pub(super) kind: ListenerKind,
    pub(super) listen: Listen,
}

/// The list that names a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ListenerKind {
    Plain,
    Tls,
    Quic,
}

impl OpenListener {
    pub(super) fn name(&self) -> ListenerName {
        ListenerName {
            speaks_tls: self.kind == ListenerKind::Tls,
            is_quic: self.is_quic(),
            listen: self.listen.to_string(),
        }
    }

    pub(super) fn failed(&self, cause: io::Error) -> ServerStartError {
        ServerStartError::Listen {
            listen: self.listen.clone(),
            list: match self.kind {
                ListenerKind::Plain => "listen",
                ListenerKind::Tls => "listen_tls",
                ListenerKind::Quic => quic::QUIC_LIST,
            },
            cause,
        }
    }

    pub(super) fn is_quic(&self) -> bool {
        self.kind == ListenerKind::Quic
    }

    /// The URL of a socket. The configuration does not allow TLS on a path; sockets from systemd are checked only here.
    pub(super) fn url(&self, socket: &Listening) -> io::Result<String> {
        let speaks_tls = self.kind == ListenerKind::Tls;
        if speaks_tls && matches!(socket, Listening::Unix(_)) {
            let why = "TLS needs an address; name this socket in `listen`";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        socket.url(if speaks_tls { "https" } else { "http" })
    }
}

/// Flags that tell a generation that no later one accepts from a socket.
pub(super) type Removals = BTreeMap<OpenListener, Arc<AtomicBool>>;

/// Hosts with the index of their site, by listener.
pub(super) type Rows = BTreeMap<OpenListener, Vec<(HostPattern, usize)>>;

pub(super) fn rows(config: &Config) -> Rows {
    let mut rows = Rows::new();
    for (index, site) in config.sites.iter().enumerate() {
        let plain = site
            .listen
            .iter()
            .map(|listen| (ListenerKind::Plain, listen.clone()));
        let secure = site
            .listen_tls
            .iter()
            .map(|listen| (ListenerKind::Tls, listen.clone()));
        let quic = config.quic_listeners(site).into_iter();
        let quic = quic.map(|listen| (ListenerKind::Quic, listen));
        for (kind, listen) in plain.chain(secure).chain(quic) {
            let listener = OpenListener { kind, listen };
            let hosts = site.hosts.iter().map(|host| (host.clone(), index));
            rows.entry(listener).or_default().extend(hosts);
        }
    }
    rows
}
