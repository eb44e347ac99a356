//! Selects the sites of a query: those of its token, or the site of a named host.

use std::sync::Arc;

use axum::Json;
use axum::http::StatusCode;
use galley_policy::route::canonical_host;
use serde_json::{Value, json};

use super::AdminState;
use super::auth::{AdminClient, TokenReach, reach};
use crate::request::Site;

/// A response in JSON.
pub(super) type JsonReply = (StatusCode, Json<Value>);

/// The parts of the server that a query may see.
pub(super) struct SiteSelection {
    /// The selected sites.
    pub(super) sites: Vec<Arc<Site>>,
    /// Whether information that does not belong to one site is shown, too.
    pub(super) view: AdminView,
}

/// How much of the server is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdminView {
    /// All information.
    Server,
    /// Only information about the sites.
    Sites,
}

impl SiteSelection {
    fn one(site: Arc<Site>) -> Self {
        Self {
            sites: vec![site],
            view: AdminView::Sites,
        }
    }
}

/// An error response with its reason.
pub(super) fn refuse(status: StatusCode, error: &str) -> JsonReply {
    (status, Json(json!({ "ok": false, "error": error })))
}

/// The sites that the token of a query may access; with `host` only the site of that host.
///
/// With a site's token, the response is the same for hosts of other sites and for unknown hosts.
pub(super) fn target(
    state: &AdminState,
    client: &AdminClient,
    host: Option<&str>,
) -> Result<SiteSelection, JsonReply> {
    let reach = reach(state, client);
    let Some(host) = host else {
        return whole(state, reach);
    };
    let site = find(state, host);
    match (reach, site) {
        (TokenReach::None, _) => Err(unauthorized()),
        (TokenReach::All, None) => Err(refuse(
            StatusCode::NOT_FOUND,
            &format!("no site `{host}`: `galley status` lists the sites"),
        )),
        (TokenReach::Site(own), site) => match site.filter(|site| is_number(site, own)) {
            Some(site) => Ok(SiteSelection::one(site)),
            None => Err(forbidden()),
        },
        (TokenReach::All, Some(site)) => Ok(SiteSelection::one(site)),
    }
}

fn whole(state: &AdminState, reach: TokenReach) -> Result<SiteSelection, JsonReply> {
    match reach {
        TokenReach::All => Ok(SiteSelection {
            sites: state.sites.to_vec(),
            view: AdminView::Server,
        }),
        TokenReach::Site(own) => Ok(SiteSelection {
            sites: state.sites.get(own).map(Arc::clone).into_iter().collect(),
            view: AdminView::Sites,
        }),
        TokenReach::None => Err(unauthorized()),
    }
}

/// Requires the server's token, because `what` affects every site.
pub(super) fn server_token(
    state: &AdminState,
    client: &AdminClient,
    what: &str,
) -> Result<(), JsonReply> {
    match reach(state, client) {
        TokenReach::All => Ok(()),
        TokenReach::Site(_) => Err(refuse(
            StatusCode::FORBIDDEN,
            &format!("{what} needs the server's token; this token is for a single site"),
        )),
        TokenReach::None => Err(unauthorized()),
    }
}

/// The site of a host on any listener.
pub(super) fn find(state: &AdminState, host: &str) -> Option<Arc<Site>> {
    let host = canonical_host(host.as_bytes()).ok()?;
    let by_name = state.sites.iter().find(|site| site.core.name == host);
    by_name.map(Arc::clone).or_else(|| state.hosts.find(&host))
}

/// Whether the site has this number.
pub(super) fn is_number(site: &Site, number: usize) -> bool {
    usize::try_from(site.number) == Ok(number)
}

/// The response without a token, or with an unknown one.
pub(super) fn unauthorized() -> JsonReply {
    refuse(StatusCode::UNAUTHORIZED, "a token is required")
}

/// The response to a site's token for another site.
pub(super) fn forbidden() -> JsonReply {
    refuse(
        StatusCode::FORBIDDEN,
        "this token is not valid for that site",
    )
}
