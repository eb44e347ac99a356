//! A response on a stream of the library: see [`crate::stream_body`].

use std::task::{Context, Poll};

use bytes::Bytes;
use galley_http::priority::DEFAULT_URGENCY;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::Response as HttpResponse;

use super::limits::SEND_BUFFER;
use crate::stream_body::{ResponseStream, SendFailure};

/// A stream on which a response is sent.
pub(super) struct LibraryStream {
    respond: SendResponse<Bytes>,
    /// Exists once the head was sent, unless it is everything.
    out: Option<SendStream<Bytes>>,
    /// From [`super::request_head::urgency`].
    urgency: u8,
}

impl LibraryStream {
    pub(super) fn new(respond: SendResponse<Bytes>, urgency: u8) -> Self {
        Self {
            respond,
            out: None,
            urgency,
        }
    }
}

impl ResponseStream for LibraryStream {
    fn begin(
        &mut self,
        head: HttpResponse<()>,
        _: Option<u64>,
        is_end: bool,
    ) -> Result<(), SendFailure> {
        let out = self.respond.send_response(head, is_end);
        self.out = Some(out.map_err(|_| SendFailure::Internal)?);
        Ok(())
    }

    fn request_capacity(&mut self, most: usize) {
        // A stream with little output in the library gets fewer of its turns, so urgent streams may have more there.
        let share = if self.urgency > DEFAULT_URGENCY {
            SEND_BUFFER / 4
        } else {
            SEND_BUFFER
        };
        if let Some(out) = &mut self.out {
            out.reserve_capacity(most.min(share));
        }
    }

    fn poll_capacity(
        &mut self,
        most: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<usize, SendFailure>> {
        let Some(out) = &mut self.out else {
            return Poll::Ready(Err(SendFailure::Cancelled));
        };
        loop {
            let capacity = out.capacity();
            if capacity > 0 {
                return Poll::Ready(Ok(capacity.min(most)));
            }
            match std::task::ready!(out.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(Err(SendFailure::Cancelled)),
            }
        }
    }

    fn hand_over(&mut self, part: Bytes, is_last: bool) -> Result<(), SendFailure> {
        let out = self.out.as_mut().ok_or(SendFailure::Cancelled)?;
        let handed = out.send_data(part, is_last);
        handed.map_err(|_| SendFailure::Cancelled)
    }

    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.out {
            Some(out) => out.poll_reset(cx).map(|_| ()),
            None => self.respond.poll_reset(cx).map(|_| ()),
        }
    }

    // The library holds what it has accepted, and the clocks of the connection include it.
    fn poll_flushed(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendFailure>> {
        Poll::Ready(Ok(()))
    }

    fn fail(&mut self, why: SendFailure) {
        self.respond.send_reset(match why {
            SendFailure::Cancelled => Reason::CANCEL,
            SendFailure::Internal => Reason::INTERNAL_ERROR,
        });
    }
}
