//! Stores a received response in memory and on the disk, under its key or under its variants, and records why a response was not
//! stored.

use std::sync::Arc;

use galley_cache::body::StoredBody;
use galley_cache::entry::{Entry, EntryKind, EntryParts};
use galley_cache::fragments::PageFragment;
use galley_cache::includes::{Assembly, IncludedResponses};
use galley_cache::key::Key;
use galley_cache::memory::PutRefused;
use galley_cache::purge_table::Validity;
use galley_policy::class::is_page;
use galley_policy::fragments::InvalidFragments;
use galley_policy::outcome::NotStored;
use galley_policy::site::{AddressedFields, ValidationPolicy};
use galley_policy::storable::{self, Lifetime};
use galley_policy::tags::{self, Tags};
use http::StatusCode;
use http::header::{HeaderMap, HeaderName};

use super::Storer;
use super::rfc9111::variants;
use crate::counters::UncachedPage;
use crate::entry_parts::{add_date, finish_head, scopes};
use crate::in_progress::InProgressFetch;
use crate::patch::ReceivedFragments;
use crate::{FetchSite, PageJob, replaced, write_to_disk};
use galley_purging::Recorder;
use galley_upstream::IncomingResponse;

/// The data that is stored when the body is complete.
pub(crate) struct StorePlan {
    pub(crate) status: StatusCode,
    pub(crate) fields: HeaderMap,
    pub(crate) lifetime: Lifetime,
    /// The tags of the page, without those of its fragments.
    pub(crate) tags: Tags,
    pub(crate) fragments: ReceivedFragments,
    /// The parts from which the page was assembled, if it has ESI includes.
    pub(crate) assembly: Option<Arc<Assembly>>,
    /// For RFC 9111: the fields by which the responses of this address vary, and the selections that match this response.
    pub(crate) names: Vec<HeaderName>,
    pub(crate) selections: Vec<Vec<u8>>,
    pub(crate) recorder: Recorder,
}

impl StorePlan {
    /// The tags of the page and its fragments.
    pub(crate) fn all_tags(&self) -> Tags {
        let mut tags = self.tags.clone();
        for part in &self.fragments.parts {
            tags.add(&part.tags);
        }
        tags
    }

    /// The responses that the page includes.
    pub(crate) fn inclusions(&self) -> IncludedResponses {
        let assembly = self.assembly.as_ref();
        assembly.map_or_else(IncludedResponses::default, |one| one.inclusions.clone())
    }

    /// The same page, assembled with ESI includes. The positions of its fragments in its fields no longer match, so the fragments
    /// become parts of the page.
    #[must_use]
    pub(crate) fn with_assembly(self, assembly: Option<Arc<Assembly>>, lifetime: Lifetime) -> Self {
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

impl Storer {
    /// Prepares a response for storage; `None` if it varies by more fields than can be stored.
    pub(crate) fn prepare_store(
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
                add_date(&mut fields, self.clock);
                (Vec::new(), Vec::new())
            }
            ValidationPolicy::Origin => {
                let names = variants::names(&fields);
                let selections = variants::selections(&names, &in_progress.sent, &fields)?;
                finish_head(&mut fields, self.clock);
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

    /// Prepares a recorder that writes the response to the disk if it is too large for memory, unless the policy evaluates the
    /// complete body.
    pub(crate) fn recorder(
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

    /// Stores a page under its key or its variants, with its fragments.
    pub(crate) fn store_page(
        &self,
        job: &PageJob,
        in_progress: &InProgressFetch,
        to_store: &StorePlan,
        body: &StoredBody,
        fragments: &[PageFragment],
    ) {
        self.learn_facets(job, to_store, body.bytes());
        for key in to_store.keys(job) {
            let parts = self.parts(job, in_progress, to_store, key);
            let body = body.clone();
            let entry =
                Entry::new(EntryParts { body, ..parts }).with_assembly(to_store.assembly.clone());
            let entry =
                Arc::new(self.inheriting(&job.site, entry.with_fragments(fragments.to_vec())));
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

    /// Records the reason, for `galley why`, and for the next request of the page.
    pub(crate) fn note_not_stored(
        &self,
        job: &PageJob,
        in_progress: &InProgressFetch,
        why: NotStored,
    ) {
        self.note_uncached(job, in_progress, why, None);
    }

    /// The same for a response with a status that may be the reason.
    pub(crate) fn note_uncached(
        &self,
        job: &PageJob,
        in_progress: &InProgressFetch,
        why: NotStored,
        status: Option<u16>,
    ) {
        in_progress.set_not_stored(why);
        tracing::debug!(
            site = job.site.name,
            why = why.word(),
            "a page was not stored"
        );
        let at = self.clock.tick();
        let page = UncachedPage { why, status, at };
        job.site.counters.not_stored(&job.key, page);
    }
}
