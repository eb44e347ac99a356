//! The outer caches to which purges are forwarded, in the status and in the metrics.

use serde_json::{Value, json};

use super::text::{MetricRow, Text};
use super::{AdminState, families};
use galley_purging::purge_forward::TargetStats;
use galley_request::Site;

/// The outer caches of a site in the status; empty if there are none.
pub(super) fn value(state: &AdminState, site: &Site) -> Value {
    let targets = stats(state, site).into_iter().map(|one| {
        json!({
            "target": one.name, "pending": one.pending, "sent": one.sent, "failures": one.failures, "overflows": one.overflows,
            "error": one.trouble, "retry_in_s": one.retry_in.map(|pause| pause.as_secs()),
        })
    });
    targets.collect()
}

/// Writes the metrics about all outer caches; nothing if there are none.
pub(super) fn metrics(state: &AdminState, text: &mut Text) {
    let targets = state.sites.iter().flat_map(|site| {
        let name = site.core.name.as_str();
        stats(state, site).into_iter().map(move |one| (name, one))
    });
    let targets: Vec<(&str, TargetStats)> = targets.collect();
    let rows = targets.iter().map(|(site, one)| MetricRow {
        labels: [("site", *site), ("target", one.name.as_str())],
        of: one,
    });
    let rows: Vec<MetricRow<'_, &TargetStats, 2>> = rows.collect();
    if rows.is_empty() {
        return;
    }
    text.rows(
        &rows,
        &[
            (families::FORWARD_PENDING, |one| one.pending as u64),
            (families::FORWARD_SENT, |one| one.sent),
            (families::FORWARD_FAILURES, |one| one.failures),
            (families::FORWARD_OVERFLOWS, |one| one.overflows),
        ],
    );
}

fn stats(state: &AdminState, site: &Site) -> Vec<TargetStats> {
    state.services.forwarder.stats(site.core.purges.site())
}
