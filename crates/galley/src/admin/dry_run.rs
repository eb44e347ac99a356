//! `POST /purge` with `"dry_run": true`: how many stored pages a purge would touch, without purging.
//!
//! ```json
//! { "ok": true, "dry_run": true, "pages": 12, "complete": true }
//! ```
//!
//! Variants of one URL count as one page, and entries that are already purged are not counted. It visits at most
//! [`MOST_LOOKED`] entries; if there are more, `complete` is false and there may be more pages. Pages of which only a
//! fragment would be rendered again are not counted: they stay stored.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Json;
use axum::http::StatusCode;
use galley_cache::entry::{Entry, EntryKind};
use galley_cache::purge_table::Validity;
use galley_policy::key::{host_id, tag_id};
use galley_policy::purge::{Purge, Scope};
use serde_json::json;

use super::AdminState;
use super::target::{JsonReply, refuse};
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
    /// Whether it has seen every entry.
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
        is_complete: entries.next().is_none(),
    }
}

/// A purge, made ready to be compared with many entries.
struct Wanted<'a> {
    site: &'a Site,
    scope: WantedScope<'a>,
}

enum WantedScope<'a> {
    Tag(u64),
    Host(u64),
    Url {
        host: Option<u64>,
        path_query: Vec<u8>,
    },
    Other(&'a Scope),
}

impl<'a> Wanted<'a> {
    fn new(site: &'a Site, scope: &'a Scope) -> Self {
        let scope = match scope {
            Scope::Tag(tag) => WantedScope::Tag(tag_id(tag)),
            Scope::Host(host) => WantedScope::Host(host_id(host)),
            Scope::Url { host, path, query } => {
                let mut path_query = path.clone();
                if let Some(query) = query {
                    path_query.push(b'?');
                    path_query.extend_from_slice(query);
                }
                WantedScope::Url {
                    host: host.as_deref().map(host_id),
                    path_query,
                }
            }
            Scope::Site | Scope::Prefix(_) | Scope::Pattern(_) => WantedScope::Other(scope),
        };
        Self { site, scope }
    }

    fn touches(&self, entry: &Entry) -> bool {
        entry.kind == EntryKind::Page
            && site_mark(entry.key.bytes()) == Some(self.site.mark)
            && self.is_within(entry)
            && !matches!(
                self.site.core.purges.prove_waiting(entry),
                Validity::Purged | Validity::Outdated
            )
    }

    fn is_within(&self, entry: &Entry) -> bool {
        let scopes = &entry.scopes;
        match &self.scope {
            // A page whose tags are too many carries `*` alone, and every tag means it.
            WantedScope::Tag(tag) => scopes.tags.iter().any(|t| t == tag || *t == tag_id("*")),
            WantedScope::Host(host) => scopes.host == *host,
            WantedScope::Url { host, path_query } => {
                host.is_none_or(|host| host == scopes.host) && *scopes.path_query == **path_query
            }
            WantedScope::Other(Scope::Prefix(prefix)) => is_below(&scopes.path_query, prefix),
            WantedScope::Other(Scope::Pattern(pattern)) => pattern.matches(&scopes.path_query),
            WantedScope::Other(_) => true,
        }
    }
}

/// Whether a path with a query is at a prefix or below it, by whole segments.
fn is_below(path_query: &[u8], prefix: &[u8]) -> bool {
    let end = prefix
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |at| at + 1);
    let Some(rest) = prefix.get(..end).and_then(|p| path_query.strip_prefix(p)) else {
        return false;
    };
    matches!(rest, [] | [b'/' | b'?', ..])
}

/// Entries that one count looks at: some milliseconds of a helper thread.
const MOST_LOOKED: usize = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_at_segments() {
        for (path, is_in) in [
            (&b"/shop"[..], true),
            (b"/shop/", true),
            (b"/shop/a?b", true),
            (b"/shop?b", true),
            (b"/shopping", false),
            (b"/", false),
        ] {
            assert_eq!(is_below(path, b"/shop/"), is_in, "{path:?}");
            assert_eq!(is_below(path, b"/shop"), is_in, "{path:?}");
        }
    }
}
