//! `GET /livez` and `GET /readyz`, for orchestrators and load balancers: no token, one word.
//!
//! A server is ready when it may use stored pages (a node of a cluster must read the purges of the others) and the upstream of
//! every site has sent one response since the start. An upstream that fails later does not make the server unready, because it
//! still has the stored pages. Purge log and disk are read before the admin interface opens.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State as Extract;
use axum::http::StatusCode;
use serde_json::json;
use tokio::task::JoinSet;

use super::AdminState;
use super::auth::{AdminClient, TokenReach, reach};
use super::target::JsonReply;
use galley_fetch::cron::CronError;
use galley_request::{Site, probe};

/// Handles `GET /livez`.
pub(super) async fn live() -> &'static str {
    "ok\n"
}

/// Handles `GET /readyz`. Only a client with the server's token gets the reasons, because they name sites.
pub(super) async fn ready(
    Extract(state): Extract<Arc<AdminState>>,
    client: AdminClient,
) -> JsonReply {
    let mut reasons = Vec::new();
    let services = &state.services;
    if let Some(cluster) = &services.cluster {
        // A server that runs without the engine of the cluster has a lease from the start.
        let has_read = cluster.status().has_read;
        if !has_read || !services.lease.holds(services.clock.tick()) {
            reasons.push("this node does not read the purges of the cluster".to_owned());
        }
    }
    reasons.extend(upstreams(&state).await);
    let mut body = json!({ "ready": reasons.is_empty() });
    let status = if reasons.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    if reach(&state, &client) == TokenReach::All && !reasons.is_empty() {
        body["reasons"] = json!(reasons);
    }
    (status, Json(body))
}

/// Sends one request to each upstream that has not responded yet, all at the same time. Returns why the others are not ready.
async fn upstreams(state: &AdminState) -> Vec<String> {
    let mut ready = state.process_state.ready_sites.lock().await;
    let mut probes = JoinSet::new();
    for site in state.sites.iter().filter(|site| !ready.contains(&site.row)) {
        probes.spawn(has_responded(Arc::clone(site)));
    }
    let mut reasons = Vec::new();
    while let Some(probed) = probes.join_next().await {
        match probed {
            Ok((row, None)) => {
                ready.insert(row);
            }
            Ok((_, Some(reason))) => reasons.push(reason),
            Err(error) => reasons.push(error.to_string()),
        }
    }
    reasons.sort_unstable();
    reasons
}

/// The row of the site, and why it is not ready.
async fn has_responded(site: Arc<Site>) -> (u32, Option<String>) {
    let name = &site.core.name;
    let reason = match tokio::time::timeout(PROBE_TIME, probe(&site)).await {
        Ok(Some(Err(CronError::Status(status)))) if status.is_server_error() => Some(format!(
            "site `{name}`: the upstream responded with status {status}"
        )),
        // Any other response shows that the upstream works; a site whose front page has no script needs no upstream.
        Ok(None | Some(Ok(()) | Err(CronError::Missing | CronError::Status(_)))) => None,
        Ok(Some(Err(trouble))) => Some(format!("site `{name}`: the upstream: {trouble}")),
        Err(_late) => Some(format!(
            "site `{name}`: the upstream has not responded within {} s",
            PROBE_TIME.as_secs()
        )),
    };
    (site.row, reason)
}

/// Orchestrators wait for a second by default; their next request gets newer results.
const PROBE_TIME: Duration = Duration::from_secs(5);
