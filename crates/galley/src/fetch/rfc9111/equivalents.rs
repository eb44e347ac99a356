//! Addresses of one path that differ only in parts on which the response does not depend (`No-Vary-Search`).
//!
//! Under a key of the path is a marker with the queries under which such responses are stored, the newest last, at most
//! [`MOST_QUERIES`]. It only leads to entries: the field of an entry says whether it is equivalent, and its validity
//! whether it may be served. A purge reaches such an entry by the requested address as well as by its own, since a client
//! that purged one address must not get older content from the other.

use std::sync::Arc;

use galley_cache::entry::{Entry, EntryKind, EntryParts};
use galley_cache::key::Key;
use galley_cache::memory::Memory;
use galley_cache::purge_table::{PurgeTable, Touch, Touched};
use galley_policy::key;
use galley_policy::no_vary_search::Variance;
use galley_policy::request_info::RequestInfo;
use http::HeaderMap;

use super::variants;
use crate::fetch::entry_parts::scopes;
use crate::fetch::in_progress::InProgressFetch;
use crate::fetch::{FetchWorker, PageJob};

/// Whose request wants an equivalent: its info, and its key with the site's number.
#[derive(Clone, Copy)]
pub struct EquivalentQuery<'a> {
    /// The request.
    pub info: &'a RequestInfo,
    /// Its own key.
    pub key: &'a [u8],
}

impl EquivalentQuery<'_> {
    /// The newest page that is stored under an equivalent address and that `may_answer`. `sent`: the request's fields as they
    /// would be sent upstream, made only if there are candidates.
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

    /// Whether no purge since its birth touches `entry` by this request's address; by its own it has been proved.
    pub fn is_untouched(self, purges: &PurgeTable, entry: &Entry) -> bool {
        let scopes = scopes(self.info, Vec::new());
        let touch = Touch {
            tags: Some(&entry.scopes.tags),
            ..scopes.touch()
        };
        purges.newer_than(entry.born, touch) == Touched::No
    }

    fn record_key(self) -> Vec<u8> {
        let mut record_key = Vec::new();
        key::write_path_key(self.info, &mut record_key);
        record_key.extend_from_slice(site_of(self.key));
        record_key
    }
}

impl FetchWorker {
    /// Notes under which query a response lies that answers other queries too.
    pub(in crate::fetch) fn note_equivalents(
        &self,
        page: &PageJob,
        in_progress: &InProgressFetch,
        fields: &HeaderMap,
    ) {
        let record = join(page.info.query());
        if record.len() > LONGEST_QUERY || Variance::of(fields).is_none() {
            return;
        }
        let query = EquivalentQuery {
            info: &page.info,
            key: page.key.bytes(),
        };
        let record_key = query.record_key();
        let mut known = self
            .memory
            .peek(&record_key)
            .filter(|entry| entry.kind == EntryKind::Varies)
            .map(|entry| variants::of_marker(&entry))
            .unwrap_or_default();
        known.retain(|query| *query != record);
        known.push(record);
        let excess = known.len().saturating_sub(MOST_QUERIES);
        known.drain(..excess);
        let marker = self.marker(page, Key::new(&record_key), in_progress.born.get());
        let marker = EntryParts {
            body: variants::write(&known).into(),
            ..marker
        };
        self.store(page, in_progress, marker);
    }
}

/// The site's number, which ends every key.
fn site_of(key: &[u8]) -> &[u8] {
    key.get(key.len().saturating_sub(variants::SITE_NUMBER)..)
        .unwrap_or_default()
}

/// A query as the marker lists it: with its `?`, or nothing where the address has none.
fn join(query: Option<&[u8]>) -> Vec<u8> {
    query.map_or_else(Vec::new, |query| [b"?", query].concat())
}

fn split(record: &[u8]) -> Option<&[u8]> {
    record.strip_prefix(b"?")
}

/// Queries of one path that are remembered: each is looked at by every request of the path that finds nothing of its own.
pub const MOST_QUERIES: usize = 16;

/// Bytes of a query that is remembered.
const LONGEST_QUERY: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_keep_whether_there_is_a_query() {
        for query in [None, Some(&b""[..]), Some(&b"a=1&b"[..])] {
            assert_eq!(split(&join(query)), query);
        }
    }
}
