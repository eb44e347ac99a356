//! Where sites answer, and whose word about clients counts there.
//!
//! A listener is an address, a socket in the file system, or a socket that the service manager opened and hands over.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use galley_policy::proxied::{ForwardingField, Proxies};
use ipnet::IpNet;

use crate::check::path;
use crate::complaint::{Complaints, SourceSpan};
use crate::config::{Config, SiteConfig};
use crate::tree::{Document, SectionTable};

/// Where connections of clients come in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Listen {
    /// An address. `[::]` takes no IPv4: both are named where both are meant.
    Tcp(SocketAddr),
    /// A socket in the file system; its mode is [`crate::ServerConfig::socket_mode`].
    Unix(PathBuf),
    /// A socket that systemd opened, by its `FileDescriptorName` or by its place, from 0.
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
    /// Whether one connection can arrive at both.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(a), Self::Tcp(b)) => overlap(*a, *b),
            (a, b) => a == b,
        }
    }

    /// The port that is named.
    pub(crate) fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp(address) => Some(address.port()),
            Self::Unix(_) | Self::Passed(_) => None,
        }
    }

    /// Whether it is another one each time that it is named.
    pub(crate) fn is_any_port(&self) -> bool {
        matches!(self, Self::Tcp(address) if address.port() == 0)
    }
}

/// Whether one connection can arrive at both. `[::]` may take IPv4 too, where somebody else opened it.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let takes = |all: SocketAddr, one: SocketAddr| {
        all.ip().is_unspecified() && (all.is_ipv6() || one.is_ipv4())
    };
    a.port() == b.port() && (a.ip() == b.ip() || takes(a, b) || takes(b, a))
}

/// A proxy that is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proxy {
    /// At one of these addresses.
    Network(IpNet),
    /// At the other end of a unix socket.
    Unix,
}

/// Whose word counts, from `[server]`.
pub(crate) fn proxies(given: &SectionTable) -> Proxies {
    let all: Vec<Proxy> = given.value("trusted_proxies");
    let networks = all.iter().filter_map(|proxy| match proxy {
        Proxy::Network(network) => Some(*network),
        Proxy::Unix => None,
    });
    Proxies {
        networks: networks.collect(),
        unix: all.contains(&Proxy::Unix),
        field: match given.value::<String>("client_field").as_str() {
            "forwarded" => ForwardingField::Forwarded,
            "x-real-ip" => ForwardingField::XRealIp,
            _ => ForwardingField::XForwardedFor,
        },
    }
}

/// What is said of proxies must concern somebody who is trusted, and a socket that sites answer at.
pub(crate) fn check(document: &Document, config: &Config, complaints: &mut Complaints) {
    let given = &document.server;
    let proxies = &config.server.proxies;
    let is_nobody_trusted = proxies.networks.is_empty() && !proxies.unix;
    for name in ["client_field", "proxy_protocol"] {
        if is_nobody_trusted && given.has(name) {
            complaints.add(
                given.place(name),
                path(given, name),
                format!("`server.{name}` is given, but `trusted_proxies` names nobody whose word would count"),
                "add `trusted_proxies = [\"10.0.0.5\"]` with the addresses of the proxies, or take it out",
            );
        }
    }
    let all: Vec<(SourceSpan, Listen)> = given.given("proxy_protocol").unwrap_or_default();
    for (place, listen) in all {
        let sites = config.sites.iter();
        let mut listeners = sites.flat_map(|site| site.listen.iter().chain(&site.listen_tls));
        if !listeners.any(|one| *one == listen) {
            complaints.add(
                &place,
                path(given, "proxy_protocol"),
                format!("`server.proxy_protocol` names `{listen}`, where no site answers"),
                "write it as `listen` has it",
            );
        }
    }
    privileges(document, complaints);
    php_user(document, &config.sites, complaints);
}

/// Who gives up root needs somebody to become.
fn privileges(document: &Document, complaints: &mut Complaints) {
    let given = &document.server;
    let Some(user) = given.given::<String>("user") else {
        if given.has("group") {
            complaints.add(
                given.place("group"),
                path(given, "group"),
                "`server.group` is given without `user`",
                "add `user`, or take it out",
            );
        }
        return;
    };
    if user == "root" {
        complaints.add(
            given.place("user"),
            path(given, "user"),
            "`server.user` is `root`, whose rights are what is to be given up",
            "name a user who owns nothing, such as `galley` or `www-data`, or leave the option out",
        );
    }
}

/// PHP never runs as root.
fn php_user(document: &Document, sites: &[SiteConfig], complaints: &mut Complaints) {
    for (given, site) in document.sites.iter().zip(sites) {
        if site.managed.user.as_deref() == Some("root") {
            complaints.add(
                given.own.place("php_user"),
                "site.php_user",
                "`site.php_user` is `root`, and PHP never runs as root",
                "name the user who owns the site's files",
            );
        }
    }
}

/// `upgrade` of a site may not name what would carry requests past Galley.
pub(crate) fn upgrade(own: &SectionTable, complaints: &mut Complaints) -> Vec<String> {
    let all: Vec<String> = own.value("upgrade");
    for (place, name) in own
        .given::<Vec<(SourceSpan, String)>>("upgrade")
        .unwrap_or_default()
    {
        let lower = name.to_ascii_lowercase();
        let is_token = lower
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~/".contains(&byte));
        let carries_http = ["h2", "http", "tls"]
            .iter()
            .any(|known| lower.starts_with(known));
        let (why, help) = if carries_http {
            (
                "inside of which requests would reach the upstream without being looked at",
                "take it out: HTTP is spoken to the upstream by Galley alone",
            )
        } else if is_token {
            continue;
        } else {
            (
                "which is no protocol's name",
                "write the name as the `Upgrade` field has it: `websocket`",
            )
        };
        let message = format!("`site.upgrade` names `{name}`, {why}");
        complaints.add(&place, "site.upgrade", message, help);
    }
    all.iter().map(|name| name.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_one_connection_can_reach() {
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
