//! Names of upstreams, looked up each time and remembered for when that fails.
//!
//! A name is looked up for each connection, as its owner may move it. When its servers do not answer, or not in time, the
//! addresses of the last time are as good as any: the upstream has rarely moved in the moment in which its name is gone.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

/// One upstream's name with what it meant the last time.
pub(super) struct Name {
    host: String,
    port: u16,
    known: RefCell<Vec<SocketAddr>>,
}

impl Name {
    pub(super) fn new(host: &str, port: u16) -> Self {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Self {
            host: host.to_owned(),
            port,
            known: RefCell::default(),
        }
    }

    /// The name, without `[...]`.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// A connection to one of its addresses. The look-up may take half of `patience`; the caller sees to the whole.
    pub(super) async fn connect(&self, patience: Duration) -> io::Result<TcpStream> {
        let look_up = tokio::net::lookup_host((self.host.as_str(), self.port));
        let found = timeout(patience / 2, look_up).await;
        let found = match found {
            Ok(Ok(found)) => Ok(found.take(MOST_KNOWN).collect()),
            Ok(Err(cause)) => Err(cause),
            Err(_elapsed) => Err(io::ErrorKind::TimedOut.into()),
        };
        TcpStream::connect(self.meant(found)?.as_slice()).await
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_known_serves_when_a_name_is_gone() {
        let name = Name::new("[::1]", 80);
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
    async fn a_name_that_nobody_has_is_no_connection() {
        let name = Name::new("nobody.invalid", 80);
        assert!(name.connect(Duration::from_secs(60)).await.is_err());
    }
}
