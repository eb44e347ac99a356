//! Requests for unit tests.

use crate::request_info::{RequestInfo, RequestLineInfo, Scheme};
use crate::site::Policy;

/// `GET /a` of `example.com` without TLS.
pub(crate) const LINE: RequestLineInfo<'static> = RequestLineInfo {
    method: "GET",
    target: b"/a",
    scheme: Scheme::Http,
    host: "example.com",
    has_body: false,
    upgrade: false,
    country: None,
};

/// A request with this line, which must be valid, and these fields.
pub(crate) fn parsed(
    line: &RequestLineInfo<'_>,
    fields: &[(&str, &str)],
    policy: &Policy,
) -> RequestInfo {
    let mut info = RequestInfo::default();
    let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
    info.parse(line, fields, policy)
        .unwrap_or_else(|why| panic!("{line:?}: {why}"));
    info
}
