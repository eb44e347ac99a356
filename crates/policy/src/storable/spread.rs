//! Lifetimes of our own are spread, so that what was stored together does not expire together.
//!
//! Only the one that the response leaves to us is cut, by at most a tenth and never lengthened: what it states itself
//! holds to the second, and a heuristic stays within what RFC 9111 §4.2.2 allows.

use std::time::Duration;

use super::{Lifetime, ResponseHead};
use crate::freshness::Statement;
use crate::site::SiteRules;

/// `life`, as it was judged by this statement, up to a tenth shorter where the answer names no lifetime; see
/// [`super::judge_spread`]. Whole seconds are taken, so that what lives for less than ten is left alone.
pub(super) fn spread(
    answer: &ResponseHead<'_>,
    statement: &Statement,
    site: &SiteRules,
    life: Lifetime,
    seed: u64,
) -> Lifetime {
    let is_ours =
        statement.lifetime.is_none() || super::missing_page(answer, statement, site).is_some();
    let left = life.fresh.saturating_sub(life.initial_age);
    let most = left.as_secs() / 10;
    if !is_ours || most == 0 {
        return life;
    }
    let less = Duration::from_secs(seed % (most + 1));
    Lifetime {
        fresh: life.fresh.saturating_sub(less),
        ..life
    }
}
