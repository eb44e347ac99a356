//! Splits the standard output of a responder into the CGI head block and the body (RFC 3875 section 6).
//!
//! The head block ends at the first empty line; lines end with LF or CRLF, also mixed. Its contents are not examined: the
//! caller parses field names, `Status` and values. The result does not depend on how the output was split into events.

use bytes::{Bytes, BytesMut};
use memchr::memchr;

/// The maximum size of a head block in bytes, without its empty line. PHP has no limit; the head of a WordPress page with
/// many preload links and tags needs less than a quarter of this.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Why the output is not a CGI response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCgiResponse {
    /// No empty line within [`MAX_HEAD_BYTES`].
    #[error("the head of the CGI response is longer than {MAX_HEAD_BYTES} bytes")]
    HeadTooLarge,
}

/// The result of one piece of output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitOutput {
    /// The whole head block, exactly once per response: its lines with their line ends, without the empty line.
    pub head: Option<Bytes>,
    /// The bytes of the body; may be empty.
    pub body: Bytes,
}

/// Splits the pieces of one response, in order.
#[derive(Debug, Default)]
pub struct Splitter {
    state: ResponseState,
}

#[derive(Debug)]
enum ResponseState {
    Head { received: BytesMut, scan: HeadScan },
    Body,
}

impl Default for ResponseState {
    fn default() -> ResponseState {
        ResponseState::Head {
            received: BytesMut::new(),
            scan: HeadScan::default(),
        }
    }
}

impl Splitter {
    /// A splitter for a new response.
    pub fn new() -> Splitter {
        Splitter::default()
    }

    /// Splits the next piece. A head in one piece, and every body, is passed on without a copy.
    pub fn push(&mut self, piece: Bytes) -> Result<SplitOutput, BadCgiResponse> {
        let ResponseState::Head { received, scan } = &mut self.state else {
            return Ok(SplitOutput {
                head: None,
                body: piece,
            });
        };
        let is_first = received.is_empty();
        if !is_first {
            received.extend_from_slice(&piece);
        }
        let seen: &[u8] = if is_first { &piece } else { received };
        match scan.find_end(seen) {
            Some(end) if end.head > MAX_HEAD_BYTES => Err(BadCgiResponse::HeadTooLarge),
            // With two more bytes, an empty line after the longest head would be complete.
            None if seen.len() >= MAX_HEAD_BYTES + 2 => Err(BadCgiResponse::HeadTooLarge),
            Some(end) => {
                let mut whole = if is_first {
                    piece
                } else {
                    std::mem::take(received).freeze()
                };
                self.state = ResponseState::Body;
                let body = whole.split_off(end.body);
                whole.truncate(end.head);
                Ok(SplitOutput {
                    head: Some(whole),
                    body,
                })
            }
            None => {
                if is_first {
                    received.extend_from_slice(&piece);
                }
                Ok(SplitOutput::default())
            }
        }
    }
}

/// The start of the empty line and the start of the body.
struct HeadEnd {
    head: usize,
    body: usize,
}

/// The progress of the search for the end of the head. Each byte is examined once.
#[derive(Clone, Copy, Debug, Default)]
struct HeadScan {
    /// The start of the current line.
    line: usize,
    /// There is no line end between `line` and this position.
    searched: usize,
}

impl HeadScan {
    /// Searches for the empty line. `bytes` is everything from the start of the response.
    fn find_end(&mut self, bytes: &[u8]) -> Option<HeadEnd> {
        while let Some(length) = memchr(b'\n', bytes.get(self.searched..)?) {
            let (line, feed) = (self.line, self.searched + length);
            *self = HeadScan {
                line: feed + 1,
                searched: feed + 1,
            };
            if matches!(bytes.get(line..feed), Some(b"" | b"\r")) {
                return Some(HeadEnd {
                    head: line,
                    body: feed + 1,
                });
            }
        }
        self.searched = bytes.len();
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pushes the pieces between the cuts, and joins the results. No head: it did not end.
    fn split(bytes: &[u8], cuts: &[usize]) -> Result<(Option<Bytes>, Vec<u8>), BadCgiResponse> {
        let mut splitter = Splitter::new();
        let (mut head, mut body) = (None, Vec::new());
        let mut from = 0;
        for &cut in cuts.iter().chain([&bytes.len()]) {
            let piece = splitter.push(Bytes::copy_from_slice(&bytes[from..cut]))?;
            assert!(head.is_none() || piece.head.is_none(), "two heads");
            assert!(
                head.is_some() || piece.head.is_some() || piece.body.is_empty(),
                "body before head"
            );
            head = head.or(piece.head);
            body.extend_from_slice(&piece.body);
            from = cut;
        }
        Ok((head, body))
    }

    #[test]
    fn heads_end_at_the_first_empty_line() {
        for (bytes, head, body) in [
            ("A: b\r\n\r\nbody", "A: b\r\n", "body"),
            ("A: b\n\nbody", "A: b\n", "body"),
            ("A: b\r\n\nbody", "A: b\r\n", "body"),
            ("A: b\n\r\nbody", "A: b\n", "body"),
            ("A: b\r\n\r\n\r\n\r\n", "A: b\r\n", "\r\n\r\n"),
            ("A: b\r\n\r\n", "A: b\r\n", ""),
            ("\r\nbody", "", "body"),
            ("\nbody", "", "body"),
            ("A: b\r\n \r\n\r\nbody", "A: b\r\n \r\n", "body"),
            ("A: b\r\rC: d\r\n\r\nx", "A: b\r\rC: d\r\n", "x"),
            ("A: b\n\r\r\n\nx", "A: b\n\r\r\n", "x"),
        ] {
            let expected = Ok((Some(Bytes::from(head)), body.as_bytes().to_vec()));
            assert_eq!(split(bytes.as_bytes(), &[]), expected, "{bytes:?}");
            for cut in 0..bytes.len() {
                assert_eq!(
                    split(bytes.as_bytes(), &[cut]),
                    expected,
                    "{bytes:?} cut at {cut}"
                );
            }
        }
    }

    #[test]
    fn a_head_without_an_end_is_none() {
        for bytes in ["", "A: b", "A: b\r\n", "A: b\r\n\r", "A: b\r\r"] {
            assert_eq!(
                split(bytes.as_bytes(), &[]),
                Ok((None, Vec::new())),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn the_limit_does_not_depend_on_the_split() {
        for (length, fits) in [
            (MAX_HEAD_BYTES - 1, true),
            (MAX_HEAD_BYTES, true),
            (MAX_HEAD_BYTES + 1, false),
        ] {
            for end in ["\r\n", "\n"] {
                let mut bytes = vec![b'x'; length - 1];
                bytes.push(b'\n');
                bytes.extend_from_slice(end.as_bytes());
                bytes.extend_from_slice(b"body");
                for cut in [1, length - 1, length, length + 1, length + 2] {
                    let result = split(&bytes, &[cut]);
                    assert_eq!(result.is_ok(), fits, "{length} bytes cut at {cut}");
                    assert_eq!(result.is_err(), split(&bytes, &[]).is_err());
                }
            }
        }
    }

    #[test]
    fn a_head_in_one_piece_is_not_copied() {
        let piece = Bytes::from_static(b"A: b\n\nbody");
        let split = Splitter::new().push(piece.clone()).unwrap();
        assert_eq!(split.head.unwrap().as_ptr(), piece.as_ptr());
        assert_eq!(split.body.as_ptr(), piece[6..].as_ptr());
    }

    proptest! {
        #[test]
        fn results_do_not_depend_on_the_split(bytes in proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'a'), any::<u8>()], 0..60),
                                  cuts in proptest::collection::vec(0_usize..60, 0..8)) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            prop_assert_eq!(split(&bytes, &cuts), split(&bytes, &[]));
        }
    }
}
