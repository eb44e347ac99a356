//! Forwards the page's requests to the admin interface, and returns the responses.

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use galley_dashboard::AdminCall;
use galley_operator::ask::{AdminAddress, AdminError};

/// The admin interface behind the dashboard.
pub(super) struct AdminGateway {
    admin: AdminAddress,
    /// Limits the number of concurrent requests.
    places: Semaphore,
}

/// A response in JSON.
pub(super) type JsonResponse = (StatusCode, Json<Value>);

impl AdminGateway {
    pub(super) fn new(admin: AdminAddress) -> Self {
        Self {
            admin,
            places: Semaphore::new(MAX_CALLS),
        }
    }

    /// The status of the server.
    pub(super) async fn status(&self) -> Result<Value, AdminError> {
        self.admin
            .exchange_within(TIMEOUT, "GET", "/status", Bytes::new())
            .await
    }

    /// Forwards a call to the admin interface.
    pub(super) async fn ask(&self, call: AdminCall) -> JsonResponse {
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
        let response = self.admin.exchange_within(TIMEOUT, method, &target, body);
        match response.await {
            Ok(value) => (StatusCode::OK, Json(value)),
            Err(AdminError::Refused { status, error }) => {
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
                // 401 refers to the page's session, and must not be used for an invalid token of the command.
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

/// An error response with its reason.
pub(super) fn refuse(status: StatusCode, error: &str) -> JsonResponse {
    (status, Json(json!({ "ok": false, "error": error })))
}

/// The time limit for a request. A purge waits for the disk and the cluster.
const TIMEOUT: Duration = Duration::from_secs(30);

const MAX_CALLS: usize = 16;
