//! One request on the slow path: from its head to its response and access record, in the same steps as over HTTP/1 and HTTP/2.
//!
//! Each has a separate task, which reads and writes its stream through the state of the connection. The endpoint sends and receives.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use galley_http::framing::{self, BodyKind};
use galley_http::h2::{self, Http2HeadBuffer, PseudoFields};
use galley_http::h3::{self, H3Code, H3Error};
use galley_http::head::{self, HeadBuffer};
use galley_http::hpack::Block;
use galley_policy::request_info::RequestInfo;
use http::{HeaderMap, Response as HttpResponse, StatusCode};

use super::link::StreamHandle;
use super::request_head::Http3Head;
use super::streams::{BehindHead, StreamFailure};
use crate::Core;
use crate::endpoints::Endpoints;
use crate::exchange::{Driver, KnownRequest, Responded, no_request};
use crate::http2::quota::StreamReservation;
use crate::protocol::{ArrivingBody, BodyError, ClientDisconnected, Protocol};
use crate::record::{OpenRecord, RecordEnd};
use crate::request_log_fields::RequestLogFields;
use crate::speed::ReceiveProgress;
use crate::stream_body::{self, ResponseStream, SendFailure, SendOptions};
use crate::timer::{DeadlinePassed, Timer};
use galley_request::{Response, Sites};
use galley_upstream::interim::{Interim, Mailbox};

/// The connection of a request.
pub(super) struct RequestPlace {
    pub(super) sites: Arc<Sites>,
    pub(super) endpoints: Endpoints,
    pub(super) began: Instant,
}

/// Answers a request and writes its access record.
pub(super) async fn run(
    place: RequestPlace,
    head: Http3Head,
    stream: StreamHandle,
    reservation: StreamReservation,
) {
    let core = std::rc::Rc::clone(&stream.link.core);
    let exchange = StreamExchange {
        core: &core,
        place: &place,
        stream: &stream,
    };
    match head {
        Http3Head::TooLarge => {
            let open = exchange.open(None);
            let response = no_request(431, &open.request_id);
            exchange.send(response, open, false, reservation).await;
        }
        Http3Head::Read(block) => {
            let line = match h3::request_line(&block) {
                Ok(line) => line,
                Err(error) => return stream.fail(error),
            };
            let fields = RequestLogFields::of_h2(&line, h2::fields_of(&block), &core.logged);
            let open = exchange.open(Some(fields));
            // Boxed, so that a response that waits for its client does not occupy the memory that a request needs.
            let answered = Box::pin(exchange.read(&line, &block, open)).await;
            stream.set_urgency(h2::urgency_of(&block));
            if let Some((responded, open)) = answered {
                let is_head = line.method == "HEAD";
                exchange
                    .send_responded(responded, open, is_head, reservation)
                    .await;
            }
        }
        Http3Head::Parsed(head, parsed) => {
            let mut buffer = HeadBuffer::new();
            let head = head.head(&mut buffer);
            let open = exchange.open(Some(RequestLogFields::of(&head, &core.logged)));
            let answered =
                Box::pin(exchange.respond(&head, KnownRequest::Parsed(parsed), open)).await;
            if let Some((responded, open)) = answered {
                let is_head = head.method == "HEAD";
                exchange
                    .send_responded(responded, open, is_head, reservation)
                    .await;
            }
        }
    }
}

struct StreamExchange<'c> {
    core: &'c Core,
    place: &'c RequestPlace,
    stream: &'c StreamHandle,
}

impl StreamExchange<'_> {
    fn open<'h>(&self, log_fields: Option<RequestLogFields<'h>>) -> OpenRecord<'h> {
        OpenRecord {
            log_fields,
            client: self.place.endpoints.client.ip(),
            tls_version: self.place.endpoints.tls_version,
            request_id: self.core.request_id(),
            began: self.place.began,
            log: 0,
            site: None,
            trace: None,
        }
    }

    /// The response to a request whose head has not been examined.
    async fn read<'p>(
        &self,
        line: &PseudoFields<'p>,
        block: &'p Block,
        open: OpenRecord<'p>,
    ) -> Option<(Responded, OpenRecord<'p>)> {
        let mut crumbs = Vec::new();
        h2::join_crumbs(h2::crumbs_of(block), &mut crumbs);
        let joined = (!crumbs.is_empty()).then_some((&b"cookie"[..], crumbs.as_slice()));
        let fields = h2::fields_of(block)
            .filter(|(name, _)| joined.is_none() || *name != b"cookie")
            .chain(joined);
        let limits = head::HeadLimits {
            head_bytes: self.core.limits.head_bytes,
            ..head::HeadLimits::default()
        };
        let mut buffer = Http2HeadBuffer::new();
        let is_end = match self.is_bodyless(line, block).await {
            Ok(is_end) => is_end,
            Err(failure) => {
                if let StreamFailure::Error(error) = failure {
                    self.stream.fail(error);
                }
                open.close(self.core, &RecordEnd::vanished());
                return None;
            }
        };
        let head = h2::head(line, fields, &limits, &mut buffer);
        let framed = head.and_then(|head| {
            let framing = framing::frame_h2(&head, is_end)?;
            Ok((head, framing))
        });
        let (head, framing) = match framed {
            Ok(framed) => framed,
            Err(error) => {
                let response = no_request(error.status(), &open.request_id);
                return Some((Responded::with(response), open));
            }
        };
        if let BodyKind::Length(length) = framing.body {
            self.stream.expect_body(length);
        }
        self.respond(&head, KnownRequest::Framed(&framing), open)
            .await
    }

    /// Whether the request has no body. What has not arrived yet counts as a body, except for a request that usually has none: its
    /// client may end the stream in a later datagram.
    async fn is_bodyless(
        &self,
        line: &PseudoFields<'_>,
        block: &Block,
    ) -> Result<bool, StreamFailure> {
        let mut names = h2::fields_of(block).map(|(name, _)| name);
        let announces = names.any(|name| matches!(name, b"content-length" | b"expect"));
        if announces || !matches!(line.method, "GET" | "HEAD") {
            return Ok(self.stream.is_body_ended());
        }
        let timer = self.core.timers.register();
        let behind = poll_fn(|cx| self.stream.poll_behind_head(cx));
        match timer.within(self.core.limits.head_timeout, behind).await {
            Ok(behind) => Ok(behind? == BehindHead::End),
            // The speed of the body judges the client.
            Err(DeadlinePassed) => Ok(false),
        }
    }

    /// Returns the response with the facts for its access record. `None`: the client disconnected before that, and the record was
    /// written.
    async fn respond<'h, 'o>(
        &self,
        head: &'h head::Head<'h, 'h>,
        known: KnownRequest<'h>,
        mut open: OpenRecord<'o>,
    ) -> Option<(Responded, OpenRecord<'o>)> {
        let mailbox = Mailbox::default();
        let driver = Driver {
            core: self.core,
            sites: &self.place.sites,
            endpoints: self.place.endpoints,
            mailbox: &mailbox,
        };
        let timer = self.core.timers.register();
        let mut protocol = Http3 {
            timer: &timer,
            stream: self.stream,
        };
        let mut info = RequestInfo::default();
        let responded = driver
            .respond(&mut protocol, head, known, &mut open, &mut info)
            .await;
        let Some(responded) = responded else {
            open.close(self.core, &RecordEnd::vanished());
            return None;
        };
        Some((responded, open))
    }

    async fn send_responded(
        &self,
        responded: Responded,
        open: OpenRecord<'_>,
        is_head: bool,
        reservation: StreamReservation,
    ) {
        // The upstream's response continues only while the rest of a streamed body exists.
        let Responded {
            response,
            rest: _rest,
            ..
        } = responded;
        self.send(response, open, is_head, reservation).await;
    }

    async fn send(
        &self,
        mut response: Response,
        open: OpenRecord<'_>,
        is_head: bool,
        mut reservation: StreamReservation,
    ) {
        reservation.hold_response();
        // Also an error response: RFC 9110 §9.3.2.
        if is_head {
            response.body = response.body.unsent();
        }
        let options = SendOptions {
            timer: self.core.timers.register(),
            reservation,
            write_timeout: self.core.limits.response_speed.window,
            date: self.core.date.get(),
        };
        let logged = self.core.logged_of(&response);
        let outgoing = OutgoingStream {
            stream: self.stream,
            left: None,
        };
        let mut end = stream_body::send(outgoing, response, options).await;
        end.logged = logged;
        open.close(self.core, &end);
    }
}

/// A stream as the exchange driver uses it.
struct Http3<'s> {
    timer: &'s Timer,
    stream: &'s StreamHandle,
}

impl Http3<'_> {
    fn send_informational(
        &self,
        status: StatusCode,
        fields: &HeaderMap,
    ) -> Result<(), ClientDisconnected> {
        let mut out = Vec::new();
        write_head(&mut out, status, fields);
        let sent = self.stream.send(out.into(), false);
        sent.map_err(|_| ClientDisconnected)
    }
}

impl Protocol for Http3<'_> {
    async fn send_continue(&mut self) -> Result<(), ClientDisconnected> {
        if self.stream.is_body_ended() {
            return Ok(());
        }
        self.send_informational(StatusCode::CONTINUE, &HeaderMap::new())
    }

    /// Trailers are dropped. The reader checks that the body has the announced length.
    async fn body_part(
        &mut self,
        core: &Core,
        body: &mut ArrivingBody,
    ) -> Result<Option<Bytes>, BodyError> {
        let begin = || ReceiveProgress::begin(core.limits.body_speed, self.timer);
        loop {
            let progress = body.progress.get_or_insert_with(begin);
            let next = poll_fn(|cx| self.stream.poll_body(cx));
            let Ok(next) = self.timer.before(progress.until, next).await else {
                progress
                    .judge(self.timer)
                    .map_err(|DeadlinePassed| BodyError::Late)?;
                continue;
            };
            let data = match next {
                Ok(Some(data)) => data,
                Ok(None) => return Ok(None),
                Err(StreamFailure::Gone) => return Err(BodyError::Gone),
                Err(StreamFailure::Error(error)) => {
                    self.stream.fail(error);
                    return Err(BodyError::Gone);
                }
            };
            body.receive(data.len(), self.timer)?;
            return Ok(Some(data));
        }
    }

    async fn send_interim(&mut self, interim: Interim) -> Result<(), ClientDisconnected> {
        let mut fields = interim.fields;
        stream_body::strip(&mut fields);
        self.send_informational(interim.status, &fields)
    }

    async fn closed(&mut self) {
        poll_fn(|cx| self.stream.poll_closed(cx)).await;
    }
}

/// A stream on which a response is sent.
struct OutgoingStream<'s> {
    stream: &'s StreamHandle,
    /// The bytes that the frame of the whole body still needs; `None`: each part has its own frame.
    left: Option<u64>,
}

impl ResponseStream for OutgoingStream<'_> {
    fn begin(
        &mut self,
        head: HttpResponse<()>,
        length: Option<u64>,
        is_end: bool,
    ) -> Result<(), SendFailure> {
        let mut out = Vec::new();
        write_head(&mut out, head.status(), head.headers());
        if let Some(length) = length {
            h3::write_data_head(&mut out, length);
            self.left = Some(length);
        }
        self.stream.send(out.into(), is_end).map_err(cancelled)
    }

    fn request_capacity(&mut self, _: usize) {}

    fn poll_capacity(
        &mut self,
        most: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<usize, SendFailure>> {
        let room = self.stream.poll_room(cx).map_err(cancelled);
        room.map_ok(|()| most.min(MAX_PART))
    }

    fn hand_over(&mut self, part: Bytes, is_last: bool) -> Result<(), SendFailure> {
        let length = part.len() as u64;
        if let Some(left) = &mut self.left {
            // A body that differs from its length must not look complete.
            *left = left.checked_sub(length).ok_or(SendFailure::Internal)?;
            if is_last && *left > 0 {
                return Err(SendFailure::Internal);
            }
        } else if length > 0 {
            let mut head = Vec::new();
            h3::write_data_head(&mut head, length);
            self.stream.send(head.into(), false).map_err(cancelled)?;
        }
        self.stream.send(part, is_last).map_err(cancelled)
    }

    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.stream.poll_closed(cx)
    }

    fn poll_flushed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendFailure>> {
        self.stream.poll_room(cx).map_err(cancelled)
    }

    fn fail(&mut self, why: SendFailure) {
        self.stream.fail(H3Error::Stream(match why {
            SendFailure::Cancelled => H3Code::RequestCancelled,
            SendFailure::Internal => H3Code::InternalError,
        }));
    }
}

fn cancelled(_: StreamFailure) -> SendFailure {
    SendFailure::Cancelled
}

fn write_head(out: &mut Vec<u8>, status: StatusCode, fields: &HeaderMap) {
    let frame = h3::begin_headers(out);
    h3::write_status(out, status);
    for (name, value) in fields {
        h3::write_field(out, name.as_str().as_bytes(), value.as_bytes());
    }
    h3::end_headers(out, frame);
}

/// The largest part of a body that is handed over at once: it may wait in memory for the client's window.
const MAX_PART: usize = 32 * 1024;
