//! The cluster in the status and in the metrics. Absent without `[cluster]`.

use galley_cluster::PagesStatus;
use serde_json::{Value, json};

use super::text::Text;
use super::{AdminState, families};

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

/// The pages that the nodes share, in the status.
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

/// The metrics about the pages that the nodes share.
fn page_metrics(pages: PagesStatus, text: &mut Text) {
    text.value(families::CLUSTER_PAGES_PAUSED, u64::from(pages.is_paused));
    let lookups = [("hit", pages.hits), ("miss", pages.misses)];
    text.values(families::CLUSTER_PAGE_LOOKUPS, "result", lookups);
    let refusals = [
        ("purged", pages.refused),
        ("foreign", pages.foreign),
        ("timeout", pages.timeouts),
        ("error", pages.errors),
    ];
    text.values(families::CLUSTER_PAGE_REFUSALS, "why", refusals);
    let stores = [("stored", pages.stored), ("not-stored", pages.not_stored)];
    text.values(families::CLUSTER_PAGE_STORES, "result", stores);
}

/// Writes the metrics about the cluster.
pub(super) fn metrics(state: &AdminState, text: &mut Text) {
    let services = &state.services;
    let Some(cluster) = &services.cluster else {
        return;
    };
    let status = cluster.status();
    let present = status.members.iter().filter(|member| member.is_present);
    let lease = services.lease.holds(services.clock.tick());
    text.value(families::CLUSTER_CONNECTED, u64::from(status.is_connected));
    text.value(families::CLUSTER_LEASE, u64::from(lease));
    text.value(families::CLUSTER_MEMBERS, present.count() as u64);
    text.value(families::CLUSTER_PURGES_UNSENT, status.unsent as u64);
    let purges = [
        ("cluster", status.acknowledged),
        ("local", status.local_only),
    ];
    text.values(families::CLUSTER_PURGES, "reach", purges);
    text.value(families::CLUSTER_PURGES_OF_OTHERS, status.applied);
    text.value(families::CLUSTER_GAPS, status.gaps);
    if let Some(pages) = status.pages {
        page_metrics(pages, text);
    }
}
