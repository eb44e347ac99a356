//! Parses a response of HTTP/1.1 that arrives in pieces: its status, the length of its body, and whether it ends the connection.
//!
//! Accepts any bytes without panicking.

use std::rc::Rc;

use galley_http::{body::BodyReader, framing::BodyKind};

/// The response that is being read; reused for the next one.
#[derive(Debug)]
pub(crate) struct ReceivedResponse {
    state: State,
    /// The head so far, if it arrived in several pieces.
    head: Vec<u8>,
    pub(crate) status: u16,
    /// The length of the body so far, without framing.
    pub(crate) length: u64,
    /// The bytes received so far.
    pub(crate) bytes: u64,
    pub(crate) coding: BodyCoding,
    /// Whether the server will close the connection after the response.
    pub(crate) closes: bool,
    /// The body, if it is kept.
    pub(crate) body: Option<Vec<u8>>,
    /// Whether the request was HEAD, so that the response has no body, whatever its fields contain.
    is_of_head: bool,
    /// The name of the field whose value is recorded, and its value.
    watch: Option<Rc<str>>,
    watched: Option<String>,
}

/// The Content-Encoding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BodyCoding {
    /// No coding.
    Identity,
    /// `gzip`.
    Gzip,
    /// `br`.
    Br,
    /// Another coding.
    Other,
}

/// Why bytes are not a valid response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MalformedResponse(pub(crate) &'static str);

#[derive(Debug)]
enum State {
    Head,
    Body(BodyReader),
    UntilClose,
}

impl BodyCoding {
    /// The name in the field.
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Br => "br",
            Self::Other => "another",
        }
    }

    pub(crate) fn of(value: &[u8]) -> Self {
        match value {
            b"gzip" => Self::Gzip,
            b"br" => Self::Br,
            b"identity" => Self::Identity,
            _ => Self::Other,
        }
    }
}

impl ReceivedResponse {
    pub(crate) fn new(watch: Option<Rc<str>>) -> Self {
        Self {
            state: State::Head,
            head: Vec::new(),
            status: 0,
            length: 0,
            bytes: 0,
            coding: BodyCoding::Identity,
            closes: false,
            body: None,
            is_of_head: false,
            watch,
            watched: None,
        }
    }

    /// Prepares for the next response; `keeps_body`: whether to keep its body.
    pub(crate) fn reset(&mut self, keeps_body: bool) {
        self.state = State::Head;
        self.head.clear();
        self.bytes = 0;
        self.length = 0;
        self.watched = None;
        self.body = keeps_body.then(Vec::new);
    }

    /// Sets the request to which the response belongs.
    pub(crate) fn belongs_to(&mut self, head: &[u8]) {
        self.is_of_head = head.starts_with(b"HEAD ");
    }

    /// The name of the field whose value is recorded.
    fn watch(&self) -> Option<&str> {
        self.watch.as_deref()
    }

    /// Takes what is of interest from a head of HTTP/2 or HTTP/3.
    pub(crate) fn begins(&mut self, head: &http::response::Parts) {
        self.status = head.status.as_u16();
        let coding = head.headers.get(http::header::CONTENT_ENCODING);
        self.coding = coding.map_or(BodyCoding::Identity, |value| {
            BodyCoding::of(value.as_bytes())
        });
        let watched = self.watch().and_then(|name| head.headers.get(name));
        if let Some(value) = watched {
            self.note(value.as_bytes());
        }
    }

    /// Records the value of that field.
    fn note(&mut self, value: &[u8]) {
        self.watched = Some(String::from_utf8_lossy(value).into_owned());
    }

    /// Whether nothing has been received yet.
    pub(crate) fn is_untouched(&self) -> bool {
        self.bytes == 0
    }

    /// Whether the end of the connection is the end of this response.
    pub(crate) fn ends_with_connection(&self) -> bool {
        matches!(self.state, State::UntilClose)
    }

    pub(crate) fn watched(&self) -> Option<&str> {
        self.watch.as_ref().and(self.watched.as_deref())
    }

    /// Parses the next bytes. Returns whether the response is complete.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<bool, MalformedResponse> {
        self.bytes += bytes.len() as u64;
        if !self.head.is_empty() {
            let mut head = std::mem::take(&mut self.head);
            head.extend_from_slice(bytes);
            if head.len() > MAX_HEAD {
                return Err(MalformedResponse("a head without end"));
            }
            return self.read(&head);
        }
        self.read(bytes)
    }

    fn read(&mut self, mut bytes: &[u8]) -> Result<bool, MalformedResponse> {
        while matches!(self.state, State::Head) {
            let Some(count) = self.begin(bytes)? else {
                self.head.extend_from_slice(bytes);
                return Ok(false);
            };
            bytes = bytes.get(count..).unwrap_or_default();
        }
        loop {
            let (used, data) = match &mut self.state {
                State::Head => return Err(MalformedResponse("a body before its head")),
                State::UntilClose => (bytes.len(), bytes),
                State::Body(reader) => {
                    let decoded = reader.decode(bytes);
                    let decoded = decoded.map_err(|_| MalformedResponse("a broken body"))?;
                    (decoded.consumed, decoded.data)
                }
            };
            self.take(data);
            bytes = bytes.get(used..).unwrap_or_default();
            let is_done = matches!(&self.state, State::Body(reader) if reader.is_done());
            if is_done && !bytes.is_empty() {
                return Err(MalformedResponse("more bytes than the response has"));
            }
            if is_done || bytes.is_empty() {
                return Ok(is_done);
            }
        }
    }

    /// Counts a part of the body.
    pub(crate) fn take(&mut self, data: &[u8]) {
        self.length += data.len() as u64;
        if let Some(body) = &mut self.body {
            body.extend_from_slice(data);
        }
    }

    /// Parses the head at the start of `bytes`. Returns its length, or `None` if it is incomplete.
    fn begin(&mut self, bytes: &[u8]) -> Result<Option<usize>, MalformedResponse> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let count = match response.parse(bytes) {
            Ok(httparse::Status::Complete(count)) => count,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(MalformedResponse("no head of a response")),
        };
        self.status = response.code.unwrap_or(0);
        self.coding = BodyCoding::Identity;
        self.watched = None;
        // HTTP/1.0 closes by default.
        self.closes = response.version == Some(0);
        let (mut length, mut is_chunked) = (None, false);
        for field in response.headers.iter() {
            let (name, value) = (field.name, field.value);
            let is = |other: &str| name.eq_ignore_ascii_case(other);
            let has = |word: &[u8]| {
                let mut parts = value.windows(word.len());
                parts.any(|part| part.eq_ignore_ascii_case(word))
            };
            // Compares the length first, which is cheap and differs for most names.
            match name.len() {
                14 if is("content-length") => {
                    let text = std::str::from_utf8(value).ok();
                    let number = text.and_then(|text| text.trim().parse().ok());
                    length = Some(number.ok_or(MalformedResponse("no length in Content-Length"))?);
                }
                17 if is("transfer-encoding") => is_chunked = has(b"chunked"),
                10 if is("connection") => self.closes = has(b"close"),
                16 if is("content-encoding") => self.coding = BodyCoding::of(value),
                _ => {}
            }
            if self.watch.as_deref().is_some_and(is) {
                self.watched = Some(String::from_utf8_lossy(value).into_owned());
            }
        }
        let reader = |kind| State::Body(BodyReader::new(kind, u64::MAX));
        self.state = match (self.status, is_chunked, length) {
            // Interim: the final response follows.
            (100..=199, ..) => State::Head,
            (204 | 304, ..) => reader(BodyKind::None),
            _ if self.is_of_head => reader(BodyKind::None),
            (_, true, _) => reader(BodyKind::Chunked),
            (_, false, Some(length)) => reader(BodyKind::Length(length)),
            (_, false, None) => State::UntilClose,
        };
        self.closes |= self.ends_with_connection();
        Ok(Some(count))
    }
}

const MAX_FIELDS: usize = 64;
const MAX_HEAD: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fed(pieces: &[&[u8]]) -> (ReceivedResponse, Result<bool, MalformedResponse>) {
        let mut response = ReceivedResponse::new(Some("x-cache".into()));
        response.reset(true);
        let mut step = Ok(false);
        for piece in pieces {
            step = response.feed(piece);
            if step != Ok(false) {
                break;
            }
        }
        (response, step)
    }

    #[test]
    fn responses_of_every_framing_are_parsed_in_any_pieces() {
        let rows = [
            (
                "200 OK\r\nContent-Length: 5\r\n\r\nhello",
                200,
                "hello",
                false,
            ),
            (
                "304 Not Modified\r\nContent-Length: 5\r\n\r\n",
                304,
                "",
                false,
            ),
            ("204 No Content\r\nConnection: close\r\n\r\n", 204, "", true),
            (
                "100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno",
                404,
                "no",
                false,
            ),
            (
                "200 OK\r\nTransfer-Encoding: chunked\r\nX-Cache: hit\r\n\r\n3\r\nhel\r\n2;a=b\r\nlo\r\n0\r\nETag: x\r\n\r\n",
                200,
                "hello",
                false,
            ),
        ];
        for (text, status, body, closes) in rows {
            let text = format!("HTTP/1.1 {text}");
            let single: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            for pieces in [vec![text.as_bytes()], single] {
                let (response, step) = fed(&pieces);
                assert_eq!(step, Ok(true), "{text}");
                assert_eq!(
                    (response.status, response.closes),
                    (status, closes),
                    "{text}"
                );
                assert_eq!(response.body.as_deref(), Some(body.as_bytes()), "{text}");
                assert_eq!(response.bytes, text.len() as u64, "{text}");
                let watched = text.contains("X-Cache").then_some("hit");
                assert_eq!(response.watched(), watched, "{text}");
            }
        }
    }

    #[test]
    fn a_response_may_end_with_its_connection() {
        let (response, step) = fed(&[
            b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\nwhat ",
            b"comes",
        ]);
        assert_eq!(step, Ok(false));
        assert!(response.ends_with_connection() && response.closes);
        assert_eq!(response.coding, BodyCoding::Br);
        assert_eq!(response.body.unwrap(), b"what comes");
    }

    #[test]
    fn malformed_responses_are_rejected() {
        for text in [
            "no response at all\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1",
            "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX",
        ] {
            assert!(fed(&[text.as_bytes()]).1.is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(
            head in "HTTP/1\\.[01] [0-9]{0,4} ?[A-Z]{0,3}\r\n((content-length|transfer-encoding|x): ?[0-9a-z-]{0,22}\r\n){0,3}\r\n",
            body in "[0-9a-f\r\n]{0,40}",
            cut in 0_usize..100,
        ) {
            let text = head + &body;
            let (first, second) = text.as_bytes().split_at(cut.min(text.len()));
            let _ = fed(&[first, second]);
        }
    }
}
