//! The contents of an access line.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use galley_policy::access::CountryCode;
use galley_policy::outcome::Outcome;
use http::HeaderValue;

/// The facts about a request at its end.
#[derive(Clone, Debug)]
pub struct AccessRecord<'a> {
    /// The time at the end of the request, from the wall clock.
    pub time: SystemTime,
    /// The address of the client.
    pub client: IpAddr,
    /// The request head.
    pub words: LoggedHeadParts<'a>,
    /// The status that was sent.
    pub status: u16,
    /// The body bytes that were sent.
    pub body_bytes: u64,
    /// The outcome.
    pub outcome: Outcome,
    /// The time of the upstream, if a request was sent to it.
    pub upstream_time: Option<Duration>,
    /// The time from the first byte of the head to the last byte of the response.
    pub total_time: Duration,
    /// The request id in the response and in messages about the request.
    pub request_id: &'a str,
    /// Whether the client disconnected before the end.
    pub vanished: bool,
    /// The country of the client, if the log has it.
    pub country: Option<CountryCode>,
    /// The version of TLS, such as `1.3`; `None`: the connection did not use TLS.
    pub tls_version: Option<&'static str>,
    /// The trace id that Galley has sent upstream, in 32 digits.
    pub trace_id: Option<[u8; 32]>,
    /// Values of [`LoggedHeaders::request`](super::fields::LoggedHeaders::request).
    pub request_fields: &'a [Option<&'a [u8]>],
    /// Values of [`LoggedHeaders::response`](super::fields::LoggedHeaders::response).
    pub response_fields: &'a [Option<HeaderValue>],
}

/// The parts of a request head that a line contains, as the client sent them, valid or not.
#[derive(Clone, Copy, Debug)]
pub struct LoggedHeadParts<'a> {
    /// The method; `-` if the head could not be read.
    pub method: &'a str,
    /// The raw target.
    pub target: &'a [u8],
    /// The version, such as `HTTP/1.1`.
    pub version: &'static str,
    /// The requested host.
    pub host: &'a [u8],
    /// The raw `Referer`.
    pub referer: Option<&'a [u8]>,
    /// The raw `User-Agent`.
    pub user_agent: Option<&'a [u8]>,
}
