//! The forms of a stored page in other codings, below another head.

use galley_cache::entry::{EncodedEntry, Entry};
use galley_policy::compress::coded_fields;
use galley_policy::encoding::Coding;
use http::HeaderMap;

/// The forms of a page that need no dictionary, with the head `fields`. The bodies are shared.
pub(crate) fn forms_with(fields: &HeaderMap, page: &Entry) -> Vec<EncodedEntry> {
    let forms = page.coded().iter();
    forms
        .filter(|form| form.coding != Coding::Dcz)
        .map(|form| {
            let fields = coded_fields(fields, form.coding);
            EncodedEntry::new(form.coding, &fields, form.body.clone())
        })
        .collect()
}
