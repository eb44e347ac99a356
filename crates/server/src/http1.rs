//! An HTTP/1 connection: requests in, responses out, one after the other.
//!
//! There is one parser and one framing decision per request (`galley-http`); the bytes after a request are the
//! next request, or the connection ends. If a request was not read completely, its response closes the connection, because
//! the next request could not be told from its rest.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf, Bytes};
use galley_http::framing::{self, BodyKind};
use galley_http::head::{self, BadRequest, Head, HeadBuffer, HeadScanner, ParsedHead};
use galley_http::owned_head::OwnedHead;
use galley_policy::outcome::RefusedWhy;
use galley_policy::request_info::RequestInfo;

use super::Core;
use super::endpoints::Endpoints;
use super::exchange::{Driver, KnownRequest, ParsedRequest, Responded, no_request};
use super::fast_path::{self, FastPath, FastPathOutcome};
use super::http2;
use super::io::{ClientConnection, IoError};
use super::protocol::{ArrivingBody, BodyError, ClientDisconnected, Protocol};
use super::record::{OpenRecord, RecordEnd};
use super::request_log_fields::RequestLogFields;
use super::socket::Socket;
use super::speed::ReceiveProgress;
use super::tunnel;
use super::write::{self, AfterResponse, ClientProtocol};
use galley_request::fault::Fault;
use galley_request::{Response, Sites};
use galley_telemetry::counters::Closed;
use galley_upstream::body::streamed_body::PART_BYTES;
use galley_upstream::interim::{Interim, Mailbox};
use galley_upstream::switch::{AwaitedSwitch, Tunnel};

/// Serves a connection until it ends.
pub(super) async fn connection(
    core: Rc<Core>,
    stream: Socket,
    sites: Arc<Sites>,
    mut endpoints: Endpoints,
) {
    let mut connection = ClientConnection::new(
        stream,
        core.timers.register(),
        Rc::clone(&core.date),
        Rc::clone(&core.pool),
        core.limits.response_speed,
    );
    // Used by the slow path only.
    let mut info = None;
    let mut fast_path_state = FastPath::default();
    let mailbox = Mailbox::default();
    // Over TLS the handshake has selected the protocol (RFC 9113 section 3.3).
    let mut may_be_h2 = core.limits.h2c && !endpoints.is_tls;
    loop {
        if connection.input.is_empty() && first_byte(&core, &mut connection).await.is_err() {
            return connection.part();
        }
        if std::mem::take(&mut may_be_h2) && http2::has_preface(&core, &mut connection).await {
            return Box::pin(serve_http2(core, connection, sites, endpoints)).await;
        }
        let outcome = fast_path::try_hit(
            &core,
            &sites,
            endpoints,
            &mut connection,
            &mut fast_path_state,
        )
        .await;
        let parsed = match outcome {
            FastPathOutcome::Sent(AfterResponse::Request) => continue,
            // A hit closes the connection only if the client requested it.
            FastPathOutcome::Sent(AfterResponse::Close) => {
                return close_as_requested(connection).await;
            }
            FastPathOutcome::Sent(AfterResponse::Drop) => return connection.reset(),
            FastPathOutcome::Parsed(parsed) => Ok(HeadArrival::Parsed(parsed)),
            FastPathOutcome::Nothing => next_head(&core, &mut connection).await,
        };
        let arrived = match parsed {
            Ok(HeadArrival::Whole(head)) => NextRequest::Head(head),
            Ok(HeadArrival::Parsed(parsed)) => NextRequest::Parsed(parsed),
            Ok(HeadArrival::InPieces) => continue,
            Err(NoHead::Nothing) => return connection.part(),
            Err(NoHead::Refused(status)) => {
                return Box::pin(refuse_and_close(&core, connection, endpoints, status)).await;
            }
        };
        endpoints
            .local
            .get_or_insert_with(|| connection.local_address());
        let turn = RequestHandler {
            core: &core,
            sites: &sites,
            endpoints,
            mailbox: &mailbox,
        };
        let info = info.get_or_insert_with(Box::<RequestInfo>::default);
        // Boxed, like everything long: an idle connection does not allocate the state of an exchange, and the runtime does not
        // copy it when the connection begins and ends. Written in place: `Box::pin` would copy all of it.
        let memory = Box::new_uninit();
        let exchange = Box::write(memory, turn.request(&mut connection, arrived, info));
        match Box::into_pin(exchange).await {
            AfterResponse::Request => {}
            AfterResponse::Close if connection.is_last_request => {
                return close_as_requested(connection).await;
            }
            AfterResponse::Close => return Box::pin(connection.lingering_close()).await,
            AfterResponse::Drop => return connection.reset(),
        }
    }
}

/// Serves an HTTP/2 connection without TLS, whose preface is in the buffer.
async fn serve_http2(
    core: Rc<Core>,
    connection: ClientConnection,
    sites: Arc<Sites>,
    mut endpoints: Endpoints,
) {
    endpoints
        .local
        .get_or_insert_with(|| connection.local_address());
    let (stream, begun) = connection.into_parts();
    http2::resumed(core, stream, &begun, sites, endpoints).await;
}

/// Closes the connection as the client requested.
async fn close_as_requested(mut connection: ClientConnection) {
    if connection.may_close_at_once() {
        connection.return_buffers();
    } else {
        Box::pin(connection.lingering_close()).await;
    }
}

/// Responds to input that is not a request, and closes the connection.
async fn refuse_and_close(
    core: &Core,
    mut connection: ClientConnection,
    endpoints: Endpoints,
    status: u16,
) {
    let is_late = status == 408;
    if is_late {
        core.counters.closed(Closed::TooSlow);
    }
    refuse(core, &mut connection, endpoints, status).await;
    if is_late {
        return connection.reset();
    }
    connection.lingering_close().await;
}

enum NoHead {
    /// The client disconnected, or sent nothing in time.
    Nothing,
    /// The input is not a head, or was too slow: the status for it.
    Refused(u16),
}

/// Waits for a request to begin.
async fn first_byte(core: &Core, connection: &mut ClientConnection) -> Result<(), IoError> {
    let limit = core.timeout(core.limits.idle_timeout);
    connection.fill_idle(limit).await
}

/// How a head arrived.
enum HeadArrival {
    /// It was in the buffer, and is taken from it.
    Whole(OwnedHead),
    /// The fast path has taken it.
    Parsed(ParsedRequest),
    /// The rest of it has arrived now: it may be a hit, so the fast path tries it again.
    InPieces,
}

/// Receives the rest of a head; the bytes after it stay in the buffer.
async fn next_head(core: &Core, connection: &mut ClientConnection) -> Result<HeadArrival, NoHead> {
    let limits = head::HeadLimits {
        head_bytes: core.limits.head_bytes,
        ..head::HeadLimits::default()
    };
    let (mut scanner, mut has_waited) = (HeadScanner::default(), false);
    // One deadline for the whole head: single bytes do not extend it.
    let deadline = connection.timer.deadline(core.limits.head_timeout);
    loop {
        if let Some((head, length)) = read_head(&mut scanner, &connection.input, &limits)? {
            return Ok(if has_waited {
                HeadArrival::InPieces
            } else {
                connection.used(length);
                HeadArrival::Whole(head)
            });
        }
        has_waited = true;
        match connection.fill_head(deadline).await {
            Ok(()) => {}
            Err(IoError::Late) if scanner.has_begun() => return Err(NoHead::Refused(408)),
            Err(IoError::Late | IoError::Closed) => return Err(NoHead::Nothing),
        }
    }
}

/// The head and its length, once it is complete and valid. A separate function, so that the memory for its lines is not part
/// of an idle connection's state.
fn read_head(
    scanner: &mut HeadScanner,
    input: &[u8],
    limits: &head::HeadLimits,
) -> Result<Option<(OwnedHead, usize)>, NoHead> {
    let mut buffer = HeadBuffer::new();
    match head::resume(scanner, input, limits, &mut buffer) {
        Ok(ParsedHead::Whole { head, length }) => Ok(Some((OwnedHead::copy_of(&head), length))),
        Ok(ParsedHead::Partial) => Ok(None),
        Err(refusal) => Err(NoHead::Refused(refusal.status())),
    }
}

/// A request whose head has been read.
enum NextRequest {
    Head(OwnedHead),
    Parsed(ParsedRequest),
}

struct RequestHandler<'c> {
    core: &'c Rc<Core>,
    sites: &'c Sites,
    endpoints: Endpoints,
    mailbox: &'c Mailbox,
}

impl RequestHandler<'_> {
    /// Responds to one request and writes its access record.
    async fn request(
        &self,
        connection: &mut ClientConnection,
        arrived: NextRequest,
        info: &mut RequestInfo,
    ) -> AfterResponse {
        let (owned, parsed) = match arrived {
            NextRequest::Head(head) => (head, None),
            NextRequest::Parsed(request) => {
                let known = KnownRequest::Parsed(request.parsed);
                (request.head, Some((request.keep_alive, known)))
            }
        };
        let mut buffer = HeadBuffer::new();
        let head = owned.head(&mut buffer);
        let framing = match parsed {
            Some(_) => None,
            None => match framing::frame(&head) {
                Ok(framing) => Some(framing),
                Err(refusal) => {
                    refuse(self.core, connection, self.endpoints, refusal.status()).await;
                    return AfterResponse::Close;
                }
            },
        };
        let has_body = framing.is_some_and(|framing| !matches!(framing.body, BodyKind::None));
        let (keep_alive, known) = match (parsed, &framing) {
            (Some(parsed), _) => parsed,
            (None, Some(framing)) => (framing.keep_alive, KnownRequest::Framed(framing)),
            (None, None) => return AfterResponse::Drop,
        };
        connection.is_last_request = !keep_alive && !has_body;
        let mut open = open(self.core, self.endpoints, Some(&head));
        let peer = ClientProtocol {
            version: head.version,
            keep_alive: keep_alive && !self.core.stopping.get(),
        };
        let driver = Driver {
            core: self.core,
            sites: self.sites,
            endpoints: self.endpoints,
            mailbox: self.mailbox,
        };
        let mut protocol = Http1 { connection };
        let responded = driver
            .respond(&mut protocol, &head, known, &mut open, info)
            .await;
        let Some(responded) = responded else {
            open.close(self.core, &RecordEnd::vanished());
            return AfterResponse::Drop;
        };
        self.write(connection, open, responded, peer).await
    }

    async fn write(
        &self,
        connection: &mut ClientConnection,
        open: OpenRecord<'_>,
        responded: Responded,
        peer: ClientProtocol,
    ) -> AfterResponse {
        // Held until the response is written: the upstream may still be generating it.
        let _rest = responded.rest;
        let response = responded.response;
        if response.status == SWITCHING {
            let Some(tunnel) = responded.awaited.and_then(AwaitedSwitch::begin) else {
                open.close(self.core, &RecordEnd::vanished());
                return AfterResponse::Drop;
            };
            return self.tunnel(connection, open, &response, tunnel).await;
        }
        if responded.is_late {
            // Nothing is stored for it, so no client waits for the response.
            let peer = ClientProtocol::closing();
            self.finish(connection, open, response, peer).await;
            return AfterResponse::Drop;
        }
        // Input for a protocol that the client did not get is not a request, and may still be arriving.
        let is_unread = responded.is_body_unread || responded.requests_upgrade;
        self.finish(connection, open, response, peer.closing_if(is_unread))
            .await
    }

    /// Confirms the upgrade to the client, and forwards bytes until the tunnel ends. One access record covers all of it.
    async fn tunnel(
        &self,
        connection: &mut ClientConnection,
        open: OpenRecord<'_>,
        response: &Response,
        tunnel: Tunnel,
    ) -> AfterResponse {
        let sent = write::switching(connection, response, &tunnel.protocol).await;
        let body_bytes = match sent {
            Ok(()) => tunnel::carry(self.core, connection, tunnel).await,
            Err(_) => 0,
        };
        let end = RecordEnd {
            status: response.status,
            outcome: response.outcome,
            body_bytes,
            upstream_time: response.upstream_time,
            vanished: sent.is_err(),
            logged: self.core.logged_of(response),
        };
        open.close(self.core, &end);
        AfterResponse::Close
    }

    async fn finish(
        &self,
        connection: &mut ClientConnection,
        open: OpenRecord<'_>,
        mut response: Response,
        peer: ClientProtocol,
    ) -> AfterResponse {
        // This includes refusals: a body behind the head would be parsed as the next response (RFC 9110 §9.3.2).
        if open
            .log_fields
            .as_ref()
            .is_some_and(|words| words.method == "HEAD")
        {
            response.body = response.body.unsent();
        }
        // The server began to stop during the request: the response closes the connection.
        let peer = peer.closing_if(self.core.stopping.get());
        let logged = self.core.logged_of(&response);
        let (mut end, next) = write::send_response(connection, response, peer).await;
        end.logged = logged;
        open.close(self.core, &end);
        next
    }
}

fn open<'h>(core: &Core, endpoints: Endpoints, head: Option<&Head<'h, '_>>) -> OpenRecord<'h> {
    OpenRecord {
        log_fields: head.map(|head| RequestLogFields::of(head, &core.logged)),
        client: endpoints.client.ip(),
        tls_version: endpoints.tls_version,
        request_id: core.request_id(),
        began: Instant::now(),
        log: 0,
        site: None,
        trace: None,
    }
}

/// Responds to input that is not a request, and counts it as one.
async fn refuse(core: &Core, connection: &mut ClientConnection, endpoints: Endpoints, status: u16) {
    let open = open(core, endpoints, None);
    let response = no_request(status, &open.request_id);
    let logged = core.logged_of(&response);
    let (mut end, _) = write::send_response(connection, response, ClientProtocol::closing()).await;
    end.logged = logged;
    open.close(core, &end);
}

/// An HTTP/1 connection, as one request uses it.
struct Http1<'w> {
    connection: &'w mut ClientConnection,
}

impl Protocol for Http1<'_> {
    async fn send_continue(&mut self) -> Result<(), ClientDisconnected> {
        // A client that has begun to send the body does not wait.
        if !self.connection.input.is_empty() {
            return Ok(());
        }
        let line = galley_http::response_writer::CONTINUE;
        self.connection.output.extend_from_slice(line);
        self.connection
            .send(&[])
            .await
            .map_err(|_| ClientDisconnected)
    }

    async fn body_part(
        &mut self,
        core: &Core,
        body: &mut ArrivingBody,
    ) -> Result<Option<Bytes>, BodyError> {
        let connection = &mut *self.connection;
        let begin = || ReceiveProgress::begin(core.limits.body_speed, &connection.timer);
        body.progress.get_or_insert_with(begin);
        loop {
            let most = connection.input.len().min(PART_BYTES);
            let input = connection.input.get(..most).unwrap_or_default();
            let decoded = body.reader.decode(input).map_err(body_fault)?;
            let (consumed, data) = (decoded.consumed, Bytes::copy_from_slice(decoded.data));
            connection.input.advance(consumed);
            if !data.is_empty() {
                return Ok(Some(data));
            }
            if body.reader.is_done() {
                return Ok(None);
            }
            if consumed == 0
                && let Some(coming) = &mut body.progress
            {
                match connection.fill_body(coming).await {
                    Ok(()) => {}
                    Err(IoError::Closed) => return Err(BodyError::Gone),
                    Err(IoError::Late) => return Err(BodyError::Late),
                }
            }
        }
    }

    async fn send_interim(&mut self, interim: Interim) -> Result<(), ClientDisconnected> {
        let sent = write::interim(self.connection, &interim).await;
        sent.map_err(|_| ClientDisconnected)
    }

    async fn closed(&mut self) {
        self.connection.vanished().await;
    }
}

fn body_fault(refusal: BadRequest) -> Fault {
    let why = if refusal.status() == 413 {
        RefusedWhy::BodyTooLarge
    } else {
        RefusedWhy::BadRequest
    };
    Fault::new(why, refusal.to_string())
}

/// 101 Switching Protocols.
const SWITCHING: u16 = 101;
