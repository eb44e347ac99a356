//! The scope of a purge in the form in which entries are compared with it, and the parts of an entry that are compared.
//!
//! Paths are canonical on both sides (`galley_policy::uri`), so equal bytes mean the same resource. A prefix matches whole
//! segments: `/shop` matches `/shop`, `/shop/` and `/shop/cart`, not `/shopping`.

use std::sync::{Arc, LazyLock, OnceLock};

use galley_policy::key::{host_id, tag_id, url_id};
use galley_policy::purge::{CompiledPattern, PurgePattern, Scope};

/// The properties that purges can touch, borrowed from an entry or from a request that wants to join a fill.
#[derive(Clone, Copy, Debug)]
pub struct PurgeSubject<'a> {
    /// `galley_policy::key::host_id`.
    pub host: u64,
    /// `galley_policy::key::url_id`.
    pub url: u64,
    /// The canonical path, then `?` and the normalized query, if any.
    pub path_query: &'a [u8],
    /// `galley_policy::key::tag_id` of each tag; `None`: not known yet.
    pub tags: Option<&'a [u64]>,
}

impl<'a> PurgeSubject<'a> {
    /// The path alone. A canonical path contains no `?`.
    pub(super) fn path(&self) -> &'a [u8] {
        let end = self.path_query.iter().position(|&byte| byte == b'?');
        &self.path_query[..end.unwrap_or(self.path_query.len())]
    }

    pub(super) fn tags(&self) -> &'a [u64] {
        self.tags.unwrap_or_default()
    }

    /// Whether the tags include `*`, which every purge of the site touches.
    pub(super) fn is_touched_by_all(&self) -> bool {
        self.tags().iter().any(|&tag| is_touched_by_all(tag))
    }
}

/// Whether a tag is `*`, which every purge of the site touches.
pub(super) fn is_touched_by_all(tag: u64) -> bool {
    static ALL: LazyLock<u64> = LazyLock::new(|| tag_id("*"));
    tag == *ALL
}

/// The scope of a purge.
#[derive(Debug)]
pub(super) enum PurgeScope {
    Site,
    Host(u64),
    Url(u64),
    /// A path with its query, on any host.
    PathQuery(Box<[u8]>),
    /// A prefix without slashes at the end; empty: every path.
    Prefix(Box<[u8]>),
    Tag(u64),
    Pattern(Arc<TablePattern>),
}

impl PurgeScope {
    pub(super) fn of(scope: &Scope) -> Self {
        match scope {
            Scope::Site => Self::Site,
            // As in all caches that WordPress plugins support, purging the tag `*` purges everything.
            Scope::Tag(tag) if tag == "*" => Self::Site,
            Scope::Tag(tag) => Self::Tag(tag_id(tag)),
            Scope::Host(host) => Self::Host(host_id(host)),
            Scope::Url {
                host: Some(host),
                path,
                query,
            } => Self::Url(url_id(host, path, query.as_deref())),
            Scope::Url {
                host: None,
                path,
                query,
            } => Self::PathQuery(join(path, query.as_deref())),
            Scope::Prefix(path) => Self::Prefix(without_end_slashes(path).into()),
            Scope::Pattern(pattern) => Self::Pattern(Arc::new(TablePattern::new(pattern.clone()))),
        }
    }

    /// Compiles a pattern now, not when it is first compared.
    pub(super) fn compile(self) -> Self {
        if let Self::Pattern(pattern) = &self {
            pattern.compiled();
        }
        self
    }
}

/// Whether `path` is `prefix` or is below it.
pub(super) fn is_below(path: &[u8], prefix: &[u8]) -> bool {
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Every prefix for which [`is_below`] returns true for `path`.
pub(super) fn prefixes(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let cuts = path
        .iter()
        .enumerate()
        .filter(|&(_, &byte)| byte == b'/')
        .map(|(at, _)| at);
    cuts.chain([path.len()]).map(|end| &path[..end])
}

/// The pattern of a purge. The tables contain its only compiled form.
#[derive(Debug)]
pub(super) struct TablePattern {
    pattern: PurgePattern,
    compiled: OnceLock<CompiledPattern>,
    /// The number of times the pattern was tested, for a unit test.
    #[cfg(test)]
    pub(super) tested: std::sync::atomic::AtomicU64,
}

impl TablePattern {
    fn new(pattern: PurgePattern) -> Self {
        Self {
            pattern,
            compiled: OnceLock::new(),
            #[cfg(test)]
            tested: std::sync::atomic::AtomicU64::new(0),
        }
    }

    pub(super) fn text(&self) -> &str {
        self.pattern.text()
    }

    /// The memory of the pattern; of one that is not compiled yet, that of its text.
    pub(super) fn bytes(&self) -> usize {
        let compiled = self.compiled.get().map_or(0, CompiledPattern::bytes);
        size_of::<Self>() + self.text().len() + compiled
    }

    pub(super) fn compiled(&self) -> &CompiledPattern {
        self.compiled.get_or_init(|| self.pattern.compile())
    }

    /// Whether the pattern matches, or may match: a comparison that exceeds `steps` is not made.
    pub(super) fn may_match(&self, path_query: &[u8], steps: &mut usize) -> bool {
        #[cfg(test)]
        self.tested
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let compiled = self.compiled();
        match steps.checked_sub(compiled.steps(path_query.len())) {
            Some(left) => {
                *steps = left;
                compiled.matches(path_query)
            }
            None => true,
        }
    }
}

/// The maximum number of steps of one lookup: a hundred usual patterns and an address of a kilobyte. A site's owner chooses
/// patterns and addresses, and all sites share the threads that compare them.
pub(super) const MAX_STEPS: usize = 4_000_000;

fn join(path: &[u8], query: Option<&[u8]>) -> Box<[u8]> {
    match query {
        Some(query) => [path, b"?", query].concat().into(),
        None => path.into(),
    }
}

fn without_end_slashes(path: &[u8]) -> &[u8] {
    let end = path
        .iter()
        .rposition(|&byte| byte != b'/')
        .map_or(0, |last| last + 1);
    &path[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_whole_segments() {
        let table: &[(&str, &str, bool)] = &[
            ("/shop", "/shop", true),
            ("/shop", "/shop/", true),
            ("/shop", "/shop/cart", true),
            ("/shop", "/shopping", false),
            ("/shop", "/a/shop", false),
            ("/shop/", "/shop", true),
            ("/shop/", "/shop/cart", true),
            ("/shop/cart", "/shop", false),
            ("/a//b", "/a//b/c", true),
            ("/a//b", "/a/b/c", false),
            ("/", "/anything", true),
            ("", "/anything", true),
        ];
        for &(prefix, path, expected) in table {
            let mark = without_end_slashes(prefix.as_bytes());
            assert_eq!(is_below(path.as_bytes(), mark), expected, "{prefix} {path}");
            let listed = prefixes(path.as_bytes()).any(|each| each == mark);
            assert_eq!(listed, expected, "listed: {prefix} {path}");
        }
    }
}
