//! Parses a stream of requests as the connection loop does: a growing buffer, one scanner, one body at a time.

use galley_http::body::BodyReader;
use galley_http::framing::frame;
use galley_http::head::{BadRequest, HeadBuffer, HeadLimits, HeadScanner, ParsedHead, resume};

/// Small limits, so that streams of the corpus exceed them.
pub const LIMITS: HeadLimits = HeadLimits {
    head_bytes: 2048,
    fields: 16,
    target_bytes: 512,
};
pub const MAX_BODY: u64 = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedRequest {
    pub method: String,
    pub target: String,
    /// Names in lower case, sorted by name, lines of one name in the order sent.
    pub fields: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// Every byte belongs to a complete request, or to empty lines after the last request.
    Clean,
    /// The stream ended within a head or a body.
    Partial,
    /// The last request closes the connection; the rest was not read.
    Closed,
    Rejected(BadRequest),
}

/// The result of parsing a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedStream {
    pub requests: Vec<ParsedRequest>,
    /// The request with an incomplete body, with the data received.
    pub unfinished: Option<ParsedRequest>,
    pub end: StreamEnd,
}

pub fn read_whole(stream: &[u8]) -> ParsedStream {
    read_pieces([stream])
}

pub fn read_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> ParsedStream {
    let mut reader = Reader::default();
    for piece in pieces {
        reader.push(piece);
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    scanner: HeadScanner,
    buffer: Vec<u8>,
    exchange: Option<Exchange>,
    requests: Vec<ParsedRequest>,
    end: Option<StreamEnd>,
}

struct Exchange {
    request: ParsedRequest,
    body: BodyReader,
    keep_alive: bool,
}

impl Reader {
    fn push(&mut self, piece: &[u8]) {
        self.buffer.extend_from_slice(piece);
        while self.end.is_none() {
            match self.advance() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => self.end = Some(StreamEnd::Rejected(error)),
            }
        }
    }

    /// Performs one step. Returns false if more bytes are needed.
    fn advance(&mut self) -> Result<bool, BadRequest> {
        let Some(exchange) = &mut self.exchange else {
            return self.begin();
        };
        let decoded = exchange.body.decode(&self.buffer)?;
        assert!(decoded.data.len() <= decoded.consumed && decoded.consumed <= self.buffer.len());
        exchange.request.body.extend_from_slice(decoded.data);
        let consumed = decoded.consumed;
        self.buffer.drain(..consumed);
        if exchange.body.is_done() {
            let whole = self.exchange.take().unwrap();
            self.requests.push(whole.request);
            if !whole.keep_alive {
                self.end = Some(StreamEnd::Closed);
            }
            return Ok(true);
        }
        assert!(
            consumed > 0 || self.buffer.is_empty(),
            "no progress with {:?}",
            self.buffer
        );
        Ok(consumed > 0)
    }

    fn begin(&mut self) -> Result<bool, BadRequest> {
        let mut head_buffer = HeadBuffer::new();
        let parsed = resume(&mut self.scanner, &self.buffer, &LIMITS, &mut head_buffer)?;
        let ParsedHead::Whole { head, length } = parsed else {
            return Ok(false);
        };
        let framing = frame(&head)?;
        let mut fields: Vec<_> = head
            .fields()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec()))
            .collect();
        assert_eq!(fields.len(), head.count());
        fields.sort_by(|one, other| one.0.cmp(&other.0));
        self.exchange = Some(Exchange {
            request: ParsedRequest {
                method: head.method.to_owned(),
                target: String::from_utf8(head.target.to_vec()).unwrap(),
                fields,
                body: Vec::new(),
            },
            body: BodyReader::new(framing.body, MAX_BODY),
            keep_alive: framing.keep_alive,
        });
        self.buffer.drain(..length);
        Ok(true)
    }

    fn finish(self) -> ParsedStream {
        let idle = self.exchange.is_none() && !self.scanner.has_begun();
        let rest = if idle {
            StreamEnd::Clean
        } else {
            StreamEnd::Partial
        };
        ParsedStream {
            requests: self.requests,
            unfinished: self.exchange.map(|exchange| exchange.request),
            end: self.end.unwrap_or(rest),
        }
    }
}
