//! Access lines with the fields that the configuration selects, in JSON, under Galley's names or those of the Elastic Common
//! Schema. Which ones there are is worked out once; a line allocates nothing.

use std::net::IpAddr;
use std::time::Duration;

use galley_config::{KnownField, LogField, LogFormat};
use galley_policy::trace_context::trace_id;
use http::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

use super::record::AccessRecord;
use super::write::{address, number, seconds, text};

/// Header fields that lines need beside those that every line may have.
#[derive(Clone, Debug, Default)]
pub struct LoggedHeaders {
    /// Of requests.
    pub request: Vec<HeaderName>,
    /// Of responses.
    pub response: Vec<HeaderName>,
}

/// The values of [`LoggedHeaders::request`], in their order.
pub type RequestValues<'h> = SmallVec<[Option<&'h [u8]>; 2]>;

/// The values of [`LoggedHeaders::response`], in their order.
pub type ResponseValues = SmallVec<[Option<HeaderValue>; 1]>;

/// The members of a line behind its time.
#[derive(Debug)]
pub(super) struct FieldPlan {
    members: Vec<PlannedMember>,
    is_ecs: bool,
}

#[derive(Debug)]
struct PlannedMember {
    name: String,
    source: Source,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug)]
enum Source {
    Known(KnownField),
    /// The place among those of the request.
    RequestHeader(usize),
    /// The same, of which the trace is wanted.
    Trace(usize),
    /// The place among those of the response.
    ResponseHeader(usize),
}

enum Value<'v> {
    Text(Option<&'v [u8]>),
    Version(&'static str),
    Number(u64),
    Time(Option<Duration>),
    Flag(bool),
    Address(IpAddr),
}

impl LoggedHeaders {
    /// Those that `fields` need.
    pub fn of(fields: &[LogField]) -> Self {
        let mut headers = Self::default();
        for field in fields {
            headers.source(field);
        }
        headers
    }

    /// The values that a response has.
    pub fn of_response(
        &self,
        fields: &HeaderMap,
        extra: &[(HeaderName, HeaderValue)],
    ) -> ResponseValues {
        let values = self.response.iter().map(|name| {
            let own = extra.iter().find(|(extra, _)| extra == name);
            own.map(|(_, value)| value)
                .or_else(|| fields.get(name))
                .cloned()
        });
        values.collect()
    }

    fn source(&mut self, field: &LogField) -> Source {
        match field {
            LogField::Known(KnownField::TraceId) => {
                Source::Trace(place(&mut self.request, &TRACEPARENT))
            }
            LogField::Known(known) => Source::Known(*known),
            LogField::RequestHeader(name) => Source::RequestHeader(place(&mut self.request, name)),
            LogField::ResponseHeader(name) => {
                Source::ResponseHeader(place(&mut self.response, name))
            }
        }
    }
}

/// Where a name is in a list, to whose end it is added if it is missing.
fn place(names: &mut Vec<HeaderName>, name: &HeaderName) -> usize {
    let known = names.iter().position(|one| one == name);
    known.unwrap_or_else(|| {
        names.push(name.clone());
        names.len() - 1
    })
}

impl FieldPlan {
    /// The plan for `fields`; `None`: the form has its own.
    pub(super) fn new(format: LogFormat, fields: &[LogField]) -> Option<Self> {
        let is_ecs = match format {
            LogFormat::Combined => return None,
            LogFormat::Json => false,
            LogFormat::Ecs => true,
        };
        let mut headers = LoggedHeaders::default();
        let members = fields.iter().map(|field| PlannedMember {
            name: name(field, is_ecs),
            source: headers.source(field),
        });
        let members: Vec<PlannedMember> = members.collect();
        (!members.is_empty()).then_some(Self { members, is_ecs })
    }

    /// Writes the members, and the end of the object.
    pub(super) fn write(&self, record: &AccessRecord<'_>, out: &mut Vec<u8>) {
        for PlannedMember { name, source } in &self.members {
            match source.value(record) {
                Value::Text(None) | Value::Time(None) if self.is_ecs => {}
                Value::Version(version) if self.is_ecs => {
                    text(out, name, version.strip_prefix("HTTP/").map(str::as_bytes));
                }
                Value::Version(version) => text(out, name, Some(version.as_bytes())),
                Value::Text(value) => text(out, name, value),
                Value::Time(None) => text(out, name, None),
                value => {
                    out.extend_from_slice(b",\"");
                    out.extend_from_slice(name.as_bytes());
                    out.extend_from_slice(b"\":");
                    self.plain(value, out);
                }
            }
        }
        out.push(b'}');
    }

    /// A value that is no text, or needs no escapes.
    fn plain(&self, value: Value<'_>, out: &mut Vec<u8>) {
        match value {
            Value::Text(_) | Value::Version(_) | Value::Time(None) => {
                out.extend_from_slice(b"null")
            }
            Value::Number(count) => number(out, count),
            Value::Time(Some(time)) if self.is_ecs => number(out, time.as_nanos()),
            Value::Time(Some(time)) => seconds(out, time),
            Value::Flag(true) => out.extend_from_slice(b"true"),
            Value::Flag(false) => out.extend_from_slice(b"false"),
            Value::Address(client) => {
                out.push(b'"');
                address(out, client);
                out.push(b'"');
            }
        }
    }
}

impl Source {
    fn value<'v>(self, record: &AccessRecord<'v>) -> Value<'v> {
        let request = |place: usize| record.request_fields.get(place).copied().flatten();
        match self {
            Self::Known(field) => known(field, record),
            Self::RequestHeader(place) => Value::Text(request(place)),
            Self::Trace(place) => Value::Text(request(place).and_then(trace_id)),
            Self::ResponseHeader(place) => {
                let value = record.response_fields.get(place).and_then(Option::as_ref);
                Value::Text(value.map(HeaderValue::as_bytes))
            }
        }
    }
}

fn known<'v>(field: KnownField, record: &AccessRecord<'v>) -> Value<'v> {
    let words = &record.words;
    match field {
        KnownField::Client => Value::Address(record.client),
        KnownField::Method => Value::Text(Some(words.method.as_bytes())),
        KnownField::Target => Value::Text(Some(words.target)),
        KnownField::Version => Value::Version(words.version),
        KnownField::Host => Value::Text(Some(words.host)),
        KnownField::Status => Value::Number(record.status.into()),
        KnownField::BodyBytes => Value::Number(record.body_bytes),
        KnownField::Referer => Value::Text(words.referer),
        KnownField::UserAgent => Value::Text(words.user_agent),
        KnownField::Outcome => Value::Text(Some(record.outcome.word().as_bytes())),
        KnownField::Detail => Value::Text(record.outcome.detail().map(str::as_bytes)),
        KnownField::UpstreamTime => Value::Time(record.upstream_time),
        KnownField::TotalTime => Value::Time(Some(record.total_time)),
        KnownField::Id => Value::Text(Some(record.request_id.as_bytes())),
        KnownField::Vanished => Value::Flag(record.vanished),
        KnownField::TlsVersion => Value::Text(record.tls_version.map(str::as_bytes)),
        // It comes from a header field.
        KnownField::TraceId => Value::Text(None),
    }
}

/// The name of a member. What the schema has no field for is below `galley`.
fn name(field: &LogField, is_ecs: bool) -> String {
    let known = match field {
        LogField::RequestHeader(name) if is_ecs => return format!("galley.request.header.{name}"),
        LogField::ResponseHeader(name) if is_ecs => {
            return format!("galley.response.header.{name}");
        }
        LogField::RequestHeader(name) => return format!("request_header:{name}"),
        LogField::ResponseHeader(name) => return format!("response_header:{name}"),
        LogField::Known(known) if !is_ecs => return known.name().to_owned(),
        LogField::Known(known) => known,
    };
    let name = match known {
        KnownField::Client => "client.ip",
        KnownField::Method => "http.request.method",
        KnownField::Target => "url.original",
        KnownField::Version => "http.version",
        KnownField::Host => "url.domain",
        KnownField::Status => "http.response.status_code",
        KnownField::BodyBytes => "http.response.body.bytes",
        KnownField::Referer => "http.request.referrer",
        KnownField::UserAgent => "user_agent.original",
        KnownField::Outcome => "galley.outcome",
        KnownField::Detail => "galley.detail",
        KnownField::UpstreamTime => "galley.upstream.duration",
        KnownField::TotalTime => "event.duration",
        KnownField::Id => "http.request.id",
        KnownField::Vanished => "galley.vanished",
        KnownField::TlsVersion => "tls.version",
        KnownField::TraceId => "trace.id",
    };
    name.to_owned()
}

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
