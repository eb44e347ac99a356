//! A virtual host in the configuration of nginx or Apache.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use galley_certs::CertificateFiles;

/// The kind of a web server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebServer {
    /// nginx.
    Nginx,
    /// Apache httpd.
    Apache,
}

impl WebServer {
    /// The server's name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Apache => "Apache",
        }
    }
}

/// The address of PHP in a web server's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhpBackend {
    /// PHP-FPM on a unix socket.
    Unix(PathBuf),
    /// PHP-FPM on an address, `host:port`.
    Tcp(String),
    /// A module in Apache.
    Module,
}

/// A listener of a virtual host; `ip` is `None` for all addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualHostListen {
    /// The address.
    pub ip: Option<IpAddr>,
    /// The port.
    pub port: u16,
    /// Whether connections use TLS.
    pub is_tls: bool,
}

impl VirtualHostListen {
    /// An address at which this machine can connect to the listener.
    pub fn reachable(&self) -> SocketAddr {
        let ip = match self.ip {
            None => Ipv4Addr::LOCALHOST.into(),
            Some(IpAddr::V4(ip)) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            Some(IpAddr::V6(ip)) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            Some(ip) => ip,
        };
        SocketAddr::new(ip, self.port)
    }
}

/// One virtual host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualHost {
    /// The web server whose configuration defines it.
    pub server: WebServer,
    /// The listeners.
    pub listen: Vec<VirtualHostListen>,
    /// Host names in the form of Galley's `hosts`.
    pub names: Vec<String>,
    /// The document root.
    pub root: Option<PathBuf>,
    /// Certificate and key.
    pub certificate: Option<CertificateFiles>,
    /// The address of PHP.
    pub php: Option<PhpBackend>,
    /// The maximum size of an upload in bytes, if it is configured.
    pub request_body: Option<u64>,
}

/// A name in the form of Galley's `hosts`; empty for patterns of other kinds and placeholders.
pub(super) fn host_names(name: &str) -> Vec<String> {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let (bare, prefixes): (&str, &[&str]) = if let Some(bare) = name.strip_prefix("*.") {
        (bare, &["*."])
    } else if let Some(bare) = name.strip_prefix('.') {
        (bare, &["", "*."])
    } else {
        (&name, &[""])
    };
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    if bare.len() > 253 || !bare.split('.').all(is_label) {
        return Vec::new();
    }
    prefixes
        .iter()
        .map(|prefix| format!("{prefix}{bare}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_are_hosts() {
        for (name, wanted) in [
            ("Example.com", &["example.com"] as &[&str]),
            ("*.example.com", &["*.example.com"]),
            (".example.com", &["example.com", "*.example.com"]),
            ("_", &[]),
            ("", &[]),
            ("~^www\\d", &[]),
            ("$hostname", &[]),
            ("www.*", &[]),
            ("a\"b", &[]),
        ] {
            assert_eq!(host_names(name), wanted, "{name}");
        }
    }

    proptest! {
        #[test]
        fn names_contain_no_quotes(name in "(?s).{0,40}") {
            for host in host_names(&name) {
                prop_assert!(host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.*".contains(&b)));
            }
        }
    }
}
