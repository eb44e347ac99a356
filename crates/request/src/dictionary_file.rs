//! The responses to requests for compression dictionaries.

use std::sync::Arc;

use galley_policy::key::host_id;
use galley_policy::outcome::{Outcome, RefusedWhy};
use galley_policy::request_info::{Method, Scheme};

use super::dictionary;
use super::exchange::Exchange;
use super::page;
use super::response::Response;
use super::site::Services;
use crate::fault::Fault;

/// The response to a request for a dictionary; `None`: the request is for something else, or the site has no dictionaries.
pub(super) fn respond(
    services: &Services,
    exchange: &Exchange<'_>,
) -> Option<Result<Response, Fault>> {
    if !exchange.site.core.dictionaries.are_on() {
        return None;
    }
    let info = &exchange.info;
    let hash = galley_policy::dictionary::hash_of_path(info.path())?;
    if !matches!(info.method(), Method::Get | Method::Head) {
        return None;
    }
    let found = dictionary::usable(&exchange.site, &hash, services.clock.tick())
        .filter(|found| found.host() == host_id(info.host()) && info.scheme() == Scheme::Https);
    let Some(found) = found else {
        let note = "a dictionary that is not used any more";
        return Some(Err(Fault::new(RefusedWhy::NotFound, note)));
    };
    let entry = Arc::clone(&found.entry);
    // Its plain body is in memory.
    Some(Ok(page::from_held(
        services,
        exchange,
        entry,
        Outcome::File,
    )))
}
