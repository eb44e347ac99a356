//! Finds the purge that touched something, for `galley why`.
//!
//! It reads the same tables as the comparison of entries and decides nothing. A purge that was replaced by the floor has no
//! known scope.

use galley_policy::outcome::words;
use galley_policy::purge::Strength;

use super::purge_scope::{MAX_STEPS, PurgeSubject, prefixes};
use super::tables::{NamedScope, PurgeSequences, Tables};

/// A purge that touched something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MatchingPurge {
    /// The number. For [`PurgeKind::Forgotten`], the highest possible number.
    pub number: u64,
    /// The scope.
    pub kind: PurgeKind,
    /// Whether the purge is soft, so that stale responses may still be sent.
    pub is_soft: bool,
}

words! {
    /// The scope of a purge.
    #[derive(PartialOrd, Ord)]
    PurgeKind {
        /// The whole site.
        Site = "site",
        /// One host.
        Host = "host",
        /// One address.
        Url = "url",
        /// A path and everything below it.
        Prefix = "prefix",
        /// A tag.
        Tag = "tag",
        /// A regular expression.
        Pattern = "pattern",
        /// Any scope: the entry has more tags than are stored, so every purge counts.
        Any = "any",
        /// Unknown, because the purge is too old.
        Forgotten = "forgotten",
    }
}

impl MatchingPurge {
    /// The strength of the purge.
    pub const fn strength(self) -> Strength {
        if self.is_soft {
            Strength::Soft
        } else {
            Strength::Hard
        }
    }
}

impl Tables {
    /// See [`crate::purge_table::PurgeTable::newest_match`].
    pub(super) fn newest_match(
        &self,
        born: u64,
        touch: &PurgeSubject<'_>,
    ) -> Option<MatchingPurge> {
        let mut newest = (born < self.floor).then_some(MatchingPurge {
            number: self.floor,
            kind: PurgeKind::Forgotten,
            is_soft: false,
        });
        let mut consider = |kind: PurgeKind, numbers: &PurgeSequences| {
            for (number, is_soft) in [(numbers.soft, true), (numbers.hard, false)] {
                let purge = MatchingPurge {
                    number,
                    kind,
                    is_soft,
                };
                if number > born && newest.is_none_or(|known| known.number < number) {
                    newest = Some(purge);
                }
            }
        };
        let sequences_of = |named: NamedScope| self.named.get(&named).copied().unwrap_or_default();
        consider(PurgeKind::Site, &self.site);
        consider(PurgeKind::Host, &sequences_of(NamedScope::Host(touch.host)));
        consider(PurgeKind::Url, &sequences_of(NamedScope::Url(touch.url)));
        let path_query = NamedScope::PathQuery(self.hash(touch.path_query));
        consider(PurgeKind::Url, &sequences_of(path_query));
        for prefix in prefixes(touch.path()) {
            let prefix = NamedScope::Prefix(self.hash(prefix));
            consider(PurgeKind::Prefix, &sequences_of(prefix));
        }
        for &tag in touch.tags() {
            consider(PurgeKind::Tag, &sequences_of(NamedScope::Tag(tag)));
        }
        let mut steps = MAX_STEPS;
        for (pattern, numbers) in &self.patterns {
            if numbers.newest() > born && pattern.may_match(touch.path_query, &mut steps) {
                consider(PurgeKind::Pattern, numbers);
            }
        }
        if touch.is_touched_by_all() {
            consider(PurgeKind::Any, &self.any);
        }
        newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::purge_table::PurgeTable;
    use crate::testing::scopes;
    use galley_policy::purge::{Purge, PurgePattern, Scope};

    fn publish(purge_table: &PurgeTable, scope: Scope, strength: Strength) -> u64 {
        purge_table.publish(&Purge { scope, strength })
    }

    #[test]
    fn the_newest_purge_that_touches_is_found() {
        let url = Scope::Url {
            host: Some("a.test".to_owned()),
            path: b"/blog/x".to_vec(),
            query: None,
        };
        let table: Vec<(Scope, PurgeKind)> = vec![
            (Scope::Site, PurgeKind::Site),
            (Scope::Host("a.test".to_owned()), PurgeKind::Host),
            (url, PurgeKind::Url),
            (Scope::Prefix(b"/blog".to_vec()), PurgeKind::Prefix),
            (Scope::Tag("p1".to_owned()), PurgeKind::Tag),
            (
                Scope::Pattern(PurgePattern::parse("^/bl").unwrap()),
                PurgeKind::Pattern,
            ),
        ];
        let scopes = scopes("a.test", "/blog/x", &["p1"]);
        let purge_table = PurgeTable::new();
        let mut before = 0;
        for strength in [Strength::Hard, Strength::Soft] {
            for (scope, kind) in &table {
                assert_eq!(purge_table.newest_match(before, &scopes.touch()), None);
                let number = publish(&purge_table, scope.clone(), strength);
                let other = Scope::Host("b.test".to_owned());
                let unrelated = publish(&purge_table, other, Strength::Hard);
                let found = purge_table.newest_match(0, &scopes.touch()).unwrap();
                assert_eq!(
                    (found.number, found.kind, found.strength()),
                    (number, *kind, strength)
                );
                before = unrelated;
            }
        }
    }

    #[test]
    fn all_purges_touch_an_entry_with_every_tag() {
        let purge_table = PurgeTable::new();
        let scopes = scopes("a.test", "/x", &["*"]);
        publish(&purge_table, Scope::Tag("other".to_owned()), Strength::Soft);
        let found = purge_table.newest_match(0, &scopes.touch()).unwrap();
        assert_eq!((found.kind, found.is_soft), (PurgeKind::Any, true));
    }
}
