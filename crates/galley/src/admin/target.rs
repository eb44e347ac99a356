//! Whose numbers a question is about: the sites that its token reaches, or the one among them that it names.

use std::sync::Arc;

use axum::Json;
use axum::http::StatusCode;
use galley_policy::route::canonical_host;
use serde_json::{Value, json};

use super::State;
use super::auth::{Asker, Reach, reach};
use crate::request::Site;

/// What an answer in JSON is.
pub(super) type Reply = (StatusCode, Json<Value>);

/// What a question may see.
pub(super) struct Target {
    /// The sites that it is about.
    pub(super) sites: Vec<Arc<Site>>,
    /// Whether what belongs to no site, or to all of them, is shown too.
    pub(super) view: View,
}

/// How much of the server is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// All of it.
    Server,
    /// What belongs to the sites alone.
    Sites,
}

/// A refusal with its reason.
pub(super) fn refuse(status: StatusCode, error: &str) -> Reply {
    (status, Json(json!({ "ok": false, "error": error })))
}

/// The sites that the token of a question reaches; with `host` only the site of that host.
///
/// A site's token gets the same answer for hosts of others and for hosts of nobody.
pub(super) fn target(state: &State, asker: &Asker, host: Option<&str>) -> Result<Target, Reply> {
    let reach = reach(state, asker);
    let Some(host) = host else {
        return whole(state, reach);
    };
    let site = find(state, host);
    match (reach, site) {
        (Reach::None, _) => Err(unknown()),
        (Reach::All, None) => Err(refuse(
            StatusCode::NOT_FOUND,
            &format!("no site `{host}`: see `galley status` for the sites there are"),
        )),
        (Reach::Site(own), site) => match site.filter(|site| is_number(site, own)) {
            Some(site) => Ok(Target {
                sites: vec![site],
                view: View::Sites,
            }),
            None => Err(foreign()),
        },
        (Reach::All, Some(site)) => Ok(Target {
            sites: vec![site],
            view: View::Sites,
        }),
    }
}

fn whole(state: &State, reach: Reach) -> Result<Target, Reply> {
    match reach {
        Reach::All => Ok(Target {
            sites: state.sites.to_vec(),
            view: View::Server,
        }),
        Reach::Site(own) => Ok(Target {
            sites: state.sites.get(own).map(Arc::clone).into_iter().collect(),
            view: View::Sites,
        }),
        Reach::None => Err(unknown()),
    }
}

/// The site of a host, whichever listener it is on.
pub(super) fn find(state: &State, host: &str) -> Option<Arc<Site>> {
    let host = canonical_host(host.as_bytes()).ok()?;
    let by_name = state.sites.iter().find(|site| site.core.name == host);
    by_name.map(Arc::clone).or_else(|| state.hosts.find(&host))
}

/// Whether a site has this number.
pub(super) fn is_number(site: &Site, number: usize) -> bool {
    usize::try_from(site.number) == Ok(number)
}

/// No token, or one that nobody knows.
pub(super) fn unknown() -> Reply {
    refuse(StatusCode::UNAUTHORIZED, "a token is needed")
}

/// A site's token, and another's site.
pub(super) fn foreign() -> Reply {
    refuse(StatusCode::FORBIDDEN, "this token does not reach that site")
}
