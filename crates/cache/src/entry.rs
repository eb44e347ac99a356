//! One stored response.
//!
//! An entry is immutable except for atomics: the last purge that it was compared with, its hits, the time of its last
//! revalidation, the state of its compression, and its memory reservation. A page that changes is stored as a new entry under
//! the same key. The weight is fixed when the entry is made, because the table relies on that.
//!
//! This module does not decide whether an entry may be sent: [`crate::purge_table`] decides on purges,
//! `galley_policy::decide` on freshness.

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
use crate::difference_room::{self, DifferenceShare};
use crate::disk::BodyPieces;
use crate::encoded::{reserved_of, weight_of};
use crate::fields::{self, head_weight};
use crate::fragments::{self, PageFragment};
use crate::includes::Assembly;
use crate::key::Key;
use crate::plain_body::PlainBody;
use crate::source::{EntrySource, claim};
use crate::validity::ValidityCheck;

pub use crate::encoded::{CompressionStep, EncodedEntry};
pub use crate::fields::FieldLines;
pub use crate::scopes::Scopes;

/// Whether an entry is a response or a marker for its URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A response that may be sent.
    Page,
    /// A marker without a body: responses of this URL may not be stored, so each request bypasses the cache.
    HitForPass,
    /// A marker for an address whose responses vary. Its `Vary` names the request fields; its body lists the variants, in the
    /// caller's format. The variants are entries under separate keys.
    Varies,
}

/// The parts of a new entry; see the fields of [`Entry`].
#[derive(Clone, Debug)]
pub struct EntryParts {
    /// The cache key.
    pub key: Key,
    /// Whether the entry is a page or a marker.
    pub kind: EntryKind,
    /// The status of the response.
    pub status: StatusCode,
    /// The header fields to be stored.
    pub fields: HeaderMap,
    /// The body, with its reservation if it was received by a fill.
    pub body: StoredBody,
    /// The time at which the response was received.
    pub stored_at: Tick,
    /// The lifetimes.
    pub lifetime: Lifetime,
    /// The scopes of the purges that reach the entry.
    pub scopes: Scopes,
    /// The names of the tags, for display.
    pub tags: Vec<String>,
    /// The site's counter immediately before the first byte of the upstream request was sent.
    pub born: u64,
}

/// One stored response, shared between all threads.
pub struct Entry {
    /// The cache key.
    pub key: Key,
    /// Whether the entry is a page or a marker.
    pub kind: EntryKind,
    /// The status of the response.
    pub status: StatusCode,
    /// The stored header fields: end-to-end fields, without those that a stored response must not contain.
    pub fields: HeaderMap,
    /// The time at which the response was received.
    pub stored_at: Tick,
    /// The lifetimes, counted from `stored_at`.
    pub lifetime: Lifetime,
    /// The scopes of the purges that reach the entry.
    pub scopes: Scopes,
    /// The names of the tags, for display.
    pub tags: Vec<String>,
    /// The site's purge counter immediately before the first byte of the upstream request was sent.
    pub born: u64,
    /// The purges with which the entry was compared. Written by each comparison; see [`ValidityCheck`].
    pub(crate) checked: ValidityCheck,
    /// Written by lookups that found the entry. Not counted above [`HITS_COUNTED`].
    hits: AtomicU32,
    /// Set by lookups that are no longer counted; cleared by [`Entry::was_hit_since`].
    is_hit_again: AtomicBool,
    /// Written by [`Entry::claim_renewal`]: the tick from which the next renewal may be claimed.
    renewal: AtomicU64,
    /// Written by [`Entry::claim_plain`]: the tick at which the plain body of a packed entry was last needed, plus one.
    plain_wanted: AtomicU64,
    weight: u64,
    /// The reservation for the bytes that the bodies' own reservations do not cover. Written once, by the first `put`.
    held: OnceLock<Reservation>,
    body: PlainBody,
    /// `fields` as they are sent.
    lines: FieldLines,
    /// The same response in other content codings.
    coded: Box<[EncodedEntry]>,
    /// The compression step that was last claimed.
    claimed_step: AtomicU8,
    /// Written by [`Entry::claim_dictionaries`]: the state of the site's dictionaries that the page was compared with.
    pub(crate) dictionaries: AtomicU32,
    /// The page's share of the memory for differences.
    pub(crate) difference_share: Option<Arc<DifferenceShare>>,
    /// The file from which the entry was made, if any.
    source: Option<Arc<EntrySource>>,
    /// The compression step that made `coded`.
    made_by: CompressionStep,
    /// The fragments that the page shares with other pages, in the order of the body.
    fragments: Box<[PageFragment]>,
    /// The page's includes, if any.
    assembly: Option<Arc<Assembly>>,
}

impl Entry {
    /// An entry that counts as compared with all purges up to `born`, so its first hit detects any later purge.
    pub fn new(parts: EntryParts) -> Self {
        let (fields, lines) = fields::compact(&parts.fields);
        let entry = Self {
            key: parts.key,
            kind: parts.kind,
            status: parts.status,
            fields,
            stored_at: parts.stored_at,
            lifetime: parts.lifetime,
            scopes: parts.scopes,
            tags: parts.tags,
            born: parts.born,
            checked: ValidityCheck::born(parts.born),
            hits: AtomicU32::new(0),
            is_hit_again: AtomicBool::new(false),
            renewal: AtomicU64::new(0),
            plain_wanted: AtomicU64::new(0),
            weight: 0,
            held: OnceLock::new(),
            body: PlainBody::Held(parts.body),
            lines,
            coded: Box::default(),
            claimed_step: AtomicU8::new(CompressionStep::Untried as u8),
            dictionaries: AtomicU32::new(0),
            difference_share: None,
            source: None,
            made_by: CompressionStep::Untried,
            fragments: Box::default(),
            assembly: None,
        };
        entry.weighed()
    }

    /// The same page with the fragments in its body, in the order of the body.
    #[must_use]
    pub fn with_fragments(self, fragments: Vec<PageFragment>) -> Self {
        let fragments = fragments.into();
        Self { fragments, ..self }.weighed()
    }

    /// The same page, assembled from a page and its includes.
    #[must_use]
    pub fn with_assembly(self, assembly: Option<Arc<Assembly>>) -> Self {
        Self { assembly, ..self }.weighed()
    }

    /// The page's includes; `None`: it has none.
    pub fn assembly(&self) -> Option<&Arc<Assembly>> {
        self.assembly.as_ref()
    }

    /// The same page with the hits of the entry that it replaces.
    #[must_use]
    pub fn with_hits_of(self, replaced: &Self) -> Self {
        self.hits
            .store(replaced.hits.load(Ordering::Relaxed), Ordering::Relaxed);
        self
    }

    /// The fragments that the page shares with other pages, in the order of the body.
    pub fn fragments(&self) -> &[PageFragment] {
        &self.fragments
    }

    /// The entry of a file, with the compressed siblings of the file.
    #[must_use]
    pub fn of_file(self, source: EntrySource, given: Vec<EncodedEntry>) -> Self {
        let entry = Self {
            coded: given.into(),
            source: Some(Arc::new(source)),
            ..self
        };
        entry.weighed()
    }

    /// A copy of the entry with the body in other codings, too, and with `fields` that match. `Memory::put_if_same` stores it
    /// in place of the original. Its comparison with purges starts over.
    #[must_use]
    pub fn with_coded(
        &self,
        fields: &HeaderMap,
        coded: Vec<EncodedEntry>,
        made_by: CompressionStep,
    ) -> Self {
        let (fields, lines) = fields::compact(fields);
        let entry = Self {
            fields,
            lines,
            coded: coded.into(),
            claimed_step: AtomicU8::new(made_by as u8),
            made_by,
            ..self.copied()
        };
        entry.weighed()
    }

    /// A copy of the entry without the plain body, which can be restored from any of the codings.
    #[must_use]
    pub fn packed(&self) -> Self {
        let body = if self.is_compression_tried() {
            self.body.packed()
        } else {
            self.body.clone()
        };
        let entry = Self {
            body,
            claimed_step: AtomicU8::new(self.made_by as u8),
            ..self.copied()
        };
        entry.weighed()
    }

    /// A packed entry with its plain body, which all callers share while one of them needs it. If none does, `restore` returns the
    /// bytes, which must be the original ones: see [`Entry::is_packed_form_of`].
    pub fn unpacked<E>(
        &self,
        restore: impl FnOnce() -> Result<(Vec<u8>, Reservation), E>,
    ) -> Result<Self, E> {
        let body = match &self.body {
            PlainBody::Packed { restored, .. } => {
                PlainBody::Held(restored.get_or_restore(restore)?)
            }
            PlainBody::Held(_) | PlainBody::Pieces(_) => self.body.clone(),
        };
        let copied = self.copied();
        Ok(Self { body, ..copied }.weighed())
    }

    /// A copy without a reservation. Its comparison with purges starts over.
    fn copied(&self) -> Self {
        let load = |tick: &AtomicU64| AtomicU64::new(tick.load(Ordering::Relaxed));
        Self {
            key: self.key.clone(),
            kind: self.kind,
            status: self.status,
            fields: self.fields.clone(),
            stored_at: self.stored_at,
            lifetime: self.lifetime,
            scopes: self.scopes.clone(),
            tags: self.tags.clone(),
            born: self.born,
            checked: ValidityCheck::born(self.born),
            hits: AtomicU32::new(self.hits.load(Ordering::Relaxed)),
            is_hit_again: AtomicBool::new(false),
            renewal: load(&self.renewal),
            plain_wanted: load(&self.plain_wanted),
            weight: self.weight,
            held: OnceLock::new(),
            body: self.body.clone(),
            lines: self.lines.clone(),
            coded: self.coded.clone(),
            claimed_step: AtomicU8::new(self.claimed_step.load(Ordering::Relaxed)),
            // Who compares the entry may find it replaced by this copy, so the copy is compared again.
            dictionaries: AtomicU32::new(0),
            difference_share: self.difference_share.clone(),
            source: self.source.clone(),
            made_by: self.made_by,
            fragments: self.fragments.clone(),
            assembly: self.assembly.clone(),
        }
    }

    /// Releases the claim of a compression step that failed, so that a later hit may try again.
    pub fn release_compression(&self) {
        self.claimed_step
            .store(self.made_by as u8, Ordering::Relaxed);
    }

    /// The stored header lines as they are sent.
    pub fn lines(&self) -> &FieldLines {
        &self.lines
    }

    /// The stored codings other than the plain body.
    pub fn coded(&self) -> &[EncodedEntry] {
        &self.coded
    }

    /// Whether Galley made any of the codings.
    pub fn is_compression_tried(&self) -> bool {
        self.coded.iter().any(|coded| !coded.is_given)
    }

    /// The file from which the entry was made, if any.
    pub fn source(&self) -> Option<&EntrySource> {
        self.source.as_deref()
    }

    /// The compression step that made the codings, whatever has been offered since.
    pub fn compression_step(&self) -> CompressionStep {
        self.made_by
    }

    /// Whether the caller must compress the entry: true for one caller per step.
    pub fn claim_compression(&self, step: CompressionStep) -> bool {
        self.claimed_step.load(Ordering::Relaxed) < step as u8
            && self.claimed_step.fetch_max(step as u8, Ordering::Relaxed) < step as u8
    }

    /// An entry whose body stays on the disk. It keeps a file open, so it is never stored in memory.
    pub(crate) fn in_pieces(parts: EntryParts, pieces: Arc<BodyPieces>) -> Self {
        Self {
            body: PlainBody::Pieces(pieces),
            ..Self::new(parts)
        }
    }

    /// The plain body; `None` if it is not in memory: see [`Entry::is_packed`] and [`Entry::pieces`]. Clones of a body from a fill
    /// contain their reservation and may outlive the entry. For any other body, keep the `Arc<Entry>` while sending, because the
    /// entry's reservation covers it.
    pub fn body(&self) -> Option<&Bytes> {
        self.body.held().map(StoredBody::bytes)
    }

    /// As [`Entry::body`]. Another entry with a clone of it shares the reservation.
    pub fn stored_body(&self) -> Option<&StoredBody> {
        self.body.held()
    }

    /// The location of the body on the disk, if it is there.
    pub fn pieces(&self) -> Option<&Arc<BodyPieces>> {
        match &self.body {
            PlainBody::Pieces(pieces) => Some(pieces),
            PlainBody::Held(_) | PlainBody::Packed { .. } => None,
        }
    }

    /// Whether memory contains only the other codings of the body.
    pub fn is_packed(&self) -> bool {
        matches!(self.body, PlainBody::Packed { .. })
    }

    /// Whether the entry is packed and `plain` is its plain body.
    pub fn is_packed_form_of(&self, plain: &[u8]) -> bool {
        self.body.is_packed_form_of(plain)
    }

    /// Whether the entry is a page with a plain body that could be restored from one of its codings.
    pub fn is_packable(&self) -> bool {
        matches!(self.body, PlainBody::Held(_))
            && self.source.is_none()
            && self.is_compression_tried()
    }

    /// Records that the plain body of a packed entry is needed now. Returns whether it was also needed less than `recent` ago.
    pub fn claim_plain(&self, now: Tick, recent: Duration) -> bool {
        let last = self.plain_wanted.swap(now.0 + 1, Ordering::Relaxed);
        last.checked_sub(1)
            .is_some_and(|last| now.since(Tick(last)) < recent)
    }

    /// The length of the plain body, wherever it is stored.
    pub fn length(&self) -> u64 {
        self.body.length()
    }

    /// The age of the response (RFC 9111 section 4.2.3): its age when it was received, plus the time since.
    pub fn age(&self, now: Tick) -> Duration {
        self.lifetime
            .initial_age
            .saturating_add(now.since(self.stored_at))
    }

    /// The memory that the entry uses, in bytes, including its slot in the table. Never changes.
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// The number of hits, up to [`HITS_COUNTED`].
    pub fn hits(&self) -> u64 {
        u64::from(self.hits.load(Ordering::Relaxed))
    }

    /// Whether the caller must renew the entry: true for one caller until `pause` has passed.
    pub fn claim_renewal(&self, now: Tick, pause: Duration) -> bool {
        claim(&self.renewal, now, pause)
    }

    /// The stored `ETag`.
    pub fn etag(&self) -> Option<&[u8]> {
        self.fields
            .get(http::header::ETAG)
            .map(http::HeaderValue::as_bytes)
    }

    /// Counts one hit.
    pub(crate) fn hit(&self) {
        // Concurrent hits may exceed the limit by a few. The purpose is to stop writing the cache line of a hot entry.
        if self.hits.load(Ordering::Relaxed) < HITS_COUNTED {
            self.hits.fetch_add(1, Ordering::Relaxed);
        } else if !self.is_hit_again.load(Ordering::Relaxed) {
            self.is_hit_again.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the entry was hit since it had `hits` hits. If hits are no longer counted: since the previous call.
    pub(crate) fn was_hit_since(&self, hits: u64) -> bool {
        self.hits() > hits || self.is_hit_again.swap(false, Ordering::Relaxed)
    }

    /// Reserves the bytes that are not reserved yet. Later calls do nothing. For entries outside of the table; `put` calls it, too.
    pub fn reserve(&self, budget: &MemoryBudget) -> Result<(), OutOfBudget> {
        if self.held.get().is_some() {
            return Ok(());
        }
        for fragment in &self.fragments {
            fragment.version.reserve(budget)?;
        }
        let reserved = self.stored_body().map_or(0, StoredBody::reserved_bytes);
        let unpaid = self
            .weight
            .saturating_sub(reserved + reserved_of(&self.coded));
        let reservation = budget.try_reserve(unpaid).ok_or(OutOfBudget)?;
        // If another thread was faster, this reservation is released: the entry is reserved once.
        let _ = self.held.set(reservation);
        Ok(())
    }

    /// The same entry with its weight computed. Fragments are counted in their versions, which pages share.
    pub(crate) fn weighed(mut self) -> Self {
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
            + difference_room::weight_of(self.difference_share.as_ref())
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
            .field("checked", &self.checked.load())
            .finish_non_exhaustive()
    }
}

/// The number of hits above which hits are not counted: enough to call a page hot. Then threads no longer write its cache line.
pub const HITS_COUNTED: u32 = 10_000;

/// Counters of the `Arc`s of entry and key, and of the shared body or, of a packed entry, the place for it.
const SHARED_HEADERS: u64 = 16 + 16 + 56;
/// The slot and hash in the table, including spare capacity.
const INDEX: u64 = 80;
