//! One stream on the slow path: from its request to its response and access record, in the same steps as an HTTP/1 request.
//!
//! Each stream has a separate task, so that streams do not wait for each other. It ends with its connection: the library then
//! notifies every stream.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use galley_http::h2::Http2HeadBuffer;
use galley_http::head::HeadBuffer;
use galley_http::owned_head::OwnedHead;
use galley_policy::request_info::RequestInfo;
use h2::RecvStream;
use h2::server::SendResponse;
use http::request::Parts;
use http::{HeaderMap, StatusCode};

use super::quota::{self, REQUEST_BYTES, StreamReservation};
use super::request_head;
use super::response::LibraryStream;
use crate::Core;
use crate::endpoints::Endpoints;
use crate::exchange::{Driver, KnownRequest, Parsed, no_request};
use crate::protocol::{ArrivingBody, BodyError, ClientDisconnected, Protocol};
use crate::record::{OpenRecord, RecordEnd};
use crate::request_log_fields::RequestLogFields;
use crate::speed::ReceiveProgress;
use crate::stream_body::{self, SendOptions};
use crate::timer::{DeadlinePassed, Timer};
use crate::upload::Upload;
use galley_request::{Response, Sites};
use galley_telemetry::fields::LoggedHeaders;
use galley_upstream::interim::{Interim, Mailbox};

/// The head of a request.
pub(super) enum StreamHead {
    /// Parsed by the library.
    Read(Parts),
    /// Parsed by the fast path; the library has only a stub.
    Parsed {
        head: OwnedHead,
        /// From [`galley_http::h2::urgency_of`].
        urgency: u8,
    },
}

impl StreamHead {
    /// The urgency, from 0 to 7.
    pub(super) fn urgency(&self) -> u8 {
        match self {
            Self::Read(parts) => request_head::urgency(&parts.headers),
            Self::Parsed { urgency, .. } => *urgency,
        }
    }

    /// The memory of the fields, in bytes.
    pub(super) fn field_bytes(&self) -> u64 {
        match self {
            Self::Read(parts) => quota::bytes_of(&parts.headers),
            Self::Parsed { head, .. } => head.capacity() as u64,
        }
    }

    fn words(&self, logged: &LoggedHeaders) -> RequestLogFields<'_> {
        match self {
            Self::Read(parts) => RequestLogFields::of_h2(
                &request_head::line(parts),
                request_head::bytes_of(&parts.headers),
                logged,
            ),
            Self::Parsed { head, .. } => {
                RequestLogFields::of(&head.head(&mut HeadBuffer::new()), logged)
            }
        }
    }

    fn is_head(&self) -> bool {
        match self {
            Self::Read(parts) => parts.method == http::Method::HEAD,
            Self::Parsed { head, .. } => head.method() == "HEAD",
        }
    }
}

/// A request and its stream.
pub(super) struct StreamRequest {
    pub(super) head: StreamHead,
    /// The results of the fast path.
    pub(super) parsed: Option<Box<Parsed>>,
    pub(super) body: RecvStream,
    pub(super) respond: SendResponse<Bytes>,
    pub(super) began: Instant,
}

/// Answers a request and writes its access record.
pub(super) async fn run(
    core: Rc<Core>,
    sites: Arc<Sites>,
    endpoints: Endpoints,
    request: StreamRequest,
    mut reservation: StreamReservation,
) {
    let StreamRequest {
        head,
        parsed,
        mut body,
        mut respond,
        began,
    } = request;
    let open = OpenRecord {
        log_fields: Some(head.words(&core.logged)),
        client: endpoints.client.ip(),
        tls_version: endpoints.tls_version,
        request_id: core.request_id(),
        began,
        log: 0,
        site: None,
        trace: None,
    };
    let timer = core.timers.register();
    let stream = StreamContext {
        core: &core,
        sites: &sites,
        endpoints,
        protocol: Http2 {
            timer: &timer,
            body: &mut body,
            respond: &mut respond,
        },
    };
    // Boxed, so that a response that waits for its client does not occupy the memory that a request needs.
    let responded = boxed(stream.run(&head, parsed, open)).await;
    if let Some(PendingResponse {
        response: mut outgoing,
        open,
        rest: _rest,
    }) = responded
    {
        reservation.hold_response();
        // Also an error response: RFC 9110 §9.3.2.
        if head.is_head() {
            outgoing.body = outgoing.body.unsent();
        }
        let options = SendOptions {
            timer,
            reservation,
            write_timeout: core.limits.response_speed.window,
            date: core.date.get(),
        };
        let logged = core.logged_of(&outgoing);
        let stream = LibraryStream::new(respond, head.urgency());
        let mut end = stream_body::send(stream, outgoing, options).await;
        end.logged = logged;
        open.close(&core, &end);
    }
    // Dropped last: if the response was sent before the end of the body, the rest is declined without an error.
    drop(body);
}

fn boxed<F: Future>(request: F) -> Pin<Box<F>> {
    debug_assert!(size_of::<F>() as u64 <= REQUEST_BYTES);
    Box::pin(request)
}

struct StreamContext<'c> {
    core: &'c Core,
    sites: &'c Sites,
    endpoints: Endpoints,
    protocol: Http2<'c>,
}

impl StreamContext<'_> {
    /// Returns the response with the facts for its access record. `None`: the client disconnected before that, and the record was
    /// written.
    async fn run<'p>(
        mut self,
        head: &'p StreamHead,
        parsed: Option<Box<Parsed>>,
        mut open: OpenRecord<'p>,
    ) -> Option<PendingResponse<'p>> {
        let mailbox = Mailbox::default();
        let driver = Driver {
            core: self.core,
            sites: self.sites,
            endpoints: self.endpoints,
            mailbox: &mailbox,
        };
        let mut info = RequestInfo::default();
        let protocol = &mut self.protocol;
        let responded = match (head, parsed) {
            (StreamHead::Read(parts), _) => {
                let mut crumbs = Vec::new();
                request_head::join_crumbs(&parts.headers, &mut crumbs);
                let mut buffer = Http2HeadBuffer::new();
                let (most, is_end) = (self.core.limits.head_bytes, protocol.body.is_end_stream());
                let read = request_head::head(parts, &crumbs, most, &mut buffer, is_end);
                let (head, framing) = match read {
                    Ok(read) => read,
                    Err(error) => {
                        return Some(PendingResponse {
                            response: no_request(error.status(), &open.request_id),
                            open,
                            rest: None,
                        });
                    }
                };
                let known = KnownRequest::Framed(&framing);
                driver
                    .respond(protocol, &head, known, &mut open, &mut info)
                    .await
            }
            (StreamHead::Parsed { head, .. }, Some(parsed)) => {
                let mut buffer = HeadBuffer::new();
                let head = head.head(&mut buffer);
                let known = KnownRequest::Parsed(parsed);
                driver
                    .respond(protocol, &head, known, &mut open, &mut info)
                    .await
            }
            (StreamHead::Parsed { .. }, None) => None,
        };
        let Some(responded) = responded else {
            open.close(self.core, &RecordEnd::vanished());
            return None;
        };
        Some(PendingResponse {
            response: responded.response,
            open,
            rest: responded.rest,
        })
    }
}

/// A response to be sent.
struct PendingResponse<'p> {
    response: Response,
    open: OpenRecord<'p>,
    /// The rest of a streamed body: the upstream's response continues only while it exists.
    rest: Option<Upload>,
}

/// A stream as the exchange driver uses it.
struct Http2<'s> {
    timer: &'s Timer,
    body: &'s mut RecvStream,
    respond: &'s mut SendResponse<Bytes>,
}

impl Protocol for Http2<'_> {
    async fn send_continue(&mut self) -> Result<(), ClientDisconnected> {
        if self.body.is_end_stream() {
            return Ok(());
        }
        let response = stream_body::bare_response(StatusCode::CONTINUE, HeaderMap::new());
        let sent = self.respond.send_informational(response);
        sent.map_err(|_| ClientDisconnected)
    }

    /// Trailers are dropped. The library checks that the body has the announced length, and its frames are smaller than a part.
    async fn body_part(
        &mut self,
        core: &Core,
        body: &mut ArrivingBody,
    ) -> Result<Option<Bytes>, BodyError> {
        let begin = || ReceiveProgress::begin(core.limits.body_speed, self.timer);
        loop {
            let progress = body.progress.get_or_insert_with(begin);
            let Ok(next) = self.timer.before(progress.until, self.body.data()).await else {
                progress
                    .judge(self.timer)
                    .map_err(|DeadlinePassed| BodyError::Late)?;
                continue;
            };
            let Some(data) = next else { return Ok(None) };
            let data = data.map_err(|_| BodyError::Gone)?;
            body.receive(data.len(), self.timer)?;
            let freed = self.body.flow_control().release_capacity(data.len());
            freed.map_err(|_| BodyError::Gone)?;
            if !data.is_empty() {
                return Ok(Some(data));
            }
        }
    }

    async fn send_interim(&mut self, interim: Interim) -> Result<(), ClientDisconnected> {
        let mut fields = interim.fields;
        stream_body::strip(&mut fields);
        let response = stream_body::bare_response(interim.status, fields);
        let sent = self.respond.send_informational(response);
        sent.map_err(|_| ClientDisconnected)
    }

    async fn closed(&mut self) {
        let _ = poll_fn(|cx| self.respond.poll_reset(cx)).await;
    }
}
