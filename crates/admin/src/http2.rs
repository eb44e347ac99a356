//! The metrics about HTTP/2 and HTTP/3: how clients use them, and which connections Galley ended.

use super::text::{MetricFamily, Text};
use super::{AdminState, families};
use galley_telemetry::counters::CounterReader;
use galley_telemetry::http2::{Http2EndReason, Http2Totals};

/// Writes the metrics.
pub(super) fn metrics(state: &AdminState, text: &mut Text) {
    let http2 = [
        families::HTTP2_CONNECTIONS,
        families::HTTP2_STREAMS,
        families::HTTP2_RESETS,
        families::HTTP2_ENDED,
    ];
    write(http2, &CounterReader::http2(&state.counters), text);
    let http3 = [
        families::HTTP3_CONNECTIONS,
        families::HTTP3_STREAMS,
        families::HTTP3_RESETS,
        families::HTTP3_ENDED,
    ];
    write(http3, &CounterReader::http3(&state.counters), text);
}

fn write(families: [MetricFamily; 4], totals: &Http2Totals, text: &mut Text) {
    let [connections, streams, resets, ends] = families;
    let counts = totals.counts;
    text.value(connections, totals.connections);
    text.value(streams, counts.streams);
    let by_side = [
        ("client", counts.resets_by_client),
        ("galley", counts.resets_by_galley),
    ];
    text.values(resets, "by", by_side);
    let ended = Http2EndReason::ALL.iter().zip(totals.ended);
    let ended = ended.map(|(why, count)| (why.word(), count));
    text.values(ends, "reason", ended);
}
