//! Selects the sites of a query: those of its token, or the site with a name or a host.

use std::sync::Arc;

use axum::Json;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::AdminState;
use super::auth::{AdminClient, TokenReach, reach};
use galley_request::Site;

/// A response in JSON.
pub(super) type JsonReply = (StatusCode, Json<Value>);

/// The response of a handler; an error is a refusal, and is sent like any other response.
pub(super) type JsonResult = Result<JsonReply, JsonReply>;

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

/// The sites that the token of a query may access; with `host` only the site with that name or host.
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
    let indices = state.named(host);
    let mut sites = indices.iter().filter_map(|index| state.sites.get(*index));
    let site = match reach {
        TokenReach::None => return Err(unauthorized()),
        TokenReach::Site(own) => {
            let own = sites.find(|site| is_number(site, own));
            own.ok_or_else(forbidden)?
        }
        TokenReach::All => {
            // Several sites may have a host, on different listeners, but only one this name.
            let by_name = sites.clone().find(|site| site.core.name == host);
            by_name.or_else(|| sites.next()).ok_or_else(|| {
                let why = format!("no site `{host}`: `galley status` lists the sites");
                refuse(StatusCode::NOT_FOUND, &why)
            })?
        }
    };
    Ok(SiteSelection::one(Arc::clone(site)))
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
