//! The routes of the dashboard's web server: files of the page, login, queries, actions, live figures.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, RawQuery, Request, State as Extract};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;

use super::forward::refuse;
use super::state::Dashboard;
use galley_dashboard::{
    DashboardAsset, MAX_BODY, SESSION_LIFETIME, SessionSecrets, action, check, find_asset, one,
    protect, read,
};

/// All routes. Only the files of the page and the login need no session.
pub(super) fn router(dashboard: &Arc<Dashboard>) -> Router {
    let with_session = Router::new()
        .route("/api/live", get(live))
        .route("/api/logout", post(logout))
        .route("/api/{name}", get(serve_read).post(serve_action))
        .layer(from_fn_with_state(Arc::clone(dashboard), signed_in));
    Router::new()
        .route("/login", post(login))
        .merge(with_session)
        .fallback(asset)
        .layer(from_fn_with_state(Arc::clone(dashboard), guarded))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(Arc::clone(dashboard))
}

/// Checks each request first, and adds security fields to each response.
async fn guarded(
    Extract(dashboard): Extract<Arc<Dashboard>>,
    request: Request,
    next: Next,
) -> Response {
    let is_asset = find(request.uri().path()).is_some();
    let fields = request.headers();
    let host = one(fields, &header::HOST).unwrap_or_default();
    let origin = dashboard.address.origin(host);
    let checked = check(origin.as_deref(), request.method(), fields, is_asset);
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(refusal) => refuse(refusal.status(), refusal.text()).into_response(),
    };
    protect(response.headers_mut());
    response
}

async fn signed_in(
    Extract(dashboard): Extract<Arc<Dashboard>>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(secrets) = dashboard.session(request.headers()) else {
        let why = "not signed in: open the address that `galley dashboard` prints";
        return refuse(StatusCode::UNAUTHORIZED, why).into_response();
    };
    request.extensions_mut().insert(secrets);
    next.run(request).await
}

fn find(path: &str) -> Option<&'static DashboardAsset> {
    path.strip_prefix('/').and_then(find_asset)
}

async fn asset(request: Request) -> Response {
    match find(request.uri().path()) {
        Some(asset) => ([(header::CONTENT_TYPE, asset.content_type)], asset.bytes).into_response(),
        None => refuse(StatusCode::NOT_FOUND, "there is nothing here").into_response(),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    token: String,
}

/// Exchanges a login token for a session.
async fn login(
    Extract(dashboard): Extract<Arc<Dashboard>>,
    Json(Login { token }): Json<Login>,
) -> Response {
    let redeemed = dashboard.sessions().redeem(&token, Instant::now());
    let secrets = match redeemed {
        Ok(Some(secrets)) => secrets,
        Ok(None) => {
            let why = "this address has been used or has expired: press Enter where `galley dashboard` runs to get a new one";
            return refuse(StatusCode::FORBIDDEN, why).into_response();
        }
        Err(error) => {
            return refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()).into_response();
        }
    };
    let cookie = format!(
        "{}={}; HttpOnly; SameSite=Strict; Path=/; Max-Age={}",
        dashboard.address.cookie(),
        secrets.cookie,
        SESSION_LIFETIME.as_secs()
    );
    let body = Json(json!({ "ok": true, "key": secrets.key }));
    ([(header::SET_COOKIE, cookie)], body).into_response()
}

async fn logout(
    Extract(dashboard): Extract<Arc<Dashboard>>,
    axum::Extension(secrets): axum::Extension<SessionSecrets>,
) -> Response {
    dashboard.sessions().end(&secrets);
    let gone = format!(
        "{}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0",
        dashboard.address.cookie()
    );
    ([(header::SET_COOKIE, gone)], Json(json!({ "ok": true }))).into_response()
}

async fn serve_read(
    Extract(dashboard): Extract<Arc<Dashboard>>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    match read(&name, query.as_deref()) {
        Some(call) => dashboard.gateway.ask(call).await.into_response(),
        None => refuse(StatusCode::NOT_FOUND, "there is no such query").into_response(),
    }
}

async fn serve_action(
    Extract(dashboard): Extract<Arc<Dashboard>>,
    Path(name): Path<String>,
    body: Bytes,
) -> Response {
    match action(&name, body) {
        Some(call) => dashboard.gateway.ask(call).await.into_response(),
        None => refuse(StatusCode::NOT_FOUND, "there is no such command").into_response(),
    }
}

async fn live(
    Extract(dashboard): Extract<Arc<Dashboard>>,
    axum::Extension(secrets): axum::Extension<SessionSecrets>,
) -> Response {
    let Some(events) = dashboard.live.join(secrets) else {
        let why = "too many dashboards are open: close one";
        return refuse(StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    };
    let mut response = Response::new(Body::new(events));
    let stream = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, stream);
    response
}
