//! Request targets: parsed, and converted to the canonical form that key, files and upstream share.
//!
//! Equivalence follows RFC 3986 section 6.2.2: escapes in upper case, unreserved characters decoded, dot segments removed.
//! Case, `//` and `%2F` are kept, because an upstream may distinguish them. Anything that two programs could interpret
//! differently (control characters, backslashes, fragments, invalid escapes) is rejected, not repaired. Queries are parsed in
//! [`crate::query`].

use crate::classes;

/// Why a request target is invalid. `Display` gives a text that a client may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTarget {
    /// Neither origin-form, absolute-form nor `*` with OPTIONS (RFC 9112 section 3.2).
    #[error("unknown form of request target")]
    Form,
    /// A control character or a space, raw or (in the path) escaped.
    #[error("control character in request target")]
    Control,
    /// `%` without two hexadecimal digits in the path.
    #[error("broken percent-encoding in path")]
    Escape,
    /// A raw `#`: clients do not send fragments.
    #[error("fragment in request target")]
    Fragment,
    /// A backslash, raw or escaped, in the path.
    #[error("backslash in path")]
    Backslash,
    /// A raw byte above 127 in the path.
    #[error("path is not ASCII")]
    NotAscii,
    /// `.` or `..` between slashes that were escaped.
    #[error("dot segment between encoded slashes")]
    Dots,
}

/// The parts of a request target, as the client sent them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTarget<'a> {
    /// `host[:port]` of an absolute-form target. It overrides `Host` (RFC 9112 section 3.2.2).
    pub authority: Option<&'a [u8]>,
    /// The path; begins with `/`, or is `*`.
    pub path: &'a [u8],
    /// The text after the first `?`; may be empty.
    pub query: Option<&'a [u8]>,
}

/// Splits a target. The parts contain no raw control character, space or `#`.
pub fn split(target: &[u8]) -> Result<RequestTarget<'_>, BadTarget> {
    let is_bad = |byte: u8| byte <= b' ' || byte == 0x7f || byte == b'#';
    if classes::has(target, is_bad) {
        let first = target.iter().find(|byte| is_bad(**byte));
        return Err(match first {
            Some(b'#') => BadTarget::Fragment,
            _ => BadTarget::Control,
        });
    }
    if target == b"*" {
        return Ok(RequestTarget {
            authority: None,
            path: target,
            query: None,
        });
    }
    if target.first() == Some(&b'/') {
        let (path, query) = cut_query(target);
        return Ok(RequestTarget {
            authority: None,
            path,
            query,
        });
    }
    split_absolute(target)
}

fn split_absolute(target: &[u8]) -> Result<RequestTarget<'_>, BadTarget> {
    let rest = [&b"http://"[..], b"https://"]
        .iter()
        .find(|scheme| {
            target
                .get(..scheme.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        })
        .and_then(|scheme| target.get(scheme.len()..))
        .ok_or(BadTarget::Form)?;
    let end = rest
        .iter()
        .position(|b| matches!(b, b'/' | b'?'))
        .unwrap_or(rest.len());
    let (authority, rest) = rest.split_at_checked(end).ok_or(BadTarget::Form)?;
    // User information in an http URI is an error (RFC 9110 section 4.2.4) and a way to disguise hosts.
    if authority.is_empty() || authority.iter().any(|b| matches!(b, b'@' | b'\\')) {
        return Err(BadTarget::Form);
    }
    let (path, query) = cut_query(rest);
    // An empty path is `/` (RFC 9110 section 4.2.3). A different key would give the same page a second entry.
    let path = if path.is_empty() { b"/" } else { path };
    Ok(RequestTarget {
        authority: Some(authority),
        path,
        query,
    })
}

fn cut_query(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'?', target) {
        Some(at) => (target.get(..at).unwrap_or_default(), target.get(at + 1..)),
        None => (target, None),
    }
}

/// Writes the canonical raw path to `out`, which is cleared first.
pub fn canonical_path(raw: &[u8], out: &mut Vec<u8>) -> Result<(), BadTarget> {
    out.clear();
    append_canonical(raw, out)
}

/// Writes the path for files and cacheability to `out`, which is cleared first: decoded once, runs of `/` merged.
///
/// Expects a canonical path. A dot segment that appears only by decoding (`..%2F`) is an error.
pub fn decoded_path(canonical: &[u8], out: &mut Vec<u8>) -> Result<(), BadTarget> {
    out.clear();
    append_decoded(canonical, out)
}

/// As [`canonical_path`], but appends to `out`.
pub(crate) fn append_canonical(raw: &[u8], out: &mut Vec<u8>) -> Result<(), BadTarget> {
    let Some((b'/', mut rest)) = raw.split_first() else {
        return Err(BadTarget::Form);
    };
    let root = out.len();
    out.push(b'/');
    let mut segment = out.len();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            b'/' => {
                if !remove_dot_segment(out, root, &mut segment) {
                    out.push(b'/');
                    segment = out.len();
                }
            }
            b'%' => {
                let (value, tail) = escape(tail).ok_or(BadTarget::Escape)?;
                rest = tail;
                check_byte(value)?;
                push_normal(value, out);
            }
            0x80.. => return Err(BadTarget::NotAscii),
            b'#' => return Err(BadTarget::Fragment),
            b'?' => return Err(BadTarget::Form),
            b' ' => return Err(BadTarget::Control),
            _ => {
                check_byte(byte)?;
                if is_pchar(byte) {
                    out.push(byte);
                } else {
                    push_escape(byte, out);
                }
            }
        }
    }
    remove_dot_segment(out, root, &mut segment);
    Ok(())
}

/// Whether a path certainly is both its own canonical and its own decoded form: it needs no decoding, escaping, merging or
/// removal. False for some such paths with rare characters, which take the slow path.
pub(crate) fn is_plain(path: &[u8]) -> bool {
    let is_rare = |byte: u8| !(byte.is_ascii_alphanumeric() || matches!(byte, b'-'..=b'/' | b'_'));
    let is_odd = |one: u8, next: u8| one == b'/' && matches!(next, b'/' | b'.');
    path.first() == Some(&b'/') && !classes::has(path, is_rare) && !classes::has_pair(path, is_odd)
}

/// Removes the segment that ends here if it is `.` or `..` (RFC 3986 section 5.2.4). Returns whether it was.
fn remove_dot_segment(out: &mut Vec<u8>, root: usize, segment: &mut usize) -> bool {
    match out.get(*segment..) {
        Some(b".") => out.truncate(*segment),
        Some(b"..") => {
            // The slash before this segment is at `segment - 1`; the parent begins after the slash before that one.
            let before = out.get(root..segment.saturating_sub(1)).unwrap_or_default();
            if let Some(slash) = memchr::memrchr(b'/', before) {
                *segment = root + slash + 1;
            }
            out.truncate(*segment);
        }
        _ => return false,
    }
    true
}

/// As [`decoded_path`], but appends to `out`.
pub(crate) fn append_decoded(canonical: &[u8], out: &mut Vec<u8>) -> Result<(), BadTarget> {
    if canonical.first() != Some(&b'/') {
        return Err(BadTarget::Form);
    }
    let root = out.len();
    let mut rest = canonical;
    let mut last = 0;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        let value = if byte == b'%' {
            let (value, tail) = escape(tail).ok_or(BadTarget::Escape)?;
            rest = tail;
            value
        } else {
            byte
        };
        check_byte(value)?;
        if value != b'/' || last != b'/' {
            out.push(value);
        }
        last = value;
    }
    let path = out.get(root..).unwrap_or_default();
    if path
        .split(|&b| b == b'/')
        .any(|segment| matches!(segment, b"." | b".."))
    {
        return Err(BadTarget::Dots);
    }
    Ok(())
}

/// Rejects bytes that no path may contain in any spelling: `%00` ends names in C, `%0a` once ended a regular expression in front
/// of PHP-FPM (CVE-2019-11043), and `\` is `/` on other systems.
fn check_byte(value: u8) -> Result<(), BadTarget> {
    match value {
        0..=0x1f | 0x7f => Err(BadTarget::Control),
        b'\\' => Err(BadTarget::Backslash),
        _ => Ok(()),
    }
}

/// The value of the two hexadecimal digits at the start, and the rest.
pub(crate) fn escape(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (&[high, low], rest) = bytes.split_first_chunk::<2>()?;
    Some((hex(high)? << 4 | hex(low)?, rest))
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Writes an escaped byte in its canonical form: unreserved bytes unescaped, all others as an upper-case escape.
pub(crate) fn push_normal(value: u8, out: &mut Vec<u8>) {
    if value.is_ascii_alphanumeric() || matches!(value, b'-' | b'.' | b'_' | b'~') {
        out.push(value);
    } else {
        push_escape(value, out);
    }
}

/// Writes `%XX`.
pub(crate) fn push_escape(value: u8, out: &mut Vec<u8>) {
    let digit = |nibble: u8| {
        if nibble < 10 {
            b'0' + nibble
        } else {
            b'A' + nibble - 10
        }
    };
    out.extend_from_slice(&[b'%', digit(value >> 4), digit(value & 15)]);
}

/// Whether a byte is a `pchar` of RFC 3986 section 3.3, other than an escape.
const fn is_pchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
                | b':'
                | b'@'
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(raw: &str) -> Result<String, BadTarget> {
        let mut out = Vec::new();
        canonical_path(raw.as_bytes(), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn decoded(raw: &str) -> Result<Vec<u8>, BadTarget> {
        let (mut path, mut out) = (Vec::new(), Vec::new());
        canonical_path(raw.as_bytes(), &mut path)?;
        decoded_path(&path, &mut out)?;
        Ok(out)
    }

    #[test]
    fn targets_are_split() {
        let target = split(b"/a?b?c").unwrap();
        assert_eq!((target.path, target.query), (&b"/a"[..], Some(&b"b?c"[..])));
        assert_eq!(split(b"/a?").unwrap().query, Some(&b""[..]));
        let target = split(b"HTTP://Example.com:80?x").unwrap();
        assert_eq!(
            target,
            RequestTarget {
                authority: Some(b"Example.com:80"),
                path: b"/",
                query: Some(b"x")
            }
        );
        assert_eq!(split(b"https://h/p/").unwrap().path, b"/p/");
        assert_eq!(split(b"*").unwrap().path, b"*");
    }

    #[test]
    fn invalid_targets_are_rejected() {
        for (target, why) in [
            (&b""[..], BadTarget::Form),
            (b"a/b", BadTarget::Form),
            (b"example.com:443", BadTarget::Form),
            (b"http://", BadTarget::Form),
            (b"http:///x", BadTarget::Form),
            (b"http://u@h/", BadTarget::Form),
            (b"ftp://h/", BadTarget::Form),
            (b"/a#b", BadTarget::Fragment),
            (b"/a?x#b", BadTarget::Fragment),
            (b"/a b", BadTarget::Control),
            (b"/a?\r\nX: y", BadTarget::Control),
            (b"/\0", BadTarget::Control),
        ] {
            assert_eq!(split(target), Err(why), "{}", target.escape_ascii());
        }
    }

    #[test]
    fn paths_have_one_canonical_form() {
        for (raw, expected) in [
            ("/", "/"),
            ("/%7euser/%41", "/~user/A"),
            ("/%d0%bf", "/%D0%BF"),
            ("/a%2fb%3f%23", "/a%2Fb%3F%23"),
            ("/Case//kept/", "/Case//kept/"),
            ("/a/./b/../c", "/a/c"),
            ("/a/%2e%2E/b", "/b"),
            ("/../../x", "/x"),
            ("/a/..", "/"),
            ("/a/b/.", "/a/b/"),
            ("/a//../b", "/a/b"),
            ("/..a/.b/c..", "/..a/.b/c.."),
            ("/a|b{c}\"<>^`[]", "/a%7Cb%7Bc%7D%22%3C%3E%5E%60%5B%5D"),
            ("/a%7cb", "/a%7Cb"),
            ("/%252e%252e/", "/%252e%252e/"),
            ("/a;b=c,d:e@f", "/a;b=c,d:e@f"),
        ] {
            assert_eq!(canonical(raw).as_deref(), Ok(expected), "{raw}");
        }
    }

    #[test]
    fn invalid_paths_are_rejected() {
        for (raw, why) in [
            ("", BadTarget::Form),
            ("a", BadTarget::Form),
            ("/%00", BadTarget::Control),
            ("/a%0Ab", BadTarget::Control),
            ("/a%0d", BadTarget::Control),
            ("/%7F", BadTarget::Control),
            ("/a\\b", BadTarget::Backslash),
            ("/a%5cb", BadTarget::Backslash),
            ("/a%", BadTarget::Escape),
            ("/a%4", BadTarget::Escape),
            ("/a%zz", BadTarget::Escape),
            ("/\u{e9}", BadTarget::NotAscii),
            ("/a?b", BadTarget::Form),
            ("/a#b", BadTarget::Fragment),
        ] {
            assert_eq!(canonical(raw), Err(why), "{raw}");
        }
    }

    #[test]
    fn decoding_happens_once() {
        assert_eq!(decoded("/a%2Fb//c%20%25").unwrap(), b"/a/b/c %");
        assert_eq!(decoded("//wp-admin%2F%2Fx").unwrap(), b"/wp-admin/x");
        assert_eq!(decoded("/%252e%252e/x").unwrap(), b"/%2e%2e/x");
        for raw in ["/a/..%2fb", "/a%2f..%2fb", "/a%2F%2E%2e", "/.%2Fx"] {
            assert_eq!(decoded(raw), Err(BadTarget::Dots), "{raw}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(raw in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = split(&raw);
            let _ = decoded_path(&raw, &mut Vec::new());
            let _ = canonical_path(&raw, &mut Vec::new());
        }

        #[test]
        fn plain_paths_are_canonical_and_decoded(raw in "(/([a-cA-C0-9._-]|%2e|[ -~]){0,9}){1,6}") {
            let (mut canonical, mut decoded) = (Vec::new(), Vec::new());
            if is_plain(raw.as_bytes()) {
                prop_assert_eq!(canonical_path(raw.as_bytes(), &mut canonical), Ok(()));
                prop_assert_eq!(&canonical, raw.as_bytes());
                prop_assert_eq!(decoded_path(&canonical, &mut decoded), Ok(()));
                prop_assert_eq!(decoded, canonical);
            }
        }

        #[test]
        fn the_canonical_form_is_a_fixed_point_without_dots(raw in "(/([.a%]|%2[eEfF]|%41|[{;]){0,5}){1,6}") {
            let mut once = Vec::new();
            if canonical_path(raw.as_bytes(), &mut once).is_ok() {
                let mut twice = Vec::new();
                canonical_path(&once, &mut twice).unwrap();
                prop_assert_eq!(&once, &twice);
                prop_assert!(!once.split(|&b| b == b'/').any(|s| s == b"." || s == b".."));
            }
        }
    }
}
