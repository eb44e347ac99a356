//! How many purges of one site are executed exactly.
//!
//! A client with a site's token can send any number of purges, and each is written to the log, sent to other nodes and caches, and
//! listed. So each site has a token bucket. A purge that exceeds it is never dropped or delayed: the whole site is purged instead,
//! which costs one number, however often it happens.

use galley_policy::purge::{Purge, Scope, Strength};
use galley_policy::time::Tick;
use galley_sys::Lock;

/// The bucket of a site.
#[derive(Debug, Default)]
pub(super) struct PurgeBudget(Lock<Spent>);

#[derive(Debug, Default)]
struct Spent {
    /// What was taken and has not come back.
    tokens: u64,
    /// The time until which tokens have come back.
    at: Tick,
}

impl PurgeBudget {
    /// Takes the tokens of all purges. `Some`: there are not enough, and this purge takes their place.
    pub(super) fn take(&self, purges: &[Purge], now: Tick) -> Option<Purge> {
        let needed = purges.iter().map(tokens).sum::<u64>();
        let mut spent = self.0.lock();
        let milliseconds = u64::try_from(now.since(spent.at).as_millis()).unwrap_or(u64::MAX);
        spent.at = spent.at.max(now);
        spent.tokens = spent
            .tokens
            .saturating_sub(milliseconds.saturating_mul(PER_MS));
        if spent.tokens.saturating_add(needed) <= AT_ONCE {
            spent.tokens += needed;
            return None;
        }
        let is_hard = |purge: &Purge| purge.strength == Strength::Hard;
        Some(Purge {
            scope: Scope::Site,
            strength: if purges.iter().any(is_hard) {
                Strength::Hard
            } else {
                Strength::Soft
            },
        })
    }
}

/// One for the record of a purge, and one for each further part of its size; more for a pattern, which is compiled and compared
/// with pages.
fn tokens(purge: &Purge) -> u64 {
    let parts = u64::try_from(purge.scope.text_bytes() / PART_BYTES).unwrap_or(u64::MAX);
    match purge.scope {
        Scope::Pattern(_) => PATTERN + parts,
        Scope::Site | Scope::Host(_) | Scope::Url { .. } | Scope::Prefix(_) | Scope::Tag(_) => {
            1 + parts
        }
    }
}

/// The tokens of a full bucket: those of an import that changes some thousand products. Their records are at most 3 MB.
pub(super) const AT_ONCE: u64 = 10_000;

/// The tokens that come back in each millisecond: a thousand purges a second, and 256 KB.
const PER_MS: u64 = 1;

const PART_BYTES: usize = 256;
const PATTERN: u64 = 8;

#[cfg(test)]
mod tests {
    use galley_policy::purge::PurgePattern;

    use super::*;

    fn purge(scope: Scope, strength: Strength) -> Purge {
        Purge { scope, strength }
    }

    fn tag(bytes: usize) -> Purge {
        purge(Scope::Tag("t".repeat(bytes)), Strength::Soft)
    }

    #[test]
    fn beyond_the_budget_the_whole_site_is_purged_until_tokens_come_back() {
        let budget = PurgeBudget::default();
        let now = Tick(5);
        for _ in 0..AT_ONCE {
            assert_eq!(budget.take(&[tag(10)], now), None);
        }
        let all = |strength| Some(purge(Scope::Site, strength));
        assert_eq!(budget.take(&[tag(10)], now), all(Strength::Soft));
        let mixed = [tag(1), purge(Scope::Host("a".into()), Strength::Hard)];
        assert_eq!(
            budget.take(&mixed, now),
            all(Strength::Hard),
            "never softer"
        );
        assert_eq!(budget.take(&[tag(10)], Tick(4)), all(Strength::Soft));
        assert_eq!(budget.take(&mixed, Tick(6)), all(Strength::Hard));
        assert_eq!(budget.take(&mixed, Tick(7)), None);
        assert_eq!(budget.take(&mixed, Tick(7)), all(Strength::Hard));
    }

    #[test]
    fn long_texts_and_patterns_take_more() {
        let pattern = Scope::Pattern(PurgePattern::parse("^/a").unwrap());
        for (purge, expected) in [
            (tag(255), 1),
            (tag(1_024), 5),
            (purge(pattern, Strength::Hard), 8),
            (purge(Scope::Prefix(vec![b'p'; 8_192]), Strength::Hard), 33),
        ] {
            assert_eq!(tokens(&purge), expected, "{purge:.30?}");
        }
    }
}
