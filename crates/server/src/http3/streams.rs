//! The streams of requests: the client's bytes on their way to the reader, and output on its way to QUIC.

use std::collections::VecDeque;
use std::task::{Context, Waker};

use bytes::{Buf, Bytes};
use galley_http::h3::{H3Code, H3Error, H3Flood, RequestOutput, RequestReader};
use galley_http::hpack::Block;
use quinn_proto::{Connection, ReadError, StreamId, VarInt, WriteError};

use super::request_head::Http3Head;
use super::sending_hit::SendingHit;
use crate::timer::Deadline;

/// Why a stream ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamFailure {
    /// The client has cancelled the request, or has disconnected.
    Gone,
    /// The client has violated the protocol.
    Error(H3Error),
}

impl From<H3Error> for StreamFailure {
    fn from(error: H3Error) -> Self {
        Self::Error(error)
    }
}

/// What was read from a stream.
pub(super) enum StreamInput {
    /// The head is in the block.
    Head,
    HeadTooLarge,
    Data(Bytes),
    /// Nothing more is there yet.
    Blocked,
    End,
}

/// What follows the head of a request, as far as it has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BehindHead {
    /// The end: the request has no body.
    End,
    /// Nothing yet. Many clients end the stream of a request without a body in another datagram than its head.
    Nothing,
    /// A part of a body.
    Body,
}

/// The result of taking received bytes.
enum Filled {
    More,
    Blocked,
    End,
}

/// The stream of one request.
pub(super) struct RequestStream {
    id: StreamId,
    reader: RequestReader,
    /// Received bytes that the reader has not seen.
    input: Bytes,
    /// A part of the body that was read to learn whether there is one.
    ahead: Bytes,
    is_input_ended: bool,
    /// When the head must be complete; `None`: it is.
    pub(super) head_until: Option<Deadline>,
    /// The head of a request that came in early data, and waits until the handshake is complete.
    pub(super) early: Option<Http3Head>,
    /// A hit whose body is being sent, and which stays in memory until the client has it.
    pub(super) hit: Option<SendingHit>,
    /// Output that QUIC has not accepted.
    output: VecDeque<Bytes>,
    is_output_ended: bool,
    /// Whether QUIC knows the end of the output.
    pub(super) is_finished: bool,
    /// Whether the client has cancelled the request.
    pub(super) is_cancelled: bool,
    /// Whether the stream was reset.
    pub(super) is_reset: bool,
    /// Whether the client has received everything.
    pub(super) is_received: bool,
    /// Whether a task answers the request.
    pub(super) has_task: bool,
    reading: Option<Waker>,
    sending: Option<Waker>,
}

impl RequestStream {
    pub(super) fn new(id: StreamId, most: usize, head_until: Deadline) -> Self {
        Self {
            id,
            reader: RequestReader::new(most),
            input: Bytes::new(),
            ahead: Bytes::new(),
            is_input_ended: false,
            head_until: Some(head_until),
            early: None,
            hit: None,
            output: VecDeque::new(),
            is_output_ended: false,
            is_finished: false,
            is_cancelled: false,
            is_reset: false,
            is_received: false,
            has_task: false,
            reading: None,
            sending: None,
        }
    }

    /// Reads the next part of the request. Ends of the head are in `block`.
    pub(super) fn read(
        &mut self,
        quic: &mut Connection,
        block: &mut Block,
        flood: &mut H3Flood,
    ) -> Result<StreamInput, StreamFailure> {
        if !self.ahead.is_empty() {
            return Ok(StreamInput::Data(std::mem::take(&mut self.ahead)));
        }
        loop {
            let mut rest = &self.input[..];
            match self.reader.next(&mut rest, block, flood)? {
                RequestOutput::More => {}
                RequestOutput::Head => {
                    let read = self.input.len() - rest.len();
                    self.input.advance(read);
                    return Ok(StreamInput::Head);
                }
                RequestOutput::HeadTooLarge => return Ok(StreamInput::HeadTooLarge),
                RequestOutput::Data(data) => {
                    let data = self.input.slice_ref(data);
                    let read = self.input.len() - rest.len();
                    self.input.advance(read);
                    return Ok(StreamInput::Data(data));
                }
            }
            self.input = Bytes::new();
            match self.fill(quic)? {
                Filled::More => {}
                Filled::Blocked => return Ok(StreamInput::Blocked),
                Filled::End => return Ok(StreamInput::End),
            }
        }
    }

    /// What follows the head. Keeps a part of a body for [`RequestStream::read`].
    ///
    /// Must not be called before [`RequestStream::expect_body`] if the head announces a length.
    pub(super) fn behind_head(
        &mut self,
        quic: &mut Connection,
        flood: &mut H3Flood,
    ) -> Result<BehindHead, StreamFailure> {
        if self.ahead.is_empty() {
            // Trailers are dropped.
            match self.read(quic, &mut Block::default(), flood)? {
                StreamInput::Data(data) => self.ahead = data,
                StreamInput::Blocked => return Ok(BehindHead::Nothing),
                StreamInput::End => return Ok(BehindHead::End),
                StreamInput::Head | StreamInput::HeadTooLarge => {
                    return Err(H3Error::Connection(H3Code::FrameUnexpected).into());
                }
            }
        }
        Ok(BehindHead::Body)
    }

    /// As [`RequestStream::behind_head`], for a head that announces a length: what is not the end counts as a body.
    pub(super) fn behind_sized_head(
        &mut self,
        quic: &mut Connection,
    ) -> Result<BehindHead, StreamFailure> {
        if self.input.is_empty() {
            self.fill(quic)?;
        }
        Ok(if self.is_input_ended {
            BehindHead::End
        } else {
            BehindHead::Body
        })
    }

    /// Takes the next received bytes.
    fn fill(&mut self, quic: &mut Connection) -> Result<Filled, StreamFailure> {
        if self.is_input_ended {
            return Ok(Filled::End);
        }
        let mut stream = quic.recv_stream(self.id);
        let Ok(mut chunks) = stream.read(true) else {
            return Err(StreamFailure::Gone);
        };
        let next = chunks.next(MAX_CHUNK);
        // The endpoint sends what this makes necessary.
        let _ = chunks.finalize();
        match next {
            Ok(Some(chunk)) => {
                self.input = chunk.bytes;
                Ok(Filled::More)
            }
            Ok(None) => {
                self.is_input_ended = true;
                self.reader.end()?;
                Ok(Filled::End)
            }
            Err(ReadError::Blocked) => Ok(Filled::Blocked),
            Err(ReadError::Reset(_)) => Err(StreamFailure::Gone),
        }
    }

    /// The memory of the stream in bytes, without what is shared or counted elsewhere: an incomplete head, that of a request which waits
    /// for the handshake or of a hit whose response waits, and output of a task that waits.
    pub(super) fn memory(&self) -> u64 {
        let early = self.early.as_ref().map_or(0, Http3Head::bytes);
        let hit = self.hit.as_ref().map_or(0, SendingHit::head_bytes);
        let output = self.output.iter().filter(|_| self.has_task);
        let output: usize = output.map(Bytes::len).sum();
        early + (self.reader.capacity() + hit + output) as u64
    }

    /// Whether more output may follow.
    pub(super) fn is_open(&self) -> bool {
        !self.is_output_ended
    }

    /// Forgets the task, which has ended.
    pub(super) fn stop_waiting(&mut self) {
        self.has_task = false;
        self.reading = None;
        self.sending = None;
    }

    /// Whether the last byte of the request has been read.
    pub(super) fn is_input_ended(&self) -> bool {
        self.is_input_ended && self.ahead.is_empty()
    }

    /// Announces the length of the body.
    pub(super) fn expect_body(&mut self, length: u64) {
        self.reader.expect_body(length);
    }

    /// Appends output, without sending it.
    pub(super) fn push(&mut self, bytes: Bytes, is_last: bool) {
        if !bytes.is_empty() {
            self.output.push_back(bytes);
        }
        self.is_output_ended |= is_last;
    }

    /// Gives output to QUIC, and counts the bytes that it accepts. True if it has accepted all of them.
    pub(super) fn flush(
        &mut self,
        quic: &mut Connection,
        accepted: &mut u64,
    ) -> Result<bool, StreamFailure> {
        if self.is_finished {
            return Ok(true);
        }
        let mut stream = quic.send_stream(self.id);
        while !self.output.is_empty() {
            let chunks = self.output.make_contiguous();
            match stream.write_chunks(chunks) {
                Ok(written) => {
                    *accepted += written.bytes as u64;
                    self.output.drain(..written.chunks);
                }
                Err(WriteError::Blocked) => return Ok(false),
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                    return Err(StreamFailure::Gone);
                }
            }
        }
        if self.is_output_ended {
            stream.finish().map_err(|_| StreamFailure::Gone)?;
            self.is_finished = true;
        }
        Ok(true)
    }

    /// Whether QUIC has accepted all output, and the client permits more.
    pub(super) fn has_room(
        &mut self,
        quic: &mut Connection,
        accepted: &mut u64,
    ) -> Result<bool, StreamFailure> {
        if !self.flush(quic, accepted)? {
            return Ok(false);
        }
        if self.is_finished {
            return Ok(true);
        }
        // Nothing is written, but the windows are examined; if they are closed, QUIC reports when they open.
        match quic.send_stream(self.id).write(&[]) {
            Ok(_) => Ok(true),
            Err(WriteError::Blocked) => Ok(false),
            Err(WriteError::Stopped(_) | WriteError::ClosedStream) => Err(StreamFailure::Gone),
        }
    }

    /// Whether output waits for the client.
    pub(super) fn is_blocked(&self) -> bool {
        !self.output.is_empty() || self.sending.is_some()
    }

    /// Ends both directions with an error.
    pub(super) fn reset(&mut self, quic: &mut Connection, why: H3Code) {
        let code = VarInt::from_u32(u32::from(why as u16));
        // It may have been reset before, or be acknowledged. Output that QUIC has accepted is not sent any more, either.
        let _ = quic.send_stream(self.id).reset(code);
        self.output.clear();
        self.is_output_ended = true;
        self.is_finished = true;
        self.is_reset = true;
        self.decline_body(quic, why);
    }

    /// Accepts no more of the body.
    pub(super) fn decline_body(&mut self, quic: &mut Connection, why: H3Code) {
        let code = VarInt::from_u32(u32::from(why as u16));
        if !std::mem::replace(&mut self.is_input_ended, true) {
            let _ = quic.recv_stream(self.id).stop(code);
        }
        self.input = Bytes::new();
        self.ahead = Bytes::new();
    }

    /// Wakes the task when more of the body arrives.
    pub(super) fn wait_for_input(&mut self, cx: &Context<'_>) {
        wait(&mut self.reading, cx);
    }

    /// Wakes the task when the client permits more output.
    pub(super) fn wait_for_room(&mut self, cx: &Context<'_>) {
        wait(&mut self.sending, cx);
    }

    /// Wakes the task that waits for input.
    pub(super) fn wake_reader(&mut self) {
        if let Some(waker) = self.reading.take() {
            waker.wake();
        }
    }

    /// Wakes the task that waits for room.
    pub(super) fn wake_sender(&mut self) {
        if let Some(waker) = self.sending.take() {
            waker.wake();
        }
    }
}

fn wait(place: &mut Option<Waker>, cx: &Context<'_>) {
    if !place
        .as_ref()
        .is_some_and(|waker| waker.will_wake(cx.waker()))
    {
        *place = Some(cx.waker().clone());
    }
}

/// The largest piece that is read at once: that of a body part.
const MAX_CHUNK: usize = galley_upstream::body::streamed_body::PART_BYTES;
