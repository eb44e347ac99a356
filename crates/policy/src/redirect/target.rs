//! Redirects in the configuration.

/// The canonical address of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CanonicalAddress {
    /// The port of TLS, if requests without TLS are redirected to it.
    pub https: Option<u16>,
    /// The canonical host to which requests for the site's other hosts are redirected.
    pub host: Option<String>,
    /// Whether the redirect to TLS keeps the host, as HSTS requires: a browser accepts the field only over TLS and for the
    /// host that sent it (RFC 6797 section 8.1).
    pub secure_first: bool,
}

/// `redirect = ...` of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The target.
    pub target: RedirectTarget,
    /// The status; `None`: 301, or 308 for methods that must not change.
    pub status: Option<u16>,
    /// Whether the query is appended.
    pub keeps_query: bool,
}

/// A target, with its placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectTarget(Vec<TargetPiece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum TargetPiece {
    Text(String),
    /// The index of a group, from 0.
    Group(usize),
}

impl RedirectTarget {
    /// Parses `/new/$1` or `https://example.org/$1`. `groups`: how many groups the path of the rule has.
    ///
    /// Errors: why the target is invalid, as the end of a sentence.
    pub fn parse(text: &str, groups: usize) -> Result<Self, &'static str> {
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("which contains a space or another character that must be percent-encoded");
        }
        let path = match text.split_once("://") {
            Some(("http" | "https", rest)) => of_address(rest)?,
            _ => text,
        };
        let is_path = path.starts_with('/') && !path.starts_with("//") && !path.starts_with("/\\");
        if !is_path {
            return Err("which is neither a path nor an address with http:// or https://");
        }
        pieces(text, groups).map(Self)
    }

    /// The target with the groups inserted and escaped.
    pub(super) fn fill(&self, groups: &[Option<&[u8]>]) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in &self.0 {
            match piece {
                TargetPiece::Text(text) => out.extend_from_slice(text.as_bytes()),
                TargetPiece::Group(at) => {
                    let group = groups.get(*at).copied().flatten();
                    let plain = if out.contains(&b'?') {
                        IN_QUERY
                    } else {
                        IN_PATH
                    };
                    escape(group.unwrap_or_default(), plain, &mut out);
                }
            }
        }
        // `//host/` would be a URL with another host.
        while out.starts_with(b"//") {
            out.remove(0);
        }
        out
    }
}

/// The path of a URL, whose host must be complete.
fn of_address(rest: &str) -> Result<&str, &'static str> {
    let (host, path) = match rest.find(['/', '?', '#']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let is_named =
        !host.contains(['$', '@', '\\']) && crate::route::canonical_host(host.as_bytes()).is_ok();
    match (is_named, path) {
        (false, _) => Err("whose host is not named in full: a client could choose it"),
        (true, "") => Ok("/"),
        (true, path) => Ok(path),
    }
}

fn pieces(text: &str, groups: usize) -> Result<Vec<TargetPiece>, &'static str> {
    let mut pieces = Vec::new();
    let mut parts = text.split('$');
    pieces.extend(
        parts
            .next()
            .map(|first| TargetPiece::Text(first.to_owned())),
    );
    for part in parts {
        let group = part.bytes().next().filter(u8::is_ascii_digit);
        let Some(number) = group.map(|digit| usize::from(digit - b'0')) else {
            return Err("where a `$` is not followed by the number of a group, `$1` to `$9`");
        };
        if number == 0 || number > groups {
            return Err("which names a group that the path does not have");
        }
        pieces.push(TargetPiece::Group(number - 1));
        let rest = part.get(1..).unwrap_or_default();
        pieces.push(TargetPiece::Text(rest.to_owned()));
    }
    Ok(pieces)
}

/// Escapes bytes of a decoded path so that they cannot become syntax of the target.
fn escape(bytes: &[u8], plain: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            out.push(byte);
        } else {
            let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied();
            out.push(b'%');
            out.extend(digit(byte >> 4).into_iter().chain(digit(byte & 15)));
        }
    }
}

/// Bytes other than letters and digits that a path may contain (RFC 3986 section 3.3).
const IN_PATH: &[u8] = b"-._~!$&'()*+,;=:@/";

/// Bytes that a value in a query may contain without ending it.
const IN_QUERY: &[u8] = b"-._~/";
