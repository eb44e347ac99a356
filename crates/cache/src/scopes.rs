//! The scopes of purges that can reach a stored response.

use crate::purge_table::PurgeSubject;

/// The scopes of purges that reach an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scopes {
    /// `galley_policy::key::host_id` of the canonical host.
    pub host: u64,
    /// `galley_policy::key::url_id`: all variants and both schemes of one URL.
    pub url: u64,
    /// The canonical path and normalized query, `/a/b?x`; no `?` if there is no query. For prefix and pattern purges.
    pub path_query: Box<[u8]>,
    /// `galley_policy::key::tag_id` of each tag; only `tag_id("*")` if there were more tags than allowed.
    pub tags: Box<[u64]>,
}

impl Scopes {
    /// The scopes, borrowed.
    pub fn touch(&self) -> PurgeSubject<'_> {
        PurgeSubject {
            host: self.host,
            url: self.url,
            path_query: &self.path_query,
            tags: Some(&self.tags),
        }
    }
}
