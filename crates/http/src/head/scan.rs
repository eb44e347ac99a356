//! Finds the end of a request head, and remembers the position of the search.
//!
//! It enforces three rules that need no parsing: every line ends with CRLF, the request line and the head are within their
//! limits, at most two empty lines precede the head. It examines each byte once, however slowly the head is received.
//!
//! Invariant: each result depends on the position of a byte, never on where a read ended. So a stream gives the same result
//! however it is split.

use memchr::{memchr, memchr_iter};

use super::limits::HeadLimits;
use crate::refusal::BadRequest;
use crate::token::is_token_byte;

/// The progress of the search for a head's end in a growing buffer. One per connection. It restarts when a head is complete,
/// and must be replaced when the buffer is cleared for another reason.
#[derive(Clone, Debug, Default)]
pub struct HeadScanner {
    /// The start of the request line, after the skipped empty lines.
    start: usize,
    /// The start of the line whose end is searched.
    line: usize,
    /// All line feeds before this position were checked.
    searched: usize,
    phase: ScanPhase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ScanPhase {
    #[default]
    Leading,
    RequestLine,
    Fields,
}

/// The position of a complete head in the buffer, including its empty line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub start: usize,
    pub end: usize,
}

impl HeadScanner {
    /// A scanner at the buffer's first byte.
    pub const fn new() -> Self {
        Self {
            start: 0,
            line: 0,
            searched: 0,
            phase: ScanPhase::Leading,
        }
    }

    /// Whether the first byte of a request line was received. Empty lines before it do not count: a connection that has only
    /// sent those is idle.
    pub fn has_begun(&self) -> bool {
        self.phase != ScanPhase::Leading
    }

    /// Continues the search. `bytes` must begin with the bytes of the previous calls. Returns the position of a complete head.
    pub(crate) fn scan(
        &mut self,
        bytes: &[u8],
        limits: &HeadLimits,
    ) -> Result<Option<Extent>, BadRequest> {
        if self.phase == ScanPhase::Leading
            && let Some(end) = complete_head_end(bytes, limits)
        {
            *self = Self::new();
            return Ok(Some(Extent { start: 0, end }));
        }
        if self.phase == ScanPhase::Leading && !self.skip_empty_lines(bytes)? {
            return Ok(None);
        }
        if self.phase == ScanPhase::RequestLine && !self.pass_request_line(bytes, limits)? {
            return Ok(None);
        }
        while let Some(at) = self.next_line_feed(bytes, limits.head_bytes)? {
            if at == self.line + 1 {
                let start = self.start;
                *self = Self::new();
                return Ok(Some(Extent { start, end: at + 1 }));
            }
            self.line = at + 1;
        }
        if bytes.len() >= limits.head_bytes {
            return Err(BadRequest::HeadTooLarge);
        }
        Ok(None)
    }

    /// Skips empty lines before a request line (RFC 9112 section 2.2). Two are enough for old clients that send one after a
    /// body. A byte that cannot start a method (TLS, garbage) is rejected immediately.
    fn skip_empty_lines(&mut self, bytes: &[u8]) -> Result<bool, BadRequest> {
        loop {
            match bytes.get(self.start..).unwrap_or_default() {
                [] | [b'\r'] => return Ok(false),
                [b'\r', b'\n', ..] if self.start < LEADING_BYTES => self.start += 2,
                [b'\n', ..] => return Err(BadRequest::BareLineFeed),
                [first, ..] if is_token_byte(*first) => {
                    self.line = self.start;
                    self.searched = self.start;
                    self.phase = ScanPhase::RequestLine;
                    return Ok(true);
                }
                _ => return Err(BadRequest::RequestLine),
            }
        }
    }

    fn pass_request_line(&mut self, bytes: &[u8], limits: &HeadLimits) -> Result<bool, BadRequest> {
        let longest = limits.target_bytes.saturating_add(REQUEST_LINE_FRAME);
        let line_end = self.start.saturating_add(longest);
        let end = line_end.min(limits.head_bytes);
        if let Some(at) = self.next_line_feed(bytes, end)? {
            self.line = at + 1;
            self.phase = ScanPhase::Fields;
            return Ok(true);
        }
        if bytes.len() < end {
            return Ok(false);
        }
        if line_end <= limits.head_bytes {
            return Err(BadRequest::TargetTooLong);
        }
        Err(BadRequest::HeadTooLarge)
    }

    /// The position of the next line feed before `end`, which must follow a carriage return.
    fn next_line_feed(&mut self, bytes: &[u8], end: usize) -> Result<Option<usize>, BadRequest> {
        let until = bytes.len().min(end);
        let window = bytes.get(self.searched..until).unwrap_or_default();
        let Some(offset) = memchr(b'\n', window) else {
            self.searched = self.searched.max(until);
            return Ok(None);
        };
        let at = self.searched + offset;
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        if before != Some(&b'\r') {
            return Err(BadRequest::BareLineFeed);
        }
        self.searched = at + 1;
        Ok(Some(at))
    }
}

/// The end of a complete head whose lines are valid: the usual case, in one search without interruption. `None`: the
/// step-by-step scan decides and gives the reason.
fn complete_head_end(bytes: &[u8], limits: &HeadLimits) -> Option<usize> {
    if !bytes.first().is_some_and(|first| is_token_byte(*first)) {
        return None;
    }
    let mut line = 0;
    for at in memchr_iter(b'\n', bytes) {
        let is_long = line == 0 && at >= limits.target_bytes.saturating_add(REQUEST_LINE_FRAME);
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        if is_long || at >= limits.head_bytes || before != Some(&b'\r') {
            return None;
        }
        if at == line + 1 {
            return Some(at + 1);
        }
        line = at + 1;
    }
    None
}

/// The size of two empty lines.
const LEADING_BYTES: usize = 4;
/// The maximum size of a request line without its target: the longest method, two spaces, the version, CRLF.
const REQUEST_LINE_FRAME: usize = crate::head::METHOD_BYTES + b"  HTTP/1.1\r\n".len();

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HeadLimits = HeadLimits {
        head_bytes: 32 * 1024,
        fields: 100,
        target_bytes: 8 * 1024,
    };

    #[test]
    fn examines_every_byte_once() {
        let mut head = b"GET / HTTP/1.1\r\n".to_vec();
        while head.len() < 32_000 {
            head.extend_from_slice(b"Name: value value value value value value value value\r\n");
        }
        head.extend_from_slice(b"Last: x\r\n\r\n");
        let mut scanner = HeadScanner::new();
        for end in 1..head.len() {
            assert_eq!(scanner.scan(&head[..end], &LIMITS), Ok(None));
            assert_eq!(
                scanner.searched, end,
                "bytes before {end} are searched again"
            );
        }
        let whole = Extent {
            start: 0,
            end: head.len(),
        };
        assert_eq!(scanner.scan(&head, &LIMITS), Ok(Some(whole)));
        assert!(!scanner.has_begun(), "begins anew after a whole head");
    }

    #[test]
    fn whole_heads_and_heads_in_pieces_end_at_the_same_position() {
        let tight = HeadLimits {
            head_bytes: 60,
            target_bytes: 4,
            ..LIMITS
        };
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(40));
        let heads = [
            "GET / HTTP/1.1\r\n\r\nrest",
            "GET / HTTP/1.1\r\nA: b\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\n\r\n",
            "GET / HTTP/1.1\r\nA: b\r\n\n",
            "GET / HTTP/1.1\r\nA: bcdefghijklmnopqrstuvwxyzabcdefghijklmnop\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\n\r\n",
            "\n\r\n",
            "G\r\n\r\n",
            "G\n",
            &long,
        ];
        for (head, limits) in heads
            .iter()
            .flat_map(|head| [(head, LIMITS), (head, tight)])
        {
            let mut scanner = HeadScanner::new();
            let mut byte_by_byte = Ok(None);
            for end in 0..=head.len() {
                byte_by_byte = scanner.scan(&head.as_bytes()[..end], &limits);
                if !matches!(byte_by_byte, Ok(None)) {
                    break;
                }
            }
            let at_once = HeadScanner::new().scan(head.as_bytes(), &limits);
            assert_eq!(at_once, byte_by_byte, "{head:?}");
        }
    }

    #[test]
    fn skips_two_empty_lines_only() {
        let scan = |bytes: &[u8]| HeadScanner::new().scan(bytes, &LIMITS);
        let found = scan(b"\r\n\r\nG\r\n\r\n");
        assert_eq!(found, Ok(Some(Extent { start: 4, end: 9 })));
        assert_eq!(scan(b"\r\n\r\n\r\nG"), Err(BadRequest::RequestLine));
        assert_eq!(scan(b"\nG"), Err(BadRequest::BareLineFeed));
        assert_eq!(scan(b"\rG"), Err(BadRequest::RequestLine));
        assert_eq!(scan(b"\r\n\r"), Ok(None));
    }

    #[test]
    fn idle_until_the_first_byte_of_a_method() {
        let mut scanner = HeadScanner::new();
        assert_eq!(scanner.scan(b"\r\n", &LIMITS), Ok(None));
        assert!(!scanner.has_begun());
        assert_eq!(scanner.scan(b"\r\nG", &LIMITS), Ok(None));
        assert!(scanner.has_begun());
    }

    #[test]
    fn rejects_the_first_byte_of_a_tls_hello() {
        let found = HeadScanner::new().scan(b"\x16", &LIMITS);
        assert_eq!(found, Err(BadRequest::RequestLine));
    }

    #[test]
    fn a_shorter_buffer_than_before_does_not_panic() {
        let mut scanner = HeadScanner::new();
        assert_eq!(scanner.scan(b"GET / HTTP/1.1\r\nA", &LIMITS), Ok(None));
        assert_eq!(scanner.scan(b"", &LIMITS), Ok(None));
    }
}
