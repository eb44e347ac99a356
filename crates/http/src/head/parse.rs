//! Parses a head, with the fast parser if possible, otherwise with the full one.

use super::fast;
use super::limits::{HeadLimits, MAX_FIELDS, METHOD_BYTES};
use super::line::{FieldLine, Head, RequestLine, Version};
use super::scan::{Extent, HeadScanner};
use crate::refusal::BadRequest;

/// A buffer for the field lines of one head: 1 KiB on the stack, so that parsing a usual head needs no allocation and no
/// copy. A future that keeps one across an `.await` grows by as much.
pub struct HeadBuffer<'b> {
    pub(crate) usual: [FieldLine<'b>; fast::MAX_FAST_FIELDS],
    /// Allocated for a head with more field lines, or in an unusual form.
    pub(crate) large: Option<Box<[FieldLine<'b>; MAX_FIELDS]>>,
}

impl HeadBuffer<'_> {
    /// An empty buffer. Costs almost nothing.
    pub const fn new() -> Self {
        Self {
            usual: [FieldLine::NONE; fast::MAX_FAST_FIELDS],
            large: None,
        }
    }
}

impl Default for HeadBuffer<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// The result of parsing the start of a buffer.
#[derive(Clone, Copy, Debug)]
pub enum ParsedHead<'b, 'r> {
    /// An incomplete head, without an error so far.
    Partial,
    /// A complete head.
    Whole {
        /// The head.
        head: Head<'b, 'r>,
        /// The length of the head in bytes, including skipped empty lines. The body, or the next request, begins there.
        length: usize,
    },
}

/// Parses the head at the start of `bytes`, from its first byte. For buffers that grow use [`resume`].
///
/// Errors: every [`BadRequest`] of the head's grammar and limits; [`crate::framing::frame`] returns those of its meaning.
/// Cost: one pass over the head; three and one allocation for an unusual one.
pub fn parse<'b, 'r>(
    bytes: &'b [u8],
    limits: &HeadLimits,
    buffer: &'r mut HeadBuffer<'b>,
) -> Result<ParsedHead<'b, 'r>, BadRequest> {
    resume(&mut HeadScanner::new(), bytes, limits, buffer)
}

/// Parses the head at the start of `bytes`, which begins with all bytes of the previous calls that returned
/// [`ParsedHead::Partial`]. A head received in many small reads costs one pass that finds its end and one parse, not one pass
/// for each read.
///
/// After [`ParsedHead::Whole`] the scanner is ready for the next head: remove `length` bytes (and the body) before the next
/// call.
pub fn resume<'b, 'r>(
    scanner: &mut HeadScanner,
    bytes: &'b [u8],
    limits: &HeadLimits,
    buffer: &'r mut HeadBuffer<'b>,
) -> Result<ParsedHead<'b, 'r>, BadRequest> {
    // The scanner has examined a head that was received in pieces, and continues where it stopped.
    if !scanner.has_begun()
        && let Some(whole) = fast::read(bytes, limits, &mut buffer.usual)
    {
        let fields = buffer.usual.get(..whole.count).unwrap_or_default();
        let head = whole.line.with(fields);
        let length = whole.length;
        return Ok(ParsedHead::Whole { head, length });
    }
    let Some(Extent { start, end }) = scanner.scan(bytes, limits)? else {
        return Ok(ParsedHead::Partial);
    };
    let head = bytes.get(start..end).unwrap_or_default();
    let fields = buffer.large.insert(Box::new([FieldLine::NONE; MAX_FIELDS]));
    let (line, count) = read(head, limits, fields)?;
    let head = line.with(fields.get(..count).unwrap_or_default());
    Ok(ParsedHead::Whole { head, length: end })
}

/// The request line and the number of field lines, which are written to `fields`. `head` is exactly one head whose lines all
/// end with CRLF.
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
    // Never partial and never incomplete: the scanner found the empty line. If this were wrong, the head would be invalid.
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
    // RFC 3986 allows no byte above 0x7f; httparse accepts UTF-8.
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

/// Whether the third word of the request line has the form of a version (RFC 9112 section 2.3), to distinguish 505 from
/// 400. It has in `PRI * HTTP/2.0`, the preface of HTTP/2.
fn names_other_version(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\r').next();
    let word = line.and_then(|line| line.splitn(3, |&byte| byte == b' ').nth(2));
    matches!(word, Some([b'H', b'T', b'T', b'P', b'/', major, b'.', minor])
        if major.is_ascii_digit() && minor.is_ascii_digit())
}
