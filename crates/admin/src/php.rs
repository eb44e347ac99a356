//! The metrics about managed PHP. Absent if Galley runs none.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::families;
use super::site_counters::SiteCounters;
use super::text::{MetricRow, Text};
use galley_php::PoolNumbers;

/// Writes the metrics.
pub(super) fn metrics(rows: &[SiteCounters], text: &mut Text) {
    let rows = rows.iter().filter_map(|row| {
        Some(MetricRow {
            labels: [("site", &row.site)],
            of: row.php.as_deref()?,
        })
    });
    let rows: Vec<MetricRow<'_, &PoolNumbers, 1>> = rows.collect();
    if rows.is_empty() {
        return;
    }
    text.rows(
        &rows,
        &[
            (families::PHP_SLOTS, |n| count(&n.slots())),
            (families::PHP_WORKERS, |n| count(&n.workers)),
            (families::PHP_WORKER_BYTES, |n| read(&n.worker_bytes)),
            (families::PHP_LARGEST_WORKER, |n| read(&n.largest_bytes)),
            (families::PHP_BYTES, |n| read(&n.bytes)),
            (families::PHP_SHARE, |n| read(&n.share_bytes)),
            (families::PHP_REPLACED, |n| read(&n.replaced)),
            (families::PHP_OVERDUE, |n| read(&n.overdue)),
            (families::PHP_RESTARTS, |n| read(&n.restarts)),
        ],
    );
}

fn count(counter: &AtomicUsize) -> u64 {
    counter.load(Ordering::Relaxed) as u64
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
