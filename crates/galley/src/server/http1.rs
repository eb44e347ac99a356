//! One HTTP/1 connection: heads in, answers out, one after the other.
//!
//! One parser and one framing decision per request (`galley-http`); what follows a request in the buffer is the next
//! request, or the connection ends. A body is taken in whole before anybody composes; an answer whose request was not
//! read to its end closes the connection, because what follows could not be told apart.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use galley_http::framing::{self, BodyKind, Framing};
use galley_http::head::{self, Head, HeadBuffer, HeadScanner, ParsedHead, Version};
use galley_policy::outcome::{Outcome, RefusedWhy};
use galley_policy::proxied::NOBODY;
use galley_policy::request_info::{RequestInfo, Scheme};

use super::Core;
use super::fast_path::{self, FastPath};
use super::http2;
use super::io::{ClientConnection, Gone};
use super::record::{OpenRecord, RecordEnd, RequestWords};
use super::request_body::{Untaken, take_body};
use super::socket::Socket;
use super::tunnel;
use super::write::{self, AfterResponse, ClientSupport};
use crate::fault::Fault;
use crate::request::{self, Admission, Exchange, Response, Sites};
use crate::telemetry::counters::Closed;
use crate::upstream::interim::Mailbox;
use crate::upstream::switch::{AwaitedSwitch, Tunnel};

/// The two ends of a connection.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub(super) client: SocketAddr,
    /// The address at which the client reached us. `None`: the socket is asked when a request needs it, which hits do not.
    pub(super) local: Option<SocketAddr>,
    /// Whether Galley itself speaks TLS with the client.
    pub(super) is_tls: bool,
}

impl Ends {
    /// The scheme of what is asked for here.
    pub(super) fn scheme(self) -> Scheme {
        if self.is_tls {
            Scheme::Https
        } else {
            Scheme::Http
        }
    }
}

/// Serves a connection to its end.
pub(super) async fn connection(core: Rc<Core>, stream: Socket, sites: Arc<Sites>, mut ends: Ends) {
    let mut wire = ClientConnection::new(
        stream,
        core.timers.register(),
        Rc::clone(&core.date),
        Rc::clone(&core.pool),
        core.limits.leaving,
    );
    let mut facts = RequestInfo::default();
    let mut lane = FastPath::default();
    let mailbox = Mailbox::default();
    // Over TLS the handshake has said what is spoken (RFC 9113 section 3.3).
    let mut may_be_h2 = core.limits.h2c && !ends.is_tls;
    loop {
        if wire.input.is_empty() && first_byte(&core, &mut wire).await.is_err() {
            return wire.part();
        }
        if std::mem::take(&mut may_be_h2) && http2::is_greeted(&core, &mut wire).await {
            ends.local.get_or_insert_with(|| wire.local_address());
            let (stream, begun) = wire.into_parts();
            let connection = http2::resumed(core, (stream, begun), sites, ends);
            return Box::pin(connection).await;
        }
        match fast_path::answer(&core, &sites, ends, &mut wire, &mut lane).await {
            None => {}
            Some(AfterResponse::Request) => continue,
            // A hit closes only where the client has asked for it.
            Some(AfterResponse::Close) => return wire.close_as_asked().await,
            Some(AfterResponse::Drop) => return wire.reset(),
        }
        let head = match next_head(&core, &mut wire).await {
            Ok(HeadArrival::Whole(head)) => head,
            Ok(HeadArrival::InPieces) => continue,
            Err(NoHead::Nothing) => return wire.part(),
            Err(NoHead::Refused(408)) => {
                core.counters.closed(Closed::TooSlow);
                refuse(&core, &mut wire, ends, 408).await;
                return wire.reset();
            }
            Err(NoHead::Refused(status)) => {
                refuse(&core, &mut wire, ends, status).await;
                return wire.leave().await;
            }
        };
        ends.local.get_or_insert_with(|| wire.local_address());
        let turn = RequestTurn {
            core: &core,
            sites: &sites,
            ends,
            mailbox: &mailbox,
        };
        // Boxed, so that an idle connection does not hold the room that an exchange needs: 14 KB each otherwise.
        match Box::pin(turn.request(&mut wire, &head, &mut facts)).await {
            AfterResponse::Request => {}
            AfterResponse::Close if wire.is_last_request => return wire.close_as_asked().await,
            AfterResponse::Close => return wire.leave().await,
            AfterResponse::Drop => return wire.reset(),
        }
    }
}

enum NoHead {
    /// The client left or stayed silent.
    Nothing,
    /// What came is no head, or came too slowly: the status that says so.
    Refused(u16),
}

/// Waits for a request to begin.
async fn first_byte(core: &Core, wire: &mut ClientConnection) -> Result<(), Gone> {
    // At the end of the server, a connection that the kernel had taken in gets what it has asked already.
    let limit = if core.stopping.get() {
        Duration::ZERO
    } else {
        core.limits.idle_timeout
    };
    wire.fill_idle(limit).await
}

/// How a head came.
enum HeadArrival {
    /// It was there, and is taken from the buffer.
    Whole(Bytes),
    /// The last of it has come now: it may be a hit, so it is looked at again.
    InPieces,
}

/// The bytes of the head that has begun; what follows it stays in the buffer.
async fn next_head(core: &Core, wire: &mut ClientConnection) -> Result<HeadArrival, NoHead> {
    let limits = head::HeadLimits {
        head_bytes: core.limits.head_bytes,
        ..head::HeadLimits::default()
    };
    let mut scanner = HeadScanner::default();
    let mut has_waited = false;
    // One deadline for the whole head: a byte now and then does not prolong it.
    let deadline = wire.timer.deadline(core.limits.head_timeout);
    loop {
        if let Some(length) = length_of_head(&mut scanner, &wire.input, &limits)? {
            return Ok(if has_waited {
                HeadArrival::InPieces
            } else {
                HeadArrival::Whole(wire.input.split_to(length).freeze())
            });
        }
        has_waited = true;
        match wire.fill_head(deadline).await {
            Ok(()) => {}
            Err(Gone::Late) if scanner.has_begun() => return Err(NoHead::Refused(408)),
            Err(Gone::Late | Gone::Closed) => return Err(NoHead::Nothing),
        }
    }
}

/// Where the head ends, once it is whole and there is nothing against it. A function of its own, so that the room for its lines
/// is no part of what an idle connection holds.
fn length_of_head(
    scanner: &mut HeadScanner,
    input: &[u8],
    limits: &head::HeadLimits,
) -> Result<Option<usize>, NoHead> {
    let mut room = HeadBuffer::new();
    match head::resume(scanner, input, limits, &mut room) {
        Ok(ParsedHead::Whole { length, .. }) => Ok(Some(length)),
        Ok(ParsedHead::Partial) => Ok(None),
        Err(refusal) => Err(NoHead::Refused(refusal.status())),
    }
}

struct RequestTurn<'c> {
    core: &'c Rc<Core>,
    sites: &'c Sites,
    ends: Ends,
    mailbox: &'c Mailbox,
}

impl RequestTurn<'_> {
    /// Answers one request and writes its record.
    async fn request(
        &self,
        wire: &mut ClientConnection,
        bytes: &Bytes,
        facts: &mut RequestInfo,
    ) -> AfterResponse {
        let limits = head::HeadLimits {
            head_bytes: usize::MAX,
            ..head::HeadLimits::default()
        };
        let mut room = HeadBuffer::new();
        let head = match head::parse(bytes, &limits, &mut room) {
            Ok(ParsedHead::Whole { head, .. }) => head,
            Ok(ParsedHead::Partial) => return self.refused(wire, 400).await,
            Err(refusal) => return self.refused(wire, refusal.status()).await,
        };
        let framing = match framing::frame(&head) {
            Ok(framing) => framing,
            Err(refusal) => return self.refused(wire, refusal.status()).await,
        };
        let has_body = !matches!(framing.body, BodyKind::None);
        wire.is_last_request = !framing.keep_alive && !has_body;
        let mut open = self.open(Some(&head));
        let peer = ClientSupport {
            version: head.version,
            keep_alive: framing.keep_alive && !self.core.stopping.get(),
        };
        // Before the site's own affairs: the name is to be proved whatever redirects and who may come in.
        if let Some(proof) = self.proof(&head) {
            let answer = Response::challenge(proof);
            return self
                .finish(wire, open, answer, peer.closing_if(has_body))
                .await;
        }
        let request_id = std::mem::take(&mut open.request_id);
        let admission = self.admission(head.version, request_id, std::mem::take(facts));
        let mut exchange = match request::admit(admission, &head, &framing) {
            Ok(exchange) => exchange,
            Err((fault, request_id)) => {
                open.request_id = request_id;
                open.client = self.client_of(&head, &framing);
                let answer = Response::fault(&fault, &open.request_id);
                return self
                    .finish(wire, open, answer, peer.closing_if(has_body))
                    .await;
            }
        };
        open.request_id.clone_from(&exchange.request_id);
        open.client = exchange.client.ip();
        open.log = exchange.site.log;
        open.site = Some(exchange.site.number);
        let asks_for_more = exchange.upgrade.is_some();
        let taken = take_body(self.core, wire, &framing, &mut exchange).await;
        let answered = match taken {
            Ok(()) => self
                .answer(wire, &mut exchange)
                .await
                .map(|answer| (answer, peer)),
            Err(Untaken::Gone) => None,
            Err(Untaken::Late) => return self.late(wire, open, &exchange).await,
            Err(Untaken::Fault(fault)) => Some((
                Response::site_fault(&fault, &exchange.site, &open.request_id),
                peer.closing_if(has_body),
            )),
        };
        let Some((answer, peer)) = answered else {
            open.close(self.core, &RecordEnd::vanished());
            return AfterResponse::Drop;
        };
        *facts = std::mem::take(&mut exchange.facts);
        let awaited = exchange.awaited.take();
        drop(exchange);
        if answer.status == SWITCHING {
            let Some(tunnel) = awaited.and_then(AwaitedSwitch::begin) else {
                open.close(self.core, &RecordEnd::vanished());
                return AfterResponse::Drop;
            };
            return self.tunnel(wire, open, &answer, tunnel).await;
        }
        // What a client sends for a protocol that it did not get is no request, and may still be on its way.
        let peer = peer.closing_if(asks_for_more);
        self.finish(wire, open, answer, peer).await
    }

    /// Where a request of this connection came in, with the buffers of the request before it.
    fn admission(&self, version: Version, request_id: String, facts: RequestInfo) -> Admission<'_> {
        Admission {
            sites: self.sites,
            client: self.ends.client,
            local: self.ends.local.unwrap_or(NOBODY),
            scheme: self.ends.scheme(),
            request_id,
            facts,
            mailbox: (version == Version::H11).then(|| self.mailbox.clone()),
        }
    }

    /// Whom a request that no site takes comes from, as a trusted proxy may say.
    fn client_of(&self, head: &Head<'_, '_>, framing: &Framing<'_>) -> IpAddr {
        let ends = (self.ends.client, self.ends.scheme());
        request::asked(self.sites, ends, head, framing).client.ip()
    }

    /// What an authority wants to see that asks for a challenge under way.
    fn proof(&self, head: &Head<'_, '_>) -> Option<Bytes> {
        let acme = self.core.services.acme.as_ref()?;
        let reads = matches!(head.method, "GET" | "HEAD");
        acme.answer(head.target).filter(|_| reads)
    }

    /// Tells the client that HTTP has ended here, and carries what follows; one record for all of it.
    async fn tunnel(
        &self,
        wire: &mut ClientConnection,
        open: OpenRecord<'_>,
        answer: &Response,
        tunnel: Tunnel,
    ) -> AfterResponse {
        let told = write::switching(wire, answer, &tunnel.protocol).await;
        let body_bytes = match told {
            Ok(()) => tunnel::carry(self.core, wire, tunnel).await,
            Err(_) => 0,
        };
        let end = RecordEnd {
            status: answer.status,
            outcome: answer.outcome,
            body_bytes,
            upstream_time: answer.upstream_time,
            vanished: told.is_err(),
        };
        open.close(self.core, &end);
        AfterResponse::Close
    }

    /// The answer, or nothing when the client left before there was one.
    async fn answer(
        &self,
        wire: &mut ClientConnection,
        exchange: &mut Exchange<'_>,
    ) -> Option<Response> {
        // An unsafe request goes on at the compositor when this ends; a safe one is given up there too.
        let mut handling = pin!(request::handle(&self.core.services, exchange));
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut handling => break answer,
                interim = self.mailbox.next() => write::interim(wire, &interim).await.ok()?,
                () = wire.vanished() => return None,
            }
        };
        // The last ones may have come together with the answer.
        while let Some(interim) = self.mailbox.try_next() {
            write::interim(wire, &interim).await.ok()?;
        }
        self.mailbox.close();
        Some(answer)
    }

    /// Tells a client that it was too slow, and keeps nothing for it: it is not waited for whether that arrives.
    async fn late(
        &self,
        wire: &mut ClientConnection,
        open: OpenRecord<'_>,
        exchange: &Exchange<'_>,
    ) -> AfterResponse {
        let fault = Fault::new(RefusedWhy::Timeout, "the body came too slowly");
        let answer = Response::site_fault(&fault, &exchange.site, &open.request_id);
        self.core.counters.closed(Closed::TooSlow);
        self.finish(wire, open, answer, ClientSupport::closing())
            .await;
        AfterResponse::Drop
    }

    async fn finish(
        &self,
        wire: &mut ClientConnection,
        open: OpenRecord<'_>,
        mut answer: Response,
        peer: ClientSupport,
    ) -> AfterResponse {
        // Also a refusal: a body behind the head would be taken for the next answer (RFC 9110 §9.3.2).
        if open.said.is_some_and(|said| said.method == "HEAD") {
            answer.body = answer.body.unsent();
        }
        // Told to end meanwhile: the client hears it with its answer.
        let peer = peer.closing_if(self.core.stopping.get());
        let (end, next) = write::answer(wire, answer, peer).await;
        open.close(self.core, &end);
        next
    }

    async fn refused(&self, wire: &mut ClientConnection, status: u16) -> AfterResponse {
        refuse(self.core, wire, self.ends, status).await;
        AfterResponse::Close
    }

    fn open<'h>(&self, head: Option<&Head<'h, '_>>) -> OpenRecord<'h> {
        open(self.core, self.ends, head)
    }
}

fn open<'h>(core: &Core, ends: Ends, head: Option<&Head<'h, '_>>) -> OpenRecord<'h> {
    OpenRecord {
        said: head.map(RequestWords::of),
        client: ends.client.ip(),
        request_id: core.request_id(),
        began: Instant::now(),
        log: 0,
        site: None,
    }
}

/// Answers what is no request, and counts it as one.
async fn refuse(core: &Core, wire: &mut ClientConnection, ends: Ends, status: u16) {
    let open = open(core, ends, None);
    let answer = no_request(status, &open.request_id);
    let (end, _) = write::answer(wire, answer, ClientSupport::closing()).await;
    open.close(core, &end);
}

/// The answer to what is no request.
pub(super) fn no_request(status: u16, request_id: &str) -> Response {
    let why = match status {
        408 => RefusedWhy::Timeout,
        413 => RefusedWhy::BodyTooLarge,
        414 | 431 => RefusedWhy::HeadTooLarge,
        _ => RefusedWhy::BadRequest,
    };
    Response::status_page(status, Outcome::Refused(why), request_id)
}

/// 101 Switching Protocols.
const SWITCHING: u16 = 101;
