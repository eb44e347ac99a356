//! `POST /cron`: the plugin announces when WordPress's scheduler has tasks, if no response could carry that.
//!
//! ```json
//! { "site": "example.com", "due_ms": [12000, 90000] }
//! ```
//!
//! The times are milliseconds from now. They replace the times that were announced before; the limits are those of the field
//! (`policy::appointments`). Without `site` the token must belong to one site.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State as Extract;
use axum::http::StatusCode;
use galley_policy::appointments;
use serde::Deserialize;
use serde_json::json;

use super::AdminState;
use super::auth::{AdminClient, reach};
use super::purges::targets;
use super::target::{JsonResult, refuse};

/// The body of an announcement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CronAnnouncement {
    #[serde(default)]
    site: Option<String>,
    due_ms: Vec<u64>,
}

/// Handles `POST /cron`.
pub(super) async fn announce(
    Extract(state): Extract<Arc<AdminState>>,
    client: AdminClient,
    body: Json<CronAnnouncement>,
) -> JsonResult {
    let CronAnnouncement { site, due_ms } = body.0;
    let targets = targets(&state, reach(&state, &client), site.as_deref())?;
    let [target] = targets.as_slice() else {
        let why = "this token is for several sites: give `site`";
        return Err(refuse(StatusCode::BAD_REQUEST, why));
    };
    let left = appointments::within_bounds(due_ms);
    target.core.cron.announce(&left, Duration::ZERO);
    let body = json!({ "ok": true, "appointments": left.len() });
    Ok((StatusCode::OK, Json(body)))
}
