//! Authorization: which sites a request to the admin interface may access.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq;

use super::AdminState;
use crate::operator_http::Peer;

/// The sites that a request may access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenReach {
    /// Every site.
    All,
    /// The site of this index.
    Site(usize),
    /// No site.
    None,
}

/// The client behind a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdminPeer {
    /// The server's own user or root, according to the kernel.
    Operator,
    /// The dashboard of the site with this row in the counters, for a signed-in user.
    Dashboard(u32),
    /// Any other client.
    Other,
}

/// The sender of a request: the peer of the connection, and the token.
#[derive(Debug)]
pub(super) struct AdminClient {
    peer: AdminPeer,
    token: Option<String>,
}

impl<S: Sync> FromRequestParts<S> for AdminClient {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let dashboard = parts.extensions.get::<AdminPeer>().copied();
        let of_connection = || match parts.extensions.get::<Peer>() {
            Some(Peer::Operator) => AdminPeer::Operator,
            Some(Peer::User(_) | Peer::Network(_)) | None => AdminPeer::Other,
        };
        Ok(Self {
            peer: dashboard.unwrap_or_else(of_connection),
            token: bearer(&parts.headers).map(str::to_owned),
        })
    }
}

/// Authorizes a request by the bearer token, compared in constant time. The operator needs no token, but a token must be valid.
pub(super) fn reach(state: &AdminState, client: &AdminClient) -> TokenReach {
    let Some(given) = client.token.as_deref() else {
        return match client.peer {
            AdminPeer::Operator => TokenReach::All,
            AdminPeer::Dashboard(row) => {
                let site = state.sites.iter().position(|site| site.row == row);
                site.map_or(TokenReach::None, TokenReach::Site)
            }
            AdminPeer::Other => TokenReach::None,
        };
    };
    if state
        .token
        .as_deref()
        .is_some_and(|token| same(token, given))
    {
        return TokenReach::All;
    }
    let site = state.sites.iter().position(|site| {
        site.token
            .as_deref()
            .is_some_and(|token| same(token, given))
    });
    site.map_or(TokenReach::None, TokenReach::Site)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(token.trim())
}

fn same(a: &str, b: &str) -> bool {
    !a.is_empty() && a.as_bytes().ct_eq(b.as_bytes()).into()
}
