//! Responses on a stream: the head as fields, the body in pieces as the client opens its windows.
//!
//! At most as much of a body is read from its source as the client's window permits, so a client that opens none occupies only
//! its stream, for little more than twice `write_timeout`. Trailers are dropped, as in HTTP/1. A body that ends early resets
//! its stream, so that it never looks complete.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use galley_cache::disk::BodyPieces;
use galley_cache::fill::FillReader;
use galley_files::BodyPiece;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response as HttpResponse, StatusCode};

use super::limits::SEND_BUFFER;
use super::quota::StreamReservation;
use super::request_head::DEFAULT_URGENCY;
use crate::io::{HttpDate, IoError};
use crate::record::RecordEnd;
use crate::span;
use crate::timer::{DeadlinePassed, Timer};
use crate::write::{BufferedBody, read_verified};
use galley_request::{Response, ResponseBody, ResponseFields, length_of};
use galley_telemetry::fields::ResponseValues;

/// The parameters for sending a stream's response.
pub(super) struct SendOptions {
    pub(super) timer: Timer,
    /// The memory of the stream.
    pub(super) reservation: StreamReservation,
    pub(super) write_timeout: Duration,
    /// From [`super::request_head::urgency`].
    pub(super) urgency: u8,
    pub(super) date: HttpDate,
}

/// Sends a response. The returned end of the record contains what was passed on for sending, even if the client disconnected
/// before the end.
pub(super) async fn send(
    mut respond: SendResponse<Bytes>,
    mut response: Response,
    options: SendOptions,
) -> RecordEnd {
    let mut end = RecordEnd {
        status: response.status,
        outcome: response.outcome,
        body_bytes: 0,
        upstream_time: response.upstream_time,
        vanished: false,
        logged: ResponseValues::new(),
    };
    let body = std::mem::replace(&mut response.body, ResponseBody::None);
    let result = send_all(&mut respond, response, body, options, &mut end.body_bytes).await;
    if let Err(reason) = result {
        respond.send_reset(reason);
        end.vanished = true;
    }
    end
}

async fn send_all(
    respond: &mut SendResponse<Bytes>,
    response: Response,
    body: ResponseBody,
    options: SendOptions,
    sent: &mut u64,
) -> Result<(), Reason> {
    let date = options.date;
    let mut ahead = BufferedBody::default();
    let (length, is_end) = match &body {
        ResponseBody::None => (None, true),
        ResponseBody::Unsent(length) => (*length, true),
        ResponseBody::Bytes(bytes) => (Some(bytes.len() as u64), bytes.is_empty()),
        ResponseBody::Pieces(pieces) => (Some(length_of(pieces)), length_of(pieces) == 0),
        ResponseBody::File { length, .. } | ResponseBody::Stored { length, .. } => {
            (Some(*length), *length == 0)
        }
        ResponseBody::Fill(..) => (None, false),
    };
    let mut body = body;
    let (length, is_end) = if let ResponseBody::Fill(reader, length) = &mut body {
        ahead.gather(reader);
        let whole = ahead.is_whole.then_some(ahead.bytes);
        (length.or(whole), whole == Some(0))
    } else {
        (length, is_end)
    };
    let out = respond
        .send_response(head(response, length, date), is_end)
        .map_err(|_| Reason::INTERNAL_ERROR)?;
    if is_end {
        return Ok(());
    }
    let mut sending = SendingBody { out, options };
    match body {
        ResponseBody::None | ResponseBody::Unsent(_) => Ok(()),
        ResponseBody::Bytes(bytes) => sending.last(bytes, sent).await,
        ResponseBody::Pieces(pieces) => sending.pieces(pieces, sent).await,
        ResponseBody::Fill(reader, _) => sending.fill(reader, ahead, sent).await,
        ResponseBody::File { file, parts, .. } => {
            sending.parts(&StreamSource::File(file), parts, sent).await
        }
        ResponseBody::Stored { pieces, parts, .. } => {
            sending
                .parts(&StreamSource::Pieces(pieces), parts, sent)
                .await
        }
    }
}

fn head(mut response: Response, length: Option<u64>, date: HttpDate) -> HttpResponse<()> {
    let status = StatusCode::from_u16(response.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut fields = match response.fields {
        ResponseFields::Own(own) => own,
        stored @ ResponseFields::Stored(_) => stored.map().clone(),
    };
    strip(&mut fields);
    for (name, value) in response.extra.drain(..) {
        fields.append(name, value);
    }
    // RFC 9110 §6.6.1: a response that is generated here gets a date; a stored one keeps its date.
    if !fields.contains_key(header::DATE) {
        add_date(&mut fields, date);
    }
    let has_length = !matches!(status.as_u16(), 100..=199 | 204 | 304);
    if let Some(length) = length.filter(|_| has_length) {
        fields.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    bare_response(status, fields)
}

/// A response without a body.
pub(super) fn bare_response(status: StatusCode, fields: HeaderMap) -> HttpResponse<()> {
    let mut response = HttpResponse::new(());
    *response.status_mut() = status;
    *response.headers_mut() = fields;
    response
}

/// Adds the core's current date.
pub(super) fn add_date(fields: &mut HeaderMap, date: HttpDate) {
    if let Ok(date) = HeaderValue::from_bytes(&date) {
        fields.insert(header::DATE, date);
    }
}

/// Removes fields of HTTP/1 connections and fields that describe the length of the body (RFC 9113 section 8.2.2).
pub(super) fn strip(fields: &mut HeaderMap) {
    for name in &FRAMING_FIELDS {
        fields.remove(name);
    }
}

static FRAMING_FIELDS: [HeaderName; 8] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The source of the parts of a body.
enum StreamSource {
    File(Arc<std::fs::File>),
    Pieces(Arc<BodyPieces>),
}

/// A body that is being sent.
pub(super) struct SendingBody {
    pub(super) out: SendStream<Bytes>,
    pub(super) options: SendOptions,
}

impl SendingBody {
    /// Sends a piece that ends the body.
    pub(super) async fn last(&mut self, piece: Bytes, sent: &mut u64) -> Result<(), Reason> {
        self.piece(piece, true, sent).await
    }

    /// Sends the pieces of a whole body.
    async fn pieces(&mut self, pieces: Vec<Bytes>, sent: &mut u64) -> Result<(), Reason> {
        let mut pieces = pieces.into_iter().peekable();
        while let Some(piece) = pieces.next() {
            let is_last = pieces.peek().is_none();
            self.piece(piece, is_last, sent).await?;
        }
        Ok(())
    }

    async fn piece(
        &mut self,
        mut piece: Bytes,
        is_last: bool,
        sent: &mut u64,
    ) -> Result<(), Reason> {
        while !piece.is_empty() {
            let capacity = self.wait_for_capacity(piece.len()).await?;
            let part = piece.split_to(capacity.min(piece.len()));
            *sent += part.len() as u64;
            self.hand_over(part, is_last && piece.is_empty())?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Reason> {
        self.hand_over(Bytes::new(), true)
    }

    fn hand_over(&mut self, part: Bytes, is_last: bool) -> Result<(), Reason> {
        let handed = self.out.send_data(part, is_last);
        handed.map_err(|_| Reason::CANCEL)
    }

    /// Waits until the client's window permits at least one byte, and returns the number of permitted bytes, up to `most`.
    async fn wait_for_capacity(&mut self, most: usize) -> Result<usize, Reason> {
        let Self { out, options } = self;
        // A stream with little output in the library gets fewer of its turns, so urgent streams may have more there.
        let share = if options.urgency > DEFAULT_URGENCY {
            SEND_BUFFER / 4
        } else {
            SEND_BUFFER
        };
        out.reserve_capacity(most.min(share));
        // The timeout of the connection applies first: if the client reads nothing at all, the connection ends with all its
        // streams.
        let limit = 2 * options.write_timeout + AFTER_CONNECTION;
        loop {
            let capacity = out.capacity();
            if capacity > 0 {
                return Ok(capacity.min(most));
            }
            let _waits = options.reservation.wait();
            let waiting = poll_fn(|cx| out.poll_capacity(cx));
            match options.timer.within(limit, waiting).await {
                Ok(Some(Ok(_))) => {}
                Ok(Some(Err(_)) | None) => return Err(Reason::CANCEL),
                Err(DeadlinePassed) => {
                    options.reservation.starve();
                    return Err(Reason::CANCEL);
                }
            }
        }
    }

    /// Sends a body that is still being received. The available part is sent first.
    async fn fill(
        &mut self,
        mut reader: FillReader,
        ahead: BufferedBody,
        sent: &mut u64,
    ) -> Result<(), Reason> {
        if ahead.is_whole {
            return self.pieces(ahead.pieces, sent).await;
        }
        for piece in ahead.pieces {
            self.piece(piece, false, sent).await?;
        }
        loop {
            let out = &mut self.out;
            let next = tokio::select! {
                biased;
                next = reader.next() => next.map_err(|_| Reason::INTERNAL_ERROR)?,
                _ = poll_fn(|cx| out.poll_reset(cx)) => return Err(Reason::CANCEL),
            };
            match next {
                Some(piece) => self.piece(piece, false, sent).await?,
                None => return self.end(),
            }
        }
    }

    async fn parts(
        &mut self,
        source: &StreamSource,
        parts: Vec<BodyPiece>,
        sent: &mut u64,
    ) -> Result<(), Reason> {
        for part in parts {
            match (part, source) {
                (BodyPiece::Bytes(bytes), _) => self.piece(bytes.into(), false, sent).await?,
                (BodyPiece::Span { start, end }, StreamSource::File(file)) => {
                    let mut at = start;
                    while at < end {
                        let left = usize::try_from(end - at).unwrap_or(usize::MAX);
                        let capacity = self.wait_for_capacity(left).await?;
                        let read = span::piece(file, at, capacity as u64).await;
                        let piece = read.map_err(internal_error)?;
                        at += piece.len() as u64;
                        self.piece(piece, false, sent).await?;
                    }
                }
                (BodyPiece::Span { start, end }, StreamSource::Pieces(pieces)) => {
                    let mut at = start;
                    while at < end {
                        self.wait_for_capacity(1).await?;
                        let piece = read_verified(pieces, at, end)
                            .await
                            .map_err(internal_error)?;
                        at += piece.len() as u64;
                        self.piece(piece, false, sent).await?;
                    }
                }
            }
        }
        self.end()
    }
}

fn internal_error(_: IoError) -> Reason {
    Reason::INTERNAL_ERROR
}

/// The additional time for which a stream waits after two windows of the connection, so that one of them lies within: some
/// checks of the timers.
const AFTER_CONNECTION: Duration = Duration::from_secs(1);
