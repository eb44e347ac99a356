//! Forwards the page's requests to the admin interface, and returns the responses.

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::cli::ask::{AdminAddress, AdminError};
use crate::dashboard::AdminCall;

/// The admin interface behind the dashboard.
pub(super) struct AdminGateway {
    admin: AdminAddress,
    /// Questions at once.
    places: Semaphore,
}

/// An answer in JSON.
pub(super) type DashboardReply = (StatusCode, Json<Value>);

impl AdminGateway {
    pub(super) fn new(admin: AdminAddress) -> Self {
        Self {
            admin,
            places: Semaphore::new(MOST_QUESTIONS),
        }
    }

    /// What the server is and does.
    pub(super) async fn status(&self) -> Result<Value, AdminError> {
        self.admin
            .exchange_within(PATIENCE, "GET", "/status", Bytes::new())
            .await
    }

    /// What the admin interface answers to a call.
    pub(super) async fn ask(&self, call: AdminCall) -> DashboardReply {
        let Ok(_place) = self.places.try_acquire() else {
            return refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many concurrent dashboard requests: try again",
            );
        };
        let AdminCall {
            method,
            target,
            body,
        } = call;
        let answer = self.admin.exchange_within(PATIENCE, method, &target, body);
        match answer.await {
            Ok(value) => (StatusCode::OK, Json(value)),
            Err(AdminError::Refused { status, error }) => {
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
                // 401 is for the session of the page, which has nothing to do with the token of the command.
                let status = if status == StatusCode::UNAUTHORIZED {
                    StatusCode::FORBIDDEN
                } else {
                    status
                };
                refuse(status, &error)
            }
            Err(trouble) => refuse(StatusCode::BAD_GATEWAY, &trouble.to_string()),
        }
    }
}

/// A refusal with its reason.
pub(super) fn refuse(status: StatusCode, error: &str) -> DashboardReply {
    (status, Json(json!({ "ok": false, "error": error })))
}

/// A purge waits for the disk and the cluster.
const PATIENCE: Duration = Duration::from_secs(30);

const MOST_QUESTIONS: usize = 16;
