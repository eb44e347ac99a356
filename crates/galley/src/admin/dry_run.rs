//! `POST /purge` with `"dry_run": true`: how many stored pages a purge would touch, without purging.
//!
//! ```json
//! { "ok": true, "dry_run": true, "pages": 12, "complete": true }
//! ```
//! Variants of one URL are one page, and what is purged already is none. It looks at no more than [`MOST_LOOKED`] entries;
//! where there are more, or a disk that may have others, `complete` is false and there may be more pages. Pages of which only a fragment would be rendered
//! again are not counted: they stay stored.

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
use crate::durable::ScopeMatch;
use crate::request::{Site, site_mark};

/// Counts on a helper thread: the walk would hold up purges otherwise.
pub(super) async fn reply(state: &Arc<AdminState>, orders: Vec<(Arc<Site>, Purge)>) -> JsonReply {
    let state = Arc::clone(state);
    match tokio::task::spawn_blocking(move || count(&state, &orders)).await {
        Ok(found) => (
            StatusCode::OK,
            Json(json!({
                "ok": true, "dry_run": true, "pages": found.pages, "complete": found.is_complete,
            })),
        ),
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// What a walk has counted.
struct DryRun {
    pages: usize,
    /// Whether it has seen every entry, and there can be no others.
    is_complete: bool,
}

fn count(state: &AdminState, orders: &[(Arc<Site>, Purge)]) -> DryRun {
    let wanted: Vec<Wanted<'_>> = orders
        .iter()
        .map(|(site, purge)| Wanted::new(site, &purge.scope))
        .collect();
    let mut urls = HashSet::new();
    let mut entries = state.services.memory.entries();
    for entry in entries.by_ref().take(MOST_LOOKED) {
        if wanted.iter().any(|wanted| wanted.touches(&entry)) {
            urls.insert((entry.scopes.host, entry.scopes.url));
        }
    }
    DryRun {
        pages: urls.len(),
        // The disk may have pages that the memory does not have.
        is_complete: entries.next().is_none()
            && orders.iter().all(|(site, _)| site.core.disk.is_none()),
    }
}

/// A purge of a site, made ready to be compared with many entries.
struct Wanted<'a> {
    site: &'a Site,
    scope: ScopeMatch<'a>,
}

impl<'a> Wanted<'a> {
    fn new(site: &'a Site, scope: &'a Scope) -> Self {
        Self {
            site,
            scope: ScopeMatch::new(scope),
        }
    }

    fn touches(&self, entry: &Entry) -> bool {
        entry.kind == EntryKind::Page
            && site_mark(entry.key.bytes()) == Some(self.site.mark)
            && self.scope.is_match(&entry.scopes)
            && !matches!(
                self.site.core.purges.prove_waiting(entry),
                Validity::Purged | Validity::Outdated
            )
    }
}

/// Entries that one count looks at: some milliseconds of a helper thread.
const MOST_LOOKED: usize = 20_000;
