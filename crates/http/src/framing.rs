//! Decides where a request's body ends, whether the connection persists, and which host the request is for.
//!
//! RFC 9112 section 6.3, read strictly: a message that two parsers could frame differently is rejected, and the connection
//! ends. This is the only place that reads Content-Length, Transfer-Encoding, Connection, Expect and Host for their
//! framing; all later code uses [`Framing`] and writes messages anew.

use crate::head::{BadRequest, Head, Version};
use crate::host::{host_and_port, target_authority};
use crate::token::{is_name, is_token, members};

pub use crate::host::Host;

/// How the body after a head is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// Neither Content-Length nor Transfer-Encoding: the next request follows immediately.
    None,
    /// The Content-Length; zero if the client sent `Content-Length: 0`.
    Length(u64),
    /// `Transfer-Encoding: chunked`; in HTTP/2 and HTTP/3, a body without an announced length.
    Chunked,
}

impl BodyKind {
    /// The length, if the head announces it.
    pub fn length(self) -> Option<u64> {
        match self {
            Self::None => Some(0),
            Self::Length(length) => Some(length),
            Self::Chunked => None,
        }
    }

    /// Whether no bytes of a body follow the head.
    pub fn is_empty(self) -> bool {
        matches!(self, Self::None | Self::Length(0))
    }
}

/// The properties of the message and of the connection that the head defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing<'b> {
    /// The version from the request line.
    pub version: Version,
    /// How the body is delimited.
    pub body: BodyKind,
    /// Whether the client wants the connection to persist after this exchange.
    pub keep_alive: bool,
    /// Whether the client may wait for `100 Continue` before it sends the body. Only with a body, and only in HTTP/1.1.
    pub expect_continue: bool,
    /// Whether an HTTP/1.1 request has an Upgrade field that Connection lists. The field names the protocol.
    pub upgrade: bool,
    /// The host of the request.
    pub host: Host<'b>,
}

/// Reads the framing of a complete head.
///
/// Errors: `Target`, `Host`, `ContentLength`, `TransferEncoding`, `UnknownCoding`, `AmbiguousLength`, `Expectation`.
/// Cost: one pass over the fields, no allocation.
pub fn frame<'b>(head: &Head<'b, '_>) -> Result<Framing<'b>, BadRequest> {
    let found = FramingFields::gather(head)?;
    let body = found.body(head.version)?;
    found.finish(head, body)
}

/// As [`frame`], for a head received over HTTP/2 or HTTP/3, where the last frame ends the body. `is_end`: whether the head's frame was
/// the last.
///
/// Errors: those of [`frame`], and `ContentLength` if a body is announced but cannot follow (RFC 9113 section 8.1.1).
pub fn frame_h2<'b>(head: &Head<'b, '_>, is_end: bool) -> Result<Framing<'b>, BadRequest> {
    let found = FramingFields::gather(head)?;
    let body = match (found.body(head.version)?, is_end) {
        (BodyKind::None, false) => BodyKind::Chunked,
        (body, true) if !body.is_empty() => return Err(BadRequest::ContentLength),
        (body, _) => body,
    };
    found.finish(head, body)
}

/// The framing fields of one head, as received.
#[derive(Default)]
struct FramingFields<'b> {
    host: Option<&'b str>,
    length: Option<u64>,
    codings: TransferCodings,
    close: bool,
    keep_alive: bool,
    upgrade_option: bool,
    upgrade: bool,
    expect_continue: bool,
}

impl<'b> FramingFields<'b> {
    fn gather(head: &Head<'b, '_>) -> Result<Self, BadRequest> {
        let mut found = Self {
            // Galley does not tunnel. A client that does not wait for the response to CONNECT (RFC 9110 section 9.3.6) has already
            // sent bytes of the tunnel. A third party may have chosen them, and they may look like a request.
            close: head.method == "CONNECT",
            ..Self::default()
        };
        for (name, value) in head.lines() {
            // The length excludes nearly every other field without a comparison.
            match name.len() {
                4 if is_name(name, b"host") => found.add_host(value)?,
                6 if is_name(name, b"expect") => found.add_expect(value)?,
                7 if is_name(name, b"upgrade") => found.upgrade |= !value.is_empty(),
                10 if is_name(name, b"connection") => found.add_connection(value),
                14 if is_name(name, b"content-length") => found.add_length(value)?,
                17 if is_name(name, b"transfer-encoding") => found.codings.add(value),
                _ => {}
            }
        }
        Ok(found)
    }

    /// RFC 9112 section 3.2: two Host lines or an invalid value get 400 in every version.
    fn add_host(&mut self, value: &'b [u8]) -> Result<(), BadRequest> {
        let text = host_and_port(value).ok_or(BadRequest::Host)?;
        match self.host.replace(text) {
            None => Ok(()),
            Some(_) => Err(BadRequest::Host),
        }
    }

    fn add_length(&mut self, value: &[u8]) -> Result<(), BadRequest> {
        let length = content_length(value).ok_or(BadRequest::ContentLength)?;
        match self.length.replace(length) {
            None => Ok(()),
            // Also two equal ones: RFC 9110 section 8.6 permits accepting or rejecting them.
            Some(_) => Err(BadRequest::ContentLength),
        }
    }

    /// Rejects a repeated `100-continue`, whether on one line or on two.
    fn add_expect(&mut self, value: &[u8]) -> Result<(), BadRequest> {
        if self.expect_continue || !value.eq_ignore_ascii_case(b"100-continue") {
            return Err(BadRequest::Expectation);
        }
        self.expect_continue = true;
        Ok(())
    }

    fn add_connection(&mut self, value: &[u8]) {
        if value == b"keep-alive" {
            self.keep_alive = true;
            return;
        }
        for option in members(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            self.upgrade_option |= option.eq_ignore_ascii_case(b"upgrade");
        }
    }

    fn finish(&self, head: &Head<'b, '_>, body: BodyKind) -> Result<Framing<'b>, BadRequest> {
        let is_h10 = head.version == Version::H10;
        let authority = target_authority(head.method, head.target)?;
        let host = match (authority, self.host) {
            // HTTP/1.1 must send Host also with an absolute-form target (RFC 9112 section 3.2).
            (_, None) if !is_h10 => return Err(BadRequest::Host),
            (Some(text), _) => Host::Target(text),
            (None, Some(text)) => Host::Field(text),
            (None, None) => Host::Missing,
        };
        Ok(Framing {
            version: head.version,
            body,
            keep_alive: !self.close && (!is_h10 || self.keep_alive),
            // RFC 9110 section 10.1.1: ignored in HTTP/1.0, and useless without a body.
            expect_continue: self.expect_continue && !is_h10 && !body.is_empty(),
            // RFC 9110 section 7.8: ignored in HTTP/1.0. Without the connection option it is not meant for this hop.
            upgrade: self.upgrade && self.upgrade_option && head.version == Version::H11,
            host,
        })
    }

    /// The framing of the body by RFC 9112 section 6.3, rules 3, 4, 6 and 7.
    fn body(&self, version: Version) -> Result<BodyKind, BadRequest> {
        match (self.codings.lines, self.length) {
            (false, None) => Ok(BodyKind::None),
            (false, Some(length)) => Ok(BodyKind::Length(length)),
            (true, Some(_)) => Err(BadRequest::AmbiguousLength),
            // RFC 9112 section 6.1: HTTP/1.0 has no transfer codings, so the framing is faulty.
            (true, None) if version == Version::H10 => Err(BadRequest::TransferEncoding),
            (true, None) if self.codings.malformed => Err(BadRequest::TransferEncoding),
            (true, None) if self.codings.unknown => Err(BadRequest::UnknownCoding),
            (true, None) => Ok(BodyKind::Chunked),
        }
    }
}

/// The members of all Transfer-Encoding lines in order (RFC 9112 section 6.1).
#[derive(Default)]
pub(crate) struct TransferCodings {
    lines: bool,
    chunked: bool,
    unknown: bool,
    malformed: bool,
}

impl TransferCodings {
    /// Whether the head has a Transfer-Encoding line.
    pub(crate) fn is_present(&self) -> bool {
        self.lines
    }

    /// Whether the lines contain `chunked` once and nothing else.
    pub(crate) fn is_only_chunked(&self) -> bool {
        self.chunked && !self.unknown && !self.malformed
    }

    pub(crate) fn add(&mut self, value: &[u8]) {
        self.lines = true;
        for member in members(value) {
            // Nothing may follow `chunked`, not even `chunked`. Empty members, which RFC 9110 section 5.6.1 allows in lists, are
            // malformed here: programs disagree about `chunked,`.
            self.malformed |= self.chunked;
            if member.eq_ignore_ascii_case(b"chunked") {
                self.chunked = true;
                continue;
            }
            let mut parts = member.splitn(2, |&byte| byte == b';');
            let name = crate::token::trim(parts.next().unwrap_or_default());
            // `chunked` has no parameters (RFC 9112 section 7.1).
            self.malformed |= !is_token(name) || name.eq_ignore_ascii_case(b"chunked");
            self.unknown = true;
        }
    }
}

/// Parses `1*DIGIT` (RFC 9110 section 8.6): no sign, no white space, no list. Leading zeros are allowed. Values above
/// `i64::MAX` are rejected: no body is that long, and other programs overflow there.
pub(crate) fn content_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value
        .iter()
        .try_fold(0_u64, |sum, byte| {
            let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
            sum.checked_mul(10)?.checked_add(digit)
        })
        .filter(|&length| i64::try_from(length).is_ok())
}
