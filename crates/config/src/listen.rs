//! The listeners of Galley.
//!
//! A listener is an address, a socket in the file system, or a socket that the service manager has opened and passes to Galley.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use ipnet::IpNet;

/// A listener for client connections.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Listen {
    /// An address. `[::]` does not accept IPv4: name both addresses to use both.
    Tcp(SocketAddr),
    /// A socket in the file system with the mode [`crate::ProcessConfig::socket_mode`].
    Unix(PathBuf),
    /// A socket that systemd opened, by its `FileDescriptorName` or by its index, from 0.
    Passed(String),
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Passed(name) => write!(f, "systemd:{name}"),
        }
    }
}

impl Listen {
    /// Whether both can receive the same connection.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(a), Self::Tcp(b)) => overlap(*a, *b),
            (a, b) => a == b,
        }
    }

    /// The port in the configuration.
    pub(crate) fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp(address) => Some(address.port()),
            Self::Unix(_) | Self::Passed(_) => None,
        }
    }

    /// Whether the kernel chooses the port, so that each use is a different listener.
    pub(crate) fn is_any_port(&self) -> bool {
        matches!(self, Self::Tcp(address) if address.port() == 0)
    }
}

/// Whether both addresses can receive the same connection. `[::]` may also accept IPv4 if another process opened it.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let includes = |all: SocketAddr, one: SocketAddr| {
        all.ip().is_unspecified() && (all.is_ipv6() || one.is_ipv4())
    };
    a.port() == b.port() && (a.ip() == b.ip() || includes(a, b) || includes(b, a))
}

/// A trusted proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proxy {
    /// A proxy with an address in this network.
    Network(IpNet),
    /// A proxy that connects to a unix socket.
    Unix,
}

/// The listener of the admin interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminListen {
    /// An address; requests need the token.
    Tcp(SocketAddr),
    /// A Unix socket. The permissions of its directory protect it. The default path can be below `/tmp`, so the server
    /// creates the directory with mode 0700 and rejects one that another user owns.
    Unix(PathBuf),
    /// No listener.
    Off,
}

impl fmt::Display for AdminListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Off => f.write_str("off"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_can_receive_the_same_connection() {
        for (a, b, want) in [
            ("0.0.0.0:80", "0.0.0.0:80", true),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("0.0.0.0:80", "127.0.0.1:81", false),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("[::]:80", "127.0.0.1:80", true),
            ("[::]:80", "[::1]:80", true),
            ("0.0.0.0:80", "[::1]:80", false),
        ] {
            let tcp = |text: &str| Listen::Tcp(text.parse().unwrap());
            let (a, b) = (tcp(a), tcp(b));
            assert_eq!((a.overlaps(&b), b.overlaps(&a)), (want, want), "{a} {b}");
        }
        let unix = |path: &str| Listen::Unix(path.into());
        assert!(unix("/a").overlaps(&unix("/a")) && !unix("/a").overlaps(&unix("/b")));
        assert!(!unix("web").overlaps(&Listen::Passed("web".to_owned())));
    }
}
