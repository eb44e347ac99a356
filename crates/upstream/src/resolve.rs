//! Resolves the names of upstreams for each connection, and stores the last result.
//!
//! A name is resolved for each connection, because its owner may change it. If its name servers fail or are slow, the last
//! addresses are used: an upstream rarely moves at the time when its name cannot be resolved.

use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// The name of one upstream, with its last addresses.
pub(super) struct ResolvedName {
    host: String,
    port: u16,
    known: RefCell<Vec<SocketAddr>>,
    /// Held by each lookup until it has ended, which may be long after its caller timed out.
    in_progress: Arc<()>,
}

impl ResolvedName {
    pub(super) fn new(host: &str, port: u16) -> Self {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Self {
            host: host.to_owned(),
            port,
            known: RefCell::default(),
            in_progress: Arc::default(),
        }
    }

    /// The name, without `[...]`.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Connects to one of the addresses. The lookup may use half of `time_limit`; the caller enforces the whole.
    pub(super) async fn connect(&self, time_limit: Duration) -> io::Result<TcpStream> {
        if let Ok(address) = self.host.parse() {
            return TcpStream::connect(SocketAddr::new(address, self.port)).await;
        }
        let addresses = match timeout(time_limit / 2, self.look_up()).await {
            Ok(found) => found,
            Err(_elapsed) => Err(io::ErrorKind::TimedOut.into()),
        };
        TcpStream::connect(self.result_or_known(addresses)?.as_slice()).await
    }

    /// The current addresses. A lookup occupies a helper thread; lookups that hang leave enough threads for files.
    async fn look_up(&self) -> io::Result<Vec<SocketAddr>> {
        let is_known = !self.known.borrow().is_empty();
        if is_known && Arc::strong_count(&self.in_progress) > MAX_LOOKUPS {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let in_progress = Arc::clone(&self.in_progress);
        let name = (self.host.clone(), self.port);
        let lookup = spawn_blocking(move || {
            let resolved = name.to_socket_addrs();
            drop(in_progress);
            resolved.map(|resolved| resolved.take(MAX_KNOWN).collect())
        });
        lookup.await.map_err(io::Error::other)?
    }

    /// The result of the lookup, or the last known addresses if it failed.
    fn result_or_known(&self, found: io::Result<Vec<SocketAddr>>) -> io::Result<Vec<SocketAddr>> {
        match found {
            Ok(found) if !found.is_empty() => {
                self.known.borrow_mut().clone_from(&found);
                Ok(found)
            }
            failed => {
                let addresses = self.known.borrow().clone();
                if addresses.is_empty() {
                    return failed.and(Err(io::ErrorKind::NotFound.into()));
                }
                Ok(addresses)
            }
        }
    }
}

/// The maximum number of addresses of one name.
const MAX_KNOWN: usize = 16;

/// The maximum number of concurrent lookups of one name, once it is known. If as many hang, its name servers do not respond.
const MAX_LOOKUPS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_addresses_are_used_if_a_lookup_fails() {
        let name = ResolvedName::new("[::1]", 80);
        assert_eq!(name.host, "::1");
        let gone = || Err(io::ErrorKind::NotFound.into());
        assert!(name.result_or_known(gone()).is_err(), "never known");
        let (one, other): (SocketAddr, SocketAddr) = (
            "192.0.2.1:80".parse().unwrap(),
            "192.0.2.2:80".parse().unwrap(),
        );
        assert_eq!(name.result_or_known(Ok(vec![one])).unwrap(), [one]);
        assert_eq!(name.result_or_known(gone()).unwrap(), [one]);
        assert_eq!(name.result_or_known(Ok(Vec::new())).unwrap(), [one]);
        assert_eq!(
            name.result_or_known(Ok(vec![other])).unwrap(),
            [other],
            "it moved"
        );
        assert_eq!(name.result_or_known(gone()).unwrap(), [other]);
    }

    #[tokio::test]
    async fn hanging_lookups_leave_helper_threads_free() {
        let name = ResolvedName::new("nobody.invalid", 80);
        let hang: Vec<_> = (0..MAX_LOOKUPS)
            .map(|_| Arc::clone(&name.in_progress))
            .collect();
        // No address is known yet, so the name is looked up.
        let first = name.look_up().await.unwrap_err();
        assert_ne!(first.kind(), io::ErrorKind::TimedOut);
        name.result_or_known(Ok(vec!["192.0.2.1:80".parse().unwrap()]))
            .unwrap();
        let known = name.look_up().await.unwrap_err();
        assert_eq!(known.kind(), io::ErrorKind::TimedOut);
        drop(hang);
        let again = name.look_up().await.unwrap_err();
        assert_ne!(again.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn connecting_to_an_unknown_name_fails() {
        let name = ResolvedName::new("nobody.invalid", 80);
        assert!(name.connect(Duration::from_secs(60)).await.is_err());
    }
}
