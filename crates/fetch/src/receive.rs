//! A response that is received to be stored: streamed to all waiting requests, then handed to the [`Storer`](super::storer::Storer)
//! with its fragments.

use std::rc::Rc;
use std::time::Duration;

use galley_cache::body::StoredBody;
use galley_cache::fill::{FillError, FillHead, FillSharing};
use galley_policy::outcome::{NotStored, StoreOutcome};
use galley_policy::site::{ValidationPolicy, VaryPolicy};
use galley_policy::storable::{self, ResponseHead};
use http::header;

use super::entry_parts::strong_etag;
use super::hit_for_pass::Uncacheable;
use super::in_progress::InProgressFetch;
use super::render::RenderedWith;
use super::storer::StorePlan;
use super::{FetchWorker, PageJob, ResponseSink, relay};
use galley_codec::encode::PIECE;
use galley_upstream::IncomingResponse;

impl FetchWorker {
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
            let (names, selections) = (&to_store.names, &to_store.selections);
            let variant = self
                .storer
                .note_variants(job, in_progress, names, selections);
            if let Some(key) = variant {
                self.coalescer.insert(key, in_progress);
            }
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
        to_store.recorder = self
            .storer
            .recorder(job, in_progress, &to_store, incoming.length());
        let note_progress = || in_progress.note_progress();
        relay(&mut incoming, sink, &mut to_store.recorder, &note_progress).await?;
        // A page that was fetched as a deeply nested include lacks includes that it has when a client requests it.
        let is_whole = job.depth == 0 || !to_store.inclusions().is_cut;
        match incoming.check_whole() {
            Ok(()) => Ok(Some(to_store).filter(|_| is_whole && job.may_store)),
            Err(why) => {
                self.storer.note_not_stored(job, in_progress, why);
                Ok(None)
            }
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
        if !in_progress.may_replace(self.storer.peek(job.key.bytes()).as_deref()) {
            return;
        }
        if job.storage().vary == VaryPolicy::Variants && to_store.names.is_empty() {
            self.storer.forget_variants(job);
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
            return self
                .storer
                .store_hit_for_pass(job, in_progress, &uncacheable);
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
            return self.storer.note_not_stored(job, in_progress, why);
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
        let fragments = self.fragments_of(
            job,
            &to_store.fragments,
            body.bytes(),
            born,
            &mut to_store.tags,
        );
        self.storer
            .store_page(job, in_progress, &to_store, &body, &fragments);
    }
}
