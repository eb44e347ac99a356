//! What is told of the caches of other machines that get purges: in the status, and as metrics.

use serde_json::{Value, json};

use super::AdminState;
use super::text::{MetricKind, Text};
use crate::purge_forward::TargetStats;
use crate::request::Site;

/// The targets of a site in the status; empty where there are none.
pub(super) fn value(state: &AdminState, site: &Site) -> Value {
    let targets = stats(state, site).into_iter().map(|one| {
        json!({
            "target": one.name, "pending": one.pending, "sent": one.sent, "failures": one.failures, "overflows": one.overflows,
            "error": one.trouble, "retry_in_s": one.retry_in.map(|pause| pause.as_secs()),
        })
    });
    targets.collect()
}

/// All targets as metrics; nothing where there are none.
pub(super) fn metrics(state: &AdminState, text: &mut Text) {
    let sites = state.sites.iter();
    let targets: Vec<(&str, TargetStats)> = sites
        .flat_map(|site| {
            let name = site.core.name.as_str();
            stats(state, site).into_iter().map(move |one| (name, one))
        })
        .collect();
    if targets.is_empty() {
        return;
    }
    let mut family = |name: &str, kind: MetricKind, help: &str, of: fn(&TargetStats) -> u64| {
        text.family(name, kind, help);
        for (site, one) in &targets {
            let labels = [("site", *site), ("target", one.name.as_str())];
            text.sample(name, &labels, of(one));
        }
    };
    family(
        "galley_purge_forward_pending",
        MetricKind::Gauge,
        "purges that wait for a cache of another machine",
        |one| u64::try_from(one.pending).unwrap_or(u64::MAX),
    );
    family(
        "galley_purge_forward_sent_total",
        MetricKind::Counter,
        "purges that a cache of another machine has taken",
        |one| one.sent,
    );
    family(
        "galley_purge_forward_failures_total",
        MetricKind::Counter,
        "attempts to purge a cache of another machine that failed",
        |one| one.failures,
    );
    family(
        "galley_purge_forward_overflows_total",
        MetricKind::Counter,
        "times that too many purges waited and one of everything took their place",
        |one| one.overflows,
    );
}

fn stats(state: &AdminState, site: &Site) -> Vec<TargetStats> {
    state.services.forwarder.stats(site.core.purges.site())
}
