//! The metrics about HTTP/2: how clients use it, and which connections Galley ended.

use super::text::Text;
use super::{AdminState, families};
use galley_telemetry::counters::CounterReader;
use galley_telemetry::http2::Http2EndReason;

/// Writes the metrics.
pub(super) fn metrics(state: &AdminState, text: &mut Text) {
    let totals = CounterReader::http2(&state.counters);
    let counts = totals.counts;
    text.value(families::HTTP2_CONNECTIONS, totals.connections);
    text.value(families::HTTP2_STREAMS, counts.streams);
    let resets = [
        ("client", counts.resets_by_client),
        ("galley", counts.resets_by_galley),
    ];
    text.values(families::HTTP2_RESETS, "by", resets);
    let ended = Http2EndReason::ALL.into_iter().zip(totals.ended);
    let ended = ended.map(|(why, count)| (why.word(), count));
    text.values(families::HTTP2_ENDED, "reason", ended);
}
