//! Access lines with the field names of the Elastic Common Schema 8, with dots instead of nested objects, like its loggers.
//! <https://www.elastic.co/docs/reference/ecs/ecs-field-reference>
//!
//! Durations are in nanoseconds. Fields that the schema does not define are below `galley`. Members without a value are omitted.

use super::record::AccessRecord;
use super::write::{address, number, text};

/// Writes the members after [`CONSTANT`], and the end of the object.
pub(super) fn members(record: &AccessRecord<'_>, out: &mut Vec<u8>) {
    let words = &record.words;
    out.extend_from_slice(b",\"client.ip\":\"");
    address(out, record.client);
    out.push(b'"');
    text(out, "http.request.method", Some(words.method.as_bytes()));
    text(out, "url.original", Some(words.target));
    let version = words.version.strip_prefix("HTTP/");
    text(out, "http.version", version.map(str::as_bytes));
    if let Ok(host) = std::str::from_utf8(words.host) {
        text(out, "url.domain", Some(host.as_bytes()));
    }
    integer(out, "http.response.status_code", u128::from(record.status));
    integer(
        out,
        "http.response.body.bytes",
        u128::from(record.body_bytes),
    );
    optional(out, "http.request.referrer", words.referer);
    optional(out, "user_agent.original", words.user_agent);
    let outcome = if record.status >= 500 {
        "failure"
    } else {
        "success"
    };
    text(out, "event.outcome", Some(outcome.as_bytes()));
    integer(out, "event.duration", record.total_time.as_nanos());
    text(out, "http.request.id", Some(record.request_id.as_bytes()));
    text(
        out,
        "galley.outcome",
        Some(record.outcome.word().as_bytes()),
    );
    optional(
        out,
        "galley.detail",
        record.outcome.detail().map(str::as_bytes),
    );
    if let Some(time) = record.upstream_time {
        integer(out, "galley.upstream.duration", time.as_nanos());
    }
    let vanished = if record.vanished { "true}" } else { "false}" };
    out.extend_from_slice(b",\"galley.vanished\":");
    out.extend_from_slice(vanished.as_bytes());
}

fn optional(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    if value.is_some() {
        text(out, name, value);
    }
}

fn integer(out: &mut Vec<u8>, name: &str, value: u128) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    number(out, value);
}

/// The version of the schema, and the kind of line.
pub(super) const CONSTANT: &[u8] =
    b",\"ecs.version\":\"8.17.0\",\"event.dataset\":\"galley.access\"";
