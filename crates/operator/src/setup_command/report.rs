//! The result, for people and for programs.

use std::time::Duration;

use serde_json::{Value, json};

use super::survey::{SetupFindings, SurveyedSite};
use crate::setup::{PageComparison, PageSummary};

/// The result of a run.
#[derive(Default)]
pub(super) struct SetupReport {
    pub(super) comparisons: Vec<PageComparison>,
    /// The changes, one line each.
    pub(super) actions: Vec<String>,
    /// The remaining steps, one line each.
    pub(super) to_do: Vec<String>,
    /// The time from the start of the command to the first page from the cache.
    pub(super) first_hit: Option<Duration>,
}

fn site_value(site: &SurveyedSite) -> Value {
    json!({
        "root": site.draft.root,
        "hosts": site.draft.hosts,
        "php": site.info.as_ref().map(|info| &info.php),
        "database": site.info.as_ref().map(|info| &info.database),
        "notes": site.draft.notes,
    })
}

impl SetupReport {
    pub(super) fn value(&self, survey: &SetupFindings, configuration: &str) -> Value {
        let sites = survey.sites.iter().map(site_value);
        let skipped = survey.skipped.iter();
        let skipped = skipped.map(|site| json!({ "root": site.root, "why": site.why }));
        let ports = survey.detection.ports.iter();
        let ports = ports.map(|owner| {
            json!({ "address": owner.address.to_string(), "program": owner.program, "unit": owner.unit })
        });
        json!({
            "ok": true,
            "sites": sites.collect::<Vec<_>>(),
            "skipped": skipped.collect::<Vec<_>>(),
            "ports": ports.collect::<Vec<_>>(),
            "configuration": configuration,
            "pages": self.comparisons.iter().map(page).collect::<Vec<_>>(),
            "actions": self.actions,
            "to_do": self.to_do,
            "first_hit_ms": self.first_hit.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        })
    }
}

fn page(comparison: &PageComparison) -> Value {
    json!({
        "host": comparison.host,
        "path": comparison.path,
        "current": comparison.current.as_ref().map(summary),
        "galley": summary(&comparison.galley),
        "same": comparison.differences().is_empty(),
    })
}

fn summary(page: &PageSummary) -> Value {
    json!({ "status": page.status, "location": page.location, "type": page.media_type, "title": page.title })
}
