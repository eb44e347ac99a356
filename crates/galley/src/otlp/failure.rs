//! The meaning of a collector's response for a batch: accepted, to be retried, or lost.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use galley_tls::one_shot::{self, OneShotResponse};

/// Why a batch was not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExportFailure {
    /// The text for the log.
    pub(super) why: String,
    /// Whether the collector may accept the same batch later.
    pub(super) may_retry: bool,
    /// The pause that the collector requests.
    pub(super) retry_after: Option<Duration>,
}

impl ExportFailure {
    /// The collector did not respond.
    pub(super) fn unreachable(why: &impl fmt::Display) -> Self {
        Self {
            why: why.to_string(),
            may_retry: true,
            retry_after: None,
        }
    }
}

/// The number of rejected spans in a batch that was accepted; an error if the batch was not accepted.
pub(super) fn rejected(response: &OneShotResponse, now: SystemTime) -> Result<u64, ExportFailure> {
    if response.head.status.is_success() {
        return Ok(rejected_spans(&response.body));
    }
    Err(ExportFailure {
        why: format!("status {}", response.head.status.as_u16()),
        // The statuses to retry according to OTLP/HTTP; every other one means that the data is not acceptable.
        may_retry: matches!(response.head.status.as_u16(), 429 | 502 | 503 | 504),
        retry_after: one_shot::retry_after(&response.head.headers, now),
    })
}

/// Reads `rejectedSpans` of a partial success: a 64-bit number, which is a string in JSON; some collectors send a number.
fn rejected_spans(body: &[u8]) -> u64 {
    let response: Value = serde_json::from_slice(body).unwrap_or_default();
    let rejected = &response["partialSuccess"]["rejectedSpans"];
    let text = rejected.as_str().and_then(|text| text.parse().ok());
    rejected.as_u64().or(text).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::header::RETRY_AFTER;

    use super::*;

    #[test]
    fn retries_follow_the_protocol() {
        let judge = |status, body: &'static str| {
            let response = http::Response::builder()
                .status(status)
                .header(RETRY_AFTER, "7");
            let (head, ()) = response.body(()).unwrap().into_parts();
            let response = OneShotResponse {
                head,
                body: Bytes::from_static(body.as_bytes()),
                incomplete: None,
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
