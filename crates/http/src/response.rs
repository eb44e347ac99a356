//! Checks responses of HTTP/1 upstreams before they are used. Another parser reads them; this module decides which of them
//! may be used.
//!
//! There are two checks. [`HeadCheck`] examines the bytes of a head as they are received: every line ends with CRLF, no line
//! is folded, nothing precedes the status line, and the head is not too long. [`check`] examines the parsed head: the status
//! is valid for a final response, and the framing fields have one meaning for every parser (RFC 9112 sections 6.1 to 6.3).
//! Both are as strict as [`crate::framing`] is with clients: like a request, a response that two parsers read differently
//! can poison caches.
//!
//! Invariant: the result depends on the bytes alone, never on how they were split into reads.

use crate::framing::{TransferCodings, content_length};
use crate::token::is_name;

/// The maximum size of a head, including its empty line, in bytes. The same as for `FastCGI`.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Why a response is rejected. `Display` is for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadResponse {
    /// A line that ends with LF alone. RFC 9112 section 2.2 permits accepting it; a cache in front of another parser must not.
    #[error("a line feed without a carriage return in its head")]
    BareLineFeed,
    /// A CR without LF (RFC 9112 section 2.2).
    #[error("a carriage return without a line feed in its head")]
    BareCarriageReturn,
    /// A field line that begins with white space (RFC 9112 section 5.2).
    #[error("a folded line in its head")]
    Folded,
    /// An empty line before the status line.
    #[error("an empty line before its status line")]
    StatusLine,
    /// A head longer than [`MAX_HEAD_BYTES`].
    #[error("its head is too large: the limit is {MAX_HEAD_BYTES} bytes")]
    TooLarge,
    /// A status outside 200 to 999.
    #[error("its status is not one from 200 to 999")]
    Status,
    /// A field that two parsers may read differently.
    #[error(
        "a header with white space or a control character in its name, with NUL in its value, or an invalid one about the framing"
    )]
    Field,
    /// A transfer coding other than `chunked`, or more than one.
    #[error("a transfer coding other than `chunked` alone")]
    TransferEncoding,
    /// Content-Length is repeated, a list, not `1*DIGIT`, or combined with a transfer coding.
    #[error("more than one content length, an invalid one, or one beside a transfer coding")]
    ContentLength,
    /// Content is announced for 204 or 205, or received with 205 (RFC 9110 sections 15.3.5 and 15.3.6).
    #[error("content with a status that does not allow content")]
    Content,
}

/// Checks the bytes from the start of a response to the end of its head, including interim responses.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadCheck {
    /// Bytes of the current head.
    bytes: usize,
    /// Bytes of the current line, without its end.
    column: usize,
    is_after_status_line: bool,
    is_after_cr: bool,
    is_over: bool,
    /// The digits of the status, as received.
    status: [u8; 3],
}

impl HeadCheck {
    /// A check before the first byte.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the head of the final response has ended; later bytes are not checked.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Checks the next bytes, and returns how many of them belong to the head. Must not be called again after an error.
    pub fn push(&mut self, bytes: &[u8]) -> Result<usize, BadResponse> {
        for (index, byte) in bytes.iter().enumerate() {
            if self.is_over {
                return Ok(index);
            }
            self.step(*byte)?;
        }
        Ok(bytes.len())
    }

    fn step(&mut self, byte: u8) -> Result<(), BadResponse> {
        self.bytes += 1;
        if self.bytes > MAX_HEAD_BYTES {
            return Err(BadResponse::TooLarge);
        }
        match (byte, self.is_after_cr) {
            (b'\n', true) => self.end_line(),
            (_, true) => Err(BadResponse::BareCarriageReturn),
            (b'\n', false) => Err(BadResponse::BareLineFeed),
            (b'\r', false) => {
                self.is_after_cr = true;
                Ok(())
            }
            (b' ' | b'\t', false) if self.column == 0 && self.is_after_status_line => {
                Err(BadResponse::Folded)
            }
            (_, false) => {
                let digit = self.column.checked_sub(STATUS_COLUMN);
                if !self.is_after_status_line
                    && let Some(place) = digit.and_then(|digit| self.status.get_mut(digit))
                {
                    *place = byte;
                }
                self.column += 1;
                Ok(())
            }
        }
    }

    /// Handles the end of a line.
    fn end_line(&mut self) -> Result<(), BadResponse> {
        let is_empty = self.column == 0;
        if is_empty && !self.is_after_status_line {
            return Err(BadResponse::StatusLine);
        }
        if is_empty {
            // Another head follows an interim response. 101 is the last HTTP response on its connection.
            let is_interim = self.status.first() == Some(&b'1') && self.status != *b"101";
            *self = Self {
                is_over: !is_interim,
                ..Self::default()
            };
        } else {
            self.column = 0;
            self.is_after_cr = false;
            self.is_after_status_line = true;
        }
        Ok(())
    }
}

/// Checks status and framing of a final response. `fields`: names are tokens, values are trimmed.
pub fn check<'f>(
    status: u16,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
) -> Result<(), BadResponse> {
    // A client treats a status above 599 as a server error (RFC 9110 section 15).
    if !(200..1000).contains(&status) {
        return Err(BadResponse::Status);
    }
    let mut codings = TransferCodings::default();
    let mut length = None;
    for (name, value) in fields {
        match name.len() {
            14 if is_name(name, b"content-length") => {
                let announced = content_length(value).ok_or(BadResponse::ContentLength)?;
                if length.replace(announced).is_some() {
                    return Err(BadResponse::ContentLength);
                }
            }
            17 if is_name(name, b"transfer-encoding") => codings.add(value),
            _ => {}
        }
    }
    if codings.is_present() && !codings.is_only_chunked() {
        return Err(BadResponse::TransferEncoding);
    }
    if codings.is_present() && length.is_some() {
        return Err(BadResponse::ContentLength);
    }
    let announces = length.is_some_and(|length| length > 0);
    match status {
        204 if codings.is_present() || announces => Err(BadResponse::Content),
        205 if announces => Err(BadResponse::Content),
        _ => Ok(()),
    }
}

/// The position of the status, after `HTTP/1.1 `.
const STATUS_COLUMN: usize = b"HTTP/1.1 ".len();

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8], cuts: &[usize]) -> Result<bool, BadResponse> {
        let mut head = HeadCheck::new();
        let mut from = 0;
        let mut taken = 0;
        for &cut in cuts.iter().chain([&bytes.len()]) {
            taken += head.push(&bytes[from..cut])?;
            from = cut;
        }
        assert!(head.is_over() || taken == bytes.len());
        Ok(head.is_over())
    }

    #[test]
    fn heads_end_with_their_empty_line() {
        for (bytes, wanted) in [
            ("HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody\nbody\r", Ok(true)),
            ("HTTP/1.1 200\r\n\r\n", Ok(true)),
            ("HTTP/1.1 200 OK\r\nA: b\r\n", Ok(false)),
            ("", Ok(false)),
            ("HTTP/1.1 100 Continue\r\n\r\n", Ok(false)),
            (
                "HTTP/1.1 103 Early\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\n\r\nx\n",
                Ok(true),
            ),
            ("HTTP/1.1 101 Switch\r\n\r\n\n\n", Ok(true)),
            (
                "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\n",
                Err(BadResponse::BareLineFeed),
            ),
            ("HTTP/1.1 200 OK\n\n", Err(BadResponse::BareLineFeed)),
            (
                "HTTP/1.1 200 OK\r\nA: b\n\r\n",
                Err(BadResponse::BareLineFeed),
            ),
            (
                "HTTP/1.1 200 OK\r\nA: b\r\n\n",
                Err(BadResponse::BareLineFeed),
            ),
            (
                "HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
                Err(BadResponse::BareCarriageReturn),
            ),
            (
                "HTTP/1.1 200 OK\r\nA: b\r\r\n\r\n",
                Err(BadResponse::BareCarriageReturn),
            ),
            (
                "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
                Err(BadResponse::Folded),
            ),
            (
                "HTTP/1.1 200 OK\r\n\tA: b\r\n\r\n",
                Err(BadResponse::Folded),
            ),
            ("\r\nHTTP/1.1 200 OK\r\n\r\n", Err(BadResponse::StatusLine)),
            (
                "HTTP/1.1 100 Continue\r\n\r\n\r\n",
                Err(BadResponse::StatusLine),
            ),
        ] {
            assert_eq!(read(bytes.as_bytes(), &[]), wanted, "{bytes:?}");
            for cut in 0..bytes.len() {
                assert_eq!(read(bytes.as_bytes(), &[cut]), wanted, "{bytes:?} at {cut}");
            }
        }
    }

    #[test]
    fn the_head_size_is_limited() {
        let mut bytes = b"HTTP/1.1 200 OK\r\nA: ".to_vec();
        bytes.resize(MAX_HEAD_BYTES - 4, b'x');
        let fits = [&bytes[..], b"\r\n\r\n"].concat();
        assert_eq!(read(&fits, &[]), Ok(true));
        let long = [&bytes[..], b"x\r\n\r\n"].concat();
        assert_eq!(read(&long, &[]), Err(BadResponse::TooLarge));
        // The limit applies to each interim response separately.
        let two = [b"HTTP/1.1 103 Early\r\n\r\n", &fits[..]].concat();
        assert_eq!(read(&two, &[]), Ok(true));
    }

    #[test]
    fn ambiguous_framing_is_rejected() {
        use BadResponse::{Content, ContentLength, Status, TransferEncoding};
        type Row<'r> = (u16, &'r [(&'r str, &'r str)], Result<(), BadResponse>);
        const LENGTH: &str = "Content-Length";
        const CODING: &str = "Transfer-Encoding";
        let table: &[Row<'_>] = &[
            (200, &[], Ok(())),
            (599, &[(LENGTH, "5")], Ok(())),
            (600, &[], Ok(())),
            (999, &[], Ok(())),
            (1000, &[], Err(Status)),
            (199, &[], Err(Status)),
            (200, &[("content-length", "05")], Ok(())),
            (200, &[(LENGTH, "5"), (LENGTH, "5")], Err(ContentLength)),
            (200, &[(LENGTH, "5, 5")], Err(ContentLength)),
            (200, &[(LENGTH, "")], Err(ContentLength)),
            (200, &[(LENGTH, "-1")], Err(ContentLength)),
            (200, &[(LENGTH, "99999999999999999999")], Err(ContentLength)),
            (200, &[(CODING, "chunked")], Ok(())),
            (200, &[(CODING, "Chunked")], Ok(())),
            (200, &[(CODING, "gzip, chunked")], Err(TransferEncoding)),
            (
                200,
                &[(CODING, "gzip"), (CODING, "chunked")],
                Err(TransferEncoding),
            ),
            (200, &[(CODING, "chunked, chunked")], Err(TransferEncoding)),
            (200, &[(CODING, "chunked;a=b")], Err(TransferEncoding)),
            (200, &[(CODING, "identity")], Err(TransferEncoding)),
            (200, &[(CODING, "")], Err(TransferEncoding)),
            (
                200,
                &[(CODING, "chunked"), (LENGTH, "5")],
                Err(ContentLength),
            ),
            (204, &[(LENGTH, "0")], Ok(())),
            (204, &[(LENGTH, "5")], Err(Content)),
            (204, &[(CODING, "chunked")], Err(Content)),
            (205, &[(LENGTH, "5")], Err(Content)),
            (205, &[(CODING, "chunked")], Ok(())),
            (304, &[(LENGTH, "5")], Ok(())),
        ];
        for (status, fields, wanted) in table {
            let lines = fields
                .iter()
                .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            assert_eq!(check(*status, lines), *wanted, "{status} {fields:?}");
        }
    }

    proptest! {
        #[test]
        fn results_do_not_depend_on_the_split(bytes in proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'1'), any::<u8>()], 0..60),
                                  cuts in proptest::collection::vec(0_usize..60, 0..8)) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            prop_assert_eq!(read(&bytes, &cuts), read(&bytes, &[]));
        }
    }
}
