//! Access lines with the fields that the configuration selects, in JSON, with Galley's names or those of the Elastic Common
//! Schema. The selection is prepared once; writing a line allocates nothing.

use std::net::IpAddr;
use std::time::Duration;

use galley_config::{KnownField, LogField, LogFormat};
use galley_policy::trace_context::trace_id;
use http::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

use super::record::AccessRecord;
use super::write::{address, number, seconds, text};

/// Header fields that lines need in addition to the standard ones.
#[derive(Clone, Debug, Default)]
pub struct LoggedHeaders {
    /// Fields of requests.
    pub request: Vec<HeaderName>,
    /// Fields of responses.
    pub response: Vec<HeaderName>,
}

/// The values of [`LoggedHeaders::request`], in the same order.
pub type RequestValues<'h> = SmallVec<[Option<&'h [u8]>; 2]>;

/// The values of [`LoggedHeaders::response`], in the same order.
pub type ResponseValues = SmallVec<[Option<HeaderValue>; 1]>;

/// The members of a line after its time.
#[derive(Debug)]
pub(super) struct FieldPlan {
    members: Vec<PlannedMember>,
    is_ecs: bool,
}

#[derive(Debug)]
struct PlannedMember {
    name: String,
    source: FieldSource,
}

/// The source of a value.
#[derive(Clone, Copy, Debug)]
enum FieldSource {
    Known(KnownField),
    /// The index in the logged fields of the request.
    RequestHeader(usize),
    /// As [`Self::RequestHeader`], for the trace id in the value.
    Trace(usize),
    /// The index in the logged fields of the response.
    ResponseHeader(usize),
}

#[derive(Clone, Copy)]
enum FieldValue<'v> {
    Text(Option<&'v [u8]>),
    Version(&'static str),
    Number(u64),
    Time(Option<Duration>),
    Flag(bool),
    Address(IpAddr),
}

impl LoggedHeaders {
    /// The header fields that `fields` need.
    pub fn of(fields: &[LogField]) -> Self {
        let mut headers = Self::default();
        for field in fields {
            headers.source(field);
        }
        headers
    }

    /// The values in a response.
    pub fn of_response(
        &self,
        fields: &HeaderMap,
        extra: &[(HeaderName, HeaderValue)],
    ) -> ResponseValues {
        let values = self.response.iter().map(|name| {
            let extra_value = extra.iter().find(|(extra, _)| extra == name);
            extra_value
                .map(|(_, value)| value)
                .or_else(|| fields.get(name))
                .cloned()
        });
        values.collect()
    }

    fn source(&mut self, field: &LogField) -> FieldSource {
        match field {
            LogField::Known(KnownField::TraceId) => {
                FieldSource::Trace(place(&mut self.request, &TRACEPARENT))
            }
            LogField::Known(known) => FieldSource::Known(*known),
            LogField::RequestHeader(name) => {
                FieldSource::RequestHeader(place(&mut self.request, name))
            }
            LogField::ResponseHeader(name) => {
                FieldSource::ResponseHeader(place(&mut self.response, name))
            }
        }
    }
}

/// The index of a name in a list; a missing name is appended.
fn place(names: &mut Vec<HeaderName>, name: &HeaderName) -> usize {
    let position = names.iter().position(|one| one == name);
    position.unwrap_or_else(|| {
        names.push(name.clone());
        names.len() - 1
    })
}

impl FieldPlan {
    /// The plan for `fields`; `None`: the format has fixed fields.
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
                FieldValue::Text(None) | FieldValue::Time(None) if self.is_ecs => {}
                FieldValue::Version(version) if self.is_ecs => {
                    text(out, name, version.strip_prefix("HTTP/").map(str::as_bytes));
                }
                FieldValue::Version(version) => text(out, name, Some(version.as_bytes())),
                FieldValue::Text(value) => text(out, name, value),
                FieldValue::Time(None) => text(out, name, None),
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

    /// Writes a value that is not text, or needs no escapes.
    fn plain(&self, value: FieldValue<'_>, out: &mut Vec<u8>) {
        match value {
            FieldValue::Text(_) | FieldValue::Version(_) | FieldValue::Time(None) => {
                out.extend_from_slice(b"null");
            }
            FieldValue::Number(count) => number(out, count),
            FieldValue::Time(Some(time)) if self.is_ecs => number(out, time.as_nanos()),
            FieldValue::Time(Some(time)) => seconds(out, time),
            FieldValue::Flag(true) => out.extend_from_slice(b"true"),
            FieldValue::Flag(false) => out.extend_from_slice(b"false"),
            FieldValue::Address(client) => {
                out.push(b'"');
                address(out, client);
                out.push(b'"');
            }
        }
    }
}

impl FieldSource {
    fn value<'v>(self, record: &'v AccessRecord<'_>) -> FieldValue<'v> {
        let request = |place: usize| record.request_fields.get(place).copied().flatten();
        match self {
            Self::Known(field) => known(field, record),
            Self::RequestHeader(place) => FieldValue::Text(request(place)),
            Self::Trace(place) => {
                let trace = record.trace_id.as_ref().map(<[u8; 32]>::as_slice);
                FieldValue::Text(trace.or_else(|| request(place).and_then(trace_id)))
            }
            Self::ResponseHeader(place) => {
                let value = record.response_fields.get(place).and_then(Option::as_ref);
                FieldValue::Text(value.map(HeaderValue::as_bytes))
            }
        }
    }
}

fn country<'v>(record: &'v AccessRecord<'_>) -> Option<&'v [u8]> {
    let country = record.country.as_ref()?;
    Some(country.as_str().as_bytes())
}

fn known<'v>(field: KnownField, record: &'v AccessRecord<'_>) -> FieldValue<'v> {
    let words = &record.words;
    match field {
        KnownField::Client => FieldValue::Address(record.client),
        KnownField::Method => FieldValue::Text(Some(words.method.as_bytes())),
        KnownField::Target => FieldValue::Text(Some(words.target)),
        KnownField::Version => FieldValue::Version(words.version),
        KnownField::Host => FieldValue::Text(Some(words.host)),
        KnownField::Status => FieldValue::Number(record.status.into()),
        KnownField::BodyBytes => FieldValue::Number(record.body_bytes),
        KnownField::Referer => FieldValue::Text(words.referer),
        KnownField::UserAgent => FieldValue::Text(words.user_agent),
        KnownField::Outcome => FieldValue::Text(Some(record.outcome.word().as_bytes())),
        KnownField::Detail => FieldValue::Text(record.outcome.detail().map(str::as_bytes)),
        KnownField::UpstreamTime => FieldValue::Time(record.upstream_time),
        KnownField::TotalTime => FieldValue::Time(Some(record.total_time)),
        KnownField::Id => FieldValue::Text(Some(record.request_id.as_bytes())),
        KnownField::Vanished => FieldValue::Flag(record.vanished),
        KnownField::Country => FieldValue::Text(country(record)),
        KnownField::TlsVersion => FieldValue::Text(record.tls_version.map(str::as_bytes)),
        // The trace id is the value of a header field.
        KnownField::TraceId => FieldValue::Text(None),
    }
}

/// The name of a member. Fields that the schema does not define are below `galley`.
fn name(field: &LogField, is_ecs: bool) -> String {
    let field_of_name = match field {
        LogField::RequestHeader(name) if is_ecs => return format!("galley.request.header.{name}"),
        LogField::ResponseHeader(name) if is_ecs => {
            return format!("galley.response.header.{name}");
        }
        LogField::RequestHeader(name) => return format!("request_header:{name}"),
        LogField::ResponseHeader(name) => return format!("response_header:{name}"),
        LogField::Known(known) if !is_ecs => return known.name().to_owned(),
        LogField::Known(known) => known,
    };
    let name = match field_of_name {
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
        KnownField::Country => "client.geo.country_iso_code",
        KnownField::TlsVersion => "tls.version",
        KnownField::TraceId => "trace.id",
    };
    name.to_owned()
}

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
