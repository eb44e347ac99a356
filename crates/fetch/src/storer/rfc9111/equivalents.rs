//! Addresses with the same path that differ only in parts on which the response does not depend (`No-Vary-Search`).
//!
//! A marker under a key of the path lists the queries under which such responses are stored, the newest last, at most
//! [`MAX_QUERIES`]. It only leads to entries: the `No-Vary-Search` of an entry determines whether it is equivalent, and its
//! validity whether it may be served. A purge of the requested address invalidates such an entry as well as a purge of its own
//! address, since a client that purged one address must not get older content from the other.

use std::sync::Arc;

use galley_cache::entry::{Entry, EntryKind, EntryParts};
use galley_cache::key::Key;
use galley_cache::memory::Memory;
use galley_cache::purge_table::{FillPurgeState, PurgeSubject, PurgeTable};
use galley_policy::key;
use galley_policy::no_vary_search::Variance;
use galley_policy::request_info::RequestInfo;
use http::HeaderMap;

use super::variants;
use crate::PageJob;
use crate::entry_parts::scopes;
use crate::in_progress::InProgressFetch;
use crate::storer::Storer;

/// A request for which an equivalent response is looked up.
#[derive(Clone, Copy)]
pub struct EquivalentQuery<'a> {
    /// The parsed request.
    pub info: &'a RequestInfo,
    /// The cache key of the request, with the site's number.
    pub key: &'a [u8],
}

impl EquivalentQuery<'_> {
    /// The newest page that is stored under an equivalent address and that `may_answer`. `sent` returns the request's fields as
    /// they would be sent to the upstream; it is called only if there are candidates.
    pub fn find<'f>(
        self,
        memory: &Memory,
        sent: impl Fn() -> Vec<(http::HeaderName, http::HeaderValue)> + 'f,
        may_answer: impl Fn(&Entry) -> bool,
    ) -> Option<Arc<Entry>> {
        let marker = memory
            .peek(&self.record_key())
            .filter(|entry| entry.kind == EntryKind::Varies)?;
        let sent = sent();
        let mut key = Vec::new();
        variants::of_marker(&marker)
            .iter()
            .rev()
            .map(|record| split(record))
            .filter(|query| *query != self.info.query())
            .find_map(|query| {
                key::write_key_with(self.info, query, &mut key);
                key.extend_from_slice(site_of(self.key));
                let mut entry = memory.peek(&key)?;
                if entry.kind == EntryKind::Varies {
                    let mut keys = variants::candidates(&entry, &sent).into_iter();
                    entry = keys.find_map(|key| memory.peek(&key))?;
                }
                let is_equivalent = entry.kind == EntryKind::Page
                    && Variance::of(&entry.fields)
                        .is_some_and(|variance| variance.are_equivalent(self.info.query(), query));
                (is_equivalent && may_answer(&entry)).then_some(entry)
            })
    }

    /// Whether no purge of this request's address has touched `entry` since it was generated. The caller has checked the
    /// address of the entry.
    pub fn is_untouched(self, purges: &PurgeTable, entry: &Entry) -> bool {
        let scopes = scopes(self.info, Vec::new());
        let touch = PurgeSubject {
            tags: Some(&entry.scopes.tags),
            ..scopes.touch()
        };
        purges.newer_than(entry.born, touch) == FillPurgeState::No
    }

    fn record_key(self) -> Vec<u8> {
        let mut record_key = Vec::new();
        key::write_path_key(self.info, &mut record_key);
        record_key.extend_from_slice(site_of(self.key));
        record_key
    }
}

impl Storer {
    /// Records the query under which a response is stored that is equivalent for other queries.
    pub(crate) fn note_equivalents(
        &self,
        page: &PageJob,
        in_progress: &InProgressFetch,
        fields: &HeaderMap,
    ) {
        let record = join(page.info.query());
        if record.len() > MAX_QUERY || Variance::of(fields).is_none() {
            return;
        }
        let query = EquivalentQuery {
            info: &page.info,
            key: page.key.bytes(),
        };
        let record_key = query.record_key();
        let mut queries = self
            .memory
            .peek(&record_key)
            .filter(|entry| entry.kind == EntryKind::Varies)
            .map(|entry| variants::of_marker(&entry))
            .unwrap_or_default();
        queries.retain(|query| *query != record);
        queries.push(record);
        let excess = queries.len().saturating_sub(MAX_QUERIES);
        queries.drain(..excess);
        let marker = self.marker(page, Key::new(&record_key), in_progress.born.get());
        let marker = EntryParts {
            body: variants::write(&queries).into(),
            ..marker
        };
        self.store(page, in_progress, marker);
    }
}

/// The site's number, with which every key ends.
fn site_of(key: &[u8]) -> &[u8] {
    key.get(key.len().saturating_sub(variants::SITE_NUMBER)..)
        .unwrap_or_default()
}

/// A query as the marker lists it: with its `?`, or empty if the address has no query.
fn join(query: Option<&[u8]>) -> Vec<u8> {
    query.map_or_else(Vec::new, |query| [b"?", query].concat())
}

fn split(record: &[u8]) -> Option<&[u8]> {
    record.strip_prefix(b"?")
}

/// The maximum number of recorded queries of one path: each request for the path that has no entry checks all of them.
pub const MAX_QUERIES: usize = 16;

/// The maximum length of a recorded query, in bytes.
const MAX_QUERY: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_distinguish_an_empty_query_from_none() {
        for query in [None, Some(&b""[..]), Some(&b"a=1&b"[..])] {
            assert_eq!(split(&join(query)), query);
        }
    }
}
