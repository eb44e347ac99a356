//! Determines which stored pages a purge touches, for counting them. Only the purge table decides which pages may be sent.

use galley_cache::entry::Scopes;
use galley_policy::key::{host_id, tag_id};
use galley_policy::purge::{CompiledPattern, Scope};

/// The scope of a purge, prepared for comparison with many entries of its site.
pub enum ScopeMatch<'a> {
    /// A tag.
    Tag(u64),
    /// A host.
    Host(u64),
    /// A URL.
    Url {
        /// The host; `None`: any.
        host: Option<u64>,
        /// The path and query, as in entries.
        path_query: Vec<u8>,
    },
    /// A pattern.
    Pattern(CompiledPattern),
    /// A scope that needs no preparation.
    Other(&'a Scope),
}

/// The steps of patterns that a count may take: about a tenth of a second. One site chooses patterns and addresses, and the counts of
/// all sites wait for it.
pub const MAX_COUNT_STEPS: usize = 100_000_000;

impl<'a> ScopeMatch<'a> {
    /// Prepares a scope.
    pub fn new(scope: &'a Scope) -> Self {
        match scope {
            Scope::Tag(tag) => Self::Tag(tag_id(tag)),
            Scope::Host(host) => Self::Host(host_id(host)),
            Scope::Url { host, path, query } => {
                let mut path_query = path.clone();
                if let Some(query) = query {
                    path_query.push(b'?');
                    path_query.extend_from_slice(query);
                }
                Self::Url {
                    host: host.as_deref().map(host_id),
                    path_query,
                }
            }
            Scope::Pattern(pattern) => Self::Pattern(pattern.compile()),
            Scope::Site | Scope::Prefix(_) => Self::Other(scope),
        }
    }

    /// Whether the scope contains a page of the site. `None`: the comparison would take more than `steps`, which all comparisons of
    /// a count share.
    pub fn is_match(&self, scopes: &Scopes, steps: &mut usize) -> Option<bool> {
        if let Self::Pattern(pattern) = self {
            *steps = steps.checked_sub(pattern.steps(scopes.path_query.len()))?;
        }
        Some(match self {
            // A page with too many tags has only the tag `*`, which every tag matches.
            Self::Tag(tag) => scopes.tags.iter().any(|t| t == tag || *t == tag_id("*")),
            Self::Host(host) => scopes.host == *host,
            Self::Url { host, path_query } => {
                host.is_none_or(|host| host == scopes.host) && *scopes.path_query == **path_query
            }
            Self::Pattern(pattern) => pattern.matches(&scopes.path_query),
            Self::Other(Scope::Prefix(prefix)) => is_below(&scopes.path_query, prefix),
            Self::Other(_) => true,
        })
    }
}

/// Whether a path with a query is equal to a prefix or below it, by whole segments.
fn is_below(path_query: &[u8], prefix: &[u8]) -> bool {
    let end = prefix
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |at| at + 1);
    let Some(rest) = prefix.get(..end).and_then(|p| path_query.strip_prefix(p)) else {
        return false;
    };
    matches!(rest, [] | [b'/' | b'?', ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_at_segments() {
        for (path, is_in) in [
            (&b"/shop"[..], true),
            (b"/shop/", true),
            (b"/shop/a?b", true),
            (b"/shop?b", true),
            (b"/shopping", false),
            (b"/", false),
        ] {
            assert_eq!(is_below(path, b"/shop/"), is_in, "{path:?}");
            assert_eq!(is_below(path, b"/shop"), is_in, "{path:?}");
        }
    }
}
