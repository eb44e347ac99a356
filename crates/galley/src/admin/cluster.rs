//! What is told of the cluster: in the status, and as metrics. Nothing where there is none.

use galley_cluster::PagesStatus;
use serde_json::{Value, json};

use super::AdminState;
use super::text::{MetricKind, Text};

/// The cluster in the status.
pub(super) fn value(state: &AdminState) -> Option<Value> {
    let services = &state.services;
    let status = services.cluster.as_ref()?.status();
    let members = status
        .members
        .iter()
        .map(|member| json!({ "node": member.node, "present": member.is_present }));
    Some(json!({
        "connected": status.is_connected,
        "error": status.error,
        "engine": status.engine,
        "stored_pages_used": services.lease.holds(services.clock.tick()),
        "members": members.collect::<Vec<_>>(),
        "purges_unsent": status.unsent,
        "purges_acknowledged": status.acknowledged,
        "purges_local": status.local_only,
        "purges_of_others": status.applied,
        "gaps": status.gaps,
        "pages": status.pages.map(pages),
    }))
}

/// The pages that the nodes share.
fn pages(pages: PagesStatus) -> Value {
    json!({
        "hits": pages.hits,
        "misses": pages.misses,
        "refused": pages.refused,
        "foreign": pages.foreign,
        "timeouts": pages.timeouts,
        "errors": pages.errors,
        "stored": pages.stored,
        "not_stored": pages.not_stored,
        "paused": pages.is_paused,
    })
}

/// The pages that the nodes share, as metrics.
fn page_metrics(pages: PagesStatus, text: &mut Text) {
    let name = "galley_cluster_pages_paused";
    let help = "1: the engine is not asked for pages, because it failed or was slow";
    text.family(name, MetricKind::Gauge, help);
    text.sample(name, &[], u64::from(pages.is_paused));
    let name = "galley_cluster_page_lookups_total";
    let help = "searches for pages of other nodes, by what they came to";
    text.family(name, MetricKind::Counter, help);
    text.sample(name, &[("result", "hit")], pages.hits);
    text.sample(name, &[("result", "miss")], pages.misses);
    let name = "galley_cluster_page_refusals_total";
    let help = "pages of other nodes that were not used, and lookups without a reply";
    text.family(name, MetricKind::Counter, help);
    for (why, count) in [
        ("purged", pages.refused),
        ("foreign", pages.foreign),
        ("timeout", pages.timeouts),
        ("error", pages.errors),
    ] {
        text.sample(name, &[("why", why)], count);
    }
    let name = "galley_cluster_page_stores_total";
    let help = "pages for other nodes, by whether they were stored";
    text.family(name, MetricKind::Counter, help);
    text.sample(name, &[("result", "stored")], pages.stored);
    text.sample(name, &[("result", "not-stored")], pages.not_stored);
}

/// The cluster as metrics.
pub(super) fn metrics(state: &AdminState, text: &mut Text) {
    let services = &state.services;
    let Some(cluster) = &services.cluster else {
        return;
    };
    let status = cluster.status();
    let present = status.members.iter().filter(|member| member.is_present);
    let lease = services.lease.holds(services.clock.tick());
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let gauges = [
        (
            "galley_cluster_connected",
            u64::from(status.is_connected),
            "1: this node reads the purges of the others",
        ),
        (
            "galley_cluster_lease",
            u64::from(lease),
            "1: this node may answer from stored pages",
        ),
        (
            "galley_cluster_members",
            number(present.count()),
            "other nodes registered at the engine",
        ),
        (
            "galley_cluster_purges_unsent",
            number(status.unsent),
            "purges waiting for the engine",
        ),
    ];
    for (name, value, help) in gauges {
        text.family(name, MetricKind::Gauge, help);
        text.sample(name, &[], value);
    }
    let name = "galley_cluster_purges_total";
    let help = "purges of this node, by reach at acknowledgement";
    text.family(name, MetricKind::Counter, help);
    text.sample(name, &[("reach", "cluster")], status.acknowledged);
    text.sample(name, &[("reach", "local")], status.local_only);
    let counters = [
        (
            "galley_cluster_purges_of_others_total",
            status.applied,
            "purges of other nodes that this node has applied",
        ),
        (
            "galley_cluster_gaps_total",
            status.gaps,
            "complete purges because purges of other nodes were missing",
        ),
    ];
    for (name, value, help) in counters {
        text.family(name, MetricKind::Counter, help);
        text.sample(name, &[], value);
    }
    if let Some(pages) = status.pages {
        page_metrics(pages, text);
    }
}
