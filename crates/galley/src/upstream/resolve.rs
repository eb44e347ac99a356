//! Resolves the names of upstreams for each connection, and remembers the last result.
//!
//! A name is resolved for each connection, because its owner may change it. If its name servers fail or are slow, the last
//! addresses are used: an upstream rarely moves at the moment when its name cannot be resolved.

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
    /// Held by each look-up until it has ended, which may be long after its caller gave up.
    under_way: Arc<()>,
}

impl ResolvedName {
    pub(super) fn new(host: &str, port: u16) -> Self {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Self {
            host: host.to_owned(),
            port,
            known: RefCell::default(),
            under_way: Arc::default(),
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

    /// A connection to one of its addresses. The look-up may take half of `time_limit`; the caller enforces the whole.
    pub(super) async fn connect(&self, time_limit: Duration) -> io::Result<TcpStream> {
        if let Ok(address) = self.host.parse() {
            return TcpStream::connect(SocketAddr::new(address, self.port)).await;
        }
        let found = match timeout(time_limit / 2, self.look_up()).await {
            Ok(found) => found,
            Err(_elapsed) => Err(io::ErrorKind::TimedOut.into()),
        };
        TcpStream::connect(self.meant(found)?.as_slice()).await
    }

    /// The current addresses. A look-up takes a helper thread; look-ups that hang leave enough threads for files.
    async fn look_up(&self) -> io::Result<Vec<SocketAddr>> {
        let is_known = !self.known.borrow().is_empty();
        if is_known && Arc::strong_count(&self.under_way) > MOST_LOOK_UPS {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let under_way = Arc::clone(&self.under_way);
        let wanted = (self.host.clone(), self.port);
        let looked = spawn_blocking(move || {
            let found = wanted.to_socket_addrs();
            drop(under_way);
            found.map(|found| found.take(MOST_KNOWN).collect())
        });
        looked.await.map_err(io::Error::other)?
    }

    /// The result of the look-up, or else the last known addresses.
    fn meant(&self, found: io::Result<Vec<SocketAddr>>) -> io::Result<Vec<SocketAddr>> {
        match found {
            Ok(found) if !found.is_empty() => {
                self.known.borrow_mut().clone_from(&found);
                Ok(found)
            }
            failed => {
                let known = self.known.borrow().clone();
                if known.is_empty() {
                    return failed.and(Err(io::ErrorKind::NotFound.into()));
                }
                Ok(known)
            }
        }
    }
}

/// Maximum of addresses of one name.
const MOST_KNOWN: usize = 16;

/// Maximum of concurrent look-ups of one name, once it is known. If as many hang, its name servers do not respond.
const MOST_LOOK_UPS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_known_serves_when_a_name_is_gone() {
        let name = ResolvedName::new("[::1]", 80);
        assert_eq!(name.host, "::1");
        let gone = || Err(io::ErrorKind::NotFound.into());
        assert!(name.meant(gone()).is_err(), "never known");
        let (one, other): (SocketAddr, SocketAddr) = (
            "192.0.2.1:80".parse().unwrap(),
            "192.0.2.2:80".parse().unwrap(),
        );
        assert_eq!(name.meant(Ok(vec![one])).unwrap(), [one]);
        assert_eq!(name.meant(gone()).unwrap(), [one]);
        assert_eq!(name.meant(Ok(Vec::new())).unwrap(), [one]);
        assert_eq!(name.meant(Ok(vec![other])).unwrap(), [other], "it moved");
        assert_eq!(name.meant(gone()).unwrap(), [other]);
    }

    #[tokio::test]
    async fn look_ups_that_hang_leave_helpers_to_others() {
        let name = ResolvedName::new("nobody.invalid", 80);
        let hang: Vec<_> = (0..MOST_LOOK_UPS)
            .map(|_| Arc::clone(&name.under_way))
            .collect();
        // Nothing is known yet, so a look-up is the only way.
        let asked = name.look_up().await.unwrap_err();
        assert_ne!(asked.kind(), io::ErrorKind::TimedOut);
        name.meant(Ok(vec!["192.0.2.1:80".parse().unwrap()]))
            .unwrap();
        let known = name.look_up().await.unwrap_err();
        assert_eq!(known.kind(), io::ErrorKind::TimedOut);
        drop(hang);
        let again = name.look_up().await.unwrap_err();
        assert_ne!(again.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_name_that_nobody_has_is_no_connection() {
        let name = ResolvedName::new("nobody.invalid", 80);
        assert!(name.connect(Duration::from_secs(60)).await.is_err());
    }
}
