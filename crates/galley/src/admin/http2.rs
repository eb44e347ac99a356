//! The families of `GET /metrics` that tell how clients use HTTP/2, and which connections Galley ended.

use super::AdminState;
use super::text::{MetricKind, Text};
use crate::telemetry::counters::CounterReader;
use crate::telemetry::http2::Http2EndReason;

/// Adds them.
pub(super) fn metrics(state: &AdminState, text: &mut Text) {
    let totals = CounterReader::http2(&state.counters);
    let counters = [
        (
            "galley_http2_connections_total",
            totals.connections,
            "HTTP/2 connections that have ended",
        ),
        (
            "galley_http2_streams_total",
            totals.counts.streams,
            "streams that clients opened on them",
        ),
    ];
    for (name, value, help) in counters {
        text.family(name, MetricKind::Counter, help);
        text.sample(name, &[], value);
    }
    let name = "galley_http2_resets_total";
    text.family(
        name,
        MetricKind::Counter,
        "streams on them that were reset, by side",
    );
    text.sample(name, &[("by", "client")], totals.counts.resets_by_client);
    text.sample(name, &[("by", "galley")], totals.counts.resets_by_galley);
    let name = "galley_http2_ended_total";
    text.family(
        name,
        MetricKind::Counter,
        "HTTP/2 connections that Galley ended, by reason",
    );
    for (why, count) in Http2EndReason::ALL.into_iter().zip(totals.ended) {
        text.sample(name, &[("reason", why.word())], count);
    }
}
