//! One attempt as a span of its request's trace, with the attribute names of OpenTelemetry's HTTP conventions. Does nothing
//! without a trace.

use galley_cache::fill::FillError;
use galley_policy::trace_context::TraceParent;
use http::StatusCode;

use super::call::UpstreamCall;
use super::resolve::ResolvedName;
use super::stream::ConnectAddress;
use galley_telemetry::trace::{Attribute, OpenSpan, SpanKind};

/// The span of one attempt, which ends when it is dropped; see the module.
pub(super) struct AttemptSpan {
    open: Option<OpenSpan>,
    /// The last server that was tried; earlier ones could not be reached.
    server: Option<ServerAttributes>,
}

struct ServerAttributes {
    /// `fastcgi` or `http`.
    protocol: &'static str,
    address: String,
    /// `None`: a unix socket.
    port: Option<u16>,
}

impl AttemptSpan {
    /// Begins attempt number `attempt`, from 0.
    pub(super) fn begin(call: &UpstreamCall, attempt: usize) -> Self {
        let open = call.trace.as_ref().map(|trace| {
            let mut open = trace.begin(call.request.method.clone(), SpanKind::Client);
            open.add(|| request_attributes(call));
            if attempt > 0 {
                let resent = attempt as u64;
                open.add(|| [Attribute::number("http.request.resend_count", resent)]);
            }
            open
        });
        Self { open, server: None }
    }

    /// Records the FastCGI server of the attempt.
    pub(super) fn tries_fastcgi(&mut self, server: &ConnectAddress) {
        if self.open.is_some() {
            self.server = Some(match server {
                ConnectAddress::Unix(path) => ServerAttributes {
                    protocol: "fastcgi",
                    address: path.to_string_lossy().into_owned(),
                    port: None,
                },
                ConnectAddress::Tcp(name) => ServerAttributes::of(name, "fastcgi"),
            });
        }
    }

    /// Records the HTTP server of the attempt.
    pub(super) fn tries_http(&mut self, server: &ResolvedName) {
        if self.open.is_some() {
            self.server = Some(ServerAttributes::of(server, "http"));
        }
    }

    /// Begins a span for connecting.
    pub(super) fn begin_connect(&self) -> Option<OpenSpan> {
        let open = self.open.as_ref()?;
        Some(open.scope().begin("connect", SpanKind::Internal))
    }

    /// The trace context for the upstream.
    pub(super) fn parent(&self) -> Option<TraceParent> {
        self.open.as_ref().map(OpenSpan::parent)
    }

    /// Records the status of the response. The span continues until the end of the response.
    pub(super) fn responded(mut self, status: StatusCode) -> Option<OpenSpan> {
        self.name_server();
        let mut open = self.open?;
        let code = status.as_u16();
        open.add(|| [Attribute::number("http.response.status_code", code.into())]);
        // The conventions define this for clients, regardless of what the status means to the visitor.
        if code >= 400 {
            open.fail(status.as_str());
        }
        Some(open)
    }

    /// Ends the span without a response.
    pub(super) fn failed(mut self, failure: FillError) {
        self.name_server();
        if let Some(mut open) = self.open {
            open.fail(error_type(failure));
        }
    }

    fn name_server(&mut self) {
        let (Some(open), Some(server)) = (&mut self.open, self.server.take()) else {
            return;
        };
        open.add(|| {
            [
                Attribute::text("server.address", server.address),
                Attribute::text("galley.upstream.protocol", server.protocol),
            ]
        });
        match server.port {
            Some(port) => open.add(|| [Attribute::number("server.port", port.into())]),
            None => open.add(|| [Attribute::text("network.transport", "unix")]),
        }
    }
}

impl ServerAttributes {
    fn of(name: &ResolvedName, protocol: &'static str) -> Self {
        Self {
            protocol,
            address: name.host().to_owned(),
            port: Some(name.port()),
        }
    }
}

/// The attributes of the request, without the query, which may contain secrets.
fn request_attributes(call: &UpstreamCall) -> [Attribute; 2] {
    let request = &call.request;
    let path = String::from_utf8_lossy(&request.path);
    let url = format!("{}://{}{path}", request.scheme.as_str(), request.host);
    [
        Attribute::text("http.request.method", request.method.clone()),
        Attribute::text("url.full", url),
    ]
}

fn error_type(failure: FillError) -> &'static str {
    match failure {
        FillError::Connect => "connect",
        FillError::Timeout => "timeout",
        FillError::Closed => "closed",
        FillError::Malformed => "malformed",
        FillError::Overload => "overload",
        FillError::Paused => "paused",
        FillError::Aborted => "aborted",
        FillError::Include | FillError::Memory | FillError::Unstorable(_) => "_OTHER",
    }
}
