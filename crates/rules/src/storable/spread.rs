//! Lifetimes of our own are spread, so that what was stored together does not expire together.
//!
//! Only the one that the response leaves to us is cut, by at most a tenth and never lengthened: what it states itself
//! holds to the second, and a heuristic stays within what RFC 9111 §4.2.2 allows.

use std::time::Duration;

use super::{Answered, Life};
use crate::facts::Facts;
use crate::freshness;
use crate::site::{Ignore, SiteRules};

/// `life`, as [`super::judge`] gave it for the same answer, up to a tenth shorter where the answer names no lifetime.
///
/// `seed`: any number that belongs to the entry; equal seeds give equal lifetimes. Whole seconds are taken, so that what
/// lives for less than ten is left alone.
pub fn spread(
    facts: &Facts,
    answer: &Answered<'_>,
    site: &SiteRules,
    life: Life,
    seed: u64,
) -> Life {
    let rule = facts.rule().and_then(|index| site.rules.get(index));
    let ignore = rule.map_or(Ignore::default(), |rule| rule.ignore);
    let statement = freshness::statement(answer.fields, site.preset, ignore, answer.now);
    let is_ours =
        statement.lifetime.is_none() || super::missing_page(answer, &statement, site).is_some();
    let left = life.fresh.saturating_sub(life.initial_age);
    let most = left.as_secs() / 10;
    if !is_ours || most == 0 {
        return life;
    }
    let less = Duration::from_secs(seed % (most + 1));
    Life {
        fresh: life.fresh.saturating_sub(less),
        ..life
    }
}
