//! Relays the body of a response from the upstream to its readers and to the disk.

use galley_cache::fill::{FillError, FillWriter};
use galley_policy::request_info::RequestInfo;
use http::HeaderMap;

use super::site::FetchSite;
use super::spool::{BufferingMode, ResponseSpool};
use galley_purging::Recorder;
use galley_upstream::IncomingResponse;

/// The destination of a response: its readers in memory, and the spool for the bytes that slow readers have not received.
pub(super) struct ResponseSink {
    pub(super) writer: FillWriter,
    pub(super) spool: ResponseSpool,
}

/// Relays a body until its end, or until it has no reader: a silent upstream must not occupy a slot for a client that has
/// disconnected. A body that is being written to the disk, or whose announced length has been received, is read to its end. Calls `note_progress` for each piece. Bytes that
/// slow clients have not received at the end remain in the spool.
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
            failure = spool.feed_readers(writer), if is_read => {
                if !recorder.is_writing() && !incoming.has_all() {
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
            is_read = spool.forward(writer, chunk).await.is_ok();
        }
        if let Some(copy) = copy {
            recorder.push(copy, writer.is_kept()).await;
        }
        if !is_read && !recorder.is_writing() && !incoming.has_all() {
            return Err(FillError::Aborted);
        }
    }
}

/// How to buffer a response with these fields. Applications disable buffering as for nginx, with `X-Accel-Buffering: no`.
pub(super) fn buffering_mode(
    site: &FetchSite,
    info: &RequestInfo,
    fields: &HeaderMap,
) -> BufferingMode {
    let rule = info.rule().and_then(|index| site.policy.rules.get(index));
    let is_disabled = fields
        .get("x-accel-buffering")
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"no"));
    if is_disabled || rule.is_some_and(|rule| rule.stream) {
        BufferingMode::Streamed
    } else {
        BufferingMode::Spooled
    }
}
