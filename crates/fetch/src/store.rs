//! A response that is received to be stored: streamed to all waiting requests, then stored under its key or under its
//! variants.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use galley_cache::body::StoredBody;
use galley_cache::entry::{Entry, EntryKind, EntryParts};
use galley_cache::fill::{FillError, FillHead, FillSharing};
use galley_cache::includes::{Assembly, IncludedResponses};
use galley_cache::key::Key;
use galley_cache::memory::PutRefused;
use galley_cache::purge_table::Validity;
use galley_policy::class::is_page;
use galley_policy::forward::BY_GALLEY;
use galley_policy::fragments::InvalidFragments;
use galley_policy::outcome::{NotStored, StoreOutcome};
use galley_policy::purge::PURGE_FIELDS;
use galley_policy::site::{AddressedFields, ValidationPolicy, VaryPolicy};
use galley_policy::storable::{self, Lifetime, ResponseHead};
use galley_policy::tags::{self, Tags};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::entry_parts::{scopes, strong_etag};
use super::hit_for_pass::Uncacheable;
use super::in_progress::InProgressFetch;
use super::patch::ReceivedFragments;
use super::render::RenderedWith;
use super::replaced;
use super::rfc9111::variants;
use super::{FetchSite, FetchWorker, PageJob, ResponseSink, relay, write_to_disk};
use galley_codec::encode::PIECE;
use galley_purging::Recorder;
use galley_upstream::IncomingResponse;

/// The data that is stored when the body is complete.
pub(super) struct StorePlan {
    pub(super) status: StatusCode,
    pub(super) fields: HeaderMap,
    pub(super) lifetime: Lifetime,
    /// The tags of the page, without those of its fragments.
    pub(super) tags: Tags,
    pub(super) fragments: ReceivedFragments,
    /// The parts from which the page was assembled, if it has ESI includes.
    pub(super) assembly: Option<Arc<Assembly>>,
    /// For RFC 9111: the fields by which the responses of this address vary, and the selections that match this response.
    pub(super) names: Vec<HeaderName>,
    pub(super) selections: Vec<Vec<u8>>,
    pub(super) recorder: Recorder,
}

impl StorePlan {
    /// The tags of the page and its fragments.
    fn all_tags(&self) -> Tags {
        let mut tags = self.tags.clone();
        for part in &self.fragments.parts {
            tags.add(&part.tags);
        }
        tags
    }

    /// The responses that the page includes.
    fn inclusions(&self) -> IncludedResponses {
        let assembly = self.assembly.as_ref();
        assembly.map_or_else(IncludedResponses::default, |one| one.inclusions.clone())
    }

    /// The same page, assembled with ESI includes. The positions of its fragments in its fields no longer match, so the fragments
    /// become parts of the page.
    #[must_use]
    pub(super) fn with_assembly(self, assembly: Option<Arc<Assembly>>, lifetime: Lifetime) -> Self {
        Self {
            tags: self.all_tags(),
            fragments: ReceivedFragments::default(),
            assembly,
            lifetime,
            ..self
        }
    }

    /// The cache keys of the page: the key of its address, or those of its variants.
    fn keys(&self, job: &PageJob) -> Vec<Key> {
        if self.names.is_empty() {
            return vec![job.key.clone()];
        }
        let primary = job.key.bytes();
        let variant = |selection: &Vec<u8>| Key::new(&variants::key(primary, selection));
        self.selections.iter().map(variant).collect()
    }
}

impl FetchWorker {
    /// Prepares a response for storage; `None` if it varies by more fields than can be stored.
    pub(super) fn prepare_store(
        &self,
        job: &PageJob,
        in_progress: &InProgressFetch,
        incoming: &IncomingResponse,
        lifetime: Lifetime,
    ) -> Option<StorePlan> {
        let policy = &job.site.policy;
        let mut fields = storable::stored_fields(&incoming.fields, policy, job.info.rule());
        let (names, selections) = match job.storage().validation {
            ValidationPolicy::Galley => {
                storable::browser_fields(&mut fields, policy);
                storable::outer_fields(&mut fields, policy, &job.info, &lifetime);
                self.date(&mut fields);
                (Vec::new(), Vec::new())
            }
            ValidationPolicy::Origin => {
                let names = variants::names(&fields);
                let selections = variants::selections(&names, &in_progress.sent, &fields)?;
                self.finish_head(&mut fields);
                (names, selections)
            }
        };
        let compressing = &job.site.compressing;
        compressing.announce(incoming.status, &mut fields, incoming.length());
        let parts = match job.storage().fields {
            AddressedFields::OfPlugins => ReceivedFragments::of(&incoming.fields),
            AddressedFields::Standard => Ok(ReceivedFragments::default()),
        };
        let (tags, fragments) = match parts {
            Ok(fragments) => (tags::collect(&incoming.fields), fragments),
            Err(InvalidFragments) => (Tags::everything(), ReceivedFragments::default()),
        };
        Some(StorePlan {
            status: incoming.status,
            fields,
            lifetime,
            tags,
            fragments,
            assembly: None,
            names,
            selections,
            recorder: Recorder::off(),
        })
    }

    /// Streams a storable response to all readers.
    pub(super) async fn fill(
        &self,
        job: &PageJob,
        in_progress: &Rc<InProgressFetch>,
        sink: &mut ResponseSink,
        mut incoming: IncomingResponse,
        mut to_store: StorePlan,
    ) -> Result<Option<StorePlan>, FillError> {
        if !to_store.names.is_empty() {
            // Later requests then find their own variant, or this fetch under the key of its variant.
            self.note_variants(job, in_progress, &to_store.names, &to_store.selections);
        }
        let mut head = to_store.fields.clone();
        if job.storage().validation == ValidationPolicy::Origin {
            in_progress
                .is_confined
                .set(storable::add_confined(&incoming.fields, &mut head));
        }
        if job.site.counters.tends_not_to_be_stored(job.key.bytes()) {
            in_progress.store_outcome.set(StoreOutcome::Undecided);
        }
        sink.writer.head(FillHead {
            status: to_store.status,
            fields: head,
            share: FillSharing::Shared {
                lifetime: to_store.lifetime,
                tags: to_store.all_tags().ids,
                inclusions: to_store.inclusions(),
            },
            length: incoming.length(),
        });
        in_progress.announce_head();
        to_store.recorder = self.recorder(job, in_progress, &to_store, incoming.length());
        let note_progress = || in_progress.note_progress();
        relay(&mut incoming, sink, &mut to_store.recorder, &note_progress).await?;
        // A page that was fetched as a deeply nested include lacks includes that it has when a client requests it.
        let is_whole = job.depth == 0 || !to_store.inclusions().is_cut;
        match incoming.check_whole() {
            Ok(()) => Ok(Some(to_store).filter(|_| is_whole && job.may_store)),
            Err(why) => {
                self.note_not_stored(job, in_progress, why);
                Ok(None)
            }
        }
    }

    /// Prepares a recorder that writes the response to the disk if it is too large for memory, unless the policy evaluates the
    /// complete body.
    fn recorder(
        &self,
        job: &PageJob,
        in_progress: &InProgressFetch,
        to_store: &StorePlan,
        length: Option<u64>,
    ) -> Recorder {
        let is_judged_whole =
            storable::is_judged_whole(to_store.status, &to_store.fields, &job.site.policy);
        match (&job.site.disk, to_store.keys(job).into_iter().next()) {
            (Some(disk), Some(key))
                if !is_judged_whole && job.fragments.is_empty() && to_store.assembly.is_none() =>
            {
                let mut parts = self.parts(job, in_progress, to_store, key);
                // The positions of fragments are needed in memory only.
                parts.scopes.tags = to_store.all_tags().ids.into();
                let entry = Entry::new(parts);
                Recorder::ready(disk.clone(), entry, length)
            }
            _ => Recorder::off(),
        }
    }

    /// Stores a received response under its address or its variants.
    pub(super) async fn keep(
        self: &Rc<Self>,
        job: &PageJob,
        in_progress: &InProgressFetch,
        mut to_store: StorePlan,
        body: Option<StoredBody>,
    ) {
        if !in_progress.may_replace(self.memory.peek(job.key.bytes()).as_deref()) {
            return;
        }
        if job.storage().vary == VaryPolicy::Variants && to_store.names.is_empty() {
            self.forget_variants(job);
        }
        let Some(body) = body else {
            if to_store.recorder.finish().await {
                return job.site.counters.stored(&job.key);
            }
            // Too large for memory: the response was streamed, and the next request need not be coalesced.
            let uncacheable = Uncacheable {
                why: NotStored::TooLarge,
                status: to_store.status,
                fields: &to_store.fields,
            };
            return self.store_hit_for_pass(job, in_progress, &uncacheable);
        };
        let response_head = ResponseHead {
            status: to_store.status,
            fields: &to_store.fields,
            response_delay: Duration::ZERO,
            now: self.clock.wall(),
        };
        // The code below reads the body twice.
        if body.bytes().len() > PIECE {
            galley_sys::yield_processor();
        }
        if let Err(why) = (job.body_judge())(&response_head, &job.site.policy, body.bytes()) {
            self.pause_refreshes(job);
            return self.note_not_stored(job, in_progress, why);
        }
        // Without the preset, only the origin sets validators.
        if job.storage().validation == ValidationPolicy::Galley
            && !to_store.fields.contains_key(header::ETAG)
        {
            to_store
                .fields
                .insert(header::ETAG, strong_etag(body.bytes()));
        }
        let born = in_progress.born.get();
        if !job.fragments.is_empty() {
            let with = RenderedWith {
                tags: &to_store.tags,
                lifetime: to_store.lifetime,
                born,
                took: in_progress.delay(self.clock.tick()),
            };
            return self.note_rendered(job, &to_store.fragments.parts, body.bytes(), &with);
        }
        self.learn_facets(job, &to_store, body.bytes());
        let fragments = self.fragments_of(
            job,
            &to_store.fragments,
            body.bytes(),
            born,
            &mut to_store.tags,
        );
        for key in to_store.keys(job) {
            let parts = self.parts(job, in_progress, &to_store, key);
            let body = body.clone();
            let entry =
                Entry::new(EntryParts { body, ..parts }).with_assembly(to_store.assembly.clone());
            let entry =
                Arc::new(self.inheriting(&job.site, entry.with_fragments(fragments.clone())));
            self.store_entry(job, in_progress, &entry);
        }
        if job.site.policy.urls.no_vary_search {
            self.note_equivalents(job, in_progress, &to_store.fields);
        }
    }

    /// Learns which parameters of the query occur and change the page.
    fn learn_facets(&self, job: &PageJob, to_store: &StorePlan, body: &[u8]) {
        let (info, facets) = (&job.info, &job.site.counters.facets);
        if job.storage().validation == ValidationPolicy::Galley
            && to_store.status == StatusCode::OK
            && is_page(info)
        {
            // Not the `ETag` of the response: WordPress's plugins make some of the date of the post.
            let (path, now) = (info.decoded_path(), self.clock.tick());
            facets.learn(path, info.query(), body, now);
        }
    }

    /// An entry without its body.
    fn parts(
        &self,
        job: &PageJob,
        in_progress: &InProgressFetch,
        to_store: &StorePlan,
        key: Key,
    ) -> EntryParts {
        EntryParts {
            key,
            kind: EntryKind::Page,
            status: to_store.status,
            fields: to_store.fields.clone(),
            body: StoredBody::default(),
            stored_at: self.clock.tick(),
            lifetime: to_store.lifetime,
            scopes: scopes(&job.info, to_store.tags.ids.clone()),
            tags: to_store.tags.names.clone(),
            born: in_progress.born.get(),
        }
    }

    pub(super) fn store(&self, job: &PageJob, in_progress: &InProgressFetch, parts: EntryParts) {
        if !in_progress.may_replace(self.memory.peek(parts.key.bytes()).as_deref()) {
            return;
        }
        let entry = Arc::new(self.inheriting(&job.site, Entry::new(parts)));
        self.store_entry(job, in_progress, &entry);
    }

    fn store_entry(&self, job: &PageJob, in_progress: &InProgressFetch, entry: &Arc<Entry>) {
        if !in_progress.may_replace(self.memory.peek(entry.key.bytes()).as_deref()) {
            return;
        }
        let kind = entry.kind;
        if job.site.purges.validity_waiting(entry) == Validity::Purged {
            return self.note_not_stored(job, in_progress, NotStored::Purged);
        }
        let former = self.memory.peek(entry.key.bytes());
        let outcome = self.memory.put(Arc::clone(entry));
        write_to_disk(&job.site, entry, outcome);
        match outcome {
            Ok(()) if kind == EntryKind::Page => {
                if let Some(former) = former {
                    replaced::count(&job.site, former, entry);
                }
                in_progress.note_stored(entry);
                self.share(job, in_progress, entry);
                job.site.counters.stored(&job.key);
            }
            Err(PutRefused::TooLarge | PutRefused::Full) if job.site.disk.is_some() => {
                job.site.counters.stored(&job.key);
            }
            // An entry with a later purge number replaced it: nothing is missing.
            Ok(()) | Err(PutRefused::Superseded) => {}
            Err(PutRefused::TooLarge) => {
                self.note_not_stored(job, in_progress, NotStored::TooLarge);
            }
            Err(PutRefused::Full) => self.note_not_stored(job, in_progress, NotStored::Memory),
        }
    }

    /// Adds the compressed forms of the entry that is stored under the same key, if the body is the same, so that it is not
    /// compressed again.
    pub(super) fn inheriting(&self, site: &FetchSite, entry: Entry) -> Entry {
        match self.memory.peek(entry.key.bytes()) {
            Some(resident) => site.compressing.inherit(entry, &resident),
            None => entry,
        }
    }

    /// Adds a missing `Date`, as RFC 9110 section 6.6.1 requires of a recipient with a clock.
    fn date(&self, fields: &mut HeaderMap) {
        if !fields.contains_key(header::DATE) {
            let mut text = Vec::with_capacity(29);
            galley_policy::time::write_date(self.clock.wall(), &mut text);
            if let Ok(value) = HeaderValue::from_bytes(&text) {
                fields.insert(header::DATE, value);
            }
        }
    }

    /// The fields of a response that is sent to one client only.
    pub(super) fn private_head(&self, fields: &HeaderMap) -> HeaderMap {
        let mut fields = storable::forwarded_fields(fields);
        for name in PURGE_FIELDS {
            fields.remove(*name);
        }
        self.finish_head(&mut fields);
        fields
    }

    /// Adds the fields that each forwarded response has: a date (RFC 9110 §6.6.1), and `Via` (§7.6.3).
    pub(super) fn finish_head(&self, fields: &mut HeaderMap) {
        self.date(fields);
        if fields.get_all(header::VIA).iter().next_back() != Some(&BY_GALLEY) {
            fields.append(header::VIA, BY_GALLEY);
        }
    }
}

/// How far one slow reader may lag behind in a fill without a response spool, in bytes.
pub(super) const WINDOW: usize = 1024 * 1024;
