//! Finds the site of a query: the one that serves the URL.
//!
//! Several sites may share a host on different listeners. The port of the URL selects the listener. A port without a listener
//! belongs to a proxy in front of Galley, and is ignored: then the host decides, if only one site has it. If the site is still
//! ambiguous, the query is rejected with the sites that the URL may mean, and `site` selects one.

use std::sync::Arc;

use axum::http::StatusCode;
use galley_policy::route::{self, canonical_host};

use super::WhyRequest;
use super::head;
use crate::AdminState;
use crate::auth::TokenReach;
use crate::listener::ListenerSites;
use crate::target::{JsonReply, forbidden, is_number, refuse};
use galley_request::{Site, Sites};

/// The selected site.
pub(super) struct Choice<'s> {
    /// The sites by host for the admission of the request.
    pub(super) sites: &'s Sites,
    /// The site; `None`: no site has this host.
    pub(super) site: Option<Arc<Site>>,
    /// The URL of the site's listener, if it is unambiguous.
    pub(super) listener: Option<&'s str>,
    /// The listeners that do have the host; empty if irrelevant.
    pub(super) note: String,
}

/// A listener, and the site that serves the host there.
type Candidate<'s> = (&'s ListenerSites, Arc<Site>);

/// Selects the site of a request to `host`, which is not canonical.
pub(super) fn choose<'s>(
    state: &'s AdminState,
    reach: TokenReach,
    wanted: &WhyRequest,
    host: &str,
) -> Result<Choice<'s>, JsonReply> {
    let host = canonical_host(host.as_bytes()).unwrap_or_default();
    let port = port(wanted);
    let has_port = |listener: &ListenerSites| listener.port == Some(port);
    let of_host = candidates(state, &host);
    let is_port_known = state.listeners.iter().any(has_port);
    let mut chosen = of_host.clone();
    match &wanted.site {
        Some(text) => {
            chosen.retain(|candidate| is_named(candidate, text));
            if chosen.is_empty() {
                let why = format!(
                    "no site `{text}` has the host `{host}`: `galley status` lists the sites"
                );
                return Err(if reach == TokenReach::All {
                    refuse(StatusCode::NOT_FOUND, &why)
                } else {
                    forbidden()
                });
            }
            if chosen.iter().any(|(listener, _)| has_port(listener)) {
                chosen.retain(|(listener, _)| has_port(listener));
            }
        }
        None if is_port_known => chosen.retain(|(listener, _)| has_port(listener)),
        None => {}
    }
    if let TokenReach::Site(own) = reach {
        chosen.retain(|(_, site)| is_number(site, own));
    }
    let Some((listener, site)) = chosen.first().cloned() else {
        if reach != TokenReach::All {
            return Err(forbidden());
        }
        let there = state.listeners.iter().find(|listener| has_port(listener));
        return Ok(Choice {
            sites: there.map_or(&state.hosts, |listener| &listener.sites),
            site: None,
            listener: there.map(|listener| listener.url.as_str()),
            note: elsewhere(&of_host),
        });
    };
    if chosen.iter().any(|(_, other)| !Arc::ptr_eq(other, &site)) {
        return Err(refuse(StatusCode::CONFLICT, &ambiguous(&host, &chosen)));
    }
    Ok(Choice {
        sites: &listener.sites,
        site: Some(site),
        listener: (chosen.len() == 1 || has_port(listener)).then_some(listener.url.as_str()),
        note: String::new(),
    })
}

fn candidates<'s>(state: &'s AdminState, host: &str) -> Vec<Candidate<'s>> {
    let listeners = state.listeners.iter();
    listeners
        .filter_map(|listener| Some((listener, listener.sites.find(host)?)))
        .collect()
}

/// Whether `text` names the listener or the site.
fn is_named((listener, site): &Candidate<'_>, text: &str) -> bool {
    let by_host = || {
        let host = canonical_host(text.as_bytes()).ok()?;
        listener.sites.find(&host)
    };
    listener.is_named(text)
        || site.is_named(text)
        || by_host().is_some_and(|found| Arc::ptr_eq(&found, site))
}

/// The port that a browser connects to.
fn port(wanted: &WhyRequest) -> u16 {
    let (scheme, authority) = head::origin(&wanted.url);
    let default = match scheme {
        "https" => 443,
        _ => 80,
    };
    route::port(authority.as_bytes()).unwrap_or(default)
}

fn elsewhere(all: &[Candidate<'_>]) -> String {
    if all.is_empty() {
        return String::new();
    }
    format!("no site has this host at this port, but at {}", urls(all))
}

fn ambiguous(host: &str, found: &[Candidate<'_>]) -> String {
    let example = found.first().map_or("", |(listener, _)| &listener.url);
    format!(
        "several sites have the host `{host}`, at {}; give the port of one of these listeners in the URL, or the listener \
         itself: `--site {example}`",
        urls(found)
    )
}

fn urls(candidates: &[Candidate<'_>]) -> String {
    let urls: Vec<String> = candidates
        .iter()
        .map(|(listener, _)| format!("`{}`", listener.url))
        .collect();
    urls.join(", ")
}
