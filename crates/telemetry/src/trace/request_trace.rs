//! The span of a client's request, with the names of the HTTP conventions.

use std::borrow::Cow;
use std::sync::Arc;

use galley_policy::outcome::Outcome;
use galley_policy::trace_context::{self, TraceParent};

use super::open_span::TraceScope;
use super::span::{Attribute, FinishedSpan, SpanKind};
use super::tracer::Tracer;
use crate::record::AccessRecord;

/// The trace of one request.
#[derive(Clone, Debug)]
pub struct RequestTrace {
    /// The parent for child spans of the request's span.
    pub scope: TraceScope,
    /// The id of the client's span in the same trace.
    pub parent_id: Option<[u8; 8]>,
    /// The scheme that the client used at the first proxy.
    pub scheme: &'static str,
}

impl RequestTrace {
    /// Begins a trace. `parent`: the trace context of the request; `is_from_proxy`: whether a trusted proxy has sent the request.
    ///
    /// A trace that is continued is recorded if its parent is (W3C Trace Context, flag `sampled`).
    pub fn begin(
        tracer: &Arc<Tracer>,
        parent: Option<TraceParent>,
        is_from_proxy: bool,
        scheme: &'static str,
    ) -> Self {
        let settings = tracer.settings();
        let continued = parent.filter(|_| is_from_proxy || settings.continues_any);
        let trace_id = continued.map_or_else(|| tracer.trace_id(), |parent| parent.trace_id);
        let is_sampled = continued.map_or_else(
            || trace_context::is_sampled(&trace_id, settings.percent),
            |parent| parent.is_sampled,
        );
        Self {
            scope: TraceScope {
                tracer: Arc::clone(tracer),
                trace_id,
                span_id: tracer.span_id(),
                is_sampled,
            },
            parent_id: continued.map(|parent| parent.parent_id),
            scheme,
        }
    }

    /// Ends the span of the request.
    pub fn end(self, record: &AccessRecord<'_>) {
        let scope = self.scope;
        if !scope.is_sampled {
            return;
        }
        let span = FinishedSpan {
            trace_id: scope.trace_id,
            span_id: scope.span_id,
            parent_id: self.parent_id,
            // The conventions require a name of low cardinality, so it is not the path.
            name: Cow::Owned(method(record).to_owned()),
            kind: SpanKind::Server,
            start: record
                .time
                .checked_sub(record.total_time)
                .unwrap_or(record.time),
            duration: record.total_time,
            attributes: attributes(record, self.scheme),
            is_error: record.status >= 500,
        };
        scope.tracer.take(span);
    }
}

/// The method, or `_OTHER` if HTTP does not define it.
fn method<'r>(record: &AccessRecord<'r>) -> &'r str {
    match record.words.method {
        known @ ("GET" | "HEAD" | "POST" | "PUT" | "DELETE" | "CONNECT" | "OPTIONS" | "TRACE"
        | "PATCH" | "QUERY") => known,
        _ => "_OTHER",
    }
}

/// The attributes of a server span. Query and header fields are not included, because they may contain secrets, such as links to
/// reset a password.
fn attributes(record: &AccessRecord<'_>, scheme: &'static str) -> Vec<Attribute> {
    let words = &record.words;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let path = words
        .target
        .split(|byte| *byte == b'?')
        .next()
        .unwrap_or_default();
    let version = match words.version {
        "HTTP/2.0" => "2",
        other => other.strip_prefix("HTTP/").unwrap_or(other),
    };
    let mut attributes = vec![
        Attribute::text("http.request.method", method(record)),
        Attribute::text("url.path", text(path)),
        Attribute::text("url.scheme", scheme),
        Attribute::text("server.address", text(words.host)),
        Attribute::text("client.address", record.client.to_string()),
        Attribute::text("network.protocol.version", version),
        Attribute::number("http.response.status_code", record.status.into()),
        Attribute::number("http.response.body.size", record.body_bytes),
        Attribute::text("galley.cache.status", record.outcome.word()),
        Attribute::text("galley.request.id", record.request_id),
    ];
    if let Some(agent) = words.user_agent {
        attributes.push(Attribute::text("user_agent.original", text(agent)));
    }
    if let Some(detail) = record.outcome.detail() {
        attributes.push(Attribute::text("galley.cache.detail", detail));
    }
    if let Outcome::Miss {
        collapsed: true, ..
    } = record.outcome
    {
        attributes.push(Attribute::flag("galley.cache.collapsed", true));
    }
    if method(record) == "_OTHER" {
        let original = Attribute::text("http.request.method_original", words.method);
        attributes.push(original);
    }
    if record.status >= 500 {
        attributes.push(Attribute::text("error.type", record.status.to_string()));
    }
    attributes
}
