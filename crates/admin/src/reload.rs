//! `POST /reload`: the control thread reads the configuration again, and the response reports the result.
//!
//! `{ "compare": true }` changes nothing and returns what a reload would change. Requires the server's token.
//!
//! ```json
//! { "ok": true, "changes": ["site `b.test`: added"], "restart": ["cache.memory"], "files": ["/etc/galley/galley.toml"] }
//! { "ok": false, "invalid": true, "error": "..." }
//! ```

use std::sync::Arc;

use axum::Json;
use axum::extract::State as Extract;
use axum::http::StatusCode;
use serde::Deserialize;
use tokio::sync::oneshot;

use super::AdminState;
use super::auth::AdminClient;
use super::reload_result::{ControlRequest, ReloadAction, ReloadError, ReloadRequest, value};
use super::target::{JsonResult, refuse, server_token};

/// The body of a reload request.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReloadOrder {
    #[serde(default)]
    compare: bool,
}

/// Handles `POST /reload`.
pub(super) async fn reload(
    Extract(state): Extract<Arc<AdminState>>,
    client: AdminClient,
    request: Json<ReloadOrder>,
) -> JsonResult {
    server_token(&state, &client, "a reload")?;
    let action = if request.0.compare {
        ReloadAction::Compare
    } else {
        ReloadAction::Apply
    };
    let (reply, result) = oneshot::channel();
    let control = state.process_state.control.clone();
    // The old state must not be kept alive until the reload ends.
    drop(state);
    let busy = || {
        refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            "the server is busy with another reload, or is ending: try again",
        )
    };
    let order = ControlRequest::Reload(ReloadRequest { action, reply });
    control.try_send(order).map_err(|_| busy())?;
    let result = result.await.map_err(|_| busy())?;
    let status = match &result {
        Ok(_) => StatusCode::OK,
        Err(ReloadError::Invalid(_)) => StatusCode::UNPROCESSABLE_ENTITY,
        Err(ReloadError::Failed(_)) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Ok((status, Json(value(&result))))
}
