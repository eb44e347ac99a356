//! The dashboard of a site on the site's own address: the files of the page, the login, and the requests of the page.
//!
//! Front threads pass requests on ([`DashboardHost`]); the thread of the admin interface processes them. The page's queries use the
//! routes of the admin interface with the rights of the site's token, so this module has no separate authorization for them.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use base64ct::{Base64, Encoding};
use bytes::Bytes;
use galley_policy::access::{Bucket, RateLimit};
use galley_policy::outcome::RefusedWhy;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tower_service::Service;

use super::AdminState;
use super::auth::AdminPeer;
use super::state::AdminShared;
use galley_access::PasswordCheck;
use galley_dashboard::{
    AdminCall, SESSION_LIFETIME, SessionSecrets, action, check, find_asset, protect, read, secrets,
};
use galley_request::{
    DashboardFuture, DashboardHost, DashboardRequest, DashboardResponse, SiteDashboard,
    limited_site,
};

/// Processes the requests to the dashboards of all sites.
#[derive(Clone)]
pub(super) struct SiteDashboards {
    runtime: Handle,
    router: Router,
    shared: AdminShared,
    /// Permits for concurrent queries.
    permits: Arc<Semaphore>,
}

impl DashboardHost for SiteDashboards {
    fn respond(&self, request: DashboardRequest) -> DashboardFuture {
        let dashboard = self.clone();
        let response = self
            .runtime
            .spawn(async move { dashboard.handle(&request).await });
        Box::pin(async move { response.await.ok() })
    }
}

impl SiteDashboards {
    pub(super) fn new(runtime: Handle, router: Router, shared: AdminShared) -> Self {
        Self {
            runtime,
            router,
            shared,
            permits: Arc::new(Semaphore::new(MAX_QUERIES)),
        }
    }

    async fn handle(&self, request: &DashboardRequest) -> DashboardResponse {
        let state = self.shared.now();
        let site = state.sites.iter().find(|site| site.row == request.row);
        let mut response = match site.and_then(|site| site.dashboard.as_ref()) {
            Some(dashboard) => self.route(dashboard, request).await,
            // A reload has removed the dashboard.
            None => refuse(404, "there is nothing here"),
        };
        protect(&mut response.fields);
        response
    }

    async fn route(
        &self,
        dashboard: &SiteDashboard,
        request: &DashboardRequest,
    ) -> DashboardResponse {
        let Some(path) = request.path.strip_prefix(&dashboard.path) else {
            return moved(dashboard);
        };
        let Ok(method) = Method::from_bytes(request.method.as_bytes()) else {
            return not_allowed();
        };
        let asset = find_asset(path);
        let origin = Some(request.origin.as_str());
        if let Err(refusal) = check(origin, &method, &request.fields, asset.is_some()) {
            return refuse(refusal.status().as_u16(), refusal.text());
        }
        let is_read = matches!(method, Method::GET | Method::HEAD);
        match (asset, path.strip_prefix("api/")) {
            (Some(asset), _) if is_read => file(asset.content_type, asset.path, asset.bytes),
            (None, Some(name)) if is_read => self.read(dashboard, request, name).await,
            (None, Some(name)) if method == Method::POST => {
                self.action(dashboard, request, name).await
            }
            (None, None) if path == "login" && method == Method::POST => {
                self.login(dashboard, request).await
            }
            (None, None) if is_read => refuse(404, "there is nothing here"),
            _ => not_allowed(),
        }
    }

    async fn login(
        &self,
        dashboard: &SiteDashboard,
        request: &DashboardRequest,
    ) -> DashboardResponse {
        let state = self.shared.now();
        let opened = match compare(&state, dashboard, request).await {
            PasswordCheck::Right => state.process_state.logins.open(request.row, dashboard),
            PasswordCheck::Wrong => {
                return DashboardResponse {
                    refused: Some(RefusedWhy::Password),
                    ..refuse(403, "the name or the password is wrong")
                };
            }
            PasswordCheck::TooMany(wait) => return too_many(wait),
        };
        match opened {
            Ok(secrets) => {
                let age = SESSION_LIFETIME.as_secs();
                let cookie = cookie(dashboard, request, &secrets.cookie, age);
                let mut response =
                    value(StatusCode::OK, &json!({ "ok": true, "key": secrets.key }));
                response.fields.insert(header::SET_COOKIE, cookie);
                response
            }
            Err(error) => refuse(500, &error.to_string()),
        }
    }

    /// The secrets of a request, if they belong to an open session.
    fn session(
        &self,
        dashboard: &SiteDashboard,
        request: &DashboardRequest,
    ) -> Option<SessionSecrets> {
        let given = secrets(cookie_name(request), &request.fields)?;
        let logins = &self.shared.now().process_state.logins;
        let is_open = logins.is_open(request.row, dashboard, &given);
        is_open.then_some(given)
    }

    async fn read(
        &self,
        dashboard: &SiteDashboard,
        request: &DashboardRequest,
        name: &str,
    ) -> DashboardResponse {
        if self.session(dashboard, request).is_none() {
            return not_signed_in();
        }
        match read(name, request.query.as_deref()) {
            Some(call) => self.query(request, call).await,
            None => refuse(404, "there is no such query"),
        }
    }

    async fn action(
        &self,
        dashboard: &SiteDashboard,
        request: &DashboardRequest,
        name: &str,
    ) -> DashboardResponse {
        let Some(session) = self.session(dashboard, request) else {
            return not_signed_in();
        };
        if name == "logout" {
            let logins = &self.shared.now().process_state.logins;
            logins.end(request.row, dashboard, &session);
            let mut response = value(StatusCode::OK, &json!({ "ok": true }));
            let expired = cookie(dashboard, request, "", 0);
            response.fields.insert(header::SET_COOKIE, expired);
            return response;
        }
        match action(name, request.body.clone()) {
            Some(call) => self.query(request, call).await,
            None => refuse(404, "there is no such command"),
        }
    }

    /// Sends a query to the admin interface with the rights of the site's token.
    async fn query(&self, request: &DashboardRequest, call: AdminCall) -> DashboardResponse {
        let Ok(_permit) = self.permits.try_acquire() else {
            return refuse(503, "too many concurrent dashboard requests: try again");
        };
        let built = Request::builder()
            .method(call.method)
            .uri(call.target)
            .header(header::CONTENT_TYPE, JSON)
            .extension(AdminPeer::Dashboard(request.row))
            .body(Body::from(call.body));
        let Ok(built) = built else {
            return refuse(400, "the query cannot be read");
        };
        let exchange = async {
            let response = match self.router.clone().call(built).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            // On the page, 401 means that its session has ended.
            let status = match response.status() {
                StatusCode::UNAUTHORIZED => StatusCode::FORBIDDEN,
                status => status,
            };
            let body = to_bytes(response.into_body(), MAX_RESPONSE).await;
            body.map(|body| reply(status, body))
        };
        match tokio::time::timeout(QUERY_TIMEOUT, exchange).await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) => refuse(502, "the answer is too long"),
            Err(_) => refuse(504, "the admin interface takes too long"),
        }
    }
}

/// The body of a login.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DashboardLogin {
    name: String,
    password: String,
}

/// Checks the name and the password of a login. The number of attempts of a client is limited.
async fn compare(
    state: &AdminState,
    dashboard: &SiteDashboard,
    request: &DashboardRequest,
) -> PasswordCheck {
    let given = serde_json::from_slice::<DashboardLogin>(&request.body);
    let Some(given) = given.ok().filter(|given| !given.name.contains(':')) else {
        return PasswordCheck::Wrong;
    };
    let pair = format!("{}:{}", given.name, given.password);
    let credentials = Base64::encode_string(pair.as_bytes());
    let (clients, now) = (&state.services.clients, state.services.clock.tick());
    let site = state.sites.iter().find(|site| site.row == request.row);
    let limit = RateLimit::new(ATTEMPTS.0, 60, ATTEMPTS.1);
    let may_compare = || match (site, limit) {
        (Some(site), Some(limit)) => {
            let (site, client) = (limited_site(site), request.client);
            clients.take(site, Bucket::Dashboard, &limit, client, now)
        }
        _ => Ok(()),
    };
    clients
        .compare(&dashboard.passwords, credentials.as_bytes(), may_compare)
        .await
}

fn reply(status: StatusCode, body: Bytes) -> DashboardResponse {
    let mut fields = HeaderMap::new();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    DashboardResponse {
        status: status.as_u16(),
        fields,
        body,
        refused: None,
    }
}

fn value(status: StatusCode, value: &Value) -> DashboardResponse {
    reply(status, value.to_string().into())
}

fn refuse(status: u16, error: &str) -> DashboardResponse {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    value(status, &json!({ "ok": false, "error": error }))
}

fn not_allowed() -> DashboardResponse {
    let mut response = refuse(405, "this method is not served here");
    let allow = HeaderValue::from_static("GET, HEAD, POST");
    response.fields.insert(header::ALLOW, allow);
    response
}

fn not_signed_in() -> DashboardResponse {
    refuse(401, "not signed in: reload the page and sign in")
}

fn too_many(wait: Duration) -> DashboardResponse {
    let mut response = refuse(429, "too many attempts: try again in a minute");
    let seconds = wait.as_millis().div_ceil(1_000).max(1);
    let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
    response
        .fields
        .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    DashboardResponse {
        refused: Some(RefusedWhy::Limited),
        ..response
    }
}

/// Redirects the path without the trailing slash to the path with it.
fn moved(dashboard: &SiteDashboard) -> DashboardResponse {
    let mut response = reply(StatusCode::PERMANENT_REDIRECT, Bytes::new());
    if let Ok(location) = HeaderValue::from_str(&dashboard.path) {
        response.fields.insert(header::LOCATION, location);
    }
    response
}

/// Returns a file of the page. The HTML file is changed to show the login with a password.
fn file(content_type: &'static str, path: &str, bytes: &'static [u8]) -> DashboardResponse {
    let mut response = reply(StatusCode::OK, Bytes::from_static(bytes));
    if path.is_empty() {
        let page = String::from_utf8_lossy(bytes);
        response.body = page.replacen(LOGIN_BY_ADDRESS, LOGIN_BY_PASSWORD, 1).into();
    }
    let content_type = HeaderValue::from_static(content_type);
    response.fields.insert(header::CONTENT_TYPE, content_type);
    response
}

/// The cookie of a session. Browsers send it only to this path of this host, and only over TLS, except on this machine.
fn cookie(
    dashboard: &SiteDashboard,
    request: &DashboardRequest,
    secret: &str,
    age: u64,
) -> HeaderValue {
    let secure = if has_tls(request) { "; Secure" } else { "" };
    let text = format!(
        "{}={secret}; HttpOnly; SameSite=Strict{secure}; Path={}; Max-Age={age}",
        cookie_name(request),
        dashboard.path,
    );
    // Path and secret contain only valid characters.
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

/// The name of the cookie; with TLS, one that browsers only accept over TLS.
fn cookie_name(request: &DashboardRequest) -> &'static str {
    if has_tls(request) {
        "__Secure-galley-dashboard"
    } else {
        "galley-dashboard"
    }
}

fn has_tls(request: &DashboardRequest) -> bool {
    request.origin.starts_with("https://")
}

/// The way to sign in, as an attribute in the HTML.
const LOGIN_BY_ADDRESS: &str = "data-login=\"address\"";
const LOGIN_BY_PASSWORD: &str = "data-login=\"password\"";

const JSON: &str = "application/json";

/// The login attempts of one client: per minute, and as a burst.
const ATTEMPTS: (u64, u64) = (5, 10);

/// The timeout of a query; a purge waits for the disk and the cluster.
const QUERY_TIMEOUT: Duration = Duration::from_secs(30);

const MAX_QUERIES: usize = 16;

/// The maximum size of a response, in bytes.
const MAX_RESPONSE: usize = 64 * 1024 * 1024;
