//! One request and its response, without I/O: it produces bytes to write and consumes bytes that were read.
//!
//! Both directions advance independently. The body is requested from its source only while little waits to be written, so
//! memory stays within [`OUTPUT_BYTES`] plus one record plus one chunk of the source. `END_REQUEST` ends the exchange even
//! if the body has not been sent completely (PHP may answer early). Such a connection cannot be reused, since the responder
//! might take the rest for a new request. The same applies if anything follows `END_REQUEST`: bytes that no request asked
//! for must never become the beginning of the next response.

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
    /// CGI variables, name and value, sent in this order. With a body, `CONTENT_LENGTH` must be among them and equal
    /// `body_length`; this crate does not look.
    pub variables: &'a [CgiVariable<'a>],
    /// Exact number of bytes the body source will give, 0 for no body.
    pub body_length: u64,
}

/// The state of one connection's protocol.
#[derive(Debug)]
pub struct FastCgiExchange {
    phase: ExchangePhase,
    incoming: RecordParser,
    input: BytesMut,
    /// Size of the buffer to read into; 0: none so far.
    input_bytes: usize,
    outgoing: Outgoing,
    /// Given by the body source, not yet framed.
    chunk: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExchangePhase {
    /// No request yet, or the last one ended with nothing left over.
    Ready,
    /// A request is in progress. `owed`: bytes of the body that the source has not given yet; `stdin`: its stream to the
    /// responder.
    Open {
        declared: u64,
        owed: u64,
        stdin: Stdin,
    },
    /// No further request may be sent.
    Spent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stdin {
    Open,
    /// The ending record has been queued.
    Ended,
    /// Writing failed; the response may still come.
    Abandoned,
}

impl Default for FastCgiExchange {
    fn default() -> FastCgiExchange {
        FastCgiExchange::new()
    }
}

impl FastCgiExchange {
    /// A connection on which nothing has been said.
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
            owed: declared,
            stdin: Stdin::Open,
        };
        self.frame();
        Ok(())
    }

    /// A request is in progress: `END_REQUEST` has not arrived.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, ExchangePhase::Open { .. })
    }

    /// The next chunk of the body may be given: some is owed and little waits to be written.
    pub fn wants_body(&self) -> bool {
        matches!(
            self.phase,
            ExchangePhase::Open {
                owed: 1..,
                stdin: Stdin::Open,
                ..
            }
        ) && self.chunk.is_empty()
            && self.outgoing.remaining() < OUTPUT_BYTES
    }

    /// Takes a chunk of any size; call only when [`FastCgiExchange::wants_body`]. Fails with [`Error::BodyLength`] if it is
    /// more than was declared. After the last byte the stream is ended without being asked.
    pub fn give_body(&mut self, chunk: Bytes) -> Result<(), Error> {
        let ExchangePhase::Open {
            declared,
            owed,
            stdin,
        } = self.phase
        else {
            return Err(Error::OutOfTurn);
        };
        if !self.chunk.is_empty() {
            return Err(Error::OutOfTurn);
        }
        let length = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        let Some(owed) = owed.checked_sub(length) else {
            return Err(self.bad_body_length(declared, (declared - owed).saturating_add(length)));
        };
        self.phase = ExchangePhase::Open {
            declared,
            owed,
            stdin,
        };
        self.chunk = chunk;
        self.frame();
        Ok(())
    }

    /// The source has no more; [`Error::BodyLength`] if some is still owed.
    pub fn end_body(&mut self) -> Result<(), Error> {
        match self.phase {
            ExchangePhase::Open {
                declared,
                owed: owed @ 1..,
                ..
            } => Err(self.bad_body_length(declared, declared - owed)),
            ExchangePhase::Open { .. } | ExchangePhase::Ready | ExchangePhase::Spent => Ok(()),
        }
    }

    /// Bytes to write, oldest first. After advancing it, call [`FastCgiExchange::frame`].
    pub fn outgoing(&mut self) -> &mut (impl Buf + use<>) {
        &mut self.outgoing
    }

    /// Cuts the present chunk into records while there is room. Also ends STDIN after the body's last byte.
    pub fn frame(&mut self) {
        let ExchangePhase::Open {
            owed,
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
        if owed == 0 && self.chunk.is_empty() {
            self.outgoing
                .encode(|out| record::write_stream_end(out, RecordType::Stdin));
            if let ExchangePhase::Open { stdin, .. } = &mut self.phase {
                *stdin = Stdin::Ended;
            }
        }
    }

    /// Nothing more can be written. The response may still be read (a responder that refuses an upload answers and
    /// closes), but the connection is spent.
    pub fn abandon_output(&mut self) {
        if let ExchangePhase::Open { stdin, .. } = &mut self.phase {
            *stdin = Stdin::Abandoned;
        }
        self.outgoing.clear();
        self.chunk = Bytes::new();
    }

    /// No further request may use this connection. The contents of the buffers are dropped.
    pub fn spend(&mut self) {
        self.phase = ExchangePhase::Spent;
        self.outgoing.clear();
        self.chunk = Bytes::new();
        self.input.clear();
    }

    /// The buffer to read into, with room for a good read. Call only after [`FastCgiExchange::event`] gave `None`; then it holds
    /// less than a header, so the whole stays at [`INPUT_BYTES`]; the first is smaller.
    pub fn input(&mut self) -> &mut BytesMut {
        let held = self.input.len();
        if self.input.capacity() - held < LEAST_READ_BYTES {
            match self.input_bytes {
                0 => self.grow(FIRST_INPUT_BYTES),
                FIRST_INPUT_BYTES => self.grow(INPUT_BYTES),
                _ => self.input.reserve(INPUT_BYTES - held.min(INPUT_BYTES)),
            }
        }
        &mut self.input
    }

    /// Continues with a buffer of another size.
    fn grow(&mut self, size: usize) {
        let mut input = BytesMut::with_capacity(size);
        input.extend_from_slice(&self.input);
        self.input = input;
        self.input_bytes = size;
    }

    /// The next event among the bytes read; `None` when more are needed. A bad record spends the connection.
    pub fn event(&mut self) -> Result<Option<FastCgiEvent>, Error> {
        let ExchangePhase::Open { stdin, .. } = self.phase else {
            return Err(Error::OutOfTurn);
        };
        match self.incoming.next(&mut self.input) {
            Ok(Some(FastCgiEvent::End(status))) => {
                let clean = stdin == Stdin::Ended
                    && !self.outgoing.has_remaining()
                    && self.input.is_empty()
                    && self.incoming.is_between_records()
                    && status.protocol_status == ProtocolStatus::RequestComplete;
                if clean {
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

    /// A new request may be sent: none is in progress, everything of the last one was sent and nothing came after its end.
    pub fn is_reusable(&self) -> bool {
        self.phase == ExchangePhase::Ready
    }

    fn bad_body_length(&mut self, declared: u64, given: u64) -> Error {
        self.spend();
        Error::BodyLength { declared, given }
    }
}

/// Below this, more of the body is taken. With the record that crosses it, at most 96 KiB wait to be written.
pub const OUTPUT_BYTES: usize = 64 * 1024;

/// Size of the read buffer.
pub const INPUT_BYTES: usize = 64 * 1024;

/// Size of a connection's first buffer, sufficient for many responses: memory that is not touched costs nothing.
pub const FIRST_INPUT_BYTES: usize = 16 * 1024;

/// Content of a full STDIN record: two make a chunk of 64 KiB, where the largest possible record would leave one byte
/// for a second.
const STDIN_RECORD_BYTES: u16 = 32 * 1024;

/// With less room than this in the read buffer, a new one is cheaper than reading in small pieces.
const LEAST_READ_BYTES: usize = 8 * 1024;
