//! The short way of a hit: from facts to what is to be sent, without waiting and without allocating.
//!
//! It decides nothing that the long way decides otherwise: both ask the same rules, and whatever is not a plain hit of a
//! fresh page in memory goes the long way (`tests/e2e/lane.rs` compares their answers byte for byte).

use std::sync::Arc;

use bytes::Bytes;
use galley_rules::conditional::Condition;
use galley_rules::facts::{Facts, Gate, Method};
use galley_rules::lookup::{self, Plan};
use galley_rules::outcome::Outcome;
use galley_rules::purge::is_below_purge;
use galley_rules::site::Preset;
use galley_rules::time::Tick;
use galley_store::entry::{Coded, Entry, Kind, Lines};
use galley_store::epochs::Standing;
use galley_store::memory::Lookup;
use http::StatusCode;

use super::page;
use super::site::{Services, Site};
use crate::compositor::renewal;

/// A fresh page in memory, in the coding that its client takes best.
pub struct Hit {
    /// Pays for the bytes as long as the hit is held.
    entry: Arc<Entry>,
    coded: Option<usize>,
    leaves: Leaves,
    /// In seconds.
    pub age: u64,
}

/// What of a page leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaves {
    All,
    /// Only the head was asked for.
    Head,
    /// 304: what the client has is still right.
    NotModified,
}

/// The hit of a request, if it is one that may go the short way. `key` is room for its key.
pub fn hit(
    services: &Services,
    site: &Site,
    facts: &Facts,
    now: Tick,
    key: &mut Vec<u8>,
) -> Option<Hit> {
    let is_plain = facts.gate() == Gate::Open
        && matches!(facts.method(), Method::Get | Method::Head)
        && facts.range().is_none()
        && site.core.rules.preset == Preset::WordPress
        // May be an order.
        && !(site.purge_get && is_below_purge(facts.path()));
    if !is_plain {
        return None;
    }
    site.write_key(facts, key);
    let Lookup::Found(entry) = services.memory.try_get(key) else {
        return None;
    };
    let age = entry.age(now);
    let standing = lookup::Standing {
        age,
        life: &entry.life,
        soft_purged: false,
        fields: &entry.fields,
    };
    let is_fresh = entry.kind == Kind::Page
        && entry.status == StatusCode::OK
        && site.core.epochs.prove(&entry) == Standing::Alive
        && lookup::plan(facts, Some(&standing)) == Plan::Fresh
        // The long way sees to it.
        && !renewal::may_be_due(&entry, age);
    if !is_fresh {
        return None;
    }
    site.core.compressing.offer(&entry);
    let coded = page::coded(facts, &entry);
    let fields = coded
        .and_then(|at| entry.coded().get(at))
        .map_or(&entry.fields, |coded| &coded.fields);
    let is_known = page::condition(facts, &site.core.rules, 200, fields) == Condition::NotModified;
    Some(Hit {
        coded,
        leaves: match (is_known, facts.method()) {
            (true, _) => Leaves::NotModified,
            (false, Method::Head) => Leaves::Head,
            (false, _) => Leaves::All,
        },
        age: age.as_secs(),
        entry,
    })
}

impl Hit {
    /// Its status.
    pub fn status(&self) -> StatusCode {
        match self.leaves {
            Leaves::All | Leaves::Head => StatusCode::OK,
            Leaves::NotModified => StatusCode::NOT_MODIFIED,
        }
    }

    /// How it went.
    pub fn outcome(&self) -> Outcome {
        Outcome::Hit
    }

    /// The stored lines that leave with it.
    pub fn lines(&self) -> &[u8] {
        let lines = self.all_lines();
        match self.leaves {
            Leaves::All | Leaves::Head => lines.all(),
            Leaves::NotModified => lines.of_not_modified(),
        }
    }

    /// Whether the stored lines say when it was composed.
    pub fn is_dated(&self) -> bool {
        self.all_lines().is_dated()
    }

    /// The length that the head tells; a 304 tells none.
    pub fn length(&self) -> Option<u64> {
        match self.leaves {
            Leaves::All | Leaves::Head => Some(self.bytes().len() as u64),
            Leaves::NotModified => None,
        }
    }

    /// What leaves behind the head.
    pub fn body(&self) -> &[u8] {
        match self.leaves {
            Leaves::All => self.bytes(),
            Leaves::Head | Leaves::NotModified => &[],
        }
    }

    fn chosen(&self) -> Option<&Coded> {
        self.coded.and_then(|at| self.entry.coded().get(at))
    }

    fn all_lines(&self) -> &Lines {
        self.chosen()
            .map_or_else(|| self.entry.lines(), Coded::lines)
    }

    fn bytes(&self) -> &Bytes {
        self.chosen()
            .map_or(&self.entry.body, |coded| coded.body.bytes())
    }
}
