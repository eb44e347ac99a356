//! Compression dictionaries (RFC 9842): the form of a page for a client that has one, and the dictionaries themselves.
//!
//! [`form`] is for hits. It takes no lock and does not allocate; for a client without a dictionary it is one comparison. A dictionary is
//! used as long as no purge touches its page, and no longer than a day.

use std::sync::Arc;

use galley_cache::entry::Entry;
use galley_codec::dictionaries::Dictionary;
use galley_policy::decide::Validity;
use galley_policy::dictionary;
use galley_policy::encoding::Coding;
use galley_policy::key::host_id;
use galley_policy::outcome::{Outcome, RefusedWhy};
use galley_policy::request_info::{Method, RequestInfo, Scheme};
use galley_policy::time::Tick;

use super::exchange::Exchange;
use super::page;
use super::response::Response;
use super::site::{Services, Site};
use crate::fault::Fault;

/// The form of a page that is the difference to the dictionary of the client. `None`: another form is sent.
pub(super) fn form(site: &Site, info: &RequestInfo, entry: &Entry, now: Tick) -> Option<usize> {
    let hash = info.dictionary()?;
    // A range refers to the plain page.
    if info.range().is_some() {
        return None;
    }
    let mut forms = entry.coded().iter();
    let at = forms.position(|form| {
        form.coding == Coding::Dcz && dictionary::hash_of_body(form.body.bytes()) == Some(hash)
    })?;
    usable(site, hash, now).map(|_| at)
}

/// Offers a page to be compared with the dictionaries of its site. Called at each hit.
pub(super) fn offer(site: &Site, info: &RequestInfo, entry: &Arc<Entry>, now: Tick) {
    let core = &site.core;
    core.compressing
        .offer_dictionary(entry, &core.dictionaries, now, || {
            dictionary::is_for_everyone(info, &core.rules)
        });
}

/// The response to a request for a dictionary; `None`: the request is for something else.
pub(super) fn respond(
    services: &Services,
    exchange: &Exchange<'_>,
) -> Option<Result<Response, Fault>> {
    let info = &exchange.info;
    let hash = dictionary::hash_of_path(info.path())?;
    if !matches!(info.method(), Method::Get | Method::Head) {
        return None;
    }
    let found = usable(&exchange.site, &hash, services.clock.tick())
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

/// A dictionary that may be used now.
fn usable(site: &Site, hash: &[u8], now: Tick) -> Option<Arc<Dictionary>> {
    let found = site.core.dictionaries.find(hash)?;
    (found.is_fresh(now) && site.purges.validity(&found.entry) == Validity::Valid).then_some(found)
}
