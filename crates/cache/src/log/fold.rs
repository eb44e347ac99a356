//! Folding: makes the log smaller without losing a purge.
//!
//! Exact: of each scope only the last hard purge counts, and the last soft purge if it is later; a purge of the whole site
//! replaces all earlier ones that are not stronger. Coarse, above the limits: soft purges older than [`SOFT_AGE`] become one
//! soft purge of their site; then the oldest purges of a site become one hard purge of it, the floor, which purges everything
//! with a lower `born`. A site's patterns above those that its purge table keeps become a floor in any case, as they would in the
//! table. All of this purges more, never less. A folded purge has the number of its newest purge, so numbers remain
//! unique and rising. A hard purge never becomes soft.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, SystemTime};

use galley_policy::purge::{Scope, Strength};

use super::format::LoggedPurge;
use super::limits::LogLimits;
use crate::purge_table::MAX_SITE_PATTERNS;

/// Soft purges older than this are folded first: the pages that they touched have been refreshed or are not requested.
pub(super) const SOFT_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The purges that folding keeps exactly.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoldLimits {
    pub(super) records: usize,
    pub(super) bytes: usize,
}

impl From<LogLimits> for FoldLimits {
    fn from(limits: LogLimits) -> Self {
        Self {
            records: limits.records,
            bytes: limits.folded_bytes,
        }
    }
}

impl FoldLimits {
    /// The part of one of several sites.
    fn share(self, sites: usize) -> Self {
        Self {
            records: self.records / sites.max(1),
            bytes: self.bytes / sites.max(1),
        }
    }

    fn are_exceeded_by(self, purges: &[LoggedPurge]) -> bool {
        purges.len() > self.records
            || purges.iter().map(LoggedPurge::record_bytes).sum::<usize>() > self.bytes
    }

    /// The number of the newest purges that fit.
    fn fitting(self, purges: &[LoggedPurge]) -> usize {
        let mut left = self.bytes;
        let fits = |logged: &&LoggedPurge| {
            let rest = left.checked_sub(logged.record_bytes());
            left = rest.unwrap_or_default();
            rest.is_some()
        };
        purges
            .iter()
            .rev()
            .take(self.records)
            .take_while(fits)
            .count()
    }
}

/// Folds `purges`, whose numbers rise by site. Returns at most as many records as `limits` permits, or one for each site if that
/// is more, sorted by number.
pub(super) fn fold(
    purges: Vec<LoggedPurge>,
    limits: FoldLimits,
    now: SystemTime,
) -> Vec<LoggedPurge> {
    let mut sites: BTreeMap<String, Vec<LoggedPurge>> = BTreeMap::new();
    for logged in purges {
        match sites.get_mut(&logged.site) {
            Some(of_site) => of_site.push(logged),
            None => drop(sites.insert(logged.site.clone(), vec![logged])),
        }
    }
    for of_site in sites.values_mut() {
        drop_superfluous(of_site);
        drop_old_patterns(of_site);
    }
    // Only sites that exceed their share are folded.
    let share = limits.share(sites.len());
    let bytes = sites.values().flatten().map(LoggedPurge::record_bytes);
    let exceeds = bytes.sum::<usize>() > limits.bytes
        || sites.values().map(Vec::len).sum::<usize>() > limits.records;
    if exceeds {
        let large = |of_site: &&mut Vec<LoggedPurge>| share.are_exceeded_by(of_site);
        for of_site in sites.values_mut().filter(large) {
            soften_old(of_site, now);
            if share.are_exceeded_by(of_site) {
                raise_floor(of_site, share.share(2).fitting(of_site));
            }
        }
    }
    let mut folded: Vec<LoggedPurge> = sites.into_values().flatten().collect();
    folded.sort_by_key(|logged| logged.number);
    folded
}

/// Removes purges that newer purges of the same site cover exactly. `of_site` is in the order of numbers, before and after.
fn drop_superfluous(of_site: &mut Vec<LoggedPurge>) {
    let (mut hard, mut soft) = (HashSet::new(), HashSet::new());
    let mut kept: Vec<bool> = of_site
        .iter()
        .rev()
        .map(|logged| {
            let scope = whole_or(&logged.purge.scope);
            let is_below_hard = hard.contains(scope) || hard.contains(&Scope::Site);
            match logged.purge.strength {
                Strength::Hard => !is_below_hard && hard.insert(scope.clone()),
                Strength::Soft => {
                    let is_below_soft = soft.contains(scope) || soft.contains(&Scope::Site);
                    !is_below_hard && !is_below_soft && soft.insert(scope.clone())
                }
            }
        })
        .collect();
    of_site.retain(|_| kept.pop().unwrap_or(true));
}

/// Replaces all soft purges up to the newest old one by one soft purge of the whole site.
fn soften_old(of_site: &mut Vec<LoggedPurge>, now: SystemTime) {
    let is_old = |logged: &LoggedPurge| {
        let age = now.duration_since(logged.at).unwrap_or_default();
        logged.purge.strength == Strength::Soft && age > SOFT_AGE
    };
    if let Some(newest) = of_site.iter_mut().rfind(|logged| is_old(logged)) {
        newest.purge.scope = Scope::Site;
        drop_superfluous(of_site);
    }
}

/// Replaces the patterns that the purge table does not keep, and all earlier purges, by a floor.
fn drop_old_patterns(of_site: &mut Vec<LoggedPurge>) {
    let is_pattern =
        |(_, logged): &(usize, &LoggedPurge)| matches!(logged.purge.scope, Scope::Pattern(_));
    let mut newest = of_site.iter().enumerate().rev().filter(is_pattern);
    if let Some((at, _)) = newest.nth(MAX_SITE_PATTERNS) {
        raise_floor(of_site, of_site.len() - at - 1);
    }
}

/// Keeps the `newest` newest purges and replaces all earlier ones by one hard purge of the whole site.
fn raise_floor(of_site: &mut Vec<LoggedPurge>, newest: usize) {
    let floor_at = of_site.len().saturating_sub(newest + 1);
    of_site.drain(..floor_at);
    if let Some(floor) = of_site.first_mut() {
        floor.purge.scope = Scope::Site;
        floor.purge.strength = Strength::Hard;
    }
}

/// The tag `*` means the whole site, as in [`crate::purge_table`].
fn whole_or(scope: &Scope) -> &Scope {
    match scope {
        Scope::Tag(tag) if tag == "*" => &Scope::Site,
        scope => scope,
    }
}

#[cfg(test)]
mod tests {
    use galley_policy::purge::{Purge, PurgePattern};
    use proptest::prelude::*;

    use super::*;
    use crate::purge_table::{PurgeTable, Validity};
    use crate::testing::entry;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + 1_000 * DAY
    }

    fn logged(number: u64, strength: Strength, scope: Scope) -> LoggedPurge {
        LoggedPurge {
            site: "a".into(),
            number,
            at: now(),
            purge: Purge { scope, strength },
        }
    }

    fn records(records: usize) -> FoldLimits {
        FoldLimits {
            records,
            bytes: 1 << 20,
        }
    }

    fn tag(name: &str) -> Scope {
        Scope::Tag(name.into())
    }

    #[test]
    fn purges_that_newer_ones_cover_are_left_out_and_hard_stays_hard() {
        use Strength::{Hard, Soft};
        let table = [
            (vec![(Hard, tag("t")), (Hard, tag("t"))], vec![2]),
            (vec![(Soft, tag("t")), (Soft, tag("t"))], vec![2]),
            (vec![(Soft, tag("t")), (Hard, tag("t"))], vec![2]),
            (vec![(Hard, tag("t")), (Soft, tag("t"))], vec![1, 2]),
            (vec![(Hard, tag("t")), (Hard, tag("u"))], vec![1, 2]),
            (vec![(Hard, tag("t")), (Hard, Scope::Site)], vec![2]),
            (vec![(Hard, tag("t")), (Hard, tag("*"))], vec![2]),
            (vec![(Hard, tag("t")), (Soft, Scope::Site)], vec![1, 2]),
            (vec![(Soft, tag("t")), (Soft, Scope::Site)], vec![2]),
            (vec![(Hard, Scope::Site), (Soft, tag("t"))], vec![1, 2]),
            (
                vec![(Hard, tag("t")), (Soft, tag("t")), (Soft, tag("t"))],
                vec![1, 3],
            ),
        ];
        for (purges, kept) in table {
            let purges = (1..).zip(purges);
            let purges: Vec<LoggedPurge> = purges
                .map(|(number, (strength, scope))| logged(number, strength, scope))
                .collect();
            let folded = fold(purges.clone(), records(100), now());
            let numbers: Vec<u64> = folded.iter().map(|logged| logged.number).collect();
            assert_eq!(numbers, kept, "{purges:?}");
        }
    }

    #[test]
    fn above_the_limit_old_soft_purges_are_folded_first_then_the_oldest_of_large_sites() {
        let old_soft = (1..=50).map(|n| LoggedPurge {
            at: now() - 8 * DAY,
            ..logged(n, Strength::Soft, tag(&format!("s{n}")))
        });
        let recent = (51..=60).map(|n| logged(n, Strength::Hard, tag(&format!("h{n}"))));
        let purges: Vec<LoggedPurge> = old_soft.chain(recent).collect();
        assert_eq!(
            fold(purges.clone(), records(60), now()),
            purges,
            "within the limit nothing is coarse"
        );
        let folded = fold(purges.clone(), records(59), now());
        assert_eq!(folded.len(), 11);
        assert_eq!(folded[0].purge.scope, Scope::Site);
        assert_eq!(
            (folded[0].purge.strength, folded[0].number),
            (Strength::Soft, 50)
        );
        let quiet = LoggedPurge {
            site: "b".into(),
            ..logged(1, Strength::Hard, tag("t"))
        };
        let mut both = purges;
        both.push(quiet.clone());
        let folded = fold(both, records(8), now());
        assert!(folded.contains(&quiet), "a neighbour does not pay");
        let floor = folded.iter().find(|logged| logged.site == "a").unwrap();
        assert_eq!((floor.purge.strength, floor.number), (Strength::Hard, 58));
        assert_eq!(folded.len(), 4);
        assert!(folded.is_sorted_by_key(|logged| logged.number));
    }

    #[test]
    fn only_the_patterns_that_the_table_keeps_are_kept() {
        let pattern = |number: u64| {
            let pattern = PurgePattern::parse(&format!("^/{number}")).unwrap();
            logged(number, Strength::Soft, Scope::Pattern(pattern))
        };
        let purges: Vec<LoggedPurge> = (1..=40_000).map(pattern).collect();
        let folded = fold(purges.clone(), records(100_000), now());
        assert_eq!(folded.len(), MAX_SITE_PATTERNS + 1);
        assert_eq!(folded[0].purge.scope, Scope::Site);
        assert_eq!(folded[0].purge.strength, Strength::Hard);
        assert_eq!(folded[1..], purges[40_000 - MAX_SITE_PATTERNS..]);
        let few = &purges[..MAX_SITE_PATTERNS];
        assert_eq!(fold(few.to_vec(), records(100_000), now()), few);
    }

    fn purges() -> impl Strategy<Value = Vec<LoggedPurge>> {
        let scope = prop_oneof![
            4 => prop::sample::select(vec!["t", "u", "v", "*"]).prop_map(tag),
            1 => Just(Scope::Site),
            1 => Just(Scope::Host("a.test".into())),
            1 => Just(Scope::Prefix(b"/p".to_vec())),
            1 => Just(Scope::Pattern(PurgePattern::parse("^/p").unwrap())),
        ];
        let purge = (scope, any::<bool>(), 0..20u32, 1..3u64);
        prop::collection::vec(purge, 0..40).prop_map(|purges| {
            let mut number = 0;
            let each = purges.into_iter().map(|(scope, is_hard, age, step)| {
                number += step;
                let strength = if is_hard {
                    Strength::Hard
                } else {
                    Strength::Soft
                };
                LoggedPurge {
                    at: now() - age * DAY,
                    ..logged(number, strength, scope)
                }
            });
            each.collect()
        })
    }

    fn severities(purges: &[LoggedPurge]) -> Vec<u8> {
        let purge_table = PurgeTable::new();
        for logged in purges {
            purge_table.replay(logged.number, &logged.purge);
        }
        purge_table.lift(1_000);
        let tags: [&[&str]; 5] = [&[], &["t"], &["u", "v"], &["w"], &["*"]];
        let pages = tags
            .iter()
            .flat_map(|tags| (0..90).map(|born| entry("a.test", "/p", tags, born)));
        let validities = pages.map(|page| match purge_table.validity(&page) {
            Validity::Valid => 0,
            Validity::SoftPurged => 1,
            Validity::Outdated | Validity::Purged | Validity::Unknown => 2,
        });
        validities.collect()
    }

    proptest! {
        #[test]
        fn folding_purges_the_same_and_above_the_limits_no_less(
            purges in purges(), limit in 0..10usize, bytes in 100..2_000usize,
        ) {
            let limits = FoldLimits { records: limit, bytes };
            let before = severities(&purges);
            prop_assert_eq!(&before, &severities(&fold(purges.clone(), records(100), now())));
            let folded = fold(purges, limits, now());
            prop_assert!(folded.len() <= limit.max(1));
            prop_assert!(folded.iter().map(LoggedPurge::record_bytes).sum::<usize>() <= bytes);
            let after = severities(&folded);
            prop_assert!(before.iter().zip(&after).all(|(before, after)| before <= after));
        }
    }
}
