//! The chunked coding of answers (RFC 9112 section 7.1), read in pieces of any size. Total over any bytes.

use super::answer::Malformed;

/// Where in a chunked body the next byte belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunks {
    Size { value: u64, digits: u8 },
    Extension { value: u64 },
    Data { left: u64 },
    AfterData,
    Trailer { line_is_empty: bool },
}

/// What a piece contained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// Bytes of the input that belong to this body.
    pub(super) used: usize,
    /// True once the body has ended.
    pub(super) is_last: bool,
}

impl Chunks {
    pub(super) fn new() -> Self {
        Self::Size {
            value: 0,
            digits: 0,
        }
    }

    /// Reads on; hands content to `take`.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(&[u8]),
    ) -> Result<Piece, Malformed> {
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            if let Self::Data { left } = *self {
                let count = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                let (content, after) = rest.split_at(count);
                take(content);
                let left = left - content.len() as u64;
                *self = if left == 0 {
                    Self::AfterData
                } else {
                    Self::Data { left }
                };
                rest = after;
                continue;
            }
            rest = after;
            if self.step(byte)? {
                return Ok(Piece {
                    used: bytes.len() - rest.len(),
                    is_last: true,
                });
            }
        }
        Ok(Piece {
            used: bytes.len(),
            is_last: false,
        })
    }

    /// One byte that is not content; true if it was the last of the body.
    fn step(&mut self, byte: u8) -> Result<bool, Malformed> {
        *self = match (*self, byte) {
            (Self::Size { value, digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F')
                if digits < MOST_DIGITS =>
            {
                let digit = char::from(byte).to_digit(16).unwrap_or(0);
                Self::Size {
                    value: value * 16 + u64::from(digit),
                    digits: digits + 1,
                }
            }
            (Self::Size { value, digits }, b'\n') if digits > 0 => Self::after_size(value),
            (Self::Size { value, digits }, b'\r' | b';' | b' ' | b'\t') if digits > 0 => {
                Self::Extension { value }
            }
            (Self::Extension { value }, b'\n') => Self::after_size(value),
            (Self::Extension { value }, _) => Self::Extension { value },
            (Self::AfterData, b'\r') => Self::AfterData,
            (Self::AfterData, b'\n') => Self::new(),
            (Self::Trailer { line_is_empty }, b'\r') => Self::Trailer { line_is_empty },
            (Self::Trailer { line_is_empty }, b'\n') => {
                if line_is_empty {
                    return Ok(true);
                }
                Self::Trailer {
                    line_is_empty: true,
                }
            }
            (Self::Trailer { .. }, _) => Self::Trailer {
                line_is_empty: false,
            },
            (Self::Size { .. } | Self::AfterData | Self::Data { .. }, _) => {
                return Err(Malformed("a broken chunk"));
            }
        };
        Ok(false)
    }

    fn after_size(value: u64) -> Self {
        if value == 0 {
            Self::Trailer {
                line_is_empty: true,
            }
        } else {
            Self::Data { left: value }
        }
    }
}

/// Fifteen hexadecimal digits fit 64 bits with room to spare.
const MOST_DIGITS: u8 = 15;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Result<(Vec<u8>, usize, bool), Malformed> {
        let (mut chunks, mut content, mut used) = (Chunks::new(), Vec::new(), 0);
        for piece in pieces {
            let read = chunks.feed(piece, |bytes| content.extend_from_slice(bytes))?;
            used += read.used;
            if read.is_last {
                return Ok((content, used, true));
            }
        }
        Ok((content, used, false))
    }

    #[test]
    fn bodies_in_chunks() {
        for (text, content, is_whole) in [
            ("0\r\n\r\n", "", true),
            ("5\r\nhello\r\n0\r\n\r\n", "hello", true),
            (
                "A;name=value\r\n0123456789\r\n1\r\nx\r\n0\r\nETag: x\r\n\r\n",
                "0123456789x",
                true,
            ),
            ("5\r\nhel", "hel", false),
        ] {
            let wanted = (content.as_bytes().to_vec(), text.len(), is_whole);
            assert_eq!(read(&[text.as_bytes()]), Ok(wanted.clone()), "{text}");
            let single: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            assert_eq!(read(&single), Ok(wanted), "{text}, byte by byte");
        }
        // What follows the body is not part of it.
        assert_eq!(read(&[b"0\r\n\r\nHTTP/1.1"]), Ok((Vec::new(), 5, true)));
        for broken in ["\r\n", "g\r\n", "5\r\nhelloX", "1234567890123456\r\n"] {
            assert!(read(&[broken.as_bytes()]).is_err(), "{broken}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in "[0-9a-f\r\n;x]{0,80}") {
            let _ = read(&[bytes.as_bytes()]);
        }
    }
}
