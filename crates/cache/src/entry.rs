//! One stored response.
//!
//! It is immutable except for atomics: the purge up to which it was proved, its hits, the time of its last revalidation,
//! its compressed forms, and the reservation that pays for it. A page that changes becomes a new entry in the same place.
//! The weight is fixed when the entry is made, because the table relies on it.
//!
//! Whether an entry may be served is decided elsewhere: purges in [`crate::purge_table`], freshness in
//! `galley_policy::decide`.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use galley_policy::storable::Lifetime;
use galley_policy::time::Tick;
use http::{HeaderMap, StatusCode};

use crate::body::StoredBody;
use crate::budget::{MemoryBudget, OutOfBudget, Reservation};
use crate::disk::BodyPieces;
use crate::encoded::{reserved_of, weight_of};
use crate::fields::{self, head_weight};
use crate::fragments::{self, PageFragment};
use crate::includes::Assembly;
use crate::key::Key;
use crate::plain_body::PlainBody;
use crate::source::EntrySource;
use crate::validity::ValidityCheck;

pub use crate::encoded::EncodedEntry;
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
    /// The body, with its reservation if it is from a fill.
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
    /// Written by each proof of the entry; see [`ValidityCheck`].
    pub(crate) proof: ValidityCheck,
    /// Written by look-ups that found it; stops at [`HITS_COUNTED`].
    hits: AtomicU32,
    /// Set by look-ups that are not counted any more, cleared by [`Entry::was_hit_since`].
    is_hit_again: AtomicBool,
    /// Written by [`Entry::claim_renewal`]: the tick from which it may be claimed again.
    renewal: AtomicU64,
    /// Written by [`Entry::claim_plain`]: the tick at which the plain body of a packed entry was last wanted, and one more.
    plain_wanted: AtomicU64,
    weight: u64,
    /// Pays for what the bodies' own reservations do not pay for; written once, by the first `put`.
    held: OnceLock<Reservation>,
    body: PlainBody,
    /// `fields` as they leave.
    lines: FieldLines,
    /// The same response in other codings.
    coded: Box<[EncodedEntry]>,
    /// How far its compression has come: written when it is offered for compression.
    press: AtomicU8,
    /// Its source, if that is a file.
    source: Option<Arc<EntrySource>>,
    /// How its codings were made.
    pressed: Press,
    /// Parts that it shares with other pages, by their place.
    fragments: Box<[PageFragment]>,
    /// Its parts, if it has includes.
    assembly: Option<Arc<Assembly>>,
}

/// How far the coding of an entry has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Press {
    /// Nobody has checked yet.
    Untried = 0,
    /// It was offered, or is not worth it.
    Tried = 1,
    /// It has been coded quickly.
    Quick = 2,
    /// It has been coded densely, or was offered for that.
    Dense = 3,
    /// It was offered to drop its plain body.
    Packed = 4,
}

impl Entry {
    /// An entry that counts as proved up to `born`, so that a purge that came between is seen at its first hit.
    pub fn new(parts: EntryParts) -> Self {
        let (fields, lines) = fields::compact(&parts.fields);
        let entry = Self {
            key: parts.key,
            kind: parts.kind,
            status: parts.status,
            fields,
            stored_at: parts.stored_at,
            life: parts.life,
            scopes: parts.scopes,
            tags: parts.tags,
            born: parts.born,
            proof: ValidityCheck::born(parts.born),
            hits: AtomicU32::new(0),
            is_hit_again: AtomicBool::new(false),
            renewal: AtomicU64::new(0),
            plain_wanted: AtomicU64::new(0),
            weight: 0,
            held: OnceLock::new(),
            body: PlainBody::Held(parts.body),
            lines,
            coded: Box::default(),
            press: AtomicU8::new(Press::Untried as u8),
            source: None,
            pressed: Press::Untried,
            fragments: Box::default(),
            assembly: None,
        };
        entry.weighed()
    }

    /// The same page with the fragments that are in its body, by their place.
    #[must_use]
    pub fn with_fragments(self, fragments: Vec<PageFragment>) -> Self {
        let fragments = fragments.into();
        Self { fragments, ..self }.weighed()
    }

    /// The same page, put together from a page and its includes.
    #[must_use]
    pub fn with_assembly(self, assembly: Option<Arc<Assembly>>) -> Self {
        Self { assembly, ..self }.weighed()
    }

    /// Its parts; `None`: it has no includes.
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
        let entry = Self {
            coded: given.into(),
            source: Some(Arc::new(source)),
            ..self
        };
        entry.weighed()
    }

    /// The same entry with its body in other codings too, and `fields` that say so; to replace it by `Memory::put_if_same`. It
    /// is proved again.
    #[must_use]
    pub fn with_coded(&self, fields: &HeaderMap, coded: Vec<EncodedEntry>, press: Press) -> Self {
        let (fields, lines) = fields::compact(fields);
        let entry = Self {
            fields,
            lines,
            coded: coded.into(),
            press: AtomicU8::new(press as u8),
            pressed: press,
            ..self.copied()
        };
        entry.weighed()
    }

    /// The same entry without its plain body, which can be made again from any of its codings.
    #[must_use]
    pub fn packed(&self) -> Self {
        let body = if self.is_pressed() {
            self.body.packed()
        } else {
            self.body.clone()
        };
        let entry = Self {
            body,
            press: AtomicU8::new(self.pressed as u8),
            ..self.copied()
        };
        entry.weighed()
    }

    /// A packed entry with its plain body. `None`: these are not the bytes that it had.
    pub fn unpacked(&self, plain: StoredBody) -> Option<Self> {
        let is_it = self.is_packed_form_of(plain.bytes());
        is_it.then(|| {
            let body = PlainBody::Held(plain);
            let copied = self.copied();
            Self { body, ..copied }.weighed()
        })
    }

    /// The same content in an entry without a reservation yet; it is proved again.
    fn copied(&self) -> Self {
        let load = |tick: &AtomicU64| AtomicU64::new(tick.load(Ordering::Relaxed));
        Self {
            key: self.key.clone(),
            kind: self.kind,
            status: self.status,
            fields: self.fields.clone(),
            stored_at: self.stored_at,
            life: self.life,
            scopes: self.scopes.clone(),
            tags: self.tags.clone(),
            born: self.born,
            proof: ValidityCheck::born(self.born),
            hits: AtomicU32::new(self.hits.load(Ordering::Relaxed)),
            is_hit_again: AtomicBool::new(false),
            renewal: load(&self.renewal),
            plain_wanted: load(&self.plain_wanted),
            weight: self.weight,
            held: OnceLock::new(),
            body: self.body.clone(),
            lines: self.lines.clone(),
            coded: self.coded.clone(),
            press: AtomicU8::new(self.press.load(Ordering::Relaxed)),
            source: self.source.clone(),
            pressed: self.pressed,
            fragments: self.fragments.clone(),
            assembly: self.assembly.clone(),
        }
    }

    /// Gives a claim back: nothing came of it, and a later hit may try again.
    pub fn release_press(&self) {
        self.press.store(self.pressed as u8, Ordering::Relaxed);
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

    /// Its source, if that is a file.
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
            body: PlainBody::Pieces(pieces),
            ..Self::new(parts)
        }
    }

    /// The plain body; `None` if it is not in memory: see [`Entry::is_packed`] and [`Entry::pieces`]. Clones of it may outlive
    /// the entry if it is from a fill (its reservation is inside); otherwise keep the `Arc<Entry>` while sending, because the
    /// entry's reservation covers it.
    pub fn body(&self) -> Option<&Bytes> {
        self.body.held().map(StoredBody::bytes)
    }

    /// The body for another entry that is to hold the same bytes: what pays for them is shared too.
    pub fn shared_body(&self) -> Option<StoredBody> {
        self.body.held().cloned()
    }

    /// The body's place on the disk, if it is there.
    pub fn pieces(&self) -> Option<&Arc<BodyPieces>> {
        match &self.body {
            PlainBody::Pieces(pieces) => Some(pieces),
            PlainBody::Held(_) | PlainBody::Packed { .. } => None,
        }
    }

    /// Whether the body is in memory in other codings only.
    pub fn is_packed(&self) -> bool {
        matches!(self.body, PlainBody::Packed { .. })
    }

    /// Whether it is packed, and these are the bytes of its plain body.
    pub fn is_packed_form_of(&self, plain: &[u8]) -> bool {
        self.body.is_packed_form_of(plain)
    }

    /// Whether it is a page that has its plain body beside codings that it could be made from.
    pub fn is_packable(&self) -> bool {
        matches!(self.body, PlainBody::Held(_)) && self.source.is_none() && self.is_pressed()
    }

    /// Notes that the plain body of a packed entry is wanted now. Whether it was wanted before, less than `recent` ago.
    pub fn claim_plain(&self, now: Tick, recent: Duration) -> bool {
        let last = self.plain_wanted.swap(now.0 + 1, Ordering::Relaxed);
        last.checked_sub(1)
            .is_some_and(|last| now.since(Tick(last)) < recent)
    }

    /// Length of the plain body, wherever it is.
    pub fn length(&self) -> u64 {
        self.body.length()
    }

    /// Age in the sense of RFC 9111 section 4.2.3: its age on arrival, and the time since.
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
        } else if !self.is_hit_again.load(Ordering::Relaxed) {
            self.is_hit_again.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it was found since it had `hits`, or, if they are no longer counted, since this was last asked.
    pub(crate) fn was_hit_since(&self, hits: u64) -> bool {
        self.hits() > hits || self.is_hit_again.swap(false, Ordering::Relaxed)
    }

    /// Reserves what is not reserved yet; a second call has nothing left to do.
    pub(crate) fn hold(&self, budget: &MemoryBudget) -> Result<(), OutOfBudget> {
        if self.held.get().is_some() {
            return Ok(());
        }
        for fragment in &self.fragments {
            fragment.version.hold(budget)?;
        }
        let reserved = self.shared_body().map_or(0, |body| body.reserved_bytes());
        let unpaid = self
            .weight
            .saturating_sub(reserved + reserved_of(&self.coded));
        let reservation = budget.try_reserve(unpaid).ok_or(OutOfBudget)?;
        // Losing a race gives this reservation back: the entry is paid for once.
        let _ = self.held.set(reservation);
        Ok(())
    }

    /// The same, with its present weight. Fragments are counted with their versions, which pages share.
    fn weighed(mut self) -> Self {
        let names = self
            .tags
            .iter()
            .map(|tag| tag.capacity() + size_of::<String>());
        let counted = size_of::<Self>()
            + self.key.bytes().len()
            + self.body().map_or(0, Bytes::len)
            + self.scopes.path_query.len()
            + size_of_val(&*self.scopes.tags)
            + fragments::weight_of(&self.fragments)
            + names.sum::<usize>();
        self.weight = counted as u64
            + head_weight(&self.fields, &self.lines)
            + SHARED_HEADERS
            + INDEX
            + weight_of(&self.coded)
            + self.source().map_or(0, EntrySource::weight)
            + self.assembly().map_or(0, |assembly| assembly.weight());
        self
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
