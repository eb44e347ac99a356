//! `POST /purge` with `"dry_run": true`: counts the stored pages that a purge would match, without purging.
//!
//! ```json
//! { "ok": true, "dry_run": true, "pages": 12, "complete": true }
//! ```
//! Variants of one URL count as one page, and pages that are already purged do not count. At most [`MAX_VISITED`] entries are
//! visited; if there are more, or a disk that may have others, `complete` is false and there may be more pages. Pages of which
//! only a fragment would be rendered again do not count: they stay stored.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Json;
use axum::http::StatusCode;
use galley_cache::entry::{Entry, EntryKind};
use galley_cache::purge_table::Validity;
use galley_policy::purge::{Purge, Scope};
use serde_json::json;

use super::AdminState;
use super::target::{JsonReply, refuse};
use galley_purging::{MAX_COUNT_STEPS, ScopeMatch};
use galley_request::{Site, site_mark};

/// Counts on a helper thread, because the walk would delay purges on this one.
pub(super) async fn reply(state: &Arc<AdminState>, purges: Vec<(Arc<Site>, Purge)>) -> JsonReply {
    let state = Arc::clone(state);
    match tokio::task::spawn_blocking(move || count(&state, &purges)).await {
        Ok(found) => (
            StatusCode::OK,
            Json(json!({
                "ok": true, "dry_run": true, "pages": found.pages, "complete": found.is_complete,
            })),
        ),
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// The result of a count.
struct DryRun {
    pages: usize,
    /// Whether all entries were visited, and the disk cannot have others.
    is_complete: bool,
}

fn count(state: &AdminState, purges: &[(Arc<Site>, Purge)]) -> DryRun {
    let matches: Vec<PurgeMatch<'_>> = purges
        .iter()
        .map(|(site, purge)| PurgeMatch::new(site, &purge.scope))
        .collect();
    let mut urls = HashSet::new();
    let mut steps = MAX_COUNT_STEPS;
    let mut is_compared = true;
    let mut entries = state.services.memory.entries();
    for entry in entries.by_ref().take(MAX_VISITED) {
        let is_touched = matches.iter().any(|one| {
            let is_match = one.matches(&entry, &mut steps);
            is_compared &= is_match.is_some();
            is_match == Some(true)
        });
        if is_touched {
            urls.insert((entry.scopes.host, entry.scopes.url));
        }
    }
    DryRun {
        pages: urls.len(),
        // The disk may have pages that are not in memory.
        is_complete: is_compared
            && entries.next().is_none()
            && purges.iter().all(|(site, _)| site.core.disk.is_none()),
    }
}

/// A purge of a site, prepared for comparison with many entries.
struct PurgeMatch<'a> {
    site: &'a Site,
    scope: ScopeMatch<'a>,
}

impl<'a> PurgeMatch<'a> {
    fn new(site: &'a Site, scope: &'a Scope) -> Self {
        Self {
            site,
            scope: ScopeMatch::new(scope),
        }
    }

    /// `None`: too many steps.
    fn matches(&self, entry: &Entry, steps: &mut usize) -> Option<bool> {
        let is_page =
            entry.kind == EntryKind::Page && site_mark(entry.key.bytes()) == Some(self.site.mark);
        if !is_page || !self.scope.is_match(&entry.scopes, steps)? {
            return Some(false);
        }
        let validity = self.site.core.purges.validity_waiting(entry);
        Some(!matches!(validity, Validity::Purged | Validity::Outdated))
    }
}

/// The maximum number of entries that one count visits: some milliseconds of a helper thread.
const MAX_VISITED: usize = 20_000;
