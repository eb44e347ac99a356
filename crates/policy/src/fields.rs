//! Field values that are lists, the fields that are not forwarded, and invalid fields of responses.
//!
//! Contains the one parser of `a, b;q=1, "c, d"` (RFC 9110 section 5.6) and the set of hop-by-hop fields (RFC 9110 section
//! 7.6.1). A `Connection` field names further ones, but clients can send it, so it may not remove fields with identity or
//! meaning (`Connection: Cookie` would turn a member's page into an anonymous one). The meaning of lists is not known here.

/// Whether a head has any of these names, which are in lower case. Responses have few fields, so comparing each is faster than
/// looking up each name.
pub(crate) fn has_any(fields: &http::HeaderMap, names: &[&str]) -> bool {
    fields.keys().any(|name| names.contains(&name.as_str()))
}

/// The elements of a comma-separated list, trimmed and without empty ones.
///
/// A comma inside a quoted string does not separate; an unterminated quoted string runs to the end.
#[derive(Clone, Debug)]
pub struct Members<'a> {
    rest: Option<&'a [u8]>,
    separator: u8,
}

/// Parses a comma-separated list (RFC 9110 section 5.6.1).
pub fn members(value: &[u8]) -> Members<'_> {
    Members {
        rest: Some(value),
        separator: b',',
    }
}

/// Parses the parts between semicolons: first the value, then its parameters (RFC 9110 section 5.6.6).
pub fn parts(member: &[u8]) -> Members<'_> {
    Members {
        rest: Some(member),
        separator: b';',
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while let Some(rest) = self.rest {
            let (member, tail) = match position_unquoted(rest, self.separator) {
                Some(at) => (rest.get(..at).unwrap_or_default(), rest.get(at + 1..)),
                None => (rest, None),
            };
            self.rest = tail;
            let member = member.trim_ascii();
            if !member.is_empty() {
                return Some(member);
            }
        }
        None
    }
}

/// The position of the first `separator` outside quoted strings.
fn position_unquoted(value: &[u8], separator: u8) -> Option<usize> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    value.iter().position(|&byte| {
        if is_escaped {
            is_escaped = false;
        } else if is_quoted && byte == b'\\' {
            is_escaped = true;
        } else if byte == b'"' {
            is_quoted = !is_quoted;
        } else {
            return byte == separator && !is_quoted;
        }
        false
    })
}

/// Splits `name=value` at the first `=`. Quotes around the value are removed, escapes are not decoded.
pub fn name_value(part: &[u8]) -> (&[u8], Option<&[u8]>) {
    let Some(at) = memchr::memchr(b'=', part) else {
        return (part, None);
    };
    let name = part.get(..at).unwrap_or_default().trim_ascii_end();
    let value = part.get(at + 1..).unwrap_or_default().trim_ascii_start();
    let bare = value
        .strip_prefix(b"\"")
        .and_then(|v| v.strip_suffix(b"\""))
        .unwrap_or(value);
    (name, Some(bare))
}

/// Parses a `qvalue` (RFC 9110 §12.4.2) into thousandths: `0` or `1` with at most three decimals, at most 1.
pub fn thousandths(value: &[u8]) -> Option<u16> {
    let (whole, decimals) = match value {
        [whole] => (*whole, &[][..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (*whole, decimals),
        _ => return None,
    };
    let mut sum: u16 = match whole {
        b'0' => 0,
        b'1' => 1000,
        _ => return None,
    };
    for (digit, unit) in decimals.iter().zip([100, 10, 1]) {
        if !digit.is_ascii_digit() {
            return None;
        }
        sum = sum.saturating_add(u16::from(digit.saturating_sub(b'0')).saturating_mul(unit));
    }
    (sum <= 1000).then_some(sum)
}

/// The names that `Connection` lines list, at most [`MAX_CONNECTION_TOKENS`] of them.
pub fn connection_tokens<'a, I>(lines: I) -> impl Iterator<Item = &'a [u8]> + Clone
where
    I: Iterator<Item = &'a [u8]> + Clone,
{
    lines.flat_map(members).take(MAX_CONNECTION_TOKENS)
}

/// Whether a field is hop-by-hop: always (RFC 9110 section 7.6.1), or because `Connection` names it and it is not
/// protected.
///
/// Departs: RFC 9110 requires the removal of all fields that `Connection` lists. Protected fields stay, because a client could
/// otherwise remove the cookie or the forwarding fields from another client's request; the tests pin this.
pub fn is_hop_by_hop<'t>(
    name: &str,
    mut connection_tokens: impl Iterator<Item = &'t [u8]>,
) -> bool {
    if HOP_BY_HOP
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
    {
        return true;
    }
    connection_tokens.any(|token| token.eq_ignore_ascii_case(name.as_bytes()))
        && !is_protected(name)
}

/// Whether `Connection` cannot remove this field.
fn is_protected(name: &str) -> bool {
    PROTECTED
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
        || PROTECTED_PREFIXES.iter().any(|prefix| {
            name.get(..prefix.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        })
}

/// Whether a field name can become a CGI variable without a collision: it has letters, digits and `-` only.
///
/// `X_Forwarded_For` and `X.Forwarded.For` would both become `HTTP_X_FORWARDED_FOR` (the collision behind several
/// advisories against front ends of PHP), so fields with other names are not forwarded.
pub fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// What is wrong with a field of a response, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldFlaw {
    /// Its name is not a token, or it has no colon: no recipient gives it a meaning, so it is dropped.
    Name,
    /// Its value has a control character: it is dropped, and the response may lack a directive that forbids to store it.
    Value,
    /// Two parsers may read it differently: the response is rejected.
    Dangerous,
}

/// What is wrong with a field of a response; `None`: nothing. `value`: what follows the colon, if there is one.
///
/// nginx forwards a field with any bytes but white space and control characters in its name and NUL in its value, so programs
/// that send such fields work behind it. Other recipients disagree about these bytes, so the fields are not forwarded.
pub fn field_flaw(name: &[u8], value: Option<&[u8]>) -> Option<FieldFlaw> {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let is_control = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
    let text = value.unwrap_or_default();
    let has_valid_name = !name.is_empty() && name.iter().all(is_token) && value.is_some();
    let flaw = match (has_valid_name, text.iter().any(is_control)) {
        (true, false) => return None,
        (true, true) => FieldFlaw::Value,
        (false, _) => FieldFlaw::Name,
    };
    let splits_name = name
        .iter()
        .any(|byte| byte.is_ascii_control() || *byte == b' ');
    let splits_value = text.iter().any(|byte| b"\0\r\n".contains(byte));
    let bare: Vec<u8> = name.iter().copied().filter(is_token).collect();
    let is_framing = FRAMING.iter().any(|known| bare.eq_ignore_ascii_case(known));
    Some(if splits_name || splits_value || is_framing {
        FieldFlaw::Dangerous
    } else {
        flaw
    })
}

/// Fields that delimit a message or select its status.
const FRAMING: &[&[u8]] = &[
    b"connection",
    b"content-length",
    b"status",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
];

/// The maximum number of tokens, because each is compared with each field; honest senders list two or three.
pub const MAX_CONNECTION_TOKENS: usize = 64;

const HOP_BY_HOP: &[&str] = &[
    "connection",
    "http2-settings",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

const PROTECTED: &[&str] = &[
    "accept",
    "age",
    "authorization",
    "cache-control",
    "cookie",
    "date",
    "etag",
    "expires",
    "forwarded",
    "host",
    "last-modified",
    "location",
    "nonce",
    "origin",
    "pragma",
    "range",
    "referer",
    "set-cookie",
    "status",
    "surrogate-control",
    "user-agent",
    "vary",
    "via",
    "x-http-method-override",
    "x-real-ip",
    "x-request-id",
    "x-requested-with",
];

const PROTECTED_PREFIXES: &[&str] = &[
    "accept-",
    "content-",
    "if-",
    "sec-",
    "x-accel-",
    "x-forwarded-",
    "x-litespeed-",
    "x-wp-",
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(value: &str) -> Vec<String> {
        members(value.as_bytes())
            .map(|m| String::from_utf8_lossy(m).into_owned())
            .collect()
    }

    #[test]
    fn lists_are_split_outside_quotes_and_without_empty_members() {
        assert_eq!(list("a, b ,,c"), ["a", "b", "c"]);
        assert_eq!(list(r#"no-cache="a, b", x"#), [r#"no-cache="a, b""#, "x"]);
        assert_eq!(list(r#""a\", b", c"#), [r#""a\", b""#, "c"]);
        assert_eq!(list(r#"a, "b, c"#), ["a", r#""b, c"#]);
        assert!(list(" , ,").is_empty());
    }

    #[test]
    fn quotes_of_parameters_are_removed() {
        assert_eq!(
            name_value(b"max-age=\"5\""),
            (&b"max-age"[..], Some(&b"5"[..]))
        );
        assert_eq!(name_value(b"no-store"), (&b"no-store"[..], None));
        assert_eq!(name_value(b"a = b=c"), (&b"a"[..], Some(&b"b=c"[..])));
    }

    #[test]
    fn connection_does_not_remove_protected_fields() {
        let line: &[u8] =
            b"close, X-Own, Cookie, Host, X-Forwarded-For, Authorization, Content-Type, X-WP-Nonce";
        let tokens = connection_tokens(std::iter::once(line));
        for (name, expected) in [
            ("x-own", true),
            ("X-Own", true),
            ("Keep-Alive", true),
            ("te", true),
            ("Cookie", false),
            ("host", false),
            ("X-Forwarded-For", false),
            ("Authorization", false),
            ("Content-Type", false),
            ("X-WP-Nonce", false),
            ("X-Other", false),
        ] {
            assert_eq!(is_hop_by_hop(name, tokens.clone()), expected, "{name}");
        }
    }

    #[test]
    fn only_plain_names_are_accepted() {
        assert!(is_plain_name("X-Forwarded-For"));
        for name in [
            "X_Forwarded_For",
            "X.Forwarded.For",
            "",
            "a b",
            "a\u{e9}",
            "~x",
            "x!",
        ] {
            assert!(!is_plain_name(name), "{name}");
        }
    }

    #[test]
    fn invalid_fields_are_dropped_and_ambiguous_ones_are_rejected() {
        use FieldFlaw::{Dangerous, Name, Value};
        type Row = (&'static [u8], Option<&'static [u8]>, Option<FieldFlaw>);
        let table: &[Row] = &[
            (b"X-A", Some(b"b"), None),
            (b"X-A", Some(b""), None),
            (b"x_a.b~", Some(b"\xe9\tb"), None),
            (b"X-Gr\xc3\xb6\xc3\x9fe", Some(b"5"), Some(Name)),
            (b"X-(a)", Some(b"5"), Some(Name)),
            (b"", Some(b"5"), Some(Name)),
            (b"no-colon", None, Some(Name)),
            (b"X-A", Some(b"a\x01b"), Some(Value)),
            (b"X-A", Some(b"a\x7f"), Some(Value)),
            (b"X-\xe9", Some(b"\x01"), Some(Name)),
            (b"X-A", Some(b"a\0b"), Some(Dangerous)),
            (b"X-A", Some(b"a\rb"), Some(Dangerous)),
            (b"X-A", Some(b"a\nb"), Some(Dangerous)),
            (b"X-\xe9", Some(b"a\0b"), Some(Dangerous)),
            (b"X A", Some(b"b"), Some(Dangerous)),
            (b" X-A", Some(b"b"), Some(Dangerous)),
            (b"X-A ", Some(b"b"), Some(Dangerous)),
            (b"X-A\t", Some(b"b"), Some(Dangerous)),
            (b"X\x01A", Some(b"b"), Some(Dangerous)),
            (b"HTTP/1.1 200 OK", None, Some(Dangerous)),
            (b"Content-Length", Some(b"5\x01"), Some(Dangerous)),
            (b"Content-Length\xa0", Some(b"5"), Some(Dangerous)),
            (b"Transfer-Encoding", None, Some(Dangerous)),
            (b"transfer-encoding\xe9", Some(b"chunked"), Some(Dangerous)),
            (b"Status", Some(b"200\x01"), Some(Dangerous)),
        ];
        for (name, value, wanted) in table {
            let shown = String::from_utf8_lossy(name);
            assert_eq!(field_flaw(name, *value), *wanted, "{shown} {value:?}");
        }
        for byte in 0..=255 {
            let (name, value) = ([b'a', byte], [b'a', byte]);
            let by_name = http::HeaderName::from_bytes(&name).is_ok();
            assert_eq!(
                field_flaw(&name, Some(b"x")).is_none(),
                by_name,
                "{byte:#x}"
            );
            let by_value = http::HeaderValue::from_bytes(&value).is_ok();
            assert_eq!(
                field_flaw(b"a", Some(&value)).is_none(),
                by_value,
                "{byte:#x}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(value in proptest::collection::vec(any::<u8>(), 0..200), name in "\\PC{0,20}") {
            for member in members(&value) {
                prop_assert!(!member.is_empty());
                for part in parts(member) {
                    let _ = name_value(part);
                }
            }
            let _ = is_hop_by_hop(&name, connection_tokens(std::iter::once(value.as_slice())));
        }
    }
}
