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
use galley_rules::site::Preset;
use galley_store::entry::{Entry, Kind};
use galley_store::epochs::Standing;
use galley_store::memory::Lookup;
use http::HeaderMap;
use http::header::{self, HeaderName, HeaderValue};

use super::page;
use super::site::{Services, Site};
use crate::compositor::renewal;

/// A fresh page in memory, in the coding that its client takes best.
pub struct Hit {
    entry: Arc<Entry>,
    coded: Option<usize>,
    /// What the client has is still right.
    is_known: bool,
    /// Only the head was asked for.
    is_head: bool,
    /// In seconds.
    pub age: u64,
}

/// How a hit's body leaves.
pub enum HitBody {
    /// 304: none, and no length either.
    None,
    /// HEAD: not sent, but of this length.
    Unsent(u64),
    /// These bytes; the entry pays for them as long as the hit is held.
    Bytes(Bytes),
}

/// The hit of a request, if it is one that may go the short way. `key` is room for its key.
pub fn hit(services: &Services, site: &Site, facts: &Facts, key: &mut Vec<u8>) -> Option<Hit> {
    let is_plain = facts.gate() == Gate::Open
        && matches!(facts.method(), Method::Get | Method::Head)
        && facts.range().is_none()
        && site.core.rules.preset == Preset::WordPress;
    if !is_plain {
        return None;
    }
    site.write_key(facts, key);
    let Lookup::Found(entry) = services.memory.try_get(key) else {
        return None;
    };
    let age = entry.age(services.clock.tick());
    let standing = lookup::Standing {
        age,
        life: &entry.life,
        soft_purged: false,
        fields: &entry.fields,
    };
    let is_fresh = entry.kind == Kind::Page
        && entry.status.as_u16() == 200
        && site.core.epochs.prove(&entry) == Standing::Alive
        && lookup::plan(facts, Some(&standing)) == Plan::Fresh
        // The long way sees to it.
        && !renewal::may_be_due(&entry, age);
    if !is_fresh {
        return None;
    }
    site.core.compressing.offer(&entry);
    let coded = page::coded(facts, &entry);
    let fields = fields(&entry, coded);
    let is_known = page::condition(facts, &site.core.rules, 200, fields) == Condition::NotModified;
    Some(Hit {
        coded,
        is_known,
        is_head: facts.method() == Method::Head,
        age: age.as_secs(),
        entry,
    })
}

impl Hit {
    /// Its status.
    pub fn status(&self) -> u16 {
        if self.is_known { 304 } else { 200 }
    }

    /// How it went.
    pub fn outcome(&self) -> Outcome {
        Outcome::Hit
    }

    /// The stored fields that leave with it.
    pub fn fields(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        let fields = fields(&self.entry, self.coded);
        let all = (!self.is_known).then(|| fields.iter());
        let some = self.is_known.then(|| page::of_not_modified(fields));
        all.into_iter().flatten().chain(some.into_iter().flatten())
    }

    /// Whether the stored fields say when it was composed.
    pub fn is_dated(&self) -> bool {
        fields(&self.entry, self.coded).contains_key(header::DATE)
    }

    /// What of the body leaves.
    pub fn body(&self) -> HitBody {
        let coded = self.coded.and_then(|at| self.entry.coded().get(at));
        let bytes = coded.map_or(&self.entry.body, |coded| coded.body.bytes());
        if self.is_known {
            HitBody::None
        } else if self.is_head {
            HitBody::Unsent(bytes.len() as u64)
        } else {
            HitBody::Bytes(bytes.clone())
        }
    }
}

fn fields(entry: &Entry, coded: Option<usize>) -> &HeaderMap {
    coded
        .and_then(|at| entry.coded().get(at))
        .map_or(&entry.fields, |coded| &coded.fields)
}
