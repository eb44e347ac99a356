//! Hands the body of a response on, from the upstream to its readers and to the disk.

use galley_cache::fill::{FillError, FillWriter};
use galley_policy::request_info::RequestInfo;
use http::HeaderMap;

use super::site::FetchSite;
use super::spool::{ResponseSpool, Way};
use crate::durable::Recorder;
use crate::upstream::IncomingResponse;

/// Hands a body on to its end, or until nobody wants it any more: an upstream that is silent must not hold its slot for a
/// client that has left. What is being written to the disk is wanted. `beat` is called with each piece. What slow clients
/// have not had then is still in the passage.
pub(super) async fn relay(
    incoming: &mut IncomingResponse,
    writer: &mut FillWriter,
    spool: &mut ResponseSpool,
    recorder: &mut Recorder,
    note_progress: &dyn Fn(),
) -> Result<(), FillError> {
    let mut is_read = true;
    loop {
        let chunk = tokio::select! {
            biased;
            chunk = incoming.chunk() => chunk?,
            failure = spool.attend(writer), if is_read => {
                if !recorder.is_writing() {
                    return Err(failure);
                }
                is_read = false;
                continue;
            }
        };
        let Some(chunk) = chunk else { return Ok(()) };
        note_progress();
        let copy = recorder.is_on().then(|| chunk.clone());
        if is_read {
            is_read = spool.give(writer, chunk).await.is_ok();
        }
        if let Some(copy) = copy {
            recorder.push(copy, writer.is_kept()).await;
        }
        if !is_read && !recorder.is_writing() {
            return Err(FillError::Aborted);
        }
    }
}

/// How a response with these fields is passed on. `X-Accel-Buffering: no` is how applications ask nginx for the same.
pub(super) fn way(site: &FetchSite, info: &RequestInfo, fields: &HeaderMap) -> Way {
    let rule = info.rule().and_then(|index| site.rules.rules.get(index));
    let is_asked_for = fields
        .get("x-accel-buffering")
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"no"));
    if is_asked_for || rule.is_some_and(|rule| rule.stream) {
        Way::Streamed
    } else {
        Way::Spooled
    }
}
