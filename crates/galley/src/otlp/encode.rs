//! Spans as the JSON of an `ExportTraceServiceRequest` (OTLP 1.x, "JSON Protobuf Encoding"): ids in hexadecimal digits, enumerations as
//! numbers, 64-bit numbers as strings.

use std::time::{Duration, SystemTime};

use galley_policy::trace_context::push_hex;
use serde_json::{Map, Value, json};

use galley_telemetry::trace::{Attribute, AttributeValue, FinishedSpan, SpanKind};

/// Returns the body of a request with these spans.
pub(super) fn body(spans: &[FinishedSpan], instance: &str) -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let resource = [
        Attribute::text("service.name", "galley"),
        Attribute::text("service.version", version),
        Attribute::text("service.instance.id", instance),
    ];
    let spans: Vec<Value> = spans.iter().map(span).collect();
    let request = json!({"resourceSpans": [{
        "resource": {"attributes": attributes(&resource)},
        "scopeSpans": [{"scope": {"name": "galley", "version": version}, "spans": spans}],
    }]});
    request.to_string().into_bytes()
}

fn span(span: &FinishedSpan) -> Value {
    let start = since_epoch(span.start);
    let mut members = Map::new();
    let mut set = |name: &str, value: Value| members.insert(name.to_owned(), value);
    set("traceId", hex(&span.trace_id).into());
    set("spanId", hex(&span.span_id).into());
    if let Some(parent) = &span.parent_id {
        set("parentSpanId", hex(parent).into());
    }
    set("name", span.name.as_ref().into());
    set("kind", kind(span.kind).into());
    set("startTimeUnixNano", nanoseconds(start));
    set("endTimeUnixNano", nanoseconds(start + span.duration));
    set("attributes", attributes(&span.attributes));
    if span.is_error {
        set("status", json!({"code": STATUS_ERROR}));
    }
    members.into()
}

fn attributes(all: &[Attribute]) -> Value {
    let pairs = all.iter().map(|attribute| {
        let value = match &attribute.value {
            AttributeValue::Text(text) => json!({"stringValue": text}),
            AttributeValue::Number(number) => json!({"intValue": number.to_string()}),
            AttributeValue::Flag(flag) => json!({"boolValue": flag}),
        };
        json!({"key": attribute.name, "value": value})
    });
    pairs.collect()
}

fn kind(kind: SpanKind) -> u8 {
    match kind {
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
        SpanKind::Client => 3,
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    push_hex(bytes, &mut text);
    text
}

fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

fn nanoseconds(time: Duration) -> Value {
    time.as_nanos().to_string().into()
}

const STATUS_ERROR: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_encoded_as_specified() {
        let spans = [FinishedSpan {
            trace_id: [0xab; 16],
            span_id: [1; 8],
            parent_id: Some([0x0f; 8]),
            name: "GET".into(),
            kind: SpanKind::Client,
            start: SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_000_000_001),
            duration: Duration::from_nanos(2),
            attributes: vec![
                Attribute::text("url.path", "/\"é\u{1}"),
                Attribute::number("http.response.status_code", 503),
                Attribute::flag("galley.cache.collapsed", true),
            ],
            is_error: true,
        }];
        let sent: Value = serde_json::from_slice(&body(&spans, "i")).unwrap();
        let group = &sent["resourceSpans"][0];
        assert_eq!(
            group["resource"]["attributes"][0],
            json!({"key": "service.name", "value": {"stringValue": "galley"}})
        );
        assert_eq!(
            group["scopeSpans"][0]["spans"],
            json!([{
                "traceId": "abababababababababababababababab", "spanId": "0101010101010101", "parentSpanId": "0f0f0f0f0f0f0f0f",
                "name": "GET", "kind": 3,
                "startTimeUnixNano": "1700000000000000001", "endTimeUnixNano": "1700000000000000003",
                "attributes": [
                    {"key": "url.path", "value": {"stringValue": "/\"é\u{1}"}},
                    {"key": "http.response.status_code", "value": {"intValue": "503"}},
                    {"key": "galley.cache.collapsed", "value": {"boolValue": true}},
                ],
                "status": {"code": 2},
            }])
        );
    }
}
