//! `POST /upgrade`: the control thread starts the new program and hands over to it, and the response reports the result.
//!
//! Requires the server's token. The request cannot name a program: it is always the one that was started.
//!
//! ```json
//! { "ok": true, "pid": 4711, "pages": 812, "pools": 1, "milliseconds": 240 }
//! { "ok": false, "restart": false, "error": "..." }
//! ```
//!
//! Errors: 409 with `"restart": true` if only a restart can start the new program, otherwise 500. In both cases the old process
//! continues to serve.

use std::sync::Arc;

use axum::Json;
use axum::extract::State as Extract;
use axum::http::StatusCode;
use serde_json::json;
use tokio::sync::oneshot;

use super::AdminState;
use super::auth::AdminClient;
use super::reload_result::{ControlRequest, UpgradeError};
use super::target::{JsonResult, refuse, server_token};

/// Handles `POST /upgrade`.
pub(super) async fn upgrade(
    Extract(state): Extract<Arc<AdminState>>,
    client: AdminClient,
) -> JsonResult {
    server_token(&state, &client, "an upgrade")?;
    let (reply, result) = oneshot::channel();
    let control = state.process_state.control.clone();
    drop(state);
    let busy = || {
        refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            "the server is busy with a reload or another upgrade, or is ending: try again",
        )
    };
    let order = ControlRequest::Upgrade(reply);
    control.try_send(order).map_err(|_| busy())?;
    Ok(match result.await.map_err(|_| busy())? {
        Ok(report) => (
            StatusCode::OK,
            Json(json!({
                "ok": true, "pid": report.pid, "pages": report.pages, "pools": report.pools,
                "milliseconds": report.milliseconds,
            })),
        ),
        Err(error) => {
            let (status, restart) = match &error {
                UpgradeError::NeedsRestart(_) => (StatusCode::CONFLICT, true),
                UpgradeError::Failed(_) => (StatusCode::INTERNAL_SERVER_ERROR, false),
            };
            let body = json!({ "ok": false, "restart": restart, "error": error.reason() });
            (status, Json(body))
        }
    })
}
