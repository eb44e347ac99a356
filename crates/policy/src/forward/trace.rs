//! The trace context of a request for the upstream (W3C Trace Context).
//!
//! The client's fields are never forwarded unchecked: an invalid `traceparent` is dropped, and so is `tracestate` without
//! `traceparent`. A trimmed request has neither of the client's fields.

use http::HeaderName;

use super::request::{UpstreamRequest, push};
use crate::trace_context::TraceParent;

/// The trace to which the upstream's part of a request belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedTrace {
    /// None.
    None,
    /// The client's trace, as a child of the client's span; Galley records no span.
    Client(TraceParent),
    /// The trace of a span of Galley, whose [`TRACEPARENT`] is added when the request is sent.
    Own {
        /// Whether the span is in the client's trace, so that the client's `tracestate` is forwarded.
        continues: bool,
    },
}

/// Replaces the trace fields of a request.
pub fn set_trace(request: &mut UpstreamRequest, trace: ForwardedTrace) {
    let keeps_state = match trace {
        ForwardedTrace::None => false,
        ForwardedTrace::Client(_) => true,
        ForwardedTrace::Own { continues } => continues,
    };
    request
        .fields
        .retain(|(name, _)| *name != TRACEPARENT && (keeps_state || *name != TRACESTATE));
    if let ForwardedTrace::Client(parent) = trace {
        push(request, TRACEPARENT, parent.text().as_bytes());
    }
}

/// The field that names the parent span.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::super::{BodyLength, Client, whole};
    use super::*;
    use crate::site::Policy;
    use crate::testing::{LINE, parsed};

    /// The trace fields of a whole request with these fields and `trace`.
    fn sent(head: &[(&str, &str)], trace: ForwardedTrace) -> Vec<String> {
        let info = parsed(&LINE, head, &Policy::default());
        let fields = head.iter().map(|(name, value)| (*name, value.as_bytes()));
        let client = Client {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            request_id: "1",
        };
        let mut request = whole(&info, fields, &client, BodyLength::None);
        set_trace(&mut request, trace);
        let about = request.fields.iter();
        let about = about.filter(|(name, _)| name.as_str().starts_with("trace"));
        about
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect()
    }

    #[test]
    fn upstreams_get_only_the_selected_trace() {
        let valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let head: [(&str, &str); 4] = [
            ("Traceparent", "junk"),
            ("traceparent", valid),
            ("tracestate", "a=1"),
            ("baggage", "b=2"),
        ];
        let parent = TraceParent::parse(valid.as_bytes()).unwrap();
        let line = format!("traceparent: {valid}");
        let state = "tracestate: a=1".to_owned();
        for (trace, wanted) in [
            (ForwardedTrace::None, vec![]),
            (ForwardedTrace::Own { continues: false }, vec![]),
            (ForwardedTrace::Own { continues: true }, vec![state.clone()]),
            (ForwardedTrace::Client(parent), vec![state, line]),
        ] {
            assert_eq!(sent(&head, trace), wanted, "{trace:?}");
        }
    }
}
