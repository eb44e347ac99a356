//! Converts an HTTP/2 or HTTP/3 request to the [`Head`] of an HTTP/1 request, so that all are evaluated by the same code.
//!
//! RFC 9113 section 8, whose rules RFC 9114 section 4 repeats, is enforced strictly, and so is everything that [`crate::head`] rejects: a head that could not have
//! been sent over HTTP/1 with the same meaning is rejected, because an upstream connection may convert it again (request
//! smuggling by downgrade). Checks of the HTTP/2 library are repeated, because this module guarantees them.
//!
//! The authority becomes the first field, `host`, and the head has no other `host`. The caller joins split cookie fields.

use crate::head::{BadRequest, FieldLine, Head, HeadLimits, MAX_FIELDS, METHOD_BYTES, Version};
use crate::hpack::Block;
use crate::priority::{DEFAULT_URGENCY, urgency};
use crate::token::{is_token, is_token_byte, is_value_byte};

/// The pseudo-header fields (RFC 9113 section 8.3.1).
#[derive(Clone, Copy, Debug)]
pub struct PseudoFields<'b> {
    /// `:method`.
    pub method: &'b str,
    /// `:scheme`, if known.
    pub scheme: Option<&'b str>,
    /// `:authority`.
    pub authority: Option<&'b str>,
    /// `:path`; for `CONNECT`, the authority.
    pub target: &'b str,
    /// `H2` or `H3`.
    pub version: Version,
}

/// A buffer for the fields of one head, for the stack.
pub struct Http2HeadBuffer<'b>([FieldLine<'b>; MAX_FIELDS + 1]);

impl Http2HeadBuffer<'_> {
    /// An empty buffer.
    pub const fn new() -> Self {
        Self([FieldLine::NONE; MAX_FIELDS + 1])
    }
}

impl Default for Http2HeadBuffer<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// Converts a request to a head.
///
/// Errors: as [`crate::head::parse`], with the same limits, counted as if the head had been sent by HTTP/1; `Host` if `host`
/// differs from the authority; `Field` for fields of an HTTP/1 connection.
/// Cost: one pass over the fields, no allocation.
pub fn head<'b, 'r>(
    line: &PseudoFields<'b>,
    mut fields: impl Iterator<Item = (&'b [u8], &'b [u8])>,
    limits: &HeadLimits,
    buffer: &'r mut Http2HeadBuffer<'b>,
) -> Result<Head<'b, 'r>, BadRequest> {
    check_line(line, limits)?;
    let mut bytes = line.method.len() + line.target.len() + LINE_BYTES;
    let mut count = 0;
    let mut put = |name: &'b [u8], value: &'b [u8]| {
        bytes += name.len() + value.len() + FIELD_BYTES;
        if bytes > limits.head_bytes {
            return Err(BadRequest::HeadTooLarge);
        }
        if count >= limits.fields.min(MAX_FIELDS) {
            return Err(BadRequest::TooManyFields);
        }
        let slot = buffer.0.get_mut(count).ok_or(BadRequest::TooManyFields)?;
        *slot = FieldLine { name, value };
        count += 1;
        Ok(())
    };
    if let Some(authority) = line.authority {
        put(b"host", authority.as_bytes())?;
    }
    fields.try_for_each(|(name, value)| match (name, line.authority) {
        (b"host", Some(authority)) if value.eq_ignore_ascii_case(authority.as_bytes()) => Ok(()),
        (b"host", Some(_)) => Err(BadRequest::Host),
        _ => {
            check_field(name, value)?;
            put(name, value)
        }
    })?;
    Ok(Head {
        method: line.method,
        target: line.target.as_bytes(),
        version: line.version,
        fields: buffer.0.get(..count).unwrap_or_default(),
    })
}

/// The fields of a block behind its pseudo-header fields.
pub fn fields_of(block: &Block) -> impl Iterator<Item = (&[u8], &[u8])> {
    block.fields().skip_while(|(name, _)| is_pseudo(name))
}

/// Whether the name is that of a pseudo-header field.
pub fn is_pseudo(name: &[u8]) -> bool {
    name.first() == Some(&b':')
}

/// Joins the parts of a browser's cookies (RFC 9113 section 8.2.3) in `crumbs`; empty if there is nothing to join.
pub fn join_crumbs<'v>(mut values: impl Iterator<Item = &'v [u8]>, crumbs: &mut Vec<u8>) {
    crumbs.clear();
    let (Some(first), Some(second)) = (values.next(), values.next()) else {
        return;
    };
    crumbs.extend_from_slice(first);
    for crumb in std::iter::once(second).chain(values) {
        if !crumbs.is_empty() {
            crumbs.extend_from_slice(b"; ");
        }
        crumbs.extend_from_slice(crumb);
    }
}

/// The values of the `cookie` fields, for [`join_crumbs`].
pub fn crumbs_of(block: &Block) -> impl Iterator<Item = &[u8]> {
    let cookies = block.fields().filter(|(name, _)| *name == b"cookie");
    cookies.map(|(_, value)| value)
}

/// The urgency in the `priority` field of a block.
pub fn urgency_of(block: &Block) -> u8 {
    let value = block.fields().find(|(name, _)| *name == b"priority");
    value.map_or(DEFAULT_URGENCY, |(_, value)| urgency(value))
}

/// Whether the fields of a block may be trailers: none is a pseudo-header field or one of an HTTP/1 connection.
pub fn are_trailers(block: &Block) -> bool {
    let mut fields = block.fields();
    fields.all(|(name, value)| check_field(name, value).is_ok())
}

fn check_line(line: &PseudoFields<'_>, limits: &HeadLimits) -> Result<(), BadRequest> {
    if !is_token(line.method.as_bytes()) || line.method.len() > METHOD_BYTES {
        return Err(BadRequest::Method);
    }
    if line.target.len() > limits.target_bytes {
        return Err(BadRequest::TargetTooLong);
    }
    // An absolute form would contain a second authority.
    let has_form = match line.method {
        "CONNECT" => true,
        "OPTIONS" => line.target == "*" || line.target.starts_with('/'),
        _ => line.target.starts_with('/'),
    };
    let is_visible = line.target.bytes().all(|byte| byte.is_ascii_graphic());
    if !has_form || !is_visible {
        return Err(BadRequest::Target);
    }
    match line.scheme {
        None | Some("http" | "https") => Ok(()),
        Some(_) => Err(BadRequest::Target),
    }
}

/// Checks a field by RFC 9113 sections 8.2.1 and 8.2.2.
fn check_field(name: &[u8], value: &[u8]) -> Result<(), BadRequest> {
    // All bytes are examined, without an early exit, so that the compiler vectorizes the loop. Every field of every request
    // is checked here.
    let is_name = !name.is_empty()
        && name
            .iter()
            .fold(true, |all, &byte| all & is_name_byte(byte));
    let is_edge = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let is_value = value
        .iter()
        .fold(true, |all, &byte| all & is_value_byte(byte))
        && !is_edge(value.first())
        && !is_edge(value.last());
    let is_of_connection = match name {
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
            true
        }
        b"te" => value != b"trailers",
        _ => false,
    };
    if is_name && is_value && !is_of_connection {
        Ok(())
    } else {
        Err(BadRequest::Field)
    }
}

/// Whether the byte may occur in a field name: a token byte, but no capital letter.
fn is_name_byte(byte: u8) -> bool {
    is_token_byte(byte) & !byte.is_ascii_uppercase()
}

/// The size of a request line without method and target (spaces, version, line end), and of the empty line.
const LINE_BYTES: usize = " HTTP/1.1\r\n".len() + 1 + 2;

/// Bytes of a field line besides name and value: colon, space and line end.
const FIELD_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::{self, BodyKind, Host};

    const GET: PseudoFields<'static> = PseudoFields {
        method: "GET",
        scheme: Some("http"),
        authority: Some("a.test"),
        target: "/x?y",
        version: Version::H2,
    };

    fn outcome(
        line: &PseudoFields<'_>,
        fields: &[(&'static str, &'static str)],
    ) -> Result<usize, BadRequest> {
        let mut buffer = Http2HeadBuffer::new();
        let fields = fields
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        head(line, fields, &HeadLimits::default(), &mut buffer).map(|head| head.count())
    }

    #[test]
    fn the_authority_is_the_only_host() {
        let mut buffer = Http2HeadBuffer::new();
        let fields = [(&b"accept"[..], &b"*/*"[..]), (b"host", b"A.test")];
        let head = head(
            &GET,
            fields.into_iter(),
            &HeadLimits::default(),
            &mut buffer,
        )
        .unwrap();
        let fields: Vec<_> = head.fields().collect();
        assert_eq!(fields, [("host", &b"a.test"[..]), ("accept", b"*/*")]);
        let framing = framing::frame_h2(&head, true).unwrap();
        assert_eq!(framing.host, Host::Field("a.test"));
        assert_eq!(outcome(&GET, &[("host", "b.test")]), Err(BadRequest::Host));
        let alone = PseudoFields {
            authority: None,
            ..GET
        };
        assert_eq!(outcome(&alone, &[("host", "b.test")]), Ok(1));
    }

    #[test]
    fn heads_without_an_http_1_equivalent_are_rejected() {
        let bad_fields = [
            ("Accept", "*/*"),
            ("a b", "1"),
            ("", "1"),
            ("x", "a\r\nb: c"),
            ("x", "a\0"),
            ("x", " a"),
            ("x", "a\t"),
            ("connection", "close"),
            ("keep-alive", "5"),
            ("proxy-connection", "close"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("te", "gzip"),
        ];
        for field in bad_fields {
            assert_eq!(outcome(&GET, &[field]), Err(BadRequest::Field), "{field:?}");
        }
        assert_eq!(outcome(&GET, &[("te", "trailers"), ("x", "")]), Ok(3));
        let bad_targets = [
            ("GET", "*"),
            ("GET", ""),
            ("GET", "a"),
            ("GET", "http://b.test/"),
            ("GET", "/a b"),
            ("GET", "/a\rb"),
            ("GET", "/\u{e4}"),
        ];
        for (method, target) in bad_targets {
            let line = PseudoFields {
                method,
                target,
                ..GET
            };
            assert_eq!(outcome(&line, &[]), Err(BadRequest::Target), "{target}");
        }
        let line = PseudoFields {
            scheme: Some("ftp"),
            ..GET
        };
        assert_eq!(outcome(&line, &[]), Err(BadRequest::Target));
        let line = PseudoFields {
            method: "G T",
            ..GET
        };
        assert_eq!(outcome(&line, &[]), Err(BadRequest::Method));
    }

    #[test]
    fn http_1_limits_apply() {
        let many = vec![("x", "1"); MAX_FIELDS];
        assert_eq!(outcome(&GET, &many), Err(BadRequest::TooManyFields));
        assert_eq!(
            outcome(&GET, many.get(1..).unwrap_or_default()),
            Ok(MAX_FIELDS)
        );
        let long = "v".repeat(9_000);
        let target = format!("/{long}");
        let line = PseudoFields {
            target: &target,
            ..GET
        };
        assert_eq!(outcome(&line, &[]), Err(BadRequest::TargetTooLong));
        let value: &'static str = long.leak();
        let large = [("x", value); 4];
        assert_eq!(outcome(&GET, &large), Err(BadRequest::HeadTooLarge));
    }

    #[test]
    fn the_last_frame_determines_the_body_kind() {
        let kind = |fields: &[(&'static str, &'static str)], is_end: bool| {
            let mut buffer = Http2HeadBuffer::new();
            let fields = fields
                .iter()
                .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            let head = head(&GET, fields, &HeadLimits::default(), &mut buffer).unwrap();
            framing::frame_h2(&head, is_end).map(|framing| (framing.body, framing.expect_continue))
        };
        assert_eq!(kind(&[], true), Ok((BodyKind::None, false)));
        assert_eq!(kind(&[], false), Ok((BodyKind::Chunked, false)));
        let waits = [("expect", "100-continue")];
        assert_eq!(kind(&waits, false), Ok((BodyKind::Chunked, true)));
        assert_eq!(kind(&waits, true), Ok((BodyKind::None, false)));
        let three = [("content-length", "3")];
        assert_eq!(kind(&three, false), Ok((BodyKind::Length(3), false)));
        assert_eq!(kind(&three, true), Err(BadRequest::ContentLength));
        let twice = [("content-length", "3"), ("content-length", "3")];
        assert_eq!(kind(&twice, false), Err(BadRequest::ContentLength));
    }
}
