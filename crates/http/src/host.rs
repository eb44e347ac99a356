//! The host of a request: from the Host field or from an absolute-form target (RFC 9112 sections 3.2 and 3.3).
//!
//! Only the form is checked here, so that only a host and a port are passed on. The router handles lower case, default ports
//! and the mapping to a site.
//!
//! Departs: RFC 3986 section 3.2.2 allows percent-encoding, sub-delims and future kinds of addresses in a host. No DNS name
//! contains them, and a comma or a quote in a host has confused other programs; they are rejected. Test:
//! `hosts_are_names_and_addresses`.

use std::net::Ipv6Addr;

use crate::refusal::BadRequest;

/// The host of a request, not yet in canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host<'b> {
    /// An HTTP/1.0 request without a Host field.
    Missing,
    /// The value of the one Host field: `name`, `name:port` or `[v6]:port`.
    Field(&'b str),
    /// The authority of an absolute-form target, which overrides the field (RFC 9112 section 3.2.2).
    Target(&'b str),
}

impl<'b> Host<'b> {
    /// Host and port as sent.
    pub fn text(self) -> Option<&'b str> {
        match self {
            Self::Missing => None,
            Self::Field(text) | Self::Target(text) => Some(text),
        }
    }
}

/// The authority in the target, if its form has one. Rejects a target in none of the four forms. `CONNECT host:port`
/// names the end of a tunnel, not the requested site, so its authority is ignored and the Host field applies.
pub(crate) fn target_authority<'b>(
    method: &str,
    target: &'b [u8],
) -> Result<Option<&'b str>, BadRequest> {
    match target {
        [b'/', ..] if method != "CONNECT" => return Ok(None),
        b"*" if method == "OPTIONS" => return Ok(None),
        _ if method == "CONNECT" => {
            return host_and_port(target)
                .map(|_| None)
                .ok_or(BadRequest::Target);
        }
        _ => {}
    }
    let rest = strip_scheme(target).ok_or(BadRequest::Target)?;
    let end = rest
        .iter()
        .position(|byte| matches!(byte, b'/' | b'?' | b'#'));
    let authority = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
    host_and_port(authority).map(Some).ok_or(BadRequest::Target)
}

/// The text, if it is exactly a host with or without a port. User information is rejected (RFC 9110 section 4.2.4).
pub(crate) fn host_and_port(value: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(value).ok()?;
    // The usual form: a name without a port.
    if !value.is_empty()
        && value
            .iter()
            .fold(true, |all, &byte| all & is_name_byte(byte))
    {
        return Some(text);
    }
    let port = if let Some(inner) = text.strip_prefix('[') {
        let (address, rest) = inner.split_once(']')?;
        address.parse::<Ipv6Addr>().ok()?;
        match rest {
            "" => None,
            _ => Some(rest.strip_prefix(':')?),
        }
    } else {
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        };
        if name.is_empty() || !name.bytes().all(is_name_byte) {
            return None;
        }
        port
    };
    port.is_none_or(is_port).then_some(text)
}

fn strip_scheme(target: &[u8]) -> Option<&[u8]> {
    [&b"http://"[..], b"https://"].iter().find_map(|scheme| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    })
}

/// DNS host names have no underscore, but test and container hosts do.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

/// Whether the text is a port. By RFC 3986 section 3.2.3 `port = *DIGIT`, so it may be empty; at most 16 bits.
fn is_port(text: &str) -> bool {
    text.is_empty()
        || (text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_and_addresses() {
        let good = [
            "a",
            "example.com",
            "EXAMPLE.com.",
            "a_b-c.d:8080",
            "a:",
            "1.2.3.4:65535",
            "[::1]",
            "[2001:db8::1]:80",
            "xn--bcher-kva.example",
        ];
        for host in good {
            assert_eq!(host_and_port(host.as_bytes()), Some(host));
        }
        let bad = [
            "",
            ":80",
            "a:65536",
            "a:+1",
            "a:8 0",
            "a:80:80",
            "a b",
            "a,b",
            "a/b",
            "a@b",
            "a%41",
            "a;b",
            "a'",
            "a\"",
            "a?b",
            "a#b",
            "a\\b",
            "::1",
            "[::1",
            "[::1]80",
            "[]",
            "[v1.x]",
            "[fe80::1%eth0]",
            "[1.2.3.4]",
            "b\u{fc}cher",
        ];
        for host in bad {
            assert_eq!(host_and_port(host.as_bytes()), None, "{host}");
        }
        assert_eq!(host_and_port(b"a\xff"), None);
    }

    #[test]
    fn targets_have_one_of_four_forms() {
        let good = [
            ("GET", "/", None),
            ("GET", "//a", None),
            ("GET", "http://a.b", Some("a.b")),
            ("GET", "HTTP://A:80?q", Some("A:80")),
            ("POST", "https://[::1]/x", Some("[::1]")),
            ("OPTIONS", "*", None),
            ("CONNECT", "a:443", None),
        ];
        for (method, target, want) in good {
            let found = target_authority(method, target.as_bytes());
            assert_eq!(found, Ok(want), "{method} {target}");
        }
        let bad = [
            ("GET", "*"),
            ("GET", "a"),
            ("GET", "?q"),
            ("GET", "a:443"),
            ("GET", "http:/a"),
            ("GET", "http://"),
            ("GET", "http:///a"),
            ("GET", "http://u@a/"),
            ("GET", "http://a b/"),
            ("GET", "ftp://a/"),
            ("CONNECT", "/"),
            ("CONNECT", "http://a/"),
        ];
        for (method, target) in bad {
            let found = target_authority(method, target.as_bytes());
            assert_eq!(found, Err(BadRequest::Target), "{method} {target}");
        }
    }
}
