//! Names of upstreams, looked up each time and remembered for when that fails.
//!
//! A name is looked up for each connection, as its owner may move it. When its servers do not answer, or not in time, the
//! addresses of the last time are as good as any: the upstream has rarely moved in the moment in which its name is gone.

use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// One upstream's name with what it meant the last time.
pub(super) struct ResolvedName {
    host: String,
    port: u16,
    known: RefCell<Vec<SocketAddr>>,
    /// Held by each look-up until it has ended, which may be long after anybody waited for it.
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

    /// A connection to one of its addresses. The look-up may take half of `patience`; the caller sees to the whole.
    pub(super) async fn connect(&self, patience: Duration) -> io::Result<TcpStream> {
        if let Ok(address) = self.host.parse() {
            return TcpStream::connect(SocketAddr::new(address, self.port)).await;
        }
        let found = match timeout(patience / 2, self.look_up()).await {
            Ok(found) => found,
            Err(_elapsed) => Err(io::ErrorKind::TimedOut.into()),
        };
        TcpStream::connect(self.meant(found)?.as_slice()).await
    }

    /// What the name means now. A look-up takes a helper thread, of which those that hang leave enough for files.
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

    /// What was found, or else what was known.
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

/// Addresses of one name.
const MOST_KNOWN: usize = 16;

/// Look-ups of one name at one time, once it is known. With as many as this hanging, its servers do not answer.
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
        // Nothing is known yet, so there is nothing better than to ask.
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
