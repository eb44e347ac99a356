//! What a collector's response means for a batch: accepted, to be sent again, or lost.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::service_client::ServiceResponse;

/// Why a batch was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExportFailure {
    /// For the log.
    pub(super) why: String,
    /// Whether the same batch may be taken later.
    pub(super) may_retry: bool,
    /// The pause that the collector requests.
    pub(super) retry_after: Option<Duration>,
}

impl ExportFailure {
    /// There is no response.
    pub(super) fn unreachable(why: &impl fmt::Display) -> Self {
        Self {
            why: why.to_string(),
            may_retry: true,
            retry_after: None,
        }
    }
}

/// How many spans of a batch the collector has rejected; an error if it has not taken the batch.
pub(super) fn rejected(response: &ServiceResponse, now: SystemTime) -> Result<u64, ExportFailure> {
    if response.status.is_success() {
        return Ok(rejected_spans(&response.body));
    }
    Err(ExportFailure {
        why: format!("status {}", response.status.as_u16()),
        // The list of OTLP/HTTP; the protocol has every other status mean that the data is not acceptable.
        may_retry: matches!(response.status.as_u16(), 429 | 502 | 503 | 504),
        retry_after: response.retry_after(now),
    })
}

/// `rejectedSpans` of a partial success: a 64-bit number, which JSON has as a string, and some collectors as a number.
fn rejected_spans(body: &[u8]) -> u64 {
    let response: Value = serde_json::from_slice(body).unwrap_or_default();
    let rejected = &response["partialSuccess"]["rejectedSpans"];
    let text = rejected.as_str().and_then(|text| text.parse().ok());
    rejected.as_u64().or(text).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::StatusCode;
    use http::header::{HeaderMap, HeaderValue, RETRY_AFTER};

    use super::*;

    #[test]
    fn responses_are_judged_as_the_protocol_says() {
        let judge = |status, body: &'static str| {
            let mut fields = HeaderMap::new();
            fields.insert(RETRY_AFTER, HeaderValue::from_static("7"));
            let response = ServiceResponse {
                status: StatusCode::from_u16(status).unwrap(),
                fields,
                body: Bytes::from_static(body.as_bytes()),
            };
            rejected(&response, SystemTime::now())
        };
        for (body, wanted) in [
            ("", 0),
            ("{}", 0),
            (r#"{"partialSuccess":{"rejectedSpans":"3"}}"#, 3),
            (r#"{"partialSuccess":{"rejectedSpans":4}}"#, 4),
            (r#"{"partialSuccess":{"rejectedSpans":"-1"}}"#, 0),
        ] {
            assert_eq!(judge(200, body), Ok(wanted), "{body}");
        }
        for (status, may_retry) in [
            (400, false),
            (401, false),
            (404, false),
            (429, true),
            (500, false),
            (502, true),
            (503, true),
            (504, true),
        ] {
            let failure = judge(status, "").unwrap_err();
            assert_eq!(failure.may_retry, may_retry, "{status}");
            assert_eq!(failure.retry_after, Some(Duration::from_secs(7)));
        }
    }
}
