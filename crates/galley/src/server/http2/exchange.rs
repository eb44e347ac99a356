//! One stream the long way: from its request to its answer and its record, by the same steps as a request of HTTP/1.
//!
//! A task of its own, so that streams wait for nobody but themselves. It ends with its connection: the library then tells
//! every stream that it is gone.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use galley_http::framing::{BodyKind, Framing};
use galley_http::h2::Http2HeadBuffer;
use galley_policy::outcome::RefusedWhy;
use galley_policy::proxied::NOBODY;
use galley_policy::request_info::RequestInfo;
use h2::RecvStream;
use h2::server::SendResponse;
use http::request::Parts;
use http::{HeaderMap, StatusCode};

use super::answer::{self, Manner};
use super::quota::{REQUEST_BYTES, StreamReservation};
use super::request_head;
use crate::body::spools::SpoolFull;
use crate::body::{RequestBody, Spool};
use crate::fault::Fault;
use crate::request::{self, Admission, Exchange, Response, Sites};
use crate::server::Core;
use crate::server::http1::{Ends, no_request};
use crate::server::record::{OpenRecord, RecordEnd, RequestWords};
use crate::server::request_body::{Untaken, no_room};
use crate::server::speed::ReceiveProgress;
use crate::server::timer::{Late, Timer};
use crate::telemetry::counters::Closed;
use crate::upstream::interim::{Interim, Mailbox};

/// A request as the library gives it.
pub(super) struct StreamRequest {
    pub(super) parts: Parts,
    pub(super) body: RecvStream,
    pub(super) respond: SendResponse<Bytes>,
    pub(super) began: Instant,
}

/// Answers a request and writes its record.
pub(super) async fn run(
    core: Rc<Core>,
    sites: Arc<Sites>,
    ends: Ends,
    asked: StreamRequest,
    mut held: StreamReservation,
) {
    let StreamRequest {
        parts,
        mut body,
        mut respond,
        began,
    } = asked;
    let open = OpenRecord {
        said: Some(RequestWords::of_h2(
            &request_head::line(&parts),
            request_head::bytes_of(&parts.headers),
        )),
        client: ends.client.ip(),
        request_id: core.request_id(),
        began,
        log: 0,
        site: None,
    };
    let timer = core.timers.register();
    let stream = StreamContext {
        core: &core,
        sites: &sites,
        ends,
        timer: &timer,
        respond: &mut respond,
    };
    // Boxed, so that an answer that waits for its client does not hold the room that a request needs.
    let answered = boxed(stream.run(&parts, &mut body, open)).await;
    if let Some((mut answer, open)) = answered {
        held.keep_answer();
        // Also a refusal: RFC 9110 §9.3.2.
        if parts.method == http::Method::HEAD {
            answer.body = answer.body.unsent();
        }
        let manner = Manner {
            timer,
            held,
            write_timeout: core.limits.leaving.window,
            urgency: request_head::urgency(&parts.headers),
            date: core.date.get(),
        };
        let end = answer::send(respond, answer, manner).await;
        open.close(&core, &end);
    }
    // Dropped only now: where the answer came before the end of the body, the rest is declined without a complaint.
    drop(body);
}

fn boxed<F: Future>(request: F) -> Pin<Box<F>> {
    debug_assert!(size_of::<F>() as u64 <= REQUEST_BYTES);
    Box::pin(request)
}

struct StreamContext<'c> {
    core: &'c Core,
    sites: &'c Sites,
    ends: Ends,
    timer: &'c Timer,
    respond: &'c mut SendResponse<Bytes>,
}

impl StreamContext<'_> {
    /// The answer with what is known for its record; nothing when the client left before there was one, and then the record is
    /// written.
    async fn run<'p>(
        mut self,
        parts: &'p Parts,
        body: &mut RecvStream,
        mut open: OpenRecord<'p>,
    ) -> Option<(Response, OpenRecord<'p>)> {
        let mut crumbs = Vec::new();
        request_head::join_crumbs(&parts.headers, &mut crumbs);
        let mut room = Http2HeadBuffer::new();
        let head_bytes = self.core.limits.head_bytes;
        let read = request_head::head(parts, &crumbs, head_bytes, &mut room, body.is_end_stream());
        let (head, framing) = match read {
            Ok(read) => read,
            Err(refusal) => {
                let answer = no_request(refusal.status(), &open.request_id);
                return Some((answer, open));
            }
        };
        let mailbox = Mailbox::default();
        let admission = Admission {
            sites: self.sites,
            client: self.ends.client,
            local: self.ends.local.unwrap_or(NOBODY),
            scheme: self.ends.scheme(),
            request_id: std::mem::take(&mut open.request_id),
            facts: RequestInfo::default(),
            mailbox: Some(mailbox.clone()),
        };
        let mut exchange = match request::admit(admission, &head, &framing) {
            Ok(exchange) => exchange,
            Err((fault, request_id)) => {
                open.request_id = request_id;
                let by = (self.ends.client, self.ends.scheme());
                open.client = request::asked(self.sites, by, &head, &framing).client.ip();
                let answer = Response::fault(&fault, &open.request_id);
                return Some((answer, open));
            }
        };
        open.request_id.clone_from(&exchange.request_id);
        open.client = exchange.client.ip();
        open.log = exchange.site.log;
        open.site = Some(exchange.site.number);
        let answer = match self.take_body(body, &framing, &mut exchange).await {
            Ok(()) => self.answer(&mut exchange, &mailbox).await,
            Err(Untaken::Gone) => None,
            Err(Untaken::Late) => {
                self.core.counters.closed(Closed::TooSlow);
                let fault = Fault::new(RefusedWhy::Timeout, "the body came too slowly");
                Some(Response::site_fault(
                    &fault,
                    &exchange.site,
                    &open.request_id,
                ))
            }
            Err(Untaken::Fault(fault)) => Some(Response::site_fault(
                &fault,
                &exchange.site,
                &open.request_id,
            )),
        };
        let Some(answer) = answer else {
            open.close(self.core, &RecordEnd::vanished());
            return None;
        };
        Some((answer, open))
    }

    /// The answer, or nothing when the client left before there was one.
    async fn answer(&mut self, exchange: &mut Exchange<'_>, mailbox: &Mailbox) -> Option<Response> {
        // An unsafe request goes on at the compositor when this ends; a safe one is given up there too.
        let mut handling = pin!(request::handle(&self.core.services, exchange));
        let respond = &mut *self.respond;
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut handling => break answer,
                interim = mailbox.next() => send_interim(respond, interim)?,
                _ = poll_fn(|cx| respond.poll_reset(cx)) => return None,
            }
        };
        // The last ones may have come together with the answer.
        while let Some(interim) = mailbox.try_next() {
            send_interim(respond, interim)?;
        }
        mailbox.close();
        Some(answer)
    }

    /// Takes the body in: into memory, then into a file, never beyond the site's limit. Trailers are dropped. That it has the
    /// length that was announced, the library holds.
    async fn take_body(
        &mut self,
        body: &mut RecvStream,
        framing: &Framing<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Result<(), Untaken> {
        request::enter(&self.core.services, exchange).await?;
        if matches!(framing.body, BodyKind::None) {
            return Ok(());
        }
        let spools = &self.core.services.spools;
        if let BodyKind::Length(length) = framing.body
            && Spool::needs_file(length)
            && !spools.has_room(length)
        {
            return Err(no_room(spools));
        }
        let mut spool = Spool::new(Arc::clone(spools));
        if framing.expect_continue && !body.is_end_stream() {
            let response = answer::response(StatusCode::CONTINUE, HeaderMap::new());
            let sent = self.respond.send_informational(response);
            sent.map_err(|_| Untaken::Gone)?;
        }
        let mut taken = 0_u64;
        let mut coming = ReceiveProgress::begin(self.core.limits.coming, self.timer);
        loop {
            let Ok(next) = self.timer.before(coming.until, body.data()).await else {
                coming.judge(self.timer).map_err(|Late| Untaken::Late)?;
                continue;
            };
            let Some(data) = next else { break };
            let data = data.map_err(|_| Untaken::Gone)?;
            coming.add(data.len());
            coming.judge(self.timer).map_err(|Late| Untaken::Late)?;
            taken += data.len() as u64;
            if taken > exchange.request_body() {
                let note = "more bytes than the site takes";
                return Err(Fault::new(RefusedWhy::BodyTooLarge, note).into());
            }
            let pushed = spool.push(&data).await;
            pushed.map_err(|SpoolFull| no_room(spools))?;
            let freed = body.flow_control().release_capacity(data.len());
            freed.map_err(|_| Untaken::Gone)?;
        }
        let body = spool.finish().await.map_err(|SpoolFull| no_room(spools))?;
        exchange.body = match body {
            RequestBody::Empty => RequestBody::Memory(Bytes::new()),
            body => body,
        };
        Ok(())
    }
}

/// Passes an interim response on (RFC 9110 §15.2); nothing when the client has left.
fn send_interim(respond: &mut SendResponse<Bytes>, interim: Interim) -> Option<()> {
    let mut fields = interim.fields;
    answer::strip(&mut fields);
    let response = answer::response(interim.status, fields);
    respond.send_informational(response).ok()
}
