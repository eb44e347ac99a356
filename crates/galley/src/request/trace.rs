//! The trace of a request that no stored page answers, and the trace context for the upstream.
//!
//! A stored page must not depend on the request that caused its generation. So the trace context of a shared fetch is
//! Galley's own: the span, and also the trace id unless a trusted proxy has set it. The site's owner runs that proxy, or
//! has let clients choose those 32 digits with `trace_parent = "any"`. It is declared unkeyed, like the request's id.

use galley_policy::forward::ForwardedTrace;
use galley_policy::site::UpstreamRequests;
use galley_policy::trace_context::TraceParent;

use super::exchange::Exchange;
use super::site::Services;
use crate::telemetry::trace::RequestTrace;

/// Begins the request's part of a trace, if traces are recorded.
pub(super) fn begin(services: &Services, exchange: &mut Exchange<'_>) {
    if let Some(tracer) = &services.tracer {
        let parent = TraceParent::of_fields(exchange.head.fields());
        let scheme = exchange.info.scheme().as_str();
        let is_from_proxy = exchange.is_from_proxy;
        let trace = RequestTrace::begin(tracer, parent, is_from_proxy, scheme);
        exchange.trace = Some(trace);
    }
}

/// Where a request belongs that is forwarded for its client alone.
pub(super) fn forwarded(services: &Services, exchange: &Exchange<'_>) -> ForwardedTrace {
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
pub(super) fn forwarded_shared(services: &Services, exchange: &Exchange<'_>) -> ForwardedTrace {
    let is_trimmed = exchange.policy().upstream_requests == UpstreamRequests::Trimmed;
    match forwarded(services, exchange) {
        ForwardedTrace::Client(_) if is_trimmed && !exchange.is_from_proxy => ForwardedTrace::None,
        trace => trace,
    }
}
