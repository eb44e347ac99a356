//! One request from its head to its response, for every version of HTTP: admission, body, handling, interim responses. A
//! protocol reads and writes ([`Protocol`]) and decides nothing.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use galley_http::framing::{BodyKind, Framing};
use galley_http::head::{Head, Version};
use galley_http::owned_head::OwnedHead;
use galley_policy::outcome::{Outcome, RefusedWhy};
use galley_policy::proxied::UNKNOWN_ADDRESS;
use galley_policy::request_info::RequestInfo;

use super::Core;
use super::endpoints::Endpoints;
use super::protocol::{ArrivingBody, BodyError, Protocol};
use super::record::OpenRecord;
use super::upload::Upload;
use galley_request::fault::Fault;
use galley_request::{Admission, Exchange, FastPathResult, Response, Sites};
use galley_telemetry::counters::Closed;
use galley_upstream::body::body_spools::{BodySpools, SpoolFull};
use galley_upstream::body::streamed_body::stream;
use galley_upstream::body::{RequestBody, Spool};
use galley_upstream::interim::Mailbox;
use galley_upstream::switch::AwaitedSwitch;

/// A request that the fast path has parsed and cannot answer: its parsed head and lookup result are reused.
pub(super) struct ParsedRequest {
    pub(super) head: OwnedHead,
    pub(super) parsed: Box<Parsed>,
    /// Whether the client wants to keep the connection open.
    pub(super) keep_alive: bool,
}

/// The results of the fast path besides the head.
pub(super) struct Parsed {
    pub(super) info: RequestInfo,
    pub(super) resumed: FastPathResult,
}

/// What is known about a request besides its head.
pub(super) enum KnownRequest<'h> {
    /// Its framing.
    Framed(&'h Framing<'h>),
    /// It has no body; the fast path has parsed it.
    Parsed(Box<Parsed>),
}

/// A response for the protocol that writes it.
pub(super) struct Responded {
    pub(super) response: Response,
    /// The body of the request was not received completely.
    pub(super) is_body_unread: bool,
    /// The rest of a streamed body. The upstream's response continues only while this exists.
    pub(super) rest: Option<Upload>,
    /// The body was received too slowly.
    pub(super) is_late: bool,
    /// Whether the client requested an upgrade.
    pub(super) requests_upgrade: bool,
    /// The upstream's side of the upgraded connection, if the upstream accepted.
    pub(super) awaited: Option<AwaitedSwitch>,
}

impl Responded {
    pub(super) fn with(response: Response) -> Self {
        Self {
            response,
            is_body_unread: false,
            rest: None,
            is_late: false,
            requests_upgrade: false,
            awaited: None,
        }
    }
}

/// Drives requests of one connection.
pub(super) struct Driver<'c> {
    pub(super) core: &'c Core,
    pub(super) sites: &'c Sites,
    pub(super) endpoints: Endpoints,
    pub(super) mailbox: &'c Mailbox,
}

impl Driver<'_> {
    /// The response; `None` if the client disconnected before there was one. Takes its buffers from `info`, and returns them.
    pub(super) async fn respond<'h, P: Protocol>(
        &self,
        protocol: &mut P,
        head: &'h Head<'h, 'h>,
        known: KnownRequest<'h>,
        open: &mut OpenRecord<'_>,
        info: &mut RequestInfo,
    ) -> Option<Responded> {
        let framing = match &known {
            KnownRequest::Framed(framing) => Some(*framing),
            KnownRequest::Parsed(_) => None,
        };
        let has_body = framing.is_some_and(|framing| !matches!(framing.body, BodyKind::None));
        // Before the site's own rules: the name must be validated even if a rule redirects or denies the request.
        if let Some(proof) = self.proof(head) {
            return Some(Responded {
                is_body_unread: has_body,
                ..Responded::with(Response::challenge(proof))
            });
        }
        let mut exchange = match self.admit(head, known, open, info) {
            Ok(exchange) => exchange,
            Err(response) => {
                return Some(Responded {
                    is_body_unread: has_body,
                    ..Responded::with(*response)
                });
            }
        };
        open.request_id.clone_from(&exchange.request_id);
        open.client = exchange.client.ip();
        open.log = exchange.site.log;
        open.site = Some(exchange.site.row);
        let asked_upgrade = exchange.upgrade.is_some();
        let handled = self.handle(protocol, framing, &mut exchange).await;
        open.trace = exchange.trace.take();
        let failed = match handled {
            Ok(mut handled) => {
                if !exchange.policy().alt_svc.is_empty() {
                    self.core.withdraw(&mut handled.response);
                }
                *info = std::mem::take(&mut exchange.info);
                return Some(Responded {
                    is_body_unread: handled.rest.is_some(),
                    rest: handled.rest,
                    requests_upgrade: asked_upgrade,
                    awaited: exchange.awaited.take(),
                    ..Responded::with(handled.response)
                });
            }
            Err(failed) => failed,
        };
        let is_late = matches!(failed, BodyError::Late);
        let fault = match failed {
            BodyError::Gone => return None,
            BodyError::Late => {
                self.core.counters.closed(Closed::TooSlow);
                Fault::new(RefusedWhy::Timeout, "the client sent the body too slowly")
            }
            BodyError::Fault(fault) => fault,
        };
        let response = Response::site_fault(&fault, &exchange.site, &open.request_id);
        Some(Responded {
            is_body_unread: has_body,
            is_late,
            ..Responded::with(response)
        })
    }

    /// The response to a certificate authority that validates a pending challenge.
    fn proof(&self, head: &Head<'_, '_>) -> Option<Bytes> {
        let acme = self.core.services.acme.as_ref()?;
        let reads = matches!(head.method, "GET" | "HEAD");
        acme.response(head.target).filter(|_| reads)
    }

    fn admit<'h>(
        &self,
        head: &'h Head<'h, 'h>,
        known: KnownRequest<'h>,
        open: &mut OpenRecord<'_>,
        info: &mut RequestInfo,
    ) -> Result<Exchange<'h>, Box<Response>> {
        let mut admission = Admission {
            sites: self.sites,
            client: self.endpoints.client,
            local: self.endpoints.local.unwrap_or(UNKNOWN_ADDRESS),
            scheme: self.endpoints.scheme(),
            request_id: std::mem::take(&mut open.request_id),
            info: std::mem::take(info),
            mailbox: (head.version != Version::H10).then(|| self.mailbox.clone()),
        };
        let framing = match known {
            KnownRequest::Framed(framing) => framing,
            KnownRequest::Parsed(parsed) => {
                admission.info = parsed.info;
                return Ok(galley_request::resume(admission, head, parsed.resumed));
            }
        };
        galley_request::admit(admission, head, framing).map_err(|(fault, request_id)| {
            open.request_id = request_id;
            // A trusted proxy may set it.
            let (peer, scheme) = (self.endpoints.client, self.endpoints.scheme());
            open.client = galley_request::origin(self.sites, peer, scheme, head, framing)
                .client
                .ip();
            Box::new(Response::fault(&fault, &open.request_id))
        })
    }

    /// Admits a request with its body, and handles it.
    async fn handle<P: Protocol>(
        &self,
        protocol: &mut P,
        framing: Option<&Framing<'_>>,
        exchange: &mut Exchange<'_>,
    ) -> Result<HandledRequest, BodyError> {
        let mut upload = match framing {
            Some(framing) => self.take_body(protocol, framing, exchange).await?,
            None => None,
        };
        let response = self
            .relay_while_handled(protocol, exchange, upload.as_mut())
            .await?;
        if let Some(upload) = &mut upload {
            upload.finish(protocol, self.core).await?;
        }
        Ok(HandledRequest {
            response,
            rest: upload.filter(|upload| !upload.is_complete()),
        })
    }

    /// Receives the body of an admitted request, never beyond the site's limit, or begins to stream it to the upstream.
    async fn take_body<P: Protocol>(
        &self,
        protocol: &mut P,
        framing: &Framing<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Result<Option<Upload>, BodyError> {
        galley_request::authorize(&self.core.services, exchange).await?;
        if matches!(framing.body, BodyKind::None) {
            return Ok(None);
        }
        let spools = &self.core.services.spools;
        let body = ArrivingBody::new(framing, exchange.request_body());
        if galley_request::streams_body(exchange, framing.body)
            && let Some((sender, streamed)) = stream(spools, framing.body.length())
        {
            exchange.body = RequestBody::Streamed(streamed);
            return Ok(Some(Upload::new(sender, body, framing.expect_continue)));
        }
        if let BodyKind::Length(length) = framing.body
            && Spool::needs_file(length)
            && !spools.has_room(length)
        {
            return Err(no_room(spools));
        }
        if framing.expect_continue {
            protocol.send_continue().await?;
        }
        exchange.body = match self.receive_body(protocol, body).await? {
            RequestBody::Empty => RequestBody::Memory(Bytes::new()),
            body => body,
        };
        Ok(None)
    }

    /// Receives a body completely: into memory, then into a file.
    async fn receive_body<P: Protocol>(
        &self,
        protocol: &mut P,
        mut body: ArrivingBody,
    ) -> Result<RequestBody, BodyError> {
        let spools = &self.core.services.spools;
        let mut spool = Spool::new(Arc::clone(spools));
        while let Some(part) = protocol.body_part(self.core, &mut body).await? {
            let pushed = spool.push(&part).await;
            pushed.map_err(|SpoolFull| no_room(spools))?;
        }
        spool.finish().await.map_err(|SpoolFull| no_room(spools))
    }

    async fn relay_while_handled<P: Protocol>(
        &self,
        protocol: &mut P,
        exchange: &mut Exchange<'_>,
        mut upload: Option<&mut Upload>,
    ) -> Result<Response, BodyError> {
        // An unsafe request continues at the upstream when this future is dropped; a safe request is aborted there, too.
        let mut handling = pin!(galley_request::handle(&self.core.services, exchange));
        let response = loop {
            let arriving = upload.as_deref_mut();
            if let Some(upload) = arriving.filter(|upload| upload.is_in_progress()) {
                tokio::select! {
                    biased;
                    response = &mut handling => break response,
                    interim = self.mailbox.next() => protocol.send_interim(interim).await?,
                    advanced = upload.advance(protocol, self.core) => {
                        advanced?;
                        upload.send_continue(protocol).await?;
                    }
                }
                continue;
            }
            tokio::select! {
                biased;
                response = &mut handling => break response,
                interim = self.mailbox.next() => protocol.send_interim(interim).await?,
                () = protocol.closed() => return Err(BodyError::Gone),
            }
        };
        // The last ones may have arrived together with the response.
        while let Some(interim) = self.mailbox.try_next() {
            protocol.send_interim(interim).await?;
        }
        self.mailbox.close();
        Ok(response)
    }
}

/// A response, and the streamed body whose end it did not wait for.
struct HandledRequest {
    response: Response,
    /// A streamed body that the upstream did not receive completely.
    rest: Option<Upload>,
}

/// The fault of a body for which there is no memory or disk space (RFC 9110 §15.6.4): temporary, and not caused by the request.
fn no_room(spools: &BodySpools) -> BodyError {
    spools.refuse();
    let note = "the spool for request bodies is full";
    Fault::new(RefusedWhy::NoRoom, note).into()
}

/// The response to input that is not a request.
pub(super) fn no_request(status: u16, request_id: &str) -> Response {
    let why = match status {
        408 => RefusedWhy::Timeout,
        413 => RefusedWhy::BodyTooLarge,
        414 | 431 => RefusedWhy::HeadTooLarge,
        _ => RefusedWhy::BadRequest,
    };
    Response::status_page(status, Outcome::Refused(why), request_id)
}
