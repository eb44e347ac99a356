//! The families of `GET /metrics` that tell of the PHP which Galley runs. They are there where it runs one.

use std::sync::atomic::{AtomicU64, Ordering};

use super::site_counters::SiteCounters;
use super::text::{MetricKind, Text};
use crate::php::PoolNumbers;

/// Adds them.
pub(super) fn metrics(rows: &[SiteCounters], text: &mut Text) {
    let rows: Vec<(&str, &PoolNumbers)> = rows
        .iter()
        .filter_map(|row| Some((row.site.as_str(), row.php.as_deref()?)))
        .collect();
    if rows.is_empty() {
        return;
    }
    for (name, kind, of, help) in FAMILIES {
        let name = format!("galley_php_{name}");
        text.family(&name, *kind, help);
        for (site, numbers) in &rows {
            text.sample(&name, &[("site", site)], of(numbers));
        }
    }
}

type Of = fn(&PoolNumbers) -> u64;

const FAMILIES: &[(&str, MetricKind, Of, &str)] = &[
    (
        "slots",
        MetricKind::Gauge,
        |n| n.slots().load(Ordering::Relaxed) as u64,
        "concurrent requests to a managed PHP",
    ),
    (
        "workers",
        MetricKind::Gauge,
        |n| n.workers.load(Ordering::Relaxed) as u64,
        "workers of a managed PHP",
    ),
    (
        "worker_bytes",
        MetricKind::Gauge,
        |n| read(&n.worker_bytes),
        "peak memory of most of its workers, in bytes",
    ),
    (
        "largest_worker_bytes",
        MetricKind::Gauge,
        |n| read(&n.largest_bytes),
        "peak memory of its largest worker, in bytes",
    ),
    (
        "bytes",
        MetricKind::Gauge,
        |n| read(&n.bytes),
        "current memory of all its workers, in bytes",
    ),
    (
        "share_bytes",
        MetricKind::Gauge,
        |n| read(&n.share_bytes),
        "memory limit of all its workers, in bytes",
    ),
    (
        "replaced_total",
        MetricKind::Counter,
        |n| read(&n.replaced),
        "workers replaced because of their size or number of requests",
    ),
    (
        "overdue_total",
        MetricKind::Counter,
        |n| read(&n.overdue),
        "workers ended because a request took too long",
    ),
    (
        "restarts_total",
        MetricKind::Counter,
        |n| read(&n.restarts),
        "times that a managed PHP ended unexpectedly and was restarted",
    ),
];

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
