//! The families of `GET /metrics` that tell where bodies are beside the stored pages: on their way to slow clients, small files in
//! memory, and in the hands of the compressors.

use super::AdminState;
use super::text::{MetricKind, Text};

/// Adds them.
pub(super) fn metrics(state: &AdminState, text: &mut Text) {
    spools(state, text);
    small_files(state, text);
    compression(state, text);
}

fn spools(state: &AdminState, text: &mut Text) {
    let spooled = state.services.spools.counted();
    let families = [
        (
            "memory_bytes",
            MetricKind::Gauge,
            spooled.memory,
            "bytes of request and response bodies in memory",
        ),
        (
            "memory_limit_bytes",
            MetricKind::Gauge,
            spooled.memory_limit,
            "limit of these bytes",
        ),
        (
            "disk_bytes",
            MetricKind::Gauge,
            spooled.disk,
            "bytes of request and response bodies in files",
        ),
        (
            "disk_limit_bytes",
            MetricKind::Gauge,
            spooled.disk_limit,
            "limit of these bytes",
        ),
        (
            "requests_total",
            MetricKind::Counter,
            spooled.requests,
            "request bodies written to a file",
        ),
        (
            "responses_total",
            MetricKind::Counter,
            spooled.answers,
            "responses written to a file because their client was slower than PHP",
        ),
        (
            "rejected_total",
            MetricKind::Counter,
            spooled.refused,
            "request bodies rejected because the spool was full",
        ),
        (
            "blocked_total",
            MetricKind::Counter,
            spooled.held_up,
            "responses that occupied PHP until their client had received them, because the spool was full",
        ),
    ];
    add("spool", families, text);
}

fn small_files(state: &AdminState, text: &mut Text) {
    let Some(files) = &state.services.small_files else {
        return;
    };
    let files = files.counted();
    let families = [
        (
            "entries",
            MetricKind::Gauge,
            files.usage.entries,
            "small files in memory",
        ),
        (
            "bytes",
            MetricKind::Gauge,
            files.usage.bytes,
            "bytes of small files in memory, in all codings",
        ),
        (
            "evictions_total",
            MetricKind::Counter,
            files.usage.evictions,
            "small files evicted from memory",
        ),
        (
            "checks_total",
            MetricKind::Counter,
            files.looks,
            "checks on disk that found a small file unchanged",
        ),
        (
            "reads_total",
            MetricKind::Counter,
            files.reads,
            "small files that were read into memory",
        ),
    ];
    add("small_files", families, text);
}

fn compression(state: &AdminState, text: &mut Text) {
    let counted = state.services.compressor.counted();
    let counters = [
        (
            "pages_total",
            counted.pages,
            "stored pages that were compressed",
        ),
        (
            "bytes_in_total",
            counted.bytes,
            "uncompressed bytes, counted once for each coding",
        ),
        ("bytes_out_total", counted.made, "compressed bytes"),
        (
            "postponed_total",
            counted.put_off,
            "pages not compressed because the queue was full",
        ),
    ];
    let families = counters.map(|(name, value, help)| (name, MetricKind::Counter, value, help));
    add("compression", families, text);
}

/// Families of one sample: what follows the part's name, kind, value, help.
fn add<const N: usize>(part: &str, families: [(&str, MetricKind, u64, &str); N], text: &mut Text) {
    for (name, kind, value, help) in families {
        let name = format!("galley_{part}_{name}");
        text.family(&name, kind, help);
        text.sample(&name, &[], value);
    }
}
