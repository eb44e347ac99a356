//! The disk cache in the status and in the metrics. Absent without `cache.disk`.

use galley_cache::disk::{DiskUsage, Health};
use galley_cache::log::Durability;
use serde_json::{Value, json};

use super::text::Text;
use super::{AdminState, families};
use galley_purging::{DiskCacheTotals, Durable};

/// The disk cache in the status.
pub(super) fn value(state: &AdminState) -> Option<Value> {
    let durable = &state.services.durable;
    let Some(disk_cache) = durable.disk_cache() else {
        return durable.unusable().map(|reason| unusable(durable, reason));
    };
    let (usage, counted) = (disk_cache.usage(), disk_cache.counted());
    let (word, reason) = health(disk_cache.health());
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

/// The status of a disk cache that could not be opened at the start.
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

/// Writes the metrics about the disk cache.
pub(super) fn metrics(state: &AdminState, text: &mut Text) {
    let durable = &state.services.durable;
    let Some(disk_cache) = durable.disk_cache() else {
        if durable.unusable().is_some() {
            state_of(false, is_kept(durable), text);
        }
        return;
    };
    state_of(
        disk_cache.health() == Health::Storing,
        is_kept(durable),
        text,
    );
    numbers(disk_cache.usage(), disk_cache.counted(), text);
}

fn state_of(is_storing: bool, is_kept: bool, text: &mut Text) {
    text.value(families::DISK_STORING, u64::from(is_storing));
    text.value(families::DISK_PURGES_KEPT, u64::from(is_kept));
}

fn numbers(usage: DiskUsage, counted: DiskCacheTotals, text: &mut Text) {
    text.value(families::DISK_ENTRIES, usage.entries);
    text.value(families::DISK_BYTES, usage.bytes);
    text.value(families::DISK_LIMIT, usage.limit);
    text.value(families::DISK_INDEX, usage.index_bytes);
    text.value(families::DISK_WAITING, counted.waiting);
    text.value(families::DISK_HITS, counted.found);
    text.value(families::DISK_TIMEOUTS, counted.late);
    text.value(families::DISK_WRITTEN, counted.written);
    text.value(families::DISK_REJECTED, counted.refused);
    text.value(families::DISK_EVICTIONS, usage.evictions);
    text.value(families::DISK_DAMAGED, usage.damaged);
    text.value(families::DISK_FAILURES, usage.failures);
}
