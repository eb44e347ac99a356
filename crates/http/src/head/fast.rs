//! Parses a complete head of the usual form in one pass.
//!
//! Invariant: the result equals that of the full parser in [`crate::head`] for the same bytes. Anything unusual is left to
//! that parser: only that one rejects requests and gives the reason. So this one may support less of the grammar, but never
//! more. Tests and a fuzz target compare the two.

use super::limits::{HeadLimits, METHOD_BYTES};
use super::line::{FieldLine, RequestLine, Version};
use crate::classes;
use crate::token::{is_token_byte, trim};

/// The maximum number of field lines of a head that is parsed here: browsers send twelve to twenty.
pub(crate) const MAX_FAST_FIELDS: usize = 32;

/// A head's request line, its number of field lines, and its length.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FastHead<'b> {
    pub(crate) line: RequestLine<'b>,
    /// The number of field lines.
    pub(crate) count: usize,
    /// The length of the head, in bytes.
    pub(crate) length: usize,
}

/// Parses the head at the start of `bytes`; its field lines are in `fields`. `None`: use the full parser.
pub(crate) fn read<'b>(
    bytes: &'b [u8],
    limits: &HeadLimits,
    fields: &mut [FieldLine<'b>; MAX_FAST_FIELDS],
) -> Option<FastHead<'b>> {
    let most = limits.fields.min(MAX_FAST_FIELDS);
    let bytes = bytes.get(..limits.head_bytes).unwrap_or(bytes);
    let mut ends = LineEnds::new(bytes);
    let first = ends.next()?;
    let line = request_line(bytes.get(..first)?, limits)?;
    let mut start = first + LINE_END;
    let mut slots = fields.get_mut(..most)?.iter_mut();
    loop {
        let end = ends.next()?;
        if end == start {
            return Some(FastHead {
                line,
                count: most - slots.len(),
                length: start + LINE_END,
            });
        }
        *slots.next()? = field_line(bytes, start, end)?;
        start = end + LINE_END;
    }
}

fn request_line<'b>(line: &'b [u8], limits: &HeadLimits) -> Option<RequestLine<'b>> {
    let line = line.strip_suffix(b" HTTP/1.1")?;
    let space = line.iter().position(|byte| *byte == b' ')?;
    let method = line.get(..space)?;
    let target = line.get(space + 1..)?;
    let is_plain = (1..=METHOD_BYTES).contains(&method.len())
        && method.iter().all(u8::is_ascii_uppercase)
        && (1..=limits.target_bytes).contains(&target.len())
        && classes::is_visible(target);
    is_plain.then_some(RequestLine {
        method: std::str::from_utf8(method).ok()?,
        target,
        version: Version::H11,
    })
}

/// The field whose line is between these positions and contains no control character but HTAB.
fn field_line(bytes: &[u8], start: usize, end: usize) -> Option<FieldLine<'_>> {
    let colon = start + name_length(bytes.get(start..)?)?;
    let name = bytes.get(start..colon)?;
    // The usual form: one space.
    let ([b':', b' ', value @ ..] | [b':', value @ ..]) = bytes.get(colon..end)? else {
        return None;
    };
    let value = match value {
        [b' ' | b'\t', ..] | [.., b' ' | b'\t'] => trim(value),
        _ => value,
    };
    Some(FieldLine { name, value })
}

/// The number of bytes before the first that is not allowed in a name; at least one.
fn name_length(bytes: &[u8]) -> Option<usize> {
    let mut length = 0;
    while let Some(chunk) = bytes.get(length..)?.first_chunk::<16>() {
        let more = classes::usual_name(chunk);
        length += more;
        if more < 16 {
            return (length > 0).then_some(length);
        }
    }
    let rest = bytes.get(length..)?.iter();
    length += rest.take_while(|byte| is_token_byte(**byte)).count();
    (length > 0).then_some(length)
}

/// Finds line ends, as long as each line ends with CRLF and contains no other control character but HTAB.
struct LineEnds<'b> {
    bytes: &'b [u8],
    /// The position of the current block.
    block: usize,
    /// The control characters of the block that have not been examined yet.
    marks: u64,
    /// The position of the next block.
    next: usize,
    /// Whether the first byte of the next block is the line feed of a carriage return in this one.
    is_cut: bool,
}

impl<'b> LineEnds<'b> {
    fn new(bytes: &'b [u8]) -> Self {
        Self {
            bytes,
            block: 0,
            marks: 0,
            next: 0,
            is_cut: false,
        }
    }

    /// The position of the carriage return that ends the next line.
    fn next(&mut self) -> Option<usize> {
        loop {
            while self.marks == 0 {
                self.load()?;
            }
            let at = self.block + self.marks.trailing_zeros() as usize;
            self.marks &= self.marks - 1;
            match self.bytes.get(at..)? {
                [b'\r', b'\n', ..] => {
                    // The next mark is the line feed, unless it is in the next block.
                    self.is_cut = self.marks == 0;
                    self.marks &= self.marks.wrapping_sub(1);
                    return Some(at);
                }
                [b'\t', ..] => {}
                _ => return None,
            }
        }
    }

    fn load(&mut self) -> Option<()> {
        let rest = self.bytes.get(self.next..)?;
        self.marks = if let Some(block) = rest.first_chunk::<BLOCK>() {
            classes::controls(block)
        } else if rest.is_empty() {
            return None;
        } else {
            let mut block = [b' '; BLOCK];
            block.get_mut(..rest.len())?.copy_from_slice(rest);
            classes::controls(&block)
        };
        if std::mem::take(&mut self.is_cut) {
            self.marks &= !1;
        }
        self.block = self.next;
        self.next += BLOCK;
        Some(())
    }
}

const BLOCK: usize = 64;

/// The length of CR and LF.
const LINE_END: usize = 2;

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::head;
    use crate::head::scan::{Extent, HeadScanner};

    type Read<'b> = Option<(FastHead<'b>, Vec<FieldLine<'b>>)>;

    fn fast<'b>(bytes: &'b [u8], limits: &HeadLimits) -> Read<'b> {
        let mut fields = [FieldLine::NONE; MAX_FAST_FIELDS];
        let whole = read(bytes, limits, &mut fields)?;
        let fields = fields[..whole.count].to_vec();
        Some((whole, fields))
    }

    fn full<'b>(bytes: &'b [u8], limits: &HeadLimits) -> Read<'b> {
        let Extent { start, end } = HeadScanner::new().scan(bytes, limits).ok()??;
        let mut fields = [FieldLine::NONE; head::MAX_FIELDS];
        let (line, count) = head::parse::read(&bytes[start..end], limits, &mut fields).ok()?;
        let whole = FastHead {
            line,
            count,
            length: end,
        };
        Some((whole, fields[..count].to_vec()))
    }

    const LIMITS: HeadLimits = HeadLimits {
        head_bytes: 4096,
        fields: 20,
        target_bytes: 1024,
    };

    const CHROME: &str = "GET /2026/hello/?utm_source=a HTTP/1.1\r\nHost: bench.test\r\nConnection: keep-alive\r\n\
        sec-ch-ua: \"Chromium\";v=\"124\", \"Not-A.Brand\";v=\"99\"\r\nsec-ch-ua-platform: \"Windows\"\r\n\
        Upgrade-Insecure-Requests: 1\r\nX:\r\nEmpty:  \t \r\nTab:\ta\tb\t\r\nText: \u{e9}\r\n\
        Cookie: _ga=GA1.1.1031584215.1714032000; cookie_consent=accepted\r\n\r\n";

    #[test]
    fn usual_heads_of_browsers_are_parsed() {
        for head in [
            CHROME,
            "GET / HTTP/1.1\r\n\r\n",
            "HEAD /a HTTP/1.1\r\nX:\r\n\r\n",
        ] {
            let read = fast(head.as_bytes(), &LIMITS);
            assert!(read.is_some(), "{head}");
            assert_eq!(read, full(head.as_bytes(), &LIMITS));
        }
    }

    /// Line ends at any position relative to the blocks.
    #[test]
    fn line_ends_may_stand_anywhere() {
        for length in 0..200 {
            let long = "v".repeat(length);
            let head =
                format!("GET /{long} HTTP/1.1\r\nHost: {long}\r\nA: b\r\n\r\nGET / HTTP/1.1\r\n");
            let read = fast(head.as_bytes(), &LIMITS);
            assert!(read.is_some(), "{length}");
            assert_eq!(read, full(head.as_bytes(), &LIMITS), "{length}");
        }
    }

    /// Every byte at every position of a head: the result equals that of the full parser.
    #[test]
    fn no_byte_is_accepted_that_the_full_parser_rejects() {
        let mut bytes = CHROME.as_bytes().to_vec();
        let mut taken = 0;
        for place in 0..bytes.len() {
            let before = bytes[place];
            for byte in 0..=255 {
                bytes[place] = byte;
                let read = fast(&bytes, &LIMITS);
                if read.is_some() {
                    assert_eq!(read, full(&bytes, &LIMITS), "{byte:#x} at {place}");
                    taken += 1;
                }
            }
            bytes[place] = before;
        }
        assert!(taken > bytes.len() * 100, "{taken}");
    }

    #[test]
    fn a_partial_head_is_none() {
        for end in 0..CHROME.len() {
            assert_eq!(fast(&CHROME.as_bytes()[..end], &LIMITS), None, "{end}");
        }
    }

    #[test]
    fn limits_equal_those_of_the_full_parser() {
        let head = CHROME.as_bytes();
        let fitting = HeadLimits {
            head_bytes: head.len(),
            fields: 10,
            target_bytes: 25,
        };
        assert!(fast(head, &fitting).is_some());
        for limits in [
            HeadLimits {
                head_bytes: head.len() - 1,
                ..fitting
            },
            HeadLimits {
                fields: 9,
                ..fitting
            },
            HeadLimits {
                target_bytes: 24,
                ..fitting
            },
        ] {
            assert_eq!(fast(head, &limits), None, "{limits:?}");
            assert_eq!(full(head, &limits), None, "{limits:?}");
        }
    }

    proptest! {
        #[test]
        fn any_lines_give_the_result_of_the_full_parser(
            line in "(GET|get|G T|POST)? ?(/[!-~]{0,20}|[ -~]{0,9}) ?(HTTP/1.[01])?",
            fields in vec("[A-Za-z_:!-]{0,20}:?[ \t]{0,2}[ -~\t\u{80}-\u{ff}]{0,40}(\r|\n)?", 0..22),
        ) {
            let head = format!("{line}\r\n{}\r\n\r\n", fields.join("\r\n"));
            if let Some(read) = fast(head.as_bytes(), &LIMITS) {
                prop_assert_eq!(Some(read), full(head.as_bytes(), &LIMITS));
            }
        }
    }
}
