//! Compression dictionaries (RFC 9842): the form of a page for a client that has one.
//!
//! [`form`] is for hits. It takes no lock and does not allocate; for a client without a dictionary it is one comparison. A dictionary is
//! used as long as no purge touches its page, and no longer than a day.

use std::sync::Arc;

use galley_cache::entry::Entry;
use galley_codec::dictionaries::Dictionary;
use galley_policy::decide::Validity;
use galley_policy::dictionary;
use galley_policy::encoding::Coding;
use galley_policy::next_pages;
use galley_policy::request_info::RequestInfo;
use galley_policy::time::Tick;

use super::site::Site;

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

/// Offers a page to be compared with the dictionaries of its site, and counts the page from which the visitor came. Called at each hit.
pub(super) fn offer(site: &Site, info: &RequestInfo, entry: &Arc<Entry>, now: Tick) {
    let core = &site.core;
    if let Some(next_pages) = core.dictionaries.next_pages()
        && let Some(previous) = next_pages::previous_path(info)
    {
        next_pages.count(previous, entry.scopes.url);
    }
    core.compressing
        .offer_dictionary(entry, &core.dictionaries, now, || {
            dictionary::is_for_everyone(info, &core.policy)
        });
}

/// A dictionary that may be used now.
pub(super) fn usable(site: &Site, hash: &[u8], now: Tick) -> Option<Arc<Dictionary>> {
    let dictionary = site.core.dictionaries.find(hash)?;
    (dictionary.is_fresh(now) && site.purges.validity(&dictionary.entry) == Validity::Valid)
        .then_some(dictionary)
}
