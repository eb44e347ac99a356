//! Forwarded requests: the upstream they are sent to, their fields, and the client they name.

use std::sync::Arc;

use galley_cache::fill::FillError;
use galley_cache::key::Key;
use galley_http::framing::BodyKind;
use galley_policy::cgi::Script;
use galley_policy::class::{Network, Standing};
use galley_policy::decide::Backend;
use galley_policy::forward::{
    self, BodyLength, Client, Credentials, ForwardedTrace, UpstreamRequest,
};
use galley_policy::outcome::RefusedWhy;
use galley_policy::private::session_cookies;
use galley_policy::request_info::{Method, RequestInfo};
use galley_policy::site::UpstreamRequests;
use galley_policy::trace_context::TraceParent;

use super::exchange::Exchange;
use super::purge::PurgeRequest;
use super::site::{PoolHandle, Services, Site, Upstream};
use crate::fault::Fault;
use galley_fetch::{PageJob, PassJob};
use galley_upstream::body::RequestBody;
use galley_upstream::switch::ProtocolSwitch;
use galley_upstream::{QueueIdentity, UpstreamCall};

/// The kind of upstream that generates the response to this request.
pub fn backend(exchange: &Exchange<'_>) -> Backend {
    match exchange.upstream() {
        Upstream::Files => Backend::None,
        Upstream::Php(_) => Backend::FastCgi,
        Upstream::Http(_) => Backend::Http,
    }
}

/// Whether this process has forwarded the request before.
pub fn is_loop(services: &Services, exchange: &Exchange<'_>) -> bool {
    exchange.policy().requests.is_gateway
        && forward::is_loop(exchange.head.fields(), &services.identity)
}

/// Whether the request body is streamed to the upstream. A rule must permit it, no check may need the body first, and its length must
/// be known for FastCGI, because CGI announces the length in advance.
pub fn streams_body(exchange: &Exchange<'_>, body: BodyKind) -> bool {
    let is_known = match exchange.upstream() {
        Upstream::Http(_) => true,
        Upstream::Php(_) => body.length().is_some(),
        Upstream::Files => false,
    };
    exchange.rule().is_some_and(|rule| rule.stream_request)
        && is_known
        && !body.is_empty()
        && !exchange.info.method().is_safe()
        && exchange.access.is_settled()
        && PurgeRequest::of(exchange).is_none()
}

/// The pool of the upstream that generates the response.
pub(super) fn pool(exchange: &Exchange<'_>) -> Result<PoolHandle, Fault> {
    match exchange.upstream() {
        Upstream::Http(pool) | Upstream::Php(pool) => Ok(pool.clone()),
        Upstream::Files => Err(Fault::new(RefusedWhy::NotFound, "no such file")),
    }
}

/// The same, unless the request is rejected before it reaches the fetch thread: the queue is full, or the request is a prefetch while
/// PHP is busy. `key`: that of a fetch in progress that it could join.
pub(super) fn admitted_pool(
    exchange: &Exchange<'_>,
    standing: Standing,
    key: Option<&[u8]>,
) -> Result<PoolHandle, Fault> {
    let pool = pool(exchange)?;
    let who = QueueIdentity::new(standing, Network::of(exchange.client.ip()));
    let is_prefetch = exchange.info.is_prefetch();
    if pool
        .fetch_thread
        .rejects_early(pool.index, who, key, is_prefetch)
    {
        return Err(fault_of(&pool, standing, FillError::Overload));
    }
    Ok(pool)
}

/// The response to a request that failed at a pool.
pub(super) fn fault_of(pool: &PoolHandle, standing: Standing, failure: FillError) -> Fault {
    let fault = pool.fault(failure);
    if !standing.class.is_bounded() || fault.why != RefusedWhy::Overload {
        return fault;
    }
    let note = "no slot is free for clients that have not visited the site";
    Fault::new(RefusedWhy::Unseen, note)
}

/// The request of a fetch whose response may be stored. With the WordPress preset it contains only what is in the key; with RFC
/// 9111 it is the client's request without its conditions.
pub fn fetch_request(
    services: &Services,
    exchange: &Exchange<'_>,
    credentials: Credentials,
) -> UpstreamRequest {
    let (info, core) = (&exchange.info, &exchange.site.core);
    let mut request = match exchange.policy().upstream_requests {
        UpstreamRequests::Trimmed => shared_request(&exchange.site, info, &client(exchange)),
        UpstreamRequests::AsSent => {
            let mut request = forward::fetch(info, exchange.fields(), credentials);
            forward::address(&mut request, &client(exchange));
            forward::announce(&mut request, &services.identity, &core.policy);
            request
        }
    };
    let trace = match credentials {
        Credentials::OfClient => shared_trace_context(services, exchange),
        Credentials::None => ForwardedTrace::None,
    };
    forward::set_trace(&mut request, trace);
    request
}

/// The request for a page that every visitor with the same key may get, a function of the key.
pub(super) fn shared_request(
    site: &Site,
    info: &RequestInfo,
    client: &Client<'_>,
) -> UpstreamRequest {
    let core = &site.core;
    let mut request = forward::trimmed(info);
    forward::address(&mut request, client);
    forward::capabilities(&mut request, &core.policy);
    forward::members(&mut request, &core.policy);
    forward::set_acknowledged(&mut request, &core.acknowledged.line());
    tell_plugin(&mut request, site, needs_visit_link(site));
    request
}

/// Adds what the plugin needs to know, and no page depends on except for the link that proves visits.
fn tell_plugin(request: &mut UpstreamRequest, site: &Site, has_link: bool) {
    forward::schedule(request, site.schedule());
    if has_link {
        forward::visit_link(request);
    }
}

/// Whether new pages get the link that proves visits.
pub fn needs_visit_link(site: &Site) -> bool {
    let visits = site.visits.as_ref();
    visits.is_some_and(|visits| visits.needs_link())
}

/// The request for a member's page, a function of the key, the session cookies, and the browser. `has_link`: whether the public page, with
/// which it is compared, has the link that proves visits.
pub fn member_request(exchange: &Exchange<'_>, has_link: bool) -> UpstreamRequest {
    let core = &exchange.site.core;
    let cookies = session_cookies(exchange.fields(), &core.policy);
    let mut request = forward::member(&exchange.info, &cookies);
    forward::address(&mut request, &client(exchange));
    forward::capabilities(&mut request, &core.policy);
    forward::members(&mut request, &core.policy);
    forward::set_acknowledged(&mut request, &core.acknowledged.line());
    tell_plugin(&mut request, &exchange.site, has_link);
    request
}

/// The client's request without its body, to be passed.
pub fn pass_request(services: &Services, exchange: &Exchange<'_>) -> UpstreamRequest {
    let (info, core) = (&exchange.info, &exchange.site.core);
    let length = match exchange.body.length() {
        Some(0) if !method_has_body(info.method()) => BodyLength::None,
        Some(length) => BodyLength::Known(length),
        None => BodyLength::Unknown,
    };
    let mut request = forward::whole(info, exchange.fields(), &client(exchange), length);
    match exchange.policy().upstream_requests {
        UpstreamRequests::Trimmed => {
            forward::capabilities(&mut request, &core.policy);
            forward::for_plugin(&mut request, &core.acknowledged.line());
            tell_plugin(
                &mut request,
                &exchange.site,
                needs_visit_link(&exchange.site),
            );
        }
        UpstreamRequests::AsSent => {
            forward::announce(&mut request, &services.identity, &core.policy);
        }
    }
    forward::set_trace(&mut request, trace_context(services, exchange));
    request
}

/// The trace context of a request that is forwarded for its client alone.
fn trace_context(services: &Services, exchange: &Exchange<'_>) -> ForwardedTrace {
    if services.tracer.is_some() {
        return ForwardedTrace::Own {
            continues: exchange
                .trace
                .as_ref()
                .is_some_and(|trace| trace.parent_id.is_some()),
        };
    }
    TraceParent::of_fields(exchange.head.fields())
        .map_or(ForwardedTrace::None, ForwardedTrace::Client)
}

/// The same for a request whose response is for all. By RFC 9111 it is forwarded as it was sent.
///
/// A stored page must not depend on the request that caused its generation. So the trace context of a shared fetch is
/// Galley's own: the span, and also the trace id unless a trusted proxy has set it. The site's owner runs that proxy, or
/// has let clients choose those 32 digits with `trace_parent = "any"`. It is declared unkeyed, like the request's id.
fn shared_trace_context(services: &Services, exchange: &Exchange<'_>) -> ForwardedTrace {
    let is_trimmed = exchange.policy().upstream_requests == UpstreamRequests::Trimmed;
    match trace_context(services, exchange) {
        ForwardedTrace::Client(_) if is_trimmed && !exchange.is_from_proxy => ForwardedTrace::None,
        trace => trace,
    }
}

/// The fetch of a response that may be stored.
pub(super) fn page_job(
    services: &Services,
    exchange: &Exchange<'_>,
    pool: &PoolHandle,
    script: Option<Script>,
    standing: Standing,
    credentials: Credentials,
) -> PageJob {
    let request = fetch_request(services, exchange, credentials);
    PageJob {
        site: Arc::clone(&exchange.site.core),
        pool: pool.index,
        key: Key::new(&exchange.key),
        info: exchange.info.clone(),
        call: upstream_call(exchange, request, script, standing),
        held: None,
        fragments: Box::default(),
        depth: 0,
        may_store: true,
        needs_new_response: false,
        includes: exchange.site.includes.get().cloned(),
    }
}

/// A request that is passed to the upstream for its client alone.
pub(super) fn pass_job(
    exchange: &Exchange<'_>,
    pool: &PoolHandle,
    request: UpstreamRequest,
    script: Option<Script>,
    standing: Standing,
) -> PassJob {
    PassJob {
        site: Arc::clone(&exchange.site.core),
        pool: pool.index,
        info: exchange.info.clone(),
        call: upstream_call(exchange, request, script, standing),
        learn: None,
        is_read_here: false,
        session: None,
        includes: exchange.site.includes.get().cloned(),
    }
}

/// A request in the form that a pool sends.
fn upstream_call(
    exchange: &Exchange<'_>,
    request: UpstreamRequest,
    script: Option<Script>,
    standing: Standing,
) -> UpstreamCall {
    let timeouts = exchange.rule().map(|rule| rule.timeouts);
    UpstreamCall {
        request,
        // An HTTP server finds its scripts itself.
        script: script.filter(|_| backend(exchange) == Backend::FastCgi),
        standing,
        client_address: exchange.client.ip(),
        client_port: exchange.client.port(),
        request_id: exchange.request_id.clone(),
        server_port: exchange.local.port(),
        server_address: Some(exchange.local.ip()).filter(|ip| !ip.is_unspecified()),
        body: RequestBody::Empty,
        timeouts: timeouts.unwrap_or_default(),
        interim: None,
        switch: None,
        trace: exchange.trace.as_ref().map(|trace| trace.scope.clone()),
    }
}

/// The upgrade to a protocol that the client requests, if this upstream may accept it.
pub(super) fn switch(
    services: &Services,
    exchange: &mut Exchange<'_>,
) -> Result<Option<ProtocolSwitch>, Fault> {
    let Some(protocol) = exchange.upgrade.take() else {
        return Ok(None);
    };
    if !matches!(exchange.upstream(), Upstream::Http(_)) {
        return Ok(None);
    }
    let full = "the number of upgraded connections has reached `max_upgrades`";
    let offered = services.tunnels.offer(protocol);
    let (switch, awaited) = offered.ok_or_else(|| Fault::new(RefusedWhy::NoRoom, full))?;
    exchange.awaited = Some(awaited);
    Ok(Some(switch))
}

fn client<'a>(exchange: &'a Exchange<'_>) -> Client<'a> {
    Client {
        address: exchange.client.ip(),
        port: exchange.client.port(),
        request_id: &exchange.request_id,
    }
}

fn method_has_body(method: Method) -> bool {
    matches!(
        method,
        Method::Post | Method::Put | Method::Patch | Method::Query
    )
}
