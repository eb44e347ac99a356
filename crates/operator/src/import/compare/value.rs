//! The result of a comparison as JSON for scripts.

use serde_json::{Value, json};

use super::findings::{DifferenceGroup, TryReport};

pub(super) fn value(report: &TryReport) -> Value {
    json!({
        "server": report.server,
        "requests": report.findings.requests,
        "changes": report.changes,
        "skipped": report.skipped,
        "harmless": report.findings.harmless,
        "differences": report.findings.groups.iter().map(group).collect::<Vec<_>>(),
    })
}

fn group(group: &DifferenceGroup) -> Value {
    let origin = group.origin.as_ref().map(|origin| {
        json!({ "file": &*origin.file, "line": origin.line, "statement": group.statement })
    });
    let requests = group.visits.iter().map(|visit| {
        json!({ "method": visit.method.name(), "url": visit.url(), "from": visit.from.to_string(), "curl": visit.curl() })
    });
    json!({
        "kind": group.kind.name(),
        "field": group.kind.field(),
        "old": group.old,
        "galley": group.galley,
        "count": group.count,
        "origin": origin,
        "remedy": group.remedy,
        "requests": requests.collect::<Vec<_>>(),
    })
}
