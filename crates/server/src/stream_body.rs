//! Responses on a stream of HTTP/2 or HTTP/3: the head as fields, the body in pieces as the client opens its windows.
//!
//! At most as much of a body is read from its source as the client's window permits, so a client that opens none occupies only
//! its stream, for little more than twice `write_timeout`. Trailers are dropped, as in HTTP/1. A body that ends early resets
//! its stream, so that it never looks complete.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use galley_cache::disk::BodyPieces;
use galley_cache::fill::FillReader;
use galley_files::BodyPiece;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response as HttpResponse, StatusCode};

use super::http2::quota::StreamReservation;
use super::io::{HttpDate, IoError};
use super::record::RecordEnd;
use super::span;
use super::timer::Timer;
use super::write::{BufferedBody, read_verified};
use galley_request::{Response, ResponseBody, ResponseFields, length_of};
use galley_telemetry::fields::ResponseValues;

/// A stream on which one response is sent.
pub(super) trait ResponseStream {
    /// Sends the head. `length`: that of the body, if known.
    fn begin(
        &mut self,
        head: HttpResponse<()>,
        length: Option<u64>,
        is_end: bool,
    ) -> Result<(), SendFailure>;

    /// Requests permission for `most` bytes, before [`ResponseStream::poll_capacity`].
    fn request_capacity(&mut self, most: usize);

    /// The number of bytes that the client permits, at least one and at most `most`.
    fn poll_capacity(
        &mut self,
        most: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<usize, SendFailure>>;

    /// Sends a part of the body.
    fn hand_over(&mut self, part: Bytes, is_last: bool) -> Result<(), SendFailure>;

    /// Ready when the client has cancelled the request, or has disconnected.
    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Ready when nothing that was handed over waits in memory of the stream.
    fn poll_flushed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendFailure>>;

    /// Resets the stream.
    fn fail(&mut self, why: SendFailure);
}

/// Why a response ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendFailure {
    /// The client does not receive it.
    Cancelled,
    /// Its source has failed.
    Internal,
}

/// The parameters for sending a stream's response.
pub(super) struct SendOptions {
    pub(super) timer: Timer,
    /// The memory of the stream.
    pub(super) reservation: StreamReservation,
    pub(super) write_timeout: Duration,
    pub(super) date: HttpDate,
}

/// Sends a response. The returned end of the record contains what was passed on for sending, even if the client disconnected
/// before the end.
pub(super) async fn send<S: ResponseStream>(
    stream: S,
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
    let mut sending = SendingBody { stream, options };
    let result = sending.all(response, body, &mut end.body_bytes).await;
    if let Err(why) = result {
        sending.stream.fail(why);
        end.vanished = true;
    }
    end
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

/// Removes fields of HTTP/1 connections and fields that describe the length of the body (RFC 9113 section 8.2.2, RFC 9114 section 4.2).
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

/// A response that is being sent.
struct SendingBody<S> {
    stream: S,
    options: SendOptions,
}

impl<S: ResponseStream> SendingBody<S> {
    async fn all(
        &mut self,
        response: Response,
        mut body: ResponseBody,
        sent: &mut u64,
    ) -> Result<(), SendFailure> {
        let mut ahead = BufferedBody::default();
        let (length, is_end) = match &mut body {
            ResponseBody::None => (None, true),
            ResponseBody::Unsent(length) => (*length, true),
            ResponseBody::Bytes(bytes) => (Some(bytes.len() as u64), bytes.is_empty()),
            ResponseBody::Pieces(pieces) => (Some(length_of(pieces)), length_of(pieces) == 0),
            ResponseBody::File { length, .. } | ResponseBody::Stored { length, .. } => {
                (Some(*length), *length == 0)
            }
            ResponseBody::Fill(reader, length) => {
                ahead.gather(reader);
                let whole = ahead.is_whole.then_some(ahead.bytes);
                (length.or(whole), whole == Some(0))
            }
        };
        let date = self.options.date;
        let announced = length.filter(|_| !is_end);
        self.stream
            .begin(head(response, length, date), announced, is_end)?;
        if is_end {
            return self.flushed().await;
        }
        match body {
            ResponseBody::None | ResponseBody::Unsent(_) => {}
            ResponseBody::Bytes(bytes) => self.piece(bytes, true, sent).await?,
            ResponseBody::Pieces(pieces) => self.pieces(pieces, sent).await?,
            ResponseBody::Fill(reader, _) => self.fill(reader, ahead, sent).await?,
            ResponseBody::File { file, parts, .. } => {
                self.parts(&StreamSource::File(file), parts, sent).await?;
            }
            ResponseBody::Stored { pieces, parts, .. } => {
                self.parts(&StreamSource::Pieces(pieces), parts, sent)
                    .await?;
            }
        }
        self.flushed().await
    }

    /// Sends the pieces of a whole body.
    async fn pieces(&mut self, pieces: Vec<Bytes>, sent: &mut u64) -> Result<(), SendFailure> {
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
    ) -> Result<(), SendFailure> {
        while !piece.is_empty() {
            let capacity = self.wait_for_capacity(piece.len()).await?;
            let part = piece.split_to(capacity.min(piece.len()));
            *sent += part.len() as u64;
            self.stream.hand_over(part, is_last && piece.is_empty())?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), SendFailure> {
        self.stream.hand_over(Bytes::new(), true)
    }

    /// Waits until the client's window permits at least one byte, and returns the number of permitted bytes, up to `most`.
    async fn wait_for_capacity(&mut self, most: usize) -> Result<usize, SendFailure> {
        let Self { stream, .. } = self;
        stream.request_capacity(most);
        self.client(move |stream, cx| stream.poll_capacity(most, cx))
            .await
    }

    /// Waits until the client has permitted all of it.
    async fn flushed(&mut self) -> Result<(), SendFailure> {
        self.client(S::poll_flushed).await
    }

    /// Waits for the client.
    async fn client<T>(
        &mut self,
        mut poll: impl FnMut(&mut S, &mut Context<'_>) -> Poll<Result<T, SendFailure>>,
    ) -> Result<T, SendFailure> {
        let Self { stream, options } = self;
        let at_once = poll_fn(|cx| Poll::Ready(poll(stream, cx))).await;
        if let Poll::Ready(result) = at_once {
            return result;
        }
        // The timeout of the connection applies first: if the client reads nothing at all, the connection ends with all its
        // streams.
        let limit = 2 * options.write_timeout + AFTER_CONNECTION;
        let _waits = options.reservation.wait();
        let waiting = poll_fn(|cx| poll(stream, cx));
        let Ok(result) = options.timer.within(limit, waiting).await else {
            options.reservation.starve();
            return Err(SendFailure::Cancelled);
        };
        result
    }

    /// Sends a body that is still being received. The available part is sent first.
    async fn fill(
        &mut self,
        mut reader: FillReader,
        ahead: BufferedBody,
        sent: &mut u64,
    ) -> Result<(), SendFailure> {
        if ahead.is_whole {
            return self.pieces(ahead.pieces, sent).await;
        }
        for piece in ahead.pieces {
            self.piece(piece, false, sent).await?;
        }
        loop {
            let stream = &mut self.stream;
            let next = tokio::select! {
                biased;
                next = reader.next() => next.map_err(|_| SendFailure::Internal)?,
                () = poll_fn(|cx| stream.poll_reset(cx)) => return Err(SendFailure::Cancelled),
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
    ) -> Result<(), SendFailure> {
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

fn internal_error(_: IoError) -> SendFailure {
    SendFailure::Internal
}

/// The additional time for which a stream waits after two windows of the connection, so that one of them lies within: some
/// checks of the timers.
const AFTER_CONNECTION: Duration = Duration::from_secs(1);
