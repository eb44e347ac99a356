//! Addresses of sites: `example.com`, `http://example.com`, `:8080`, `https://*.example.com:8443/path`.

/// The parts of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SiteAddress<'a> {
    /// `http` or `https`, if given.
    pub scheme: Option<&'a str>,
    /// The host; empty: every host.
    pub host: &'a str,
    pub port: Option<u16>,
    /// The part after host and port.
    pub path: &'a str,
}

impl<'a> SiteAddress<'a> {
    /// Parses any word.
    pub fn of(word: &'a str) -> Self {
        let (scheme, rest) = match word.split_once("://") {
            Some((scheme, rest)) => (Some(scheme), rest),
            None => (None, word),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let port = authority.rsplit_once(':');
        let port = port.and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
        Self {
            scheme,
            host: port.map_or(authority, |(host, _)| host),
            port: port.map(|(_, port)| port),
            path,
        }
    }

    /// Whether the site is served without TLS. Caddy signs certificates for `localhost`, which Galley does not.
    pub fn is_plain(&self) -> bool {
        self.scheme == Some("http")
            || self.port == Some(80)
            || self.is_without_name()
            || self.host == "localhost"
    }

    /// Whether the address has no name for which a certificate could be issued.
    pub fn is_without_name(&self) -> bool {
        self.host.is_empty() && self.scheme != Some("https") && self.port != Some(443)
    }
}

/// Converts `localhost:8080`, `http://a:80` to a server of `upstream`.
pub(super) fn upstream(word: &str) -> Option<String> {
    let (scheme, rest) = word.split_once("://").unwrap_or(("http", word));
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) => (host, port.parse::<u16>().ok()?),
        None => (rest, if scheme == "https" { 443 } else { 80 }),
    };
    let host = if host.is_empty() { "127.0.0.1" } else { host };
    let is_valid = matches!(scheme, "http" | "https") && !host.contains(['{', '/']);
    is_valid.then(|| format!("{scheme}://{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_split() {
        for (word, scheme, host, port, is_plain) in [
            ("example.com", None, "example.com", None, false),
            (
                "http://example.com",
                Some("http"),
                "example.com",
                None,
                true,
            ),
            (
                "https://*.a.test:8443/x",
                Some("https"),
                "*.a.test",
                Some(8443),
                false,
            ),
            (":8080", None, "", Some(8080), true),
            (":443", None, "", Some(443), false),
            ("a.test:80", None, "a.test", Some(80), true),
            ("[::1]:81", None, "[::1]", Some(81), false),
            ("localhost", None, "localhost", None, true),
            ("a.test:{$PORT}", None, "a.test:{$PORT}", None, false),
        ] {
            let address = SiteAddress::of(word);
            assert_eq!(
                (address.scheme, address.host, address.port),
                (scheme, host, port),
                "{word}"
            );
            assert_eq!(address.is_plain(), is_plain, "{word}");
        }
        assert_eq!(SiteAddress::of("https://*.a.test:8443/x").path, "/x");
    }
}
