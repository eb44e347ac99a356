//! One request for an upstream.

use std::net::IpAddr;

use galley_policy::cgi::Script;
use galley_policy::class::{Network, Standing};
use galley_policy::forward::{Client, UpstreamRequest};
use galley_policy::site::UpstreamTimeouts;

use super::interim::InterimSender;
use super::queue::QueueIdentity;
use super::switch::ProtocolSwitch;
use crate::body::RequestBody;
use crate::body::streamed_body::StreamedBody;
use galley_telemetry::trace::{OpenSpan, SpanKind, TraceScope};

/// One complete request for an upstream.
pub struct UpstreamCall {
    /// Method, path and fields as they are sent.
    pub request: UpstreamRequest,
    /// The script that FastCGI runs; HTTP upstreams ignore it.
    pub script: Option<Script>,
    /// The class under which the request is queued, and whether it goes before others of the class.
    pub standing: Standing,
    /// The client's address.
    pub client_address: IpAddr,
    /// The client's port.
    pub client_port: u16,
    /// The request's id.
    pub request_id: String,
    /// The port on which the client's connection was accepted.
    pub server_port: u16,
    /// The address on which the client's connection was accepted.
    pub server_address: Option<IpAddr>,
    /// The body: complete, or streamed.
    pub body: RequestBody,
    /// Timeouts that a rule sets.
    pub timeouts: UpstreamTimeouts,
    /// Receives interim responses; `None`: they are dropped. FastCGI has none.
    pub interim: Option<InterimSender>,
    /// The protocol that the client requests instead of HTTP; HTTP upstreams only.
    pub switch: Option<ProtocolSwitch>,
    /// The span that contains the request's spans; `None`: the request is not traced.
    pub trace: Option<TraceScope>,
}

impl UpstreamCall {
    /// The class and client under which the request is queued.
    pub fn queue_identity(&self) -> QueueIdentity {
        QueueIdentity::new(self.standing, Network::of(self.client_address))
    }

    /// Begins a span of the request's trace for work inside Galley.
    pub fn begin_span(&self, name: &'static str) -> Option<OpenSpan> {
        let trace = self.trace.as_ref()?;
        Some(trace.begin(name, SpanKind::Internal))
    }

    pub(super) fn client(&self) -> Client<'_> {
        Client {
            address: self.client_address,
            port: self.client_port,
            request_id: &self.request_id,
        }
    }

    /// The same request without its body, to be modified and sent.
    #[must_use]
    pub fn without_body(&self) -> Self {
        Self {
            request: self.request.clone(),
            script: self.script.clone(),
            standing: self.standing,
            client_address: self.client_address,
            client_port: self.client_port,
            request_id: self.request_id.clone(),
            server_port: self.server_port,
            server_address: self.server_address,
            body: RequestBody::Empty,
            timeouts: self.timeouts,
            interim: self.interim.clone(),
            switch: None,
            trace: self.trace.clone(),
        }
    }

    /// Whether the client has aborted its streamed body, so that the exchange cannot succeed.
    pub(super) fn is_upload_aborted(&self) -> bool {
        self.body.streamed().is_some_and(StreamedBody::is_broken)
    }

    /// Whether the upstream may have received a part of the streamed body; that part is no longer in memory.
    pub(super) fn is_body_spent(&self) -> bool {
        self.body.streamed().is_some_and(StreamedBody::is_taken)
    }

    /// Whether the method is safe (RFC 9110 §9.2.1), so that the request may be sent twice.
    pub fn is_safe(&self) -> bool {
        matches!(
            self.request.method.as_str(),
            "GET" | "HEAD" | "OPTIONS" | "QUERY"
        )
    }
}
