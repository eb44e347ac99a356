//! The end of a connection: what is logged and counted.

use super::state::Http3State;
use crate::Core;
use galley_telemetry::http2::Http2EndReason;

/// Reports the end of a connection.
pub(super) fn finish(core: &Core, state: &mut Http3State) {
    let counts = state.counts;
    let by_galley = state.ended.take();
    if let Some((ended, note)) = by_galley {
        let client = state.endpoints.client;
        let (streams, resets) = (counts.streams, counts.resets_by_client);
        tracing::debug!(%client, streams, resets, note, "an HTTP/3 connection was ended");
        if ended == Http2EndReason::Flood && core.services.http2_floods.admit() {
            tracing::warn!(%client, streams, resets, note, "an HTTP/3 connection was ended");
        }
    }
    core.counters
        .http3(&counts, by_galley.map(|(ended, _)| ended));
}
