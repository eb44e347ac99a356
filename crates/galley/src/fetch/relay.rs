//! Passes the body of a response from the upstream to its readers and to the disk.

use galley_cache::fill::{FillError, FillWriter};
use galley_policy::request_info::RequestInfo;
use http::HeaderMap;

use super::site::FetchSite;
use super::spool::{ResponseSpool, Way};
use crate::durable::Recorder;
use crate::upstream::IncomingResponse;

/// Where a response goes: to its readers in memory, and to the spool that holds what slow readers have not taken.
pub(super) struct ResponseSink {
    pub(super) writer: FillWriter,
    pub(super) spool: ResponseSpool,
}

/// Relays a body until its end, or until it has no reader: a silent upstream must not hold its slot for a client that has
/// left. A body that is being written to the disk is read to its end. Calls `note_progress` with each piece. What slow clients
/// have not taken at the end is still in the spool.
pub(super) async fn relay(
    incoming: &mut IncomingResponse,
    sink: &mut ResponseSink,
    recorder: &mut Recorder,
    note_progress: &dyn Fn(),
) -> Result<(), FillError> {
    let ResponseSink { writer, spool } = sink;
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
