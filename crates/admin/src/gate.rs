//! The first step of each request: identifies the client, before anything of the body is read.
//!
//! Other users of the machine can connect to the unix socket as soon as a site has a token, and anybody can connect to a TCP
//! listener. Without a valid token they get a response, but no memory for a body.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State as Extract};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::Limited;

use super::AdminState;
use super::auth::{AdminClient, TokenReach, reach};
use super::target::unauthorized;

/// Refuses a request without a valid token, and limits the body of others by the reach of the token.
pub(super) async fn authorized(
    Extract(state): Extract<Arc<AdminState>>,
    client: AdminClient,
    request: Request,
    next: Next,
) -> Response {
    let limit = match reach(&state, &client) {
        TokenReach::All => MAX_BODY,
        TokenReach::Site(_) => MAX_SITE_BODY,
        // For orchestrators and load balancers.
        TokenReach::None if OPEN.contains(&request.uri().path()) => 0,
        TokenReach::None => return unauthorized().into_response(),
    };
    let request = request.map(|body| Body::new(Limited::new(body, limit)));
    next.run(request).await
}

/// The paths that need no token.
const OPEN: &[&str] = &["/livez", "/readyz"];

/// The maximum size of the operator's request body, in bytes: thousands of URLs.
pub(super) const MAX_BODY: usize = 1024 * 1024;

/// The same of a site's token, which PHP has: the WordPress plugin sends at most 500 URLs at once.
const MAX_SITE_BODY: usize = 512 * 1024;
