//! What is told of the cluster: in the status, and as metrics. Nothing where there is none.

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
    }))
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
}
