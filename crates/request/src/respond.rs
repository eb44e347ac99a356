//! From a request to its response, from top to bottom: access control, purge, redirect, lookup, decision, file, fetch.
//!
//! [`handle`] never fails: it turns a [`Fault`] into a response, once. A stale page is sent instead if the decision allows it.

use std::cell::OnceCell;
use std::sync::Arc;

use galley_policy::decide::{Decision, PathKind};
use galley_policy::headers::Recipient;
use galley_policy::outcome::{MissWhy, Outcome, PassWhy, RefusedWhy, StaleWhy};
use galley_policy::request_info::Method;
use galley_policy::trace_context::TraceParent;

use super::access::{self, authorize};
use super::before_lookup::before_lookup;
use super::exchange::Exchange;
use super::forward::backend;
use super::lookup::{LookupPurpose, LookupResult, lookup};
use super::response::Response;
use super::site::Services;
use super::{
    challenge, crawler, dashboard, dictionary_file, file, miss, page, private, purge, repair, visit,
};
use crate::fault::Fault;
use galley_fetch::revalidate::RefreshReason;
use galley_telemetry::trace::RequestTrace;

/// Responds to an exchange whose body has been received. Never fails: an error becomes a response.
pub async fn handle(services: &Services, exchange: &mut Exchange<'_>) -> Response {
    let mut response = match respond(services, exchange).await {
        Ok(response) => response,
        Err(fault) => {
            // A paused upstream is logged once, when the pause begins.
            if fault.is_upstream() && fault.why != RefusedWhy::UpstreamPaused {
                services.upstream_warnings.warn(
                    &exchange.site.core.name,
                    &exchange.request_id,
                    &fault.note,
                );
            }
            challenge::page(services, exchange, &fault).unwrap_or_else(|| {
                Response::site_fault(&fault, &exchange.site, &exchange.request_id)
            })
        }
    };
    // The dashboard's fields protect it, so the site cannot change them.
    if exchange.policy().is_dashboard(exchange.info.decoded_path()) {
        return response;
    }
    if response.status == 404 {
        // Boxed: this is rare, and its state would be part of every idle connection.
        Box::pin(repair::missed(services, exchange)).await;
    }
    if let Some(time) = response.upstream_time {
        let (site, head) = (&exchange.site, exchange.head);
        let now = services.clock.tick();
        site.slow_requests.note(head.method, head.target, time, now);
    }
    response.change(
        exchange
            .site
            .heads
            .of(exchange.info.rule(), response.status),
        Recipient::new(&exchange.info, exchange.is_from_proxy),
    );
    if matches!(
        response.outcome,
        Outcome::Assembled | Outcome::Pass(PassWhy::Compared)
    ) {
        response.keep_private();
    }
    response
}

async fn respond(services: &Services, exchange: &mut Exchange<'_>) -> Result<Response, Fault> {
    authorize(services, exchange).await?;
    if let Some(response) = access::check_body(exchange).await? {
        return Ok(response);
    }
    let has_tls = services.has_tls(&exchange.site, exchange.info.host());
    match before_lookup(services, exchange, &exchange.site.core.policy, has_tls) {
        None => {}
        Some(Decision::Purge) => return purge::respond(exchange).await,
        Some(Decision::Redirect(found)) => return Response::redirect(&found),
        Some(Decision::Dashboard) => return dashboard::respond(services, exchange).await,
        Some(Decision::Refuse(why)) => return Err(refusal(why, exchange.info.method())),
        Some(_) => return Ok(Response::methods()),
    }
    if let Some(response) = challenge::style_sheet(services, exchange) {
        return response;
    }
    if let Some(response) = dictionary_file::respond(services, exchange) {
        return response;
    }
    if exchange.key.is_empty() {
        exchange.write_key();
    }
    let found = lookup(services, exchange, LookupPurpose::Serve).await;
    let policy = &exchange.site.core.policy;
    let decision = found.decide(&exchange.info, policy);
    if let Some(response) = from_cache(services, exchange, &found, &decision).await {
        return Ok(response);
    }
    let (below, script) = match file::find(exchange).await? {
        file::FileMatch::Response(response) => {
            visit::note_file(services, exchange, &response);
            return Ok(response);
        }
        file::FileMatch::Script(script) => (PathKind::Script, Some(script)),
        file::FileMatch::Missing => (PathKind::Missing, None),
    };
    let decision = decision.below_root(&exchange.info, below, backend(exchange));
    let (why, stale_on_error) = match &decision {
        Decision::Fetch {
            why,
            stale_on_error,
        } => (*why, *stale_on_error),
        Decision::Refuse(why) => return Err(refusal(*why, exchange.info.method())),
        Decision::Patch => (MissWhy::Purged, false),
        _ => (MissWhy::Uri, false),
    };
    crawler::admit(services, exchange)?;
    begin_trace(services, exchange);
    let miss = miss::Miss {
        services,
        exchange,
        script,
        found: &found,
        why,
        stale_on_error,
        standing: OnceCell::new(),
    };
    match decision {
        Decision::Pass(PassWhy::Partition) => miss.fetch_while_partitioned().await,
        Decision::Pass(why) => {
            miss.fetch_for_members();
            miss.pass(Outcome::Pass(why)).await
        }
        Decision::Assemble | Decision::Compare => miss.compare().await,
        Decision::Patch => miss.patch().await,
        _ => miss.fetch().await,
    }
}

/// The stored response, if the decision is to send it.
async fn from_cache(
    services: &Services,
    exchange: &Exchange<'_>,
    found: &LookupResult,
    decision: &Decision,
) -> Option<Response> {
    let outcome = match decision {
        Decision::Hit | Decision::HitAndRefresh => Outcome::Hit,
        Decision::StaleWhileRevalidate => Outcome::Stale(StaleWhy::Revalidating),
        Decision::StaleAccepted => Outcome::Stale(StaleWhy::MaxStale),
        Decision::Assemble => return private::assembled(services, exchange, found).await,
        _ => return None,
    };
    let entry = found.response()?;
    if let Some(reason) = refresh_reason(found, decision) {
        miss::refresh(services, exchange, entry, reason).await;
    }
    if found.is_joined {
        return page::from_joined(services, exchange, Arc::clone(entry));
    }
    page::from_entry(services, exchange, Arc::clone(entry), outcome).await
}

/// Why a response that is sent from the cache is also refreshed in the background; `None`: it is not.
fn refresh_reason(found: &LookupResult, decision: &Decision) -> Option<RefreshReason> {
    match decision {
        Decision::HitAndRefresh => found.claims_refresh().then_some(RefreshReason::Early),
        Decision::StaleWhileRevalidate => Some(RefreshReason::Stale),
        _ => None,
    }
}

/// Begins the request's part of a trace, if traces are recorded. Requests that a stored page answers have none.
fn begin_trace(services: &Services, exchange: &mut Exchange<'_>) {
    if let Some(tracer) = &services.tracer {
        let parent = TraceParent::of_fields(exchange.head.fields());
        let scheme = exchange.info.scheme().as_str();
        let trace = RequestTrace::begin(tracer, parent, exchange.is_from_proxy, scheme);
        exchange.trace = Some(trace);
    }
}

/// The fault for a decision to refuse, with its note for the log.
fn refusal(why: RefusedWhy, method: Method) -> Fault {
    let note = match why {
        RefusedWhy::Loop => "Galley has forwarded this request before: the upstream sent it back",
        RefusedWhy::Method if matches!(method, Method::Purge | Method::Ban) => purge::NOT_ALLOWED,
        RefusedWhy::Method => "TRACE or CONNECT",
        RefusedWhy::NotFound => "no such file",
        RefusedWhy::NeedsTls => "the dashboard is sent over TLS only",
        RefusedWhy::OnlyIfCached => "only-if-cached, and not in the cache",
        _ => "",
    };
    Fault::new(why, note)
}
