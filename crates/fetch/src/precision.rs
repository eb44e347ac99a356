//! How precise purges by tag are: of the pages that they removed, how many were the same when they were generated again.
//!
//! `replaced` compares a page that is stored with the purged copy that it replaces. The counts decide nothing. They show owners and authors of plugins which
//! dependencies cost PHP without need.

use galley_sys::Lock;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// The precision of a site's purges. Outlives the configuration.
#[derive(Debug, Default)]
pub struct PurgePrecision {
    /// By kind of tags; at most [`MAX_KINDS`].
    kinds: Lock<HashMap<String, ComparedPages>>,
    is_comparing: AtomicBool,
}

/// Pages that purges of one kind of tags removed and that were generated again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComparedPages {
    /// All of them.
    pub compared: u64,
    /// Those that were the same, apart from nonces and random identifiers.
    pub unchanged: u64,
}

impl PurgePrecision {
    /// The counts of the kinds of tags that purged most pages without need, at most `most`.
    pub fn needless(&self, most: usize) -> Vec<(String, ComparedPages)> {
        let mut kinds: Vec<_> = self
            .kinds
            .lock()
            .iter()
            .map(|(kind, pages)| (kind.clone(), *pages))
            .collect();
        kinds.sort_by(|(one, of_one), (other, of_other)| {
            (of_other.unchanged, one).cmp(&(of_one.unchanged, other))
        });
        kinds.truncate(most);
        kinds
    }

    /// The turn to compare a page; `None` while another one is compared.
    pub(super) fn turn(&self) -> Option<ComparisonTurn<'_>> {
        let is_free = !self.is_comparing.swap(true, Ordering::AcqRel);
        is_free.then_some(ComparisonTurn(&self.is_comparing))
    }

    /// Counts a page with these purged tags.
    pub(super) fn note<'t>(&self, tags: impl Iterator<Item = &'t str>, is_unchanged: bool) {
        let mut kinds_of_purge: Vec<&str> = tags.map(kind).collect();
        kinds_of_purge.sort_unstable();
        kinds_of_purge.dedup();
        let mut kinds = self.kinds.lock();
        for kind in kinds_of_purge {
            if kinds.len() >= MAX_KINDS && !kinds.contains_key(kind) {
                continue;
            }
            let pages = kinds.entry(kind.to_owned()).or_default();
            pages.compared += 1;
            pages.unchanged += u64::from(is_unchanged);
        }
    }
}

/// Permits the next comparison when it is dropped.
pub(super) struct ComparisonTurn<'c>(&'c AtomicBool);

impl Drop for ComparisonTurn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The kind of a tag: the whole tag of a dependency that was observed, such as `op.blogname` or `tb.wp_bp_groups`; of other tags the
/// part before the number, such as `p` for `p12`, and of lists the type, such as `l.post`.
fn kind(tag: &str) -> &str {
    let of_blog = tag.trim_start_matches(|c: char| c.is_ascii_digit());
    let tag = of_blog.strip_prefix('.').unwrap_or(tag);
    if OBSERVED.iter().any(|prefix| tag.starts_with(prefix)) {
        return tag;
    }
    let mut parts = tag.match_indices('.').map(|(at, _)| at);
    let end = match tag.split_once('.') {
        Some(("l" | "sm" | "o" | "lt", _)) => parts.nth(1),
        _ => parts.next(),
    };
    let prefix = &tag[..end.unwrap_or(tag.len())];
    let digits = prefix.find(|c: char| c.is_ascii_digit());
    let kind = &prefix[..digits.unwrap_or(prefix.len())];
    if kind.is_empty() { prefix } else { kind }
}

/// The prefixes of tags that name what the plugin observed: options, transients, tables.
const OBSERVED: &[&str] = &["op.", "om.", "so.", "tb.", "tv.", "db.", "tm."];

/// The maximum number of kinds: less than a hundred kilobytes.
const MAX_KINDS: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_tags() {
        let table = [
            ("p12", "p"),
            ("3.p12", "p"),
            ("pl12", "pl"),
            ("l.post.t3.r0", "l.post"),
            ("l.post.s.ferry", "l.post"),
            ("lt.category", "lt.category"),
            ("n.slug", "n"),
            ("w.search-2", "w"),
            ("op.blogname", "op.blogname"),
            ("2.op.seo_titles", "op.seo_titles"),
            ("tb.wp_2_groups", "tb.wp_2_groups"),
            ("sq.0123abcd", "sq"),
            ("12", "12"),
            ("e404", "e"),
            ("b", "b"),
        ];
        for (tag, expected) in table {
            assert_eq!(kind(tag), expected, "{tag}");
        }
    }

    #[test]
    fn the_least_precise_kinds_come_first_and_are_bounded() {
        let precision = PurgePrecision::default();
        precision.note(["p1", "p2", "l.post.r0"].into_iter(), false);
        precision.note(["l.post.r0", "tb.wp_log"].into_iter(), true);
        precision.note(["tb.wp_log"].into_iter(), true);
        let pages = |compared, unchanged| ComparedPages {
            compared,
            unchanged,
        };
        let expected = [
            ("tb.wp_log".to_owned(), pages(2, 2)),
            ("l.post".to_owned(), pages(2, 1)),
            ("p".to_owned(), pages(1, 0)),
        ];
        assert_eq!(precision.needless(9), expected);
        assert_eq!(precision.needless(1), expected[..1]);
        for number in 0..2 * MAX_KINDS {
            precision.note([&*format!("op.name{number}")].into_iter(), true);
        }
        assert_eq!(precision.kinds.lock().len(), MAX_KINDS);
        precision.note(["p7"].into_iter(), false);
        assert_eq!(
            precision.kinds.lock()["p"],
            pages(2, 0),
            "known ones count on"
        );
    }
}
