//! Where clients come in: each address is listened to once per core, in plain or over TLS, and leads to the sites that answer
//! there.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use galley_config::{Config, Site as SiteConfig};
use galley_rules::route::HostPattern;

use super::StartError;
use super::build::Built;
use crate::front::{Listener, Listeners};
use crate::serve::Sites;
use crate::sys;
use crate::tls::Acceptor;

/// The listeners of each core, and their addresses as people write them.
pub(super) struct Open {
    pub(super) per_core: Vec<Listeners>,
    pub(super) urls: Vec<String>,
}

/// Listens everywhere. `tls`: how handshakes are answered, if any site has a certificate.
pub(super) fn open(
    config: &Config,
    built: &Built,
    tls: Option<&Acceptor>,
    cores: usize,
) -> Result<Open, StartError> {
    let plain = rows(config, |site| &site.listen);
    let secure = rows(config, |site| &site.listen_tls);
    for address in plain.keys().chain(secure.keys()) {
        sys::is_free(*address).map_err(|cause| failed(*address, cause))?;
    }
    let mut open = Open {
        per_core: (0..cores).map(|_| Vec::new()).collect(),
        urls: Vec::with_capacity(plain.len() + secure.len()),
    };
    for (address, rows) in plain {
        open.add(built, (address, rows), None)?;
    }
    for (address, rows) in secure {
        open.add(built, (address, rows), tls)?;
    }
    Ok(open)
}

/// Hosts with the number of their site, by address.
type Rows = BTreeMap<SocketAddr, Vec<(HostPattern, usize)>>;

fn rows(config: &Config, addresses: impl Fn(&SiteConfig) -> &[SocketAddr]) -> Rows {
    let mut rows = Rows::new();
    for (index, site) in config.sites.iter().enumerate() {
        for address in addresses(site) {
            let hosts = site.hosts.iter().map(|host| (host.clone(), index));
            rows.entry(*address).or_default().extend(hosts);
        }
    }
    rows
}

impl Open {
    fn add(
        &mut self,
        built: &Built,
        (address, rows): (SocketAddr, Vec<(HostPattern, usize)>),
        tls: Option<&Acceptor>,
    ) -> Result<(), StartError> {
        let failed = |cause| failed(address, cause);
        let sites = Arc::new(Sites::new(rows.into_iter(), Arc::clone(&built.sites)));
        let sockets = sys::listen(address, self.per_core.len()).map_err(failed)?;
        let first = sockets.first();
        let bound = first.map_or(Ok(address), TcpListener::local_addr);
        let scheme = if tls.is_some() { "https" } else { "http" };
        self.urls
            .push(format!("{scheme}://{}", bound.map_err(failed)?));
        for (core, socket) in self.per_core.iter_mut().zip(sockets) {
            core.push(Listener {
                socket,
                sites: Arc::clone(&sites),
                tls: tls.cloned(),
            });
        }
        Ok(())
    }
}

fn failed(address: SocketAddr, cause: std::io::Error) -> StartError {
    StartError::Listen {
        address: address.to_string(),
        cause,
    }
}
