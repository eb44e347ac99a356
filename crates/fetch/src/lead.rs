//! One fetch of one response: sends the request to the upstream, and evaluates the response. [`super::join`] decides which
//! request starts it.
//!
//! Each fetch records the purge sequence number immediately before its request is sent (`born`): the response may lack the
//! effect of later purges. A response that is older than that of a later fetch is not stored.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use galley_cache::fill::{FillError, FillHead, FillSharing, FillWriter};
use galley_cache::includes::IncludedResponses;
use galley_cache::purge_table::Validity;
use galley_policy::esi::announcement;
use galley_policy::forward;
use galley_policy::outcome::NotStored;
use galley_policy::purge::{self, Purge};
use galley_policy::site::{AddressedFields, ValidationPolicy};
use galley_policy::storable::{self, Lifetime, ResponseHead, Storability};
use galley_policy::tags::Tags;
use http::StatusCode;
use http::header;

use super::entry_parts::private_head;
use super::esi::AssembledPage;
use super::hit_for_pass::Uncacheable;
use super::in_progress::{InProgressFetch, is_abandoned};
use super::jobs::IncludingPage;
use super::rfc9111::{HeadUpdate, Validated};
use super::storer::StorePlan;
use super::wait::FetchFor;
use super::{
    FetchSite, FetchWorker, PageJob, ResponseSink, acknowledged, buffering_mode, publish, relay,
    revalidate,
};
use galley_purging::Recorder;
use galley_upstream::IncomingResponse;

impl FetchWorker {
    /// Sends the request to the upstream.
    pub(super) async fn lead(
        self: &Rc<Self>,
        job: &PageJob,
        in_progress: &Rc<InProgressFetch>,
        writer: FillWriter,
        purpose: FetchFor,
    ) {
        if let Some(markers) = &job.site.markers {
            markers.put(&job.info).await;
        }
        if let Some(entry) = self.storer.find_shared(job, in_progress, purpose).await {
            // In one step: otherwise later waiters would have to be compared with purges since.
            in_progress.shared.found(entry);
            self.coalescer.finish(in_progress);
            writer.fail(FillError::Aborted);
            return;
        }
        job.site.counters.begun();
        let mut sink = ResponseSink {
            writer,
            spool: self.upstreams.spool(),
        };
        let fetched = self.fetch(job, in_progress, &mut sink, purpose).await;
        let ResponseSink { writer, spool } = sink;
        match fetched {
            // Stored before it is removed from the table, so that every lookup finds one or the other.
            Ok(to_store) if spool.is_clear() => {
                let finished = writer.finish();
                if let Some(to_store) = to_store {
                    let _storing = job.call.begin_span("store");
                    self.keep(job, in_progress, to_store, finished).await;
                }
            }
            // Too large for memory, and received slowly: no other request waits for the entry.
            Ok(to_store) => {
                if let Some(to_store) = to_store {
                    self.keep(job, in_progress, to_store, None).await;
                }
                self.coalescer.finish(in_progress);
                spool.end(writer).await;
            }
            Err(failure) => {
                if !is_abandoned(in_progress, failure) {
                    self.note_failure(job, failure);
                }
                self.coalescer.finish(in_progress);
                writer.fail(failure);
            }
        }
        self.coalescer.finish(in_progress);
        in_progress.shared.release();
    }

    /// Sends the validators of the held response if there are any. Sends the request again without them if a purge or a
    /// dropped directive made the 304 unusable, or if there is no memory for the plain body that a 304 refers to.
    async fn fetch(
        self: &Rc<Self>,
        job: &PageJob,
        in_progress: &Rc<InProgressFetch>,
        sink: &mut ResponseSink,
        purpose: FetchFor,
    ) -> Result<Option<StorePlan>, FillError> {
        let site_purges = &job.site.purges;
        // Read before anything is compared with purges, because the response may not reflect later ones.
        let (current, now) = (site_purges.current(), self.clock.tick());
        if let Some(page) = self.reassemblable(job) {
            in_progress.start_request(current, now);
            return Box::pin(self.reassemble(job, in_progress, sink, &page)).await;
        }
        let mut held = job.held.as_ref();
        loop {
            held = held.filter(|held| site_purges.validity_waiting(held) != Validity::Purged);
            let conditional = held.and_then(|held| {
                let mut call = job.call.without_body();
                if !forward::revalidate(&mut call.request, &held.fields) {
                    return None;
                }
                Some((call, Validated::new(&job.site, held)?))
            });
            let (call, validated) = match &conditional {
                Some((call, validated)) => (call, Some(validated)),
                None => (&job.call, None),
            };
            let sending = || {
                in_progress.start_request(site_purges.current(), self.clock.tick());
            };
            let slot = self.slot_for(job, in_progress, purpose).await?;
            let incoming = {
                // Pinned here, because a parameter of this size would be copied.
                let sent_up = pin!(self.upstreams.pool(job.pool)?.send(slot, call, &sending));
                in_progress.watch(sent_up).await?
            };
            in_progress.note_progress();
            sink.spool
                .set_mode(buffering_mode(&job.site, &job.info, &incoming.fields));
            let purges = purge::from_response(&incoming.fields, &job.site.policy);
            let names = acknowledged::names(&incoming.fields);
            let delay = in_progress.delay(self.clock.tick());
            job.site.cron.read_appointments(&incoming.fields, delay);
            publish(&job.site, &purges).wait(&job.site).await;
            let to_store = match (incoming.status, validated) {
                (StatusCode::NOT_MODIFIED, Some(validated)) => {
                    if incoming.check_storable().is_err()
                        || site_purges.validity_waiting(validated.held) == Validity::Purged
                    {
                        held = None;
                        continue;
                    }
                    let update = HeadUpdate { incoming, delay };
                    let (storer, writer) = (&self.storer, &mut sink.writer);
                    let freshened = storer.freshen(job, in_progress, writer, validated, update);
                    freshened.await.map(|()| None)
                }
                // This request was not conditional, so a 304 does not answer it.
                (StatusCode::NOT_MODIFIED, None)
                    if job.storage().validation == ValidationPolicy::Origin =>
                {
                    Err(FillError::Malformed)
                }
                _ => {
                    let received = ReceivedHead {
                        incoming,
                        purges: &purges,
                    };
                    self.receive(job, in_progress, sink, received).await
                }
            };
            // Published again at the end: PHP may commit its changes only then.
            if publish(&job.site, &purges).wait(&job.site).await {
                job.site.acknowledged.note(names);
            }
            return to_store;
        }
    }

    /// Notes whether a page comes with Galley's plugin.
    fn note_plugin(&self, job: &PageJob, incoming: &IncomingResponse) {
        if job.storage().fields == AddressedFields::OfPlugins {
            let is_page = incoming.status == StatusCode::OK;
            let plugin = &job.site.counters.plugin;
            plugin.note(&incoming.fields, is_page, self.clock.tick());
        }
    }

    /// Evaluates the head of a response, and decides whether all waiting requests may have it or only the one that started the
    /// fetch.
    async fn receive(
        self: &Rc<Self>,
        job: &PageJob,
        in_progress: &Rc<InProgressFetch>,
        sink: &mut ResponseSink,
        received: ReceivedHead<'_>,
    ) -> Result<Option<StorePlan>, FillError> {
        let ReceivedHead {
            mut incoming,
            purges,
        } = received;
        let storer = &self.storer;
        self.note_plugin(job, &incoming);
        // An upstream may compress although plain bytes were requested: the WordPress preset evaluates and stores plain bodies.
        let readable = match job.storage().validation {
            ValidationPolicy::Galley => storer.decode(&mut incoming),
            ValidationPolicy::Origin => Ok(()),
        };
        let has_tags = job.includes.is_some()
            && readable.is_ok()
            && announcement::take(incoming.status, &mut incoming.fields);
        let response_head = ResponseHead {
            status: incoming.status,
            fields: &incoming.fields,
            response_delay: in_progress.delay(self.clock.tick()),
            now: self.clock.wall(),
        };
        let seed = revalidate::seed(&job.key);
        let verdict = match readable.and_then(|()| incoming.check_storable()) {
            Ok(()) => storable::judge_spread(&job.info, &response_head, &job.site.policy, seed),
            Err(why) => Storability::Skip(why),
        };
        let is_sent = job.storage().validation == ValidationPolicy::Origin
            || matches!(verdict, Storability::Store(_));
        let assembled = if has_tags && is_sent {
            Some(Box::pin(self.with_includes(job, in_progress, &mut incoming)).await?)
        } else {
            None
        };
        let why = match verdict {
            Storability::Store(lifetime) => {
                match storer.prepare_store(job, in_progress, &incoming, lifetime) {
                    Some(to_store) => {
                        let to_store = match assembled.map(|page| page.assembly(lifetime)) {
                            Some((assembly, lifetime)) => {
                                to_store.with_assembly(assembly, lifetime)
                            }
                            None => to_store,
                        };
                        return self.fill(job, in_progress, sink, incoming, to_store).await;
                    }
                    None => NotStored::Vary,
                }
            }
            Storability::Skip(why) => why,
        };
        if job.storage().validation == ValidationPolicy::Origin || why == NotStored::SentFile {
            return self.hand_over(job, in_progress, sink, incoming, why).await;
        }
        if readable.is_err() && is_passing(incoming.status, why) {
            storer.note_not_stored(job, in_progress, why);
            return Err(FillError::Unstorable(why));
        }
        if incoming.status.is_server_error() {
            storer.note_uncached(job, in_progress, why, Some(incoming.status.as_u16()));
            self.pause_refreshes(job);
            relay_error_page(job, in_progress, sink, incoming).await?;
            return Ok(None);
        }
        let uncacheable = Uncacheable {
            why,
            status: incoming.status,
            fields: &incoming.fields,
        };
        storer.store_hit_for_pass(job, in_progress, &uncacheable);
        self.drain_rest(incoming, &job.site, purges);
        Err(FillError::Unstorable(why))
    }

    /// Receives the rest of a response in the background.
    fn drain_rest(&self, incoming: IncomingResponse, site: &Arc<FetchSite>, purges: &[Purge]) {
        let work = self.activity.background();
        let (site, purges) = (Arc::clone(site), purges.to_vec());
        let rest = Box::write(Box::new_uninit(), async move {
            let _work = work;
            drain_rest(incoming, site, purges).await;
        });
        tokio::task::spawn_local(Box::into_pin(rest));
    }

    /// Assembles a page with ESI tags.
    async fn with_includes(
        self: &Rc<Self>,
        job: &PageJob,
        in_progress: &InProgressFetch,
        incoming: &mut IncomingResponse,
    ) -> Result<AssembledPage, FillError> {
        self.decode_for_includes(incoming)?;
        let page = IncludingPage::of_fetch(job);
        let note_progress = || in_progress.note_progress();
        let assembling = self.assemble(page, incoming, &note_progress);
        let assembled = in_progress.watch(assembling).await?;
        in_progress.note_progress();
        Ok(assembled)
    }

    /// Gives a response that may not be stored to the client whose request it answers.
    async fn hand_over(
        &self,
        job: &PageJob,
        in_progress: &InProgressFetch,
        sink: &mut ResponseSink,
        mut incoming: IncomingResponse,
        why: NotStored,
    ) -> Result<Option<StorePlan>, FillError> {
        in_progress.set_not_stored(why);
        // An error is not a property of the address, and a response to credentials says nothing about other requests.
        let is_of_address = !incoming.status.is_server_error() && !job.info.has_authorization();
        if is_of_address {
            self.storer.note_not_stored(job, in_progress, why);
            let uncacheable = Uncacheable {
                why,
                status: incoming.status,
                fields: &incoming.fields,
            };
            self.storer
                .store_hit_for_pass(job, in_progress, &uncacheable);
        }
        sink.writer.head(FillHead {
            status: incoming.status,
            fields: private_head(&incoming.fields, self.clock),
            share: incoming.share(),
            length: incoming.length(),
        });
        let note_progress = || in_progress.note_progress();
        let mut recorder = Recorder::off();
        relay(&mut incoming, sink, &mut recorder, &note_progress).await?;
        Ok(None)
    }

    fn note_failure(&self, job: &PageJob, failure: FillError) {
        if matches!(failure, FillError::Unstorable(_)) {
            return;
        }
        job.site.counters.failed();
        self.pause_refreshes(job);
    }

    /// Pauses refreshes of the page for a moment.
    pub(super) fn pause_refreshes(&self, job: &PageJob) {
        self.coalescer.pause_refreshes(&job.key, self.clock.tick());
    }
}

/// A response whose head has been received.
struct ReceivedHead<'r> {
    incoming: IncomingResponse,
    /// The purges that it carries.
    purges: &'r [Purge],
}

/// Streams the upstream's error page to all waiting requests. It was generated from data in the key alone, so it contains
/// nothing personal; any cookies are removed nevertheless.
async fn relay_error_page(
    job: &PageJob,
    in_progress: &InProgressFetch,
    sink: &mut ResponseSink,
    mut incoming: IncomingResponse,
) -> Result<(), FillError> {
    let mut fields = storable::stored_fields(&incoming.fields, &job.site.policy, job.info.rule());
    fields.remove(header::SET_COOKIE);
    let compressing = &job.site.compressing;
    compressing.announce(incoming.status, &mut fields, incoming.length());
    sink.writer.head(FillHead {
        status: incoming.status,
        fields,
        share: FillSharing::Shared {
            lifetime: Lifetime::default(),
            // The inputs of its generation are unknown, so any newer purge may concern it.
            tags: Tags::everything().ids,
            inclusions: IncludedResponses::default(),
        },
        length: incoming.length(),
    });
    let note_progress = || in_progress.note_progress();
    let mut recorder = Recorder::off();
    relay(&mut incoming, sink, &mut recorder, &note_progress).await
}

/// Lets PHP finish a response that has no reader: a disconnect would stop PHP at its next output, before plugins have finished
/// their work. Limited in time and size: streams and large responses are aborted.
async fn drain_rest(mut incoming: IncomingResponse, site: Arc<FetchSite>, purges: Vec<Purge>) {
    let rest = async {
        let mut length = 0;
        while let Ok(Some(piece)) = incoming.chunk().await {
            length += piece.len();
            if length > MAX_REST {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(REST_TIME, rest).await;
    publish(&site, &purges).wait(&site).await;
}

/// Whether a failed response says nothing about the next one of this address, which is requested again.
fn is_passing(status: StatusCode, why: NotStored) -> bool {
    status.is_server_error() || why == NotStored::Memory
}

/// Maximum number of bytes to read of a response without a reader.
const MAX_REST: usize = 1024 * 1024;

/// Maximum time to read a response without a reader.
const REST_TIME: Duration = Duration::from_secs(2);
