//! One request and its response, without I/O: it produces bytes to write and consumes bytes that were read.
//!
//! Both directions advance independently. The body is read from its source only while the output queue is short, so memory
//! is limited to [`OUTPUT_BYTES`] plus one record plus one chunk of the source. `END_REQUEST` ends the exchange even if the
//! body has not been sent completely (PHP may respond early). Such a connection cannot be reused, since the responder might
//! read the rest as a new request. The same applies if anything follows `END_REQUEST`: bytes that no request caused must
//! never become the start of the next response.

use std::borrow::Cow;

use bytes::{Buf, Bytes, BytesMut};

use crate::error::Error;
use crate::event::FastCgiEvent;
use crate::incoming::RecordParser;
use crate::outgoing::Outgoing;
use crate::record::{self, ProtocolStatus, RecordType};

/// A CGI variable: its name and value.
pub type CgiVariable<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// A request to a responder.
#[derive(Clone, Copy, Debug)]
pub struct FastCgiRequest<'a> {
    /// The CGI variables, sent in this order. With a body, `CONTENT_LENGTH` must be among them and equal `body_length`; this
    /// crate does not check it.
    pub variables: &'a [CgiVariable<'a>],
    /// The exact number of bytes that the body source will return, 0 without a body.
    pub body_length: u64,
}

/// The protocol state of one connection.
#[derive(Debug)]
pub struct FastCgiExchange {
    phase: ExchangePhase,
    incoming: RecordParser,
    input: BytesMut,
    /// The size of the read buffer in bytes; 0: not allocated.
    input_bytes: usize,
    outgoing: Outgoing,
    /// Bytes from the body source that are not in records yet.
    chunk: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExchangePhase {
    /// No request yet, or the last one ended cleanly.
    Ready,
    /// A request is in progress. `missing`: bytes of the body that the source has not returned yet; `stdin`: the STDIN stream to
    /// the responder.
    Open {
        declared: u64,
        missing: u64,
        stdin: Stdin,
    },
    /// No further request may be sent.
    Spent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stdin {
    Open,
    /// The empty record that ends the stream has been queued.
    Ended,
    /// Writing failed; the response may still be received.
    Abandoned,
}

impl Default for FastCgiExchange {
    fn default() -> FastCgiExchange {
        FastCgiExchange::new()
    }
}

impl FastCgiExchange {
    /// The state of a new connection.
    pub fn new() -> FastCgiExchange {
        FastCgiExchange {
            phase: ExchangePhase::Ready,
            incoming: RecordParser::new(),
            input: BytesMut::new(),
            input_bytes: 0,
            outgoing: Outgoing::default(),
            chunk: Bytes::new(),
        }
    }

    /// Queues `BEGIN_REQUEST` and the variables; without a body also the end of STDIN.
    pub fn begin(&mut self, request: &FastCgiRequest<'_>) -> Result<(), Error> {
        if self.phase != ExchangePhase::Ready {
            return Err(Error::OutOfTurn);
        }
        let written = self.outgoing.encode(|out| {
            record::write_begin(out);
            crate::params::write(out, request.variables)
        });
        if let Err(error) = written {
            self.outgoing.clear();
            return Err(error);
        }
        let declared = request.body_length;
        self.phase = ExchangePhase::Open {
            declared,
            missing: declared,
            stdin: Stdin::Open,
        };
        self.frame();
        Ok(())
    }

    /// Whether the next chunk of the body should be passed: the body is incomplete and the output queue is short.
    pub fn wants_body(&self) -> bool {
        matches!(
            self.phase,
            ExchangePhase::Open {
                missing: 1..,
                stdin: Stdin::Open,
                ..
            }
        ) && self.chunk.is_empty()
            && self.outgoing.remaining() < OUTPUT_BYTES
    }

    /// Accepts a chunk of any size; call it only if [`FastCgiExchange::wants_body`]. Fails with [`Error::BodyLength`] if the
    /// body becomes longer than declared. Ends the stream after the last byte.
    pub fn push_body(&mut self, chunk: Bytes) -> Result<(), Error> {
        let ExchangePhase::Open {
            declared,
            missing,
            stdin,
        } = self.phase
        else {
            return Err(Error::OutOfTurn);
        };
        if !self.chunk.is_empty() {
            return Err(Error::OutOfTurn);
        }
        let length = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        let Some(missing) = missing.checked_sub(length) else {
            return Err(self.bad_body_length(declared, (declared - missing).saturating_add(length)));
        };
        self.phase = ExchangePhase::Open {
            declared,
            missing,
            stdin,
        };
        self.chunk = chunk;
        self.frame();
        Ok(())
    }

    /// Reports that the source has ended; [`Error::BodyLength`] if bytes are missing.
    pub fn end_body(&mut self) -> Result<(), Error> {
        match self.phase {
            ExchangePhase::Open {
                declared,
                missing: missing @ 1..,
                ..
            } => Err(self.bad_body_length(declared, declared - missing)),
            ExchangePhase::Open { .. } | ExchangePhase::Ready | ExchangePhase::Spent => Ok(()),
        }
    }

    /// The bytes to write, oldest first. Call [`FastCgiExchange::frame`] after advancing it.
    pub fn outgoing(&mut self) -> &mut (impl Buf + use<>) {
        &mut self.outgoing
    }

    /// Splits the current chunk into records while the output queue is short. Also ends STDIN after the body's last byte.
    pub fn frame(&mut self) {
        let ExchangePhase::Open {
            missing,
            stdin: Stdin::Open,
            ..
        } = self.phase
        else {
            return;
        };
        while !self.chunk.is_empty() && self.outgoing.remaining() < OUTPUT_BYTES {
            let piece = self
                .chunk
                .split_to(self.chunk.len().min(usize::from(STDIN_RECORD_BYTES)));
            let length = u16::try_from(piece.len()).unwrap_or(STDIN_RECORD_BYTES);
            self.outgoing
                .encode(|out| record::write_header(out, RecordType::Stdin, length));
            self.outgoing.push(piece);
        }
        if missing == 0 && self.chunk.is_empty() {
            self.outgoing
                .encode(|out| record::write_stream_end(out, RecordType::Stdin));
            if let ExchangePhase::Open { stdin, .. } = &mut self.phase {
                *stdin = Stdin::Ended;
            }
        }
    }

    /// Discards all output after a failed write. The response may still be read (a responder that rejects an upload sends a
    /// response and closes), but the connection cannot be reused.
    pub fn abandon_output(&mut self) {
        if let ExchangePhase::Open { stdin, .. } = &mut self.phase {
            *stdin = Stdin::Abandoned;
        }
        self.outgoing.clear();
        self.chunk = Bytes::new();
    }

    /// Makes the connection unusable for further requests, and discards the contents of the buffers.
    pub fn spend(&mut self) {
        self.phase = ExchangePhase::Spent;
        self.outgoing.clear();
        self.chunk = Bytes::new();
        self.input.clear();
    }

    /// The buffer to read into, with enough free space for an efficient read. Call it only after [`FastCgiExchange::event`]
    /// returned `None`: then it contains less than a record header, so its size stays [`INPUT_BYTES`]. The first one is smaller.
    pub fn input(&mut self) -> &mut BytesMut {
        let length = self.input.len();
        if self.input.capacity() - length < MIN_READ_BYTES {
            match self.input_bytes {
                0 => self.grow(FIRST_INPUT_BYTES),
                FIRST_INPUT_BYTES => self.grow(INPUT_BYTES),
                _ => self.input.reserve(INPUT_BYTES - length.min(INPUT_BYTES)),
            }
        }
        &mut self.input
    }

    /// Replaces the buffer by one of another size.
    fn grow(&mut self, size: usize) {
        let mut input = BytesMut::with_capacity(size);
        input.extend_from_slice(&self.input);
        self.input = input;
        self.input_bytes = size;
    }

    /// The next event in the bytes that were read; `None` if more are needed. An invalid record makes the connection unusable.
    pub fn event(&mut self) -> Result<Option<FastCgiEvent>, Error> {
        let ExchangePhase::Open { stdin, .. } = self.phase else {
            return Err(Error::OutOfTurn);
        };
        match self.incoming.next(&mut self.input) {
            Ok(Some(FastCgiEvent::End(status))) => {
                let is_clean = stdin == Stdin::Ended
                    && !self.outgoing.has_remaining()
                    && self.input.is_empty()
                    && self.incoming.is_between_records()
                    && status.protocol_status == ProtocolStatus::RequestComplete;
                if is_clean {
                    self.phase = ExchangePhase::Ready;
                } else {
                    self.spend();
                }
                Ok(Some(FastCgiEvent::End(status)))
            }
            Ok(event) => Ok(event),
            Err(bad) => {
                self.spend();
                Err(Error::Record(bad))
            }
        }
    }

    /// Whether a new request may be sent: none is in progress, the last one was sent completely, and nothing followed its end.
    pub fn is_reusable(&self) -> bool {
        self.phase == ExchangePhase::Ready
    }

    fn bad_body_length(&mut self, declared: u64, given: u64) -> Error {
        self.spend();
        Error::BodyLength { declared, given }
    }
}

/// More of the body is read while fewer bytes than this are queued. With the last record, at most 96 KiB are queued.
pub const OUTPUT_BYTES: usize = 64 * 1024;

/// The size of the read buffer, in bytes.
pub const INPUT_BYTES: usize = 64 * 1024;

/// The size of a connection's first read buffer in bytes, sufficient for many responses: unused memory costs nothing.
pub const FIRST_INPUT_BYTES: usize = 16 * 1024;

/// The content of a full STDIN record in bytes: two hold a chunk of 64 KiB, whereas the largest possible record would leave
/// one byte for a second.
const STDIN_RECORD_BYTES: u16 = 32 * 1024;

/// With less free space than this in the read buffer, a new one is cheaper than reading in small pieces.
const MIN_READ_BYTES: usize = 8 * 1024;
