//! What is told of the disk: in the status, and as metrics. Nothing where there is none.

use galley_cache::disk::{DiskUsage, Health};
use galley_cache::log::Durability;
use serde_json::{Value, json};

use super::AdminState;
use super::text::{MetricKind, Text};
use crate::durable::{DiskCache, DiskCacheTotals, Durable};

/// The disk in the status.
pub(super) fn value(state: &AdminState) -> Option<Value> {
    let durable = &state.services.durable;
    let Some(shelf) = durable.shelf() else {
        return durable.unusable().map(|reason| unusable(durable, reason));
    };
    let (usage, counted) = (shelf.usage(), shelf.counted());
    let (word, reason) = health(shelf.health());
    Some(json!({
        "state": word,
        "reason": reason,
        "entries": usage.entries,
        "bytes": usage.bytes,
        "limit": usage.limit,
        "counted_percent": usage.counted * 100 / DiskUsage::DIRECTORIES,
        "evictions": usage.evictions,
        "damaged": usage.damaged,
        "found": counted.found,
        "written": counted.written,
        "refused": counted.refused,
        "waiting": counted.waiting,
        "swept": counted.swept,
        "purges_kept": is_kept(durable),
        "purges_lost_reason": lost_reason(durable),
    }))
}

/// The disk that could not be used at the start.
fn unusable(durable: &Durable, reason: &str) -> Value {
    json!({
        "state": "off", "reason": reason, "entries": 0, "bytes": 0, "limit": 0, "evictions": 0,
        "purges_kept": is_kept(durable),
        "purges_lost_reason": lost_reason(durable),
    })
}

fn is_kept(durable: &Durable) -> bool {
    matches!(durable.durability(), Some(Durability::Kept))
}

fn lost_reason(durable: &Durable) -> Option<String> {
    match durable.durability() {
        Some(Durability::Lost(loss)) => Some(loss.reason.to_string()),
        Some(Durability::Kept) | None => None,
    }
}

fn health(health: Health) -> (&'static str, Option<String>) {
    match health {
        Health::Storing => ("storing", None),
        Health::Scanning => ("counting", None),
        Health::Off { reason, .. } => ("off", Some(reason.to_string())),
        Health::Closed => ("closed", None),
    }
}

/// The same as series.
pub(super) fn metrics(state: &AdminState, text: &mut Text) {
    let durable = &state.services.durable;
    let Some(shelf) = durable.shelf() else {
        if durable.unusable().is_some() {
            state_of(false, is_kept(durable), text);
        }
        return;
    };
    state_of(shelf.health() == Health::Storing, is_kept(durable), text);
    gauges(shelf, text);
    counters(shelf.usage(), shelf.counted(), text);
}

fn state_of(is_storing: bool, is_kept: bool, text: &mut Text) {
    let rows = [
        (
            "disk_storing",
            u64::from(is_storing),
            "1 while pages are written to the disk",
        ),
        (
            "disk_purges_kept",
            u64::from(is_kept),
            "1 while purges reach the disk before they are acknowledged",
        ),
    ];
    for (name, value, help) in rows {
        let name = format!("galley_{name}");
        text.family(&name, MetricKind::Gauge, help);
        text.sample(&name, &[], value);
    }
}

fn gauges(shelf: &DiskCache, text: &mut Text) {
    let usage = shelf.usage();
    let rows = [
        ("disk_entries", usage.entries, "pages on the disk"),
        (
            "disk_bytes",
            usage.bytes,
            "bytes used on disk, in blocks of 4096",
        ),
        ("disk_limit_bytes", usage.limit, "limit of bytes on disk"),
        (
            "disk_index_bytes",
            usage.index_bytes,
            "bytes of memory used by the index",
        ),
        (
            "disk_waiting",
            shelf.counted().waiting,
            "pages waiting to be written",
        ),
    ];
    for (name, value, help) in rows {
        let name = format!("galley_{name}");
        text.family(&name, MetricKind::Gauge, help);
        text.sample(&name, &[], value);
    }
}

fn counters(usage: DiskUsage, counted: DiskCacheTotals, text: &mut Text) {
    let rows = [
        (
            "disk_hits_total",
            counted.found,
            "pages that were read from the disk",
        ),
        (
            "disk_timeouts_total",
            counted.late,
            "lookups abandoned because the disk was too slow",
        ),
        ("disk_written_total", counted.written, "pages written"),
        (
            "disk_rejected_total",
            counted.refused,
            "pages not written because the disk was full or failing",
        ),
        (
            "disk_evictions_total",
            usage.evictions,
            "pages evicted, or removed because they were not requested",
        ),
        ("disk_damaged_total", usage.damaged, "damaged files removed"),
        ("disk_failures_total", usage.failures, "failed reads"),
    ];
    for (name, value, help) in rows {
        let name = format!("galley_{name}");
        text.family(&name, MetricKind::Counter, help);
        text.sample(&name, &[], value);
    }
}
