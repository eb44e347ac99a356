//! Whether what is stored may answer now.
//!
//! The last step before the store answers or the upstream is asked: freshness against age (RFC 9111 §4.2), the windows
//! of RFC 5861, soft purges, `only-if-cached` (RFC 9111 §5.2.1.7). Hard-purged entries never get here: for their
//! callers there is no entry. What the windows are was settled when the entry was stored ([`crate::freshness`]).

use std::time::Duration;

use http::HeaderMap;

use crate::facts::{Directives, Facts, Gate};
use crate::freshness;
use crate::site::Preset;
use crate::storable::Life;

/// An entry as it stands at this moment.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// Its current age, the one that it came with included.
    pub age: Duration,
    /// How long it lives.
    pub life: &'a Life,
    /// Whether a soft purge has touched it.
    pub soft_purged: bool,
    /// Its stored fields: whether `max-stale` may count.
    pub fields: &'a HeaderMap,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Answer from the entry.
    Fresh,
    /// Answer from the entry, and see that one refresh runs.
    ServeStaleAndRefresh,
    /// Answer from the stale entry, because the client takes it; nothing is refreshed for that.
    ServeStale,
    /// Ask the upstream.
    Fetch {
        /// Whether the entry may answer if that fails.
        stale_on_error: bool,
    },
    /// 504: the client wants no other answer than a stored one.
    OnlyIfCachedMiss,
}

/// Decides. `entry`: what is stored under the request's key and not hard-purged.
pub fn plan(facts: &Facts, entry: Option<&Standing<'_>>) -> Plan {
    let usable = match facts.gate() {
        Gate::Open => entry.map_or(
            Plan::Fetch {
                stale_on_error: false,
            },
            |entry| entry.use_of(&facts.directives()),
        ),
        Gate::Pass(_) => Plan::Fetch {
            stale_on_error: false,
        },
    };
    match usable {
        Plan::Fetch { .. } if facts.only_if_cached() => Plan::OnlyIfCachedMiss,
        plan => plan,
    }
}

impl Standing<'_> {
    /// `wishes` are empty with the WordPress preset (RFC 9111 §5.2.1).
    fn use_of(&self, wishes: &Directives) -> Plan {
        let life = self.life;
        let fetch = Plan::Fetch {
            stale_on_error: life.fresh.saturating_add(life.stale_if_error) > self.age,
        };
        let left = life.fresh.saturating_sub(self.age);
        let is_unwanted = wishes.no_cache
            || wishes.max_age.is_some_and(|oldest| self.age > oldest)
            || wishes.min_fresh.is_some_and(|wanted| left < wanted);
        if is_unwanted {
            return fetch;
        }
        if life.fresh > self.age && !self.soft_purged {
            return Plan::Fresh;
        }
        let staleness = self.age.saturating_sub(life.fresh);
        let is_taken = wishes.max_stale.is_some_and(|most| staleness <= most);
        if is_taken && !self.soft_purged && !freshness::forbids_stale(self.fields, Preset::None) {
            return Plan::ServeStale;
        }
        // Windows count from the end of freshness (RFC 5861 §3), also where a soft purge ended it early: a soft-purged
        // entry never outlives one that nobody purged.
        if life.fresh.saturating_add(life.stale_while_revalidate) > self.age {
            return Plan::ServeStaleAndRefresh;
        }
        fetch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FETCH: Plan = Plan::Fetch {
        stale_on_error: false,
    };
    const FETCH_OR_STALE: Plan = Plan::Fetch {
        stale_on_error: true,
    };

    #[test]
    fn use_of_an_entry_by_age() {
        // fresh, swr, sie, age, soft, wanted
        let table = [
            (60, 0, 0, 0, false, Plan::Fresh),
            (60, 0, 0, 59, false, Plan::Fresh),
            (60, 0, 0, 60, false, FETCH),
            (60, 10, 0, 60, false, Plan::ServeStaleAndRefresh),
            (60, 10, 0, 69, false, Plan::ServeStaleAndRefresh),
            (60, 10, 0, 70, false, FETCH),
            (60, 10, 100, 70, false, FETCH_OR_STALE),
            (60, 10, 100, 159, false, FETCH_OR_STALE),
            (60, 10, 100, 160, false, FETCH),
            (60, 0, 0, 5, true, Plan::ServeStaleAndRefresh),
            (60, 0, 0, 60, true, FETCH),
            (60, 10, 100, 65, true, Plan::ServeStaleAndRefresh),
            (60, 10, 100, 100, true, FETCH_OR_STALE),
            (0, 0, 0, 0, false, FETCH),
        ];
        for (fresh, swr, sie, age, soft_purged, wanted) in table {
            let life = Life {
                fresh: Duration::from_secs(fresh),
                stale_while_revalidate: Duration::from_secs(swr),
                stale_if_error: Duration::from_secs(sie),
                initial_age: Duration::ZERO,
            };
            let standing = Standing {
                age: Duration::from_secs(age),
                life: &life,
                soft_purged,
                fields: &HeaderMap::new(),
            };
            assert_eq!(
                standing.use_of(&Directives::default()),
                wanted,
                "{fresh} {swr} {sie} {age} {soft_purged}"
            );
        }
    }
}
