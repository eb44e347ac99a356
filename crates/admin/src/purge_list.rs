//! `GET /purges`: the last purges of each site, the newest first: scope, source and time. The list is empty after a restart.
//!
//! `?site=HOST` selects one site. A purge never searches for entries: the number of stored pages that it matched is counted a
//! moment later (`app::purge_counts`), and `pages` is null until then. If `complete` is false, there may be more.
//!
//! ```json
//! { "ok": true, "sites": [ { "name": "example.com", "published": 7, "purges": [ { "scope": "url example.com/x/", "strength": "hard",
//!   "source": "upstream", "label": "Edit of “Hello”", "ago_s": 12, "ago_ms": 12345, "pages": 1, "complete": true } ] } ] }
//! ```

use std::sync::Arc;

use axum::extract::{RawQuery, State as Extract};
use galley_policy::purge::PurgeLabel;
use serde_json::{Value, json};

use super::AdminState;
use super::auth::AdminClient;
use super::query::each_site;
use super::target::JsonResult;
use galley_request::Site;

/// Handles `GET /purges`.
pub(super) async fn purges(
    Extract(state): Extract<Arc<AdminState>>,
    client: AdminClient,
    RawQuery(query): RawQuery,
) -> JsonResult {
    each_site(&state, &client, query.as_deref(), of_site)
}

fn of_site(state: &AdminState, site: &Site) -> Value {
    let now = state.services.clock.tick();
    let recent = site.core.purges.recent().into_iter();
    let purges: Vec<Value> = recent
        .map(|purge| {
            json!({
                "scope": purge.scope, "strength": purge.strength.word(), "source": purge.source.word(),
                "label": purge.label.as_ref().map(PurgeLabel::as_str),
                "ago_s": now.since(purge.at).as_secs(),
                "ago_ms": u64::try_from(now.since(purge.at).as_millis()).unwrap_or(u64::MAX),
                "pages": purge.pages.map(|counted| counted.pages),
                "complete": purge.pages.map(|counted| counted.is_complete),
            })
        })
        .collect();
    json!({ "name": site.core.name, "published": site.core.purges.published(), "purges": purges })
}
