//! Maps requested hosts to sites.
//!
//! Defines the canonical form of a host name (lower case, no port, no trailing dot) that routing, key and purges share. Only
//! configured hosts are found: an unknown host has no site, so its name never gets into a link of a stored page. This module
//! does not listen, and knows only the numbers of sites.

use std::collections::HashMap;
use std::fmt;
use std::net::Ipv6Addr;

/// Why a host is invalid. `Display` gives a text that a client may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHost {
    /// The host is empty.
    #[error("empty host")]
    Empty,
    /// A character that no host name has, or an empty label.
    #[error("invalid character in host")]
    Character,
    /// More than 253 characters.
    #[error("host too long")]
    TooLong,
    /// Brackets without an IPv6 address.
    #[error("invalid address in host")]
    Address,
    /// An invalid port number, or a port where none is allowed (in a host pattern).
    #[error("invalid port in host")]
    Port,
}

/// The canonical form of `host[:port]`: lower case, without port and trailing dot, IPv6 addresses in brackets in their
/// shortest spelling (RFC 5952).
pub fn canonical_host(raw: &[u8]) -> Result<String, BadHost> {
    let (host, _) = split_port(raw)?;
    if host.starts_with(b"[") {
        let address = address(host).ok_or(BadHost::Address)?;
        return Ok(format!("[{address}]"));
    }
    let host = host.strip_suffix(b".").unwrap_or(host);
    if host.is_empty() {
        return Err(BadHost::Empty);
    }
    if host.len() > MAX_HOST {
        return Err(BadHost::TooLong);
    }
    if host.split(|&b| b == b'.').any(<[u8]>::is_empty) || !host.iter().all(|&b| is_host_byte(b)) {
        return Err(BadHost::Character);
    }
    Ok(host
        .iter()
        .map(|b| char::from(b.to_ascii_lowercase()))
        .collect())
}

/// The port in `host[:port]`, if `host` is `canonical`. Does not allocate.
pub fn named_port(raw: &[u8], canonical: &str) -> Option<u16> {
    if !raw.contains(&b':') {
        return None;
    }
    let (host, port) = split_port(raw).ok()?;
    let port = port?;
    is_same(host, canonical).then_some(port)
}

/// The port in `host[:port]`. Does not allocate, and does not check the host.
pub fn port(raw: &[u8]) -> Option<u16> {
    split_port(raw).ok()?.1
}

/// Whether `host[:port]` names the canonical host. Does not allocate.
pub fn is_same_host(raw: &[u8], canonical: &str) -> bool {
    split_port(raw).is_ok_and(|(host, _)| is_same(host, canonical))
}

fn is_same(host: &[u8], canonical: &str) -> bool {
    host.strip_suffix(b".")
        .unwrap_or(host)
        .eq_ignore_ascii_case(canonical.as_bytes())
        // An IPv6 address has more than one spelling.
        || address(host).is_some_and(|named| address(canonical.as_bytes()) == Some(named))
}

/// Parses an IPv6 address in brackets.
fn address(host: &[u8]) -> Option<Ipv6Addr> {
    let inner = host.strip_prefix(b"[")?.strip_suffix(b"]")?;
    std::str::from_utf8(inner).ok()?.parse().ok()
}

/// Splits the port off. An empty port counts as none (RFC 3986 section 3.2.3).
fn split_port(raw: &[u8]) -> Result<(&[u8], Option<u16>), BadHost> {
    let search_from = memchr::memrchr(b']', raw).unwrap_or(0);
    let Some(colon) = raw
        .get(search_from..)
        .and_then(|tail| memchr::memchr(b':', tail))
    else {
        return Ok((raw, None));
    };
    let colon = search_from + colon;
    let digits = raw.get(colon + 1..).unwrap_or_default();
    let host = raw.get(..colon).unwrap_or_default();
    if digits.is_empty() {
        return Ok((host, None));
    }
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(BadHost::Port);
    }
    let port = std::str::from_utf8(digits)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(BadHost::Port)?;
    Ok((host, Some(port)))
}

/// Whether a byte may occur in a host. No registered name contains `_`, but many internal ones do.
fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

/// The maximum length of a DNS name without its trailing dot.
const MAX_HOST: usize = 253;

/// The hosts of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// This canonical host.
    Exact(String),
    /// Every host with this suffix, at any depth, but not the bare domain: `.example.com`.
    Wildcard(String),
    /// Every host.
    Any,
}

impl HostPattern {
    /// Parses `example.com`, `*.example.com` or `*`. A port is an error: sites differ by name only.
    pub fn parse(text: &str) -> Result<Self, BadHost> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let (host, is_wildcard) = match text.strip_prefix("*.") {
            Some(host) => (host, true),
            None => (text, false),
        };
        if split_port(host.as_bytes())?.0.len() != host.len() {
            return Err(BadHost::Port);
        }
        let host = canonical_host(host.as_bytes())?;
        Ok(if is_wildcard {
            Self::Wildcard(format!(".{host}"))
        } else {
            Self::Exact(host)
        })
    }

    /// The host, if it is exactly one.
    pub fn exact(&self) -> Option<&str> {
        match self {
            Self::Exact(host) => Some(host),
            Self::Wildcard(_) | Self::Any => None,
        }
    }
}

/// In the notation of the configuration.
impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => f.write_str(host),
            Self::Wildcard(suffix) => write!(f, "*{suffix}"),
            Self::Any => f.write_str("*"),
        }
    }
}

/// Whether a text names a site: by its name, or by one of its hosts in the notation of the configuration.
pub fn names_site(text: &str, name: &str, hosts: &[HostPattern]) -> bool {
    name == text || HostPattern::parse(text).is_ok_and(|host| hosts.contains(&host))
}

/// All hosts of a configuration. Immutable; a lookup does not allocate.
#[derive(Clone, Debug, Default)]
pub struct HostTable {
    exact: HashMap<String, usize>,
    /// The keys begin with a dot.
    wildcards: HashMap<String, usize>,
    any: Option<usize>,
}

impl HostTable {
    /// Builds the table from patterns and site numbers. Of two equal patterns the first counts.
    pub fn new(rows: impl Iterator<Item = (HostPattern, usize)>) -> Self {
        let mut table = Self::default();
        for (pattern, site) in rows {
            match pattern {
                HostPattern::Exact(host) => {
                    table.exact.entry(host).or_insert(site);
                }
                HostPattern::Wildcard(suffix) => {
                    table.wildcards.entry(suffix).or_insert(site);
                }
                HostPattern::Any => {
                    table.any.get_or_insert(site);
                }
            }
        }
        table
    }

    /// The site of a canonical host: by its exact name, otherwise by its longest wildcard, otherwise the site for any host.
    pub fn find(&self, canonical: &str) -> Option<usize> {
        if let Some(&site) = self.exact.get(canonical) {
            return Some(site);
        }
        canonical
            .match_indices('.')
            .filter_map(|(dot, _)| canonical.get(dot..))
            .find_map(|suffix| self.wildcards.get(suffix))
            .copied()
            .or(self.any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hosts_have_one_canonical_form() {
        for (raw, expected) in [
            ("Example.COM", Ok("example.com")),
            ("example.com:8080", Ok("example.com")),
            ("example.com.", Ok("example.com")),
            ("example.com.:80", Ok("example.com")),
            ("example.com:", Ok("example.com")),
            ("127.0.0.1:1", Ok("127.0.0.1")),
            ("[::1]:8080", Ok("[::1]")),
            ("[2001:DB8:0:0::1]", Ok("[2001:db8::1]")),
            ("my_host-1", Ok("my_host-1")),
            ("", Err(BadHost::Empty)),
            (".", Err(BadHost::Empty)),
            (":80", Err(BadHost::Empty)),
            ("a..b", Err(BadHost::Character)),
            (".a", Err(BadHost::Character)),
            ("a b", Err(BadHost::Character)),
            ("a/b", Err(BadHost::Character)),
            ("u@a", Err(BadHost::Character)),
            ("a%2eb", Err(BadHost::Character)),
            ("\u{e9}.com", Err(BadHost::Character)),
            ("a,b", Err(BadHost::Character)),
            ("a:80:90", Err(BadHost::Port)),
            ("a:+1", Err(BadHost::Port)),
            ("a:99999", Err(BadHost::Port)),
            ("[::1", Err(BadHost::Port)),
            ("[::g]", Err(BadHost::Address)),
            ("[::1]x", Err(BadHost::Address)),
            ("[fe80::1%25eth0]", Err(BadHost::Address)),
        ] {
            assert_eq!(
                canonical_host(raw.as_bytes()),
                expected.map(str::to_owned),
                "{raw}"
            );
        }
        assert_eq!(canonical_host(&[b'a'; 254]), Err(BadHost::TooLong));
    }

    #[test]
    fn ports_count_only_with_the_requested_host() {
        assert_eq!(named_port(b"Example.com:8080", "example.com"), Some(8080));
        assert_eq!(named_port(b"[::1]:8080", "[::1]"), Some(8080));
        assert_eq!(
            named_port(b"[2001:0DB8::0001]:8080", "[2001:db8::1]"),
            Some(8080)
        );
        assert_eq!(named_port(b"[::2]:8080", "[::1]"), None);
        assert_eq!(named_port(b"example.com", "example.com"), None);
        assert_eq!(named_port(b"other.com:8080", "example.com"), None);
        assert!(
            is_same_host(b"EXAMPLE.com.:1", "example.com")
                && !is_same_host(b"example.com:x", "example.com")
        );
    }

    #[test]
    fn patterns_are_parsed() {
        assert_eq!(HostPattern::parse("*"), Ok(HostPattern::Any));
        assert_eq!(
            HostPattern::parse("*.Example.com"),
            Ok(HostPattern::Wildcard(".example.com".to_owned()))
        );
        assert_eq!(
            HostPattern::parse("Example.com"),
            Ok(HostPattern::Exact("example.com".to_owned()))
        );
        assert_eq!(HostPattern::parse("example.com:80"), Err(BadHost::Port));
        assert_eq!(HostPattern::parse("a.*.b"), Err(BadHost::Character));
        assert_eq!(HostPattern::parse("*."), Err(BadHost::Empty));
    }

    #[test]
    fn the_most_specific_site_is_found() {
        let rows = [
            "example.com",
            "*.example.com",
            "*.shop.example.com",
            "example.com",
            "[::1]",
        ];
        let rows = rows
            .iter()
            .enumerate()
            .map(|(site, text)| (HostPattern::parse(text).unwrap(), site));
        let table = HostTable::new(rows.clone());
        for (host, site) in [
            ("example.com", Some(0)),
            ("www.example.com", Some(1)),
            ("a.b.example.com", Some(1)),
            ("shop.example.com", Some(1)),
            ("x.shop.example.com", Some(2)),
            ("notexample.com", None),
            ("[::1]", Some(4)),
            ("", None),
        ] {
            assert_eq!(table.find(host), site, "{host}");
        }
        let table = HostTable::new(rows.chain([(HostPattern::Any, 9)]));
        assert_eq!(
            (table.find("other.org"), table.find("www.example.com")),
            (Some(9), Some(1))
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(raw in proptest::collection::vec(any::<u8>(), 0..80), host in "\\PC{0,20}") {
            if let Ok(canonical) = canonical_host(&raw) {
                prop_assert_eq!(canonical_host(canonical.as_bytes()), Ok(canonical));
            }
            let _ = named_port(&raw, &host);
            let _ = HostPattern::parse(&host);
            let _ = HostTable::default().find(&host);
        }

        #[test]
        fn the_canonical_form_is_a_fixed_point(raw in "\\[?[a-c:.0-9A-C]{0,12}\\]?(:[0-9]{0,3})?") {
            if let Ok(canonical) = canonical_host(raw.as_bytes()) {
                prop_assert_eq!(canonical_host(canonical.as_bytes()), Ok(canonical.clone()));
            }
        }
    }
}
