//! Helpers of the response tests: requests and fields in one line.

use galley_policy::request_info::{RequestInfo, RequestLineInfo, Scheme};
use galley_policy::site::Policy;

/// Names and values of header fields.
pub type Rows<'a> = &'a [(&'static str, &'a str)];

/// Parses a request to `example.com`.
pub fn info(method: &str, target: &str, rows: Rows<'_>, policy: &Policy) -> RequestInfo {
    let line = RequestLineInfo {
        method,
        target: target.as_bytes(),
        scheme: Scheme::Https,
        host: "example.com",
        has_body: false,
        upgrade: false,
        country: None,
    };
    let mut info = RequestInfo::default();
    info.parse(&line, lines(rows), policy)
        .unwrap_or_else(|why| panic!("{method} {target}: {why}"));
    info
}

/// The fields as the request parser and the purge dialects expect them.
pub fn lines(rows: Rows<'_>) -> impl Iterator<Item = (&str, &[u8])> + Clone {
    rows.iter().map(|(name, value)| (*name, value.as_bytes()))
}
