//! One stored response.
//!
//! Immutable once made, but for atomics: up to which purge it was proved, how often it was hit, when it was last
//! asked to be renewed, its compressed forms, and the reservation that pays for it. What changes about a page is a new entry
//! in the same place. Its weight is fixed when it is made, because the table that holds it relies on that.
//!
//! Whether it may be served is not decided here: purges in [`crate::purge_table`], freshness in `galley_policy::decide`.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use galley_policy::encoding::Coding;
use galley_policy::storable::Lifetime;
use galley_policy::time::Tick;
use http::{HeaderMap, StatusCode};

use crate::body::StoredBody;
use crate::budget::{MemoryBudget, OutOfBudget, Reservation};
use crate::disk::BodyPieces;
use crate::fields;
use crate::fragments::PageFragment;
use crate::includes::Assembly;
use crate::key::Key;
use crate::source::EntrySource;
use crate::validity::ValidityCheck;

pub use crate::fields::FieldLines;
pub use crate::scopes::Scopes;

/// Whether an entry serves requests or only remembers something about a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A response to be sent.
    Page,
    /// A marker without a body: what this URL answers may not be stored, so each request bypasses the cache.
    HitForPass,
    /// A marker for an address whose responses vary: by which fields is in its `Vary`, which variants there are in its
    /// body, in the caller's form. The variants are entries under keys of their own.
    Varies,
}

/// What an entry is made from; see the fields of [`Entry`].
#[derive(Clone, Debug)]
pub struct EntryParts {
    /// Identity.
    pub key: Key,
    /// Page or marker.
    pub kind: EntryKind,
    /// Status of the response.
    pub status: StatusCode,
    /// Header fields as they are stored.
    pub fields: HeaderMap,
    /// The body, with its reservation where it came out of a fill.
    pub body: StoredBody,
    /// When the response was received.
    pub stored_at: Tick,
    /// Lifetimes.
    pub life: Lifetime,
    /// What purges reach it by.
    pub scopes: Scopes,
    /// The tags' names, for people.
    pub tags: Vec<String>,
    /// The site's counter immediately before the first byte of the upstream request was sent.
    pub born: u64,
}

/// One stored response, shared between all cores.
pub struct Entry {
    /// Identity.
    pub key: Key,
    /// Page or marker.
    pub kind: EntryKind,
    /// Status of the response.
    pub status: StatusCode,
    /// Header fields as they are stored: end-to-end, without what a stored copy must not carry.
    pub fields: HeaderMap,
    /// The body. Clones of it may outlive the entry where it came out of a fill (its reservation is inside); else keep
    /// the `Arc<Entry>` while sending, because the entry's reservation pays for it.
    pub body: Bytes,
    /// When the response was received.
    pub stored_at: Tick,
    /// Lifetimes, counted from `stored_at`.
    pub life: Lifetime,
    /// What purges reach it by.
    pub scopes: Scopes,
    /// The tags' names, for people.
    pub tags: Vec<String>,
    /// The site's purge counter immediately before the first byte of the upstream request was sent.
    pub born: u64,
    /// Written by whoever proves the entry; see [`ValidityCheck`].
    pub(crate) proof: ValidityCheck,
    /// Written by look-ups that found it; stops at [`HITS_COUNTED`].
    hits: AtomicU32,
    /// Written by [`Entry::claim_renewal`]: the tick from which it may be claimed again.
    renewal: AtomicU64,
    weight: u64,
    /// How much of the weight the body's own reservation pays for.
    body_reserved: u64,
    /// Pays for the rest; written once, by the first `put`.
    held: OnceLock<Reservation>,
    /// Where the body is, if it is not in `body`.
    pieces: Option<Arc<BodyPieces>>,
    /// `fields` as they leave.
    lines: FieldLines,
    /// The same response in other codings.
    coded: Box<[EncodedEntry]>,
    /// How far coding it has come: written by whoever offers it to be coded.
    press: AtomicU8,
    /// What it was made from, where that is a file.
    source: Option<Arc<EntrySource>>,
    /// How its codings were made.
    pressed: Press,
    /// Parts that it shares with other pages, by their place.
    fragments: Box<[PageFragment]>,
    /// What it was put together from, if it has includes.
    assembly: Option<Arc<Assembly>>,
}

/// A stored response in another coding: a representation of its own.
#[derive(Clone, Debug)]
pub struct EncodedEntry {
    /// The coding.
    pub coding: Coding,
    /// Header fields, its own validator among them.
    pub fields: HeaderMap,
    /// The coded body; its reservation is inside.
    pub body: StoredBody,
    /// Whether it was found beside the file, and not made here.
    pub is_given: bool,
    lines: FieldLines,
}

/// How far the coding of an entry has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Press {
    /// Nobody has looked yet.
    Untried = 0,
    /// It was offered, or is not worth it.
    Tried = 1,
    /// It has been coded quickly.
    Quick = 2,
    /// It has been coded densely, or was offered for that.
    Dense = 3,
}

impl Entry {
    /// An entry that counts as proved up to `born`, so that a purge that came between is seen at its first hit.
    pub fn new(mut parts: EntryParts) -> Self {
        let (fields, lines) = fields::compact(&parts.fields);
        parts.fields = fields;
        let weight = weigh(&parts, &lines);
        let (body, body_reserved) = parts.body.into_parts();
        Self {
            key: parts.key,
            kind: parts.kind,
            status: parts.status,
            fields: parts.fields,
            body,
            stored_at: parts.stored_at,
            life: parts.life,
            scopes: parts.scopes,
            tags: parts.tags,
            born: parts.born,
            proof: ValidityCheck::born(parts.born),
            hits: AtomicU32::new(0),
            renewal: AtomicU64::new(0),
            weight,
            body_reserved,
            held: OnceLock::new(),
            pieces: None,
            lines,
            coded: Box::default(),
            press: AtomicU8::new(Press::Untried as u8),
            source: None,
            pressed: Press::Untried,
            fragments: Box::default(),
            assembly: None,
        }
    }

    /// The same page with the fragments that are in its body, by their place.
    #[must_use]
    pub fn with_fragments(self, fragments: Vec<PageFragment>) -> Self {
        let shared = fragments.iter().map(|fragment| fragment.version.weight());
        // The table of versions and the pages pay for each together; a page counts its share as if it had four neighbours.
        let own = fragments.len() as u64 * size_of::<PageFragment>() as u64;
        Self {
            weight: self.weight + own + shared.sum::<u64>() / 4,
            fragments: fragments.into(),
            ..self
        }
    }

    /// The same page, put together from a page and its includes.
    #[must_use]
    pub fn with_assembly(self, assembly: Option<Arc<Assembly>>) -> Self {
        let added = assembly.as_ref().map_or(0, |assembly| assembly.weight());
        Self {
            weight: self.weight + added,
            assembly,
            ..self
        }
    }

    /// What it was put together from; `None`: it has no includes.
    pub fn assembly(&self) -> Option<&Arc<Assembly>> {
        self.assembly.as_ref()
    }

    /// The same page, as often requested as the one that it replaces.
    #[must_use]
    pub fn with_hits_of(self, replaced: &Self) -> Self {
        self.hits
            .store(replaced.hits.load(Ordering::Relaxed), Ordering::Relaxed);
        self
    }

    /// Parts that it shares with other pages, by their place.
    pub fn fragments(&self) -> &[PageFragment] {
        &self.fragments
    }

    /// The entry of a file, with the codings that were found beside it.
    #[must_use]
    pub fn of_file(self, source: EntrySource, given: Vec<EncodedEntry>) -> Self {
        let coded = weight_of(&given);
        Self {
            weight: self.weight + source.weight() + coded,
            body_reserved: self.body_reserved + reserved_of(&given),
            coded: given.into(),
            source: Some(Arc::new(source)),
            ..self
        }
    }

    /// The same entry with its body in other codings too, and `fields` that say so; to take its place by `Memory::put_if_same`. It is proved anew.
    #[must_use]
    pub fn with_coded(&self, fields: &HeaderMap, coded: Vec<EncodedEntry>, press: Press) -> Self {
        let (fields, lines) = fields::compact(fields);
        let plain = self.weight - weight_of(&self.coded) - head_weight(&self.fields, &self.lines)
            + head_weight(&fields, &lines);
        let plain_reserved = self.body_reserved - reserved_of(&self.coded);
        Self {
            key: self.key.clone(),
            kind: self.kind,
            status: self.status,
            fields,
            body: self.body.clone(),
            stored_at: self.stored_at,
            life: self.life,
            scopes: self.scopes.clone(),
            tags: self.tags.clone(),
            born: self.born,
            proof: ValidityCheck::born(self.born),
            hits: AtomicU32::new(self.hits.load(Ordering::Relaxed)),
            renewal: AtomicU64::new(self.renewal.load(Ordering::Relaxed)),
            weight: plain + weight_of(&coded),
            body_reserved: plain_reserved + reserved_of(&coded),
            held: OnceLock::new(),
            pieces: None,
            lines,
            coded: coded.into(),
            press: AtomicU8::new(press as u8),
            source: self.source.clone(),
            pressed: press,
            fragments: self.fragments.clone(),
            assembly: self.assembly.clone(),
        }
    }

    /// Gives a claim back: nothing came of it, and a later hit may try again.
    pub fn release_press(&self) {
        let step = if self.is_pressed() {
            Press::Quick
        } else {
            Press::Untried
        };
        self.press.store(step as u8, Ordering::Relaxed);
    }

    /// The stored head as it leaves.
    pub fn lines(&self) -> &FieldLines {
        &self.lines
    }

    /// The other codings that are stored.
    pub fn coded(&self) -> &[EncodedEntry] {
        &self.coded
    }

    /// Whether codings of it were made here.
    pub fn is_pressed(&self) -> bool {
        self.coded.iter().any(|coded| !coded.is_given)
    }

    /// What it was made from, where that is a file.
    pub fn source(&self) -> Option<&EntrySource> {
        self.source.as_deref()
    }

    /// How its codings were made, whatever was offered since.
    pub fn pressed(&self) -> Press {
        self.pressed
    }

    /// Whether the caller is to have it coded: true once for each step, for one caller.
    pub fn claim_press(&self, step: Press) -> bool {
        self.press.load(Ordering::Relaxed) < step as u8
            && self.press.fetch_max(step as u8, Ordering::Relaxed) < step as u8
    }

    /// An entry whose body stays on the disk. It holds a file open, so the memory does not take it in.
    pub(crate) fn in_pieces(parts: EntryParts, pieces: Arc<BodyPieces>) -> Self {
        Self {
            pieces: Some(pieces),
            ..Self::new(parts)
        }
    }

    /// The body's place on the disk; `None`: it is in `body`.
    pub fn pieces(&self) -> Option<&Arc<BodyPieces>> {
        self.pieces.as_ref()
    }

    /// Length of the body, wherever it is.
    pub fn length(&self) -> u64 {
        self.pieces
            .as_ref()
            .map_or(self.body.len() as u64, |pieces| pieces.length())
    }

    /// Age in the sense of RFC 9111 section 4.2.3: what it had when it came, and the time since.
    pub fn age(&self, now: Tick) -> Duration {
        self.life
            .initial_age
            .saturating_add(now.since(self.stored_at))
    }

    /// Bytes it occupies, with its place in the table. Never changes.
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// How often it was found, up to [`HITS_COUNTED`].
    pub fn hits(&self) -> u64 {
        u64::from(self.hits.load(Ordering::Relaxed))
    }

    /// Whether the caller, and no other until `pause` has passed, is to see to its renewal.
    pub fn claim_renewal(&self, now: Tick, pause: Duration) -> bool {
        let from = self.renewal.load(Ordering::Relaxed);
        let pause = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        let next = now.0.saturating_add(pause);
        now.0 >= from
            && self
                .renewal
                .compare_exchange(from, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// The body for another entry that is to hold the same bytes: what pays for them is shared too.
    pub fn shared_body(&self) -> StoredBody {
        let reserved = self.body_reserved - reserved_of(&self.coded);
        StoredBody::from_parts(self.body.clone(), reserved)
    }

    /// The stored `ETag`.
    pub fn etag(&self) -> Option<&[u8]> {
        self.fields
            .get(http::header::ETAG)
            .map(http::HeaderValue::as_bytes)
    }

    /// Counts one hit.
    pub(crate) fn hit(&self) {
        // Two hits at once may pass the mark by a few; what matters is that a hot entry's line stops being written.
        if self.hits.load(Ordering::Relaxed) < HITS_COUNTED {
            self.hits.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Reserves what is not paid for yet; a second call has nothing left to do.
    pub(crate) fn hold(&self, budget: &MemoryBudget) -> Result<(), OutOfBudget> {
        if self.held.get().is_some() {
            return Ok(());
        }
        let unpaid = self.weight.saturating_sub(self.body_reserved);
        let reservation = budget.try_reserve(unpaid).ok_or(OutOfBudget)?;
        // Losing a race gives this reservation back: the entry is paid for once.
        let _ = self.held.set(reservation);
        Ok(())
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key)
            .field("kind", &self.kind)
            .field("status", &self.status)
            .field("body_bytes", &self.length())
            .field("born", &self.born)
            .field("proved", &self.proof.load())
            .finish_non_exhaustive()
    }
}

/// Where hits stop being counted: enough to call a page hot, and then its cache line is no longer written by every core.
pub const HITS_COUNTED: u32 = 10_000;

/// Counters of the `Arc`s around entry and key, and of the shared body.
const SHARED_HEADERS: u64 = 16 + 16 + 56;
/// Slot and hash of the table, spare capacity included.
const INDEX: u64 = 80;
/// One field in a `HeaderMap`: a bucket and its place in the map's index.
const FIELD: u64 = 112;

impl EncodedEntry {
    /// `body` in `coding`, with the fields of that.
    pub fn new(coding: Coding, fields: &HeaderMap, body: StoredBody) -> Self {
        let (fields, lines) = fields::compact(fields);
        Self {
            coding,
            fields,
            body,
            is_given: false,
            lines,
        }
    }

    /// The same of what was found beside a file.
    pub fn given(coding: Coding, fields: &HeaderMap, body: StoredBody) -> Self {
        Self {
            is_given: true,
            ..Self::new(coding, fields, body)
        }
    }

    /// Its head as it leaves.
    pub fn lines(&self) -> &FieldLines {
        &self.lines
    }

    fn weight(&self) -> u64 {
        let counted = size_of::<Self>() + self.body.bytes().len();
        counted as u64 + head_weight(&self.fields, &self.lines) + SHARED_HEADERS
    }
}

/// What a head holds besides the structs themselves.
fn head_weight(fields: &HeaderMap, lines: &FieldLines) -> u64 {
    lines.bytes() as u64 + fields.capacity() as u64 * FIELD
}

fn weight_of(coded: &[EncodedEntry]) -> u64 {
    coded.iter().map(EncodedEntry::weight).sum()
}

fn reserved_of(coded: &[EncodedEntry]) -> u64 {
    coded.iter().map(|one| one.body.reserved_bytes()).sum()
}

fn weigh(parts: &EntryParts, lines: &FieldLines) -> u64 {
    let names: usize = parts
        .tags
        .iter()
        .map(|tag| tag.capacity() + size_of::<String>())
        .sum();
    let counted = size_of::<Entry>()
        + parts.key.bytes().len()
        + parts.body.bytes().len()
        + parts.scopes.path_query.len()
        + size_of_val(&*parts.scopes.tags)
        + names;
    counted as u64 + head_weight(&parts.fields, lines) + SHARED_HEADERS + INDEX
}
