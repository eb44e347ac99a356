//! Both parsers of a head, and which of them is used.

use super::fast;
use super::limits::{HeadLimits, MAX_FIELDS, METHOD_BYTES};
use super::line::{FieldLine, Head, RequestLine, Version};
use super::scan::{Extent, HeadScanner};
use crate::refusal::BadRequest;

/// Room for the field lines of one head: 1 KiB for the stack, so that reading a usual head needs no allocation and moves
/// nothing. A future that keeps one over an `.await` grows by as much.
pub struct HeadBuffer<'b> {
    pub(crate) usual: [FieldLine<'b>; fast::MOST_FIELDS],
    /// Made for a head with more field lines, or in an unusual form.
    pub(crate) large: Option<Box<[FieldLine<'b>; MAX_FIELDS]>>,
}

impl HeadBuffer<'_> {
    /// Empty, at hardly any cost.
    pub const fn new() -> Self {
        Self {
            usual: [FieldLine::NONE; fast::MOST_FIELDS],
            large: None,
        }
    }
}

impl Default for HeadBuffer<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// What a buffer's beginning holds.
#[derive(Clone, Copy, Debug)]
pub enum ParsedHead<'b, 'r> {
    /// Not a whole head yet, and no reason to refuse it so far.
    Partial,
    /// A whole head; `length` bytes of the buffer belong to it, skipped empty lines included.
    Whole {
        /// The result.
        head: Head<'b, 'r>,
        /// Where the body, or the next request, begins.
        length: usize,
    },
}

/// Reads the head at the beginning of `bytes`, from scratch. For buffers that grow use [`resume`].
///
/// Errors: every [`BadRequest`] of the head's grammar and limits; those of meaning come from [`crate::framing::frame`].
/// Cost: one pass over the head; three and one allocation for an unusual one.
pub fn parse<'b, 'r>(
    bytes: &'b [u8],
    limits: &HeadLimits,
    room: &'r mut HeadBuffer<'b>,
) -> Result<ParsedHead<'b, 'r>, BadRequest> {
    resume(&mut HeadScanner::new(), bytes, limits, room)
}

/// Reads the head at the beginning of `bytes`, which starts with all bytes of the calls before that returned
/// [`ParsedHead::Partial`]. A head that arrives in many small reads costs one pass for its end and one parse, not a pass per
/// read.
///
/// After [`ParsedHead::Whole`] the scanner is ready for the next head: drop `length` bytes (and the body) before the next
/// call.
pub fn resume<'b, 'r>(
    scanner: &mut HeadScanner,
    bytes: &'b [u8],
    limits: &HeadLimits,
    room: &'r mut HeadBuffer<'b>,
) -> Result<ParsedHead<'b, 'r>, BadRequest> {
    // A head that arrived in pieces was scanned before, and continues from there.
    if !scanner.has_begun()
        && let Some(whole) = fast::read(bytes, limits, &mut room.usual)
    {
        let fields = room.usual.get(..whole.count).unwrap_or_default();
        let head = whole.line.with(fields);
        let length = whole.length;
        return Ok(ParsedHead::Whole { head, length });
    }
    let Some(Extent { start, end }) = scanner.scan(bytes, limits)? else {
        return Ok(ParsedHead::Partial);
    };
    let head = bytes.get(start..end).unwrap_or_default();
    let fields = room.large.insert(Box::new([FieldLine::NONE; MAX_FIELDS]));
    let (line, count) = read(head, limits, fields)?;
    let head = line.with(fields.get(..count).unwrap_or_default());
    Ok(ParsedHead::Whole { head, length: end })
}

/// The request line and how many field lines there are, which go to `fields`. `head` is exactly one head whose lines all end with CRLF.
pub(crate) fn read<'b>(
    head: &'b [u8],
    limits: &HeadLimits,
    fields: &mut [FieldLine<'b>; MAX_FIELDS],
) -> Result<(RequestLine<'b>, usize), BadRequest> {
    let most = limits.fields.min(MAX_FIELDS);
    let mut lines = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(lines.get_mut(..most).unwrap_or_default());
    let parsed = request
        .parse(head)
        .map_err(|error| refusal_of(error, head))?;
    // Partial or missing parts cannot be: the scanner saw the empty line. If they were, the head is not one.
    let (Some(method), Some(target), Some(minor), true) = (
        request.method,
        request.path,
        request.version,
        parsed == httparse::Status::Complete(head.len()),
    ) else {
        return Err(BadRequest::RequestLine);
    };
    if method.len() > METHOD_BYTES {
        return Err(BadRequest::Method);
    }
    if target.len() > limits.target_bytes {
        return Err(BadRequest::TargetTooLong);
    }
    // RFC 3986 knows no byte above 0x7f; httparse lets UTF-8 pass.
    if !target.is_ascii() {
        return Err(BadRequest::Target);
    }
    for (field, line) in fields.iter_mut().zip(request.headers.iter()) {
        *field = FieldLine {
            name: line.name.as_bytes(),
            value: line.value,
        };
    }
    let version = if minor == 0 {
        Version::H10
    } else {
        Version::H11
    };
    let line = RequestLine {
        method,
        target: target.as_bytes(),
        version,
    };
    Ok((line, request.headers.len()))
}

fn refusal_of(error: httparse::Error, head: &[u8]) -> BadRequest {
    match error {
        httparse::Error::HeaderName | httparse::Error::HeaderValue => BadRequest::Field,
        httparse::Error::TooManyHeaders => BadRequest::TooManyFields,
        httparse::Error::Version if names_other_version(head) => BadRequest::Version,
        _ => BadRequest::RequestLine,
    }
}

/// Whether the third word of the request line is a version by its form (RFC 9112 section 2.3), to tell 505 from 400.
/// `PRI * HTTP/2.0`, the greeting of HTTP/2, is one.
fn names_other_version(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\r').next();
    let word = line.and_then(|line| line.splitn(3, |&byte| byte == b' ').nth(2));
    matches!(word, Some([b'H', b'T', b'T', b'P', b'/', major, b'.', minor])
        if major.is_ascii_digit() && minor.is_ascii_digit())
}
