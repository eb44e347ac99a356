//! `GET /purges`: the latest purges of each site, the newest first: what, by whom, when. A restart begins the list anew.
//!
//! `?site=HOST` asks for one site. A purge never searches for entries, so how many pages it touched is not known.
//!
//! ```json
//! { "ok": true, "sites": [ { "name": "example.com", "given": 7, "purges": [ { "scope": "url example.com/x/", "strength": "hard",
//!   "source": "upstream", "ago_s": 12 } ] } ] }
//! ```

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State as Extract};
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::AdminState;
use super::auth::Asker;
use super::entry::strength;
use super::query::QueryParams;
use super::target::{JsonReply, target};
use crate::request::Site;

/// Handles `GET /purges`.
pub(super) async fn purges(
    Extract(state): Extract<Arc<AdminState>>,
    asker: Asker,
    RawQuery(query): RawQuery,
) -> JsonReply {
    let query = QueryParams::read(query.as_deref(), &["site"]);
    let target = match query.and_then(|query| target(&state, &asker, query.get("site"))) {
        Ok(target) => target,
        Err(reply) => return reply,
    };
    let sites: Vec<Value> = target.sites.iter().map(|s| of_site(&state, s)).collect();
    (StatusCode::OK, Json(json!({ "ok": true, "sites": sites })))
}

fn of_site(state: &AdminState, site: &Site) -> Value {
    let now = state.services.clock.tick();
    let recent = site.core.purges.recent().into_iter();
    let purges: Vec<Value> = recent
        .map(|purge| {
            json!({
                "scope": purge.scope, "strength": strength(purge.strength), "source": purge.source.word(),
                "ago_s": now.since(purge.at).as_secs(),
            })
        })
        .collect();
    json!({ "name": site.core.name, "given": site.core.purges.given(), "purges": purges })
}
