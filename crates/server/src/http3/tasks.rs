//! What the tasks of requests do on the state of their connection: they read bodies, and send responses.

use std::collections::HashMap;
use std::task::{Context, Poll};

use bytes::Bytes;
use galley_http::h3::{H3Code, H3Error};
use galley_http::hpack::Block;
use quinn_proto::StreamId;

use super::state::Http3State;
use super::streams::{BehindHead, RequestStream, StreamFailure, StreamInput};

impl Http3State {
    pub(super) fn poll_body(
        &mut self,
        id: StreamId,
        cx: &Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamFailure>> {
        let Some(stream) = open(&mut self.streams, id) else {
            return Poll::Ready(Err(StreamFailure::Gone));
        };
        // Trailers are dropped.
        let mut trailers = Block::default();
        Poll::Ready(
            match stream.read(&mut self.quic, &mut trailers, &mut self.h3.flood) {
                Ok(StreamInput::Data(data)) => {
                    self.widen_receiving();
                    Ok(Some(data))
                }
                Ok(StreamInput::Blocked) => {
                    stream.wait_for_input(cx);
                    return Poll::Pending;
                }
                Ok(StreamInput::End) => Ok(None),
                Ok(StreamInput::Head | StreamInput::HeadTooLarge) => {
                    Err(H3Error::Connection(H3Code::FrameUnexpected).into())
                }
                Err(failure) => Err(failure),
            },
        )
    }

    pub(super) fn poll_behind_head(
        &mut self,
        id: StreamId,
        cx: &Context<'_>,
    ) -> Poll<Result<BehindHead, StreamFailure>> {
        let Some(stream) = open(&mut self.streams, id) else {
            return Poll::Ready(Err(StreamFailure::Gone));
        };
        let behind = stream.behind_head(&mut self.quic, &mut self.h3.flood);
        if matches!(behind, Ok(BehindHead::Nothing)) {
            stream.wait_for_input(cx);
            return Poll::Pending;
        }
        Poll::Ready(behind)
    }

    pub(super) fn is_body_ended(&self, id: StreamId) -> bool {
        self.streams
            .get(&id)
            .is_none_or(RequestStream::is_input_ended)
    }

    pub(super) fn expect_body(&mut self, id: StreamId, length: u64) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.expect_body(length);
        }
    }

    pub(super) fn send(
        &mut self,
        id: StreamId,
        bytes: Bytes,
        is_last: bool,
    ) -> Result<(), StreamFailure> {
        let stream = open(&mut self.streams, id).ok_or(StreamFailure::Gone)?;
        self.h3.flood.sent(bytes.len());
        stream.push(bytes, is_last);
        let flushed = stream.flush(&mut self.quic, &mut self.accepted);
        flushed.map(|_| ())
    }

    pub(super) fn poll_room(
        &mut self,
        id: StreamId,
        cx: &Context<'_>,
    ) -> Poll<Result<(), StreamFailure>> {
        let Some(stream) = open(&mut self.streams, id) else {
            return Poll::Ready(Err(StreamFailure::Gone));
        };
        match stream.has_room(&mut self.quic, &mut self.accepted) {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => {
                stream.wait_for_room(cx);
                Poll::Pending
            }
            Err(failure) => Poll::Ready(Err(failure)),
        }
    }

    pub(super) fn poll_closed(&mut self, id: StreamId, cx: &Context<'_>) -> Poll<()> {
        match open(&mut self.streams, id) {
            Some(stream) => {
                stream.wait_for_input(cx);
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }

    /// Resets a stream.
    pub(super) fn reset(&mut self, id: StreamId, code: H3Code) {
        if let Some(stream) = self.streams.get_mut(&id) {
            self.counts.resets_by_galley += 1;
            stream.reset(&mut self.quic, code);
            // A client must not make Galley reset streams without end (CVE-2025-8671). `advance` sees the result.
            let _ = self.h3.flood.reset();
        }
    }

    /// The task of a stream has ended.
    pub(super) fn release(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        stream.stop_waiting();
        if stream.is_open() {
            // The response is incomplete.
            return self.drop_stream(id, H3Code::InternalError);
        }
        stream.decline_body(&mut self.quic, H3Code::NoError);
        if stream.is_reset || stream.is_received {
            self.streams.remove(&id);
        }
    }

    fn drop_stream(&mut self, id: StreamId, code: H3Code) {
        self.reset(id, code);
        self.streams.remove(&id);
    }
}

/// The stream, unless the client has canceled it.
fn open(
    streams: &mut HashMap<StreamId, RequestStream>,
    id: StreamId,
) -> Option<&mut RequestStream> {
    streams.get_mut(&id).filter(|stream| !stream.is_cancelled)
}
