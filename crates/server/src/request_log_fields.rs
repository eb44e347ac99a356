//! The fields of a request head that the access record contains.

use galley_http::h2;
use galley_http::head::{Head, Version};
use galley_policy::classes::is_name;
use http::HeaderName;

use galley_telemetry::access::LoggedHeadParts;
use galley_telemetry::fields::{LoggedHeaders, RequestValues};

/// The fields of a request head that the access record contains.
#[derive(Clone)]
pub(super) struct RequestLogFields<'h> {
    pub(super) method: &'h str,
    target: &'h [u8],
    version: Version,
    host: Option<&'h [u8]>,
    referer: Option<&'h [u8]>,
    user_agent: Option<&'h [u8]>,
    /// Header fields that the configuration adds to access lines.
    pub(super) logged: RequestValues<'h>,
}

impl<'h> RequestLogFields<'h> {
    /// The fields of an HTTP/2 or HTTP/3 request.
    pub(super) fn of_h2(
        line: &h2::PseudoFields<'h>,
        fields: impl Iterator<Item = (&'h [u8], &'h [u8])>,
        logged: &LoggedHeaders,
    ) -> Self {
        let mut words = Self {
            method: line.method,
            target: line.target.as_bytes(),
            version: line.version,
            host: line.authority.map(str::as_bytes),
            referer: None,
            user_agent: None,
            logged: RequestValues::new(),
        };
        words.note(fields, &logged.request);
        words
    }

    /// The fields of an HTTP/1 request.
    pub(super) fn of(head: &Head<'h, '_>, logged: &LoggedHeaders) -> Self {
        let mut words = Self {
            method: head.method,
            target: head.target,
            version: head.version,
            host: None,
            referer: None,
            user_agent: None,
            logged: RequestValues::new(),
        };
        words.note(head.lines(), &logged.request);
        words
    }

    fn note(&mut self, fields: impl Iterator<Item = (&'h [u8], &'h [u8])>, wanted: &[HeaderName]) {
        self.logged.resize(wanted.len(), None);
        for (name, value) in fields {
            self.note_logged(name, value, wanted);
            let slot = match name.len() {
                4 if is_name(name, b"host") => &mut self.host,
                7 if is_name(name, b"referer") => &mut self.referer,
                10 if is_name(name, b"user-agent") => &mut self.user_agent,
                _ => continue,
            };
            slot.get_or_insert(value);
        }
    }

    // Only the first value of each name is used.
    fn note_logged(&mut self, name: &[u8], value: &'h [u8], wanted: &[HeaderName]) {
        for (wanted, slot) in wanted.iter().zip(&mut self.logged) {
            let wanted = wanted.as_str().as_bytes();
            if name.eq_ignore_ascii_case(wanted) {
                slot.get_or_insert(value);
            }
        }
    }
}

/// The fields of a record; dashes if the head could not be parsed.
pub(super) fn words<'h>(request: Option<&RequestLogFields<'h>>) -> LoggedHeadParts<'h> {
    LoggedHeadParts {
        method: request.map_or("-", |request| request.method),
        target: request.map_or(b"-", |request| request.target),
        version: match request.map(|request| request.version) {
            Some(Version::H10) => "HTTP/1.0",
            Some(Version::H11) | None => "HTTP/1.1",
            Some(Version::H2) => "HTTP/2.0",
            Some(Version::H3) => "HTTP/3.0",
        },
        host: request.and_then(|request| request.host).unwrap_or(b"-"),
        referer: request.and_then(|request| request.referer),
        user_agent: request.and_then(|request| request.user_agent),
    }
}
