//! Reads one request head: request line and field lines (RFC 9112 sections 2 to 5), nothing of their meaning.
//!
//! There are two ways to the same result. The careful one knows all of the grammar: `httparse` with all leniency off, and
//! before it a scanner that refuses what httparse lets pass (bare line feeds, endless empty lines) and what is too long. The
//! quick one (`whole`) reads what nearly every client sends, in a third of the time, and leaves the rest to the other.
//!
//! Invariants: no allocation for a usual head; all text of a [`Head`] lies in the caller's buffer; names are tokens, values hold no
//! control character but HTAB, the target is visible ASCII.

use std::fmt;

use crate::fast_head;
use crate::scan::Extent;

pub use crate::refusal::BadRequest;
pub use crate::scan::HeadScanner;

/// Most bytes of a method. The longest registered one, `UPDATEREDIRECTREF`, has 17.
pub const METHOD_BYTES: usize = 32;
/// Most field lines a [`Head`] has room for; [`HeadLimits::fields`] above it counts as this.
pub const MAX_FIELDS: usize = 100;

/// What a request head may measure. Each limit is refused when it is passed, not when the head ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the whole head, empty lines before it and after it included: 431.
    pub head_bytes: usize,
    /// Field lines, at most [`MAX_FIELDS`]: 431.
    pub fields: usize,
    /// Bytes of the request target: 414.
    pub target_bytes: usize,
}

impl Default for HeadLimits {
    /// 32 KiB of head (large cookies of shops fit), 100 fields, 8 KiB of target (RFC 9112 section 3 asks for 8000 bytes).
    fn default() -> Self {
        Self {
            head_bytes: 32 * 1024,
            fields: MAX_FIELDS,
            target_bytes: 8 * 1024,
        }
    }
}

/// The versions that are spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0.
    H10,
    /// HTTP/1.1.
    H11,
    /// HTTP/2; see [`crate::h2`].
    H2,
}

/// A whole request head as it lies in the buffer.
///
/// Its field lines lie in a [`HeadBuffer`].
#[derive(Clone, Copy)]
pub struct Head<'b, 'r> {
    /// Case-sensitive token of 1 to [`METHOD_BYTES`] bytes.
    pub method: &'b str,
    /// As sent: visible ASCII, not empty, not decoded. Its form is checked by [`crate::framing::frame`].
    pub target: &'b [u8],
    /// From the request line.
    pub version: Version,
    pub(crate) fields: &'r [FieldLine<'b>],
}

/// A field line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldLine<'b> {
    /// A token.
    pub(crate) name: &'b [u8],
    /// Without the white space around it.
    pub(crate) value: &'b [u8],
}

impl FieldLine<'_> {
    pub(crate) const NONE: Self = Self {
        name: b"",
        value: b"",
    };
}

/// Room for the field lines of one head: 1 KiB for the stack, so that reading a usual head needs no allocation and moves
/// nothing. A future that keeps one over an `.await` grows by as much.
pub struct HeadBuffer<'b> {
    pub(crate) usual: [FieldLine<'b>; fast_head::MOST_FIELDS],
    /// Made for a head with more field lines, or in an unusual form.
    pub(crate) large: Option<Box<[FieldLine<'b>; MAX_FIELDS]>>,
}

impl HeadBuffer<'_> {
    /// Empty, at hardly any cost.
    pub const fn new() -> Self {
        Self {
            usual: [FieldLine::NONE; fast_head::MOST_FIELDS],
            large: None,
        }
    }
}

impl Default for HeadBuffer<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'b> Head<'b, '_> {
    /// The field lines in the order sent: name as sent (a token), value without the white space around it (may be
    /// empty, may hold bytes above 0x7f).
    pub fn fields(&self) -> impl Iterator<Item = (&'b str, &'b [u8])> + Clone {
        // A token is ASCII.
        let text = |name| std::str::from_utf8(name).unwrap_or_default();
        self.lines().map(move |(name, value)| (text(name), value))
    }

    /// As [`Self::fields`], for those who compare names only: that they are text is not proved anew for each.
    pub fn lines(&self) -> impl Iterator<Item = (&'b [u8], &'b [u8])> + Clone {
        self.fields.iter().map(|field| (field.name, field.value))
    }

    /// How many field lines there are.
    pub fn count(&self) -> usize {
        self.fields.len()
    }
}

impl fmt::Debug for Head<'_, '_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Head")
            .field("method", &self.method)
            .field("target", &self.target.escape_ascii().to_string())
            .field("version", &self.version)
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

/// What a buffer's beginning holds.
#[derive(Clone, Copy, Debug)]
pub enum ParsedHead<'b, 'r> {
    /// Not a whole head yet, and no reason to refuse it so far.
    Partial,
    /// A whole head; `length` bytes of the buffer belong to it, skipped empty lines included.
    Whole {
        /// What was read.
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

/// Reads the head at the beginning of `bytes`, which starts with all bytes of the calls before that gave
/// [`ParsedHead::Partial`]. A head that comes in many small reads costs one pass for its end and one parse, not a pass per read.
///
/// After [`ParsedHead::Whole`] the scanner stands for the next head: drop `length` bytes (and the body) before the next call.
pub fn resume<'b, 'r>(
    scanner: &mut HeadScanner,
    bytes: &'b [u8],
    limits: &HeadLimits,
    room: &'r mut HeadBuffer<'b>,
) -> Result<ParsedHead<'b, 'r>, BadRequest> {
    // A head that came in pieces was looked at before, and goes on from there.
    if !scanner.has_begun()
        && let Some(whole) = fast_head::read(bytes, limits, &mut room.usual)
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

/// What stands in a request line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestLine<'b> {
    pub(crate) method: &'b str,
    pub(crate) target: &'b [u8],
    pub(crate) version: Version,
}

impl<'b> RequestLine<'b> {
    fn with<'r>(self, fields: &'r [FieldLine<'b>]) -> Head<'b, 'r> {
        Head {
            method: self.method,
            target: self.target,
            version: self.version,
            fields,
        }
    }
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
