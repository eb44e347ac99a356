//! The contents of an access line about a request.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use galley_policy::access::CountryCode;
use galley_policy::outcome::Outcome;
use http::HeaderValue;

/// The facts about one request at its end.
#[derive(Clone, Debug)]
pub struct AccessRecord<'a> {
    /// When it began or ended, by the wall clock.
    pub time: SystemTime,
    /// The client's address.
    pub client: IpAddr,
    /// What the client sent.
    pub words: Words<'a>,
    /// The status that was sent.
    pub status: u16,
    /// Body bytes that were sent.
    pub body_bytes: u64,
    /// Its outcome.
    pub outcome: Outcome,
    /// How long the upstream took, if it was asked.
    pub upstream_time: Option<Duration>,
    /// From the first byte of the head to the last of the answer.
    pub total_time: Duration,
    /// The id that the answer and the messages about it carry.
    pub request_id: &'a str,
    /// Whether the client was gone before the end.
    pub vanished: bool,
    /// Its country, if lines have that.
    pub country: Option<CountryCode>,
    /// `1.3`; `None`: Galley did not speak TLS with the client.
    pub tls_version: Option<&'static str>,
    /// The trace that Galley has told the upstream, in 32 digits.
    pub trace_id: Option<[u8; 32]>,
    /// Values of [`LoggedHeaders::request`](super::fields::LoggedHeaders::request).
    pub request_fields: &'a [Option<&'a [u8]>],
    /// Values of [`LoggedHeaders::response`](super::fields::LoggedHeaders::response).
    pub response_fields: &'a [Option<HeaderValue>],
}

/// What a line tells of a request's head. Texts are as the client sent them; nothing needs to be valid.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// The method; `-` if the head could not be read.
    pub method: &'a str,
    /// The target, raw.
    pub target: &'a [u8],
    /// `HTTP/1.1`.
    pub version: &'static str,
    /// The requested host.
    pub host: &'a [u8],
    /// `Referer`, raw.
    pub referer: Option<&'a [u8]>,
    /// `User-Agent`, raw.
    pub user_agent: Option<&'a [u8]>,
}
