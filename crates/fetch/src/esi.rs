//! Pages with ESI tags: assembled before they are stored, and again when one of their parts has changed.
//!
//! The stored page is complete, so a hit needs no further work. The entry records the positions of its includes. When an
//! include is purged or expires, and the page without it is still valid, [`FetchWorker::reassemblable`] returns the page
//! without a request to the upstream, and only that include is fetched.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use galley_cache::body::{ReceivedBody, StoredBody};
use galley_cache::budget::OutOfBudget;
use galley_cache::entry::{Entry, EntryKind};
use galley_cache::fill::FillError;
use galley_cache::includes::{Assembly, IncludedPart, IncludedResponses, PageInclude};
use galley_cache::purge_table::FillPurgeState;
use galley_cache::splice::{SplicedBody, splice};
use galley_policy::esi::template::{EsiTemplate, IncludeSource, OnError};
use galley_policy::esi::{MAX_INCLUDES, announcement};
use galley_policy::fragments::FRAGMENT;
use galley_policy::request_info::Method;
use galley_policy::storable::Lifetime;
use galley_policy::tags::Tags;
use http::header;

use super::in_progress::InProgressFetch;
use super::include::{IncludeFailure, IncludedBody, UNTIL_RETRY};
use super::jobs::IncludingPage;
use super::patch::ReceivedFragments;
use super::storer::StorePlan;
use super::{FetchWorker, PageJob, PassJob, ResponseSink};
use galley_purging::Recorder;
use galley_upstream::IncomingResponse;

/// A page and the positions of its includes, whose current bytes will be replaced.
struct PageParts {
    body: Bytes,
    slots: Vec<PageInclude>,
}

/// A page with the bytes of its includes.
pub(super) struct AssembledPage {
    /// The body. Its pieces share the memory of the page and of the includes, whose reservations last as long.
    pieces: Vec<Bytes>,
    includes: Vec<PageInclude>,
    inclusions: IncludedResponses,
    /// The remaining lifetime of the includes together; `None`: the page has no includes.
    left: Option<Lifetime>,
}

impl AssembledPage {
    /// The data about includes that is stored with the page, and the lifetime of the page. `lifetime`: the lifetime without the
    /// includes.
    pub(super) fn assembly(self, lifetime: Lifetime) -> (Option<Arc<Assembly>>, Lifetime) {
        let Some(left) = self.left else {
            return (None, lifetime);
        };
        let assembly = Assembly {
            own: lifetime,
            includes: self.includes.into(),
            inclusions: self.inclusions,
        };
        let lifetime = lifetime.with_part(lifetime.initial_age, left, Duration::ZERO);
        (Some(Arc::new(assembly)), lifetime)
    }
}

impl FetchWorker {
    /// Reads the body of a response with ESI tags, which must not be encoded, and assembles the page. The response then has the
    /// complete body and no validators. Calls `note_progress` for each piece. The memory of the body is reserved, because includes
    /// and clients may be slow.
    pub(super) async fn assemble(
        self: &Rc<Self>,
        page: IncludingPage,
        incoming: &mut IncomingResponse,
        note_progress: &dyn Fn(),
    ) -> Result<AssembledPage, FillError> {
        let mut body = ReceivedBody::new(self.storer.room()?);
        while let Some(piece) = incoming.chunk().await? {
            note_progress();
            if body.length() + piece.len() as u64 > self.storer.max_object() {
                return Err(FillError::Include);
            }
            body.push(piece).map_err(|OutOfBudget| FillError::Memory)?;
        }
        let (body, mut room) = body.joined();
        let template = EsiTemplate::parse(&body);
        drop(body);
        room.shrink_to(template.body.len() as u64);
        page.site.counters.count_unresolved_esi_tags(template.left);
        let slots = template.includes.into_iter().map(|tag| {
            let at = u32::try_from(tag.at).ok()?;
            Some(PageInclude {
                range: at..at,
                source: Arc::new(tag.source),
            })
        });
        let parts = PageParts {
            slots: slots.collect::<Option<_>>().ok_or(FillError::Include)?,
            body: StoredBody::reserved(template.body, room).bytes().clone(),
        };
        let mut assembled = self.join_parts(page, parts).await?;
        incoming.replace_body(std::mem::take(&mut assembled.pieces));
        Ok(assembled)
    }

    /// Assembles the response to a request that bypasses the cache. Returns whether it had ESI tags. For `HEAD`, only removes
    /// the length and the validators.
    pub(super) async fn assemble_passed(
        self: &Rc<Self>,
        job: &PassJob,
        incoming: &mut IncomingResponse,
    ) -> Result<bool, FillError> {
        let has_tags =
            job.includes.is_some() && announcement::take(incoming.status, &mut incoming.fields);
        if !has_tags {
            return Ok(false);
        }
        // Its positions refer to the page with tags.
        incoming.fields.remove(FRAGMENT);
        if job.info.method() == Method::Head {
            incoming.drop_validators();
            incoming.fields.remove(header::CONTENT_LENGTH);
            return Ok(true);
        }
        self.decode_for_includes(incoming)?;
        self.assemble(IncludingPage::of_pass(job), incoming, &|| ())
            .await?;
        Ok(true)
    }

    /// Removes codings that an upstream applied, so that tags can be parsed.
    pub(super) fn decode_for_includes(
        &self,
        incoming: &mut IncomingResponse,
    ) -> Result<(), FillError> {
        let decoded = self.storer.decode(incoming);
        decoded.map_err(|_| FillError::Include)
    }

    async fn join_parts(
        self: &Rc<Self>,
        page: IncludingPage,
        parts: PageParts,
    ) -> Result<AssembledPage, FillError> {
        let site = Arc::clone(&page.site);
        let page = Rc::new(page);
        let sources = parts.slots.iter().map(|slot| Arc::clone(&slot.source));
        let requests: Vec<_> = sources
            .take(MAX_INCLUDES)
            .map(|source| {
                let worker = Rc::clone(self);
                tokio::task::spawn_local(worker.include(Rc::clone(&page), source))
            })
            .collect();
        let mut results = IncludeResults::default();
        let mut requests = requests.into_iter();
        for slot in &parts.slots {
            let included = match requests.next() {
                Some(request) => request
                    .await
                    .unwrap_or(Err(IncludeFailure::Upstream(FillError::Aborted))),
                None => Err(IncludeFailure::Number),
            };
            if included.is_err() {
                site.counters.include_failed();
            }
            results.add(&slot.source, included)?;
        }
        let bytes: u64 = results.bodies.iter().map(|body| body.len() as u64).sum();
        if parts.body.len() as u64 + bytes > self.storer.max_object() {
            return Err(FillError::Include);
        }
        let ranges = parts.slots.iter().map(|slot| &slot.range);
        let bodies = results.bodies.iter().map(|body| Some(body.clone()));
        let spliced = splice(&parts.body, ranges.zip(bodies));
        let spliced = spliced.ok_or(FillError::Include)?;
        Ok(results.assembled(spliced, parts.slots))
    }

    /// A stored page, with its plain body, of which only includes have changed: it can be assembled again without a request for
    /// the rest.
    pub(super) fn reassemblable(&self, job: &PageJob) -> Option<Arc<Entry>> {
        let directives = job.info.directives();
        if job.includes.is_none() || directives.no_cache || directives.max_age.is_some() {
            return None;
        }
        let is_assembled = |entry: &Arc<Entry>| {
            entry.kind == EntryKind::Page && entry.pieces().is_none() && entry.assembly().is_some()
        };
        let held = job.held.clone().filter(is_assembled);
        let in_memory = || self.storer.peek(job.key.bytes()).filter(is_assembled);
        let entry = held.or_else(in_memory).filter(|entry| {
            let own_lifetime = entry.assembly().map(|assembly| assembly.own);
            own_lifetime
                .is_some_and(|own_lifetime| own_lifetime.fresh > entry.age(self.clock.tick()))
                && job.site.purges.newer_than(entry.born, entry.scopes.touch())
                    == FillPurgeState::No
        });
        job.site.compressing.unpacked(&entry?)
    }

    /// Assembles a stored page again, for all waiting requests.
    pub(super) async fn reassemble(
        self: &Rc<Self>,
        job: &PageJob,
        in_progress: &Rc<InProgressFetch>,
        sink: &mut ResponseSink,
        entry: &Arc<Entry>,
    ) -> Result<Option<StorePlan>, FillError> {
        let before = entry.assembly().ok_or(FillError::Include)?;
        let parts = PageParts {
            body: entry.body().cloned().ok_or(FillError::Include)?,
            slots: before.includes.to_vec(),
        };
        let assembling = self.join_parts(IncludingPage::of_fetch(job), parts);
        let mut assembled = in_progress.watch(assembling).await?;
        in_progress.note_progress();
        let own_lifetime = Lifetime {
            initial_age: entry.age(self.clock.tick()),
            ..before.own
        };
        let pieces = std::mem::take(&mut assembled.pieces);
        let (assembly, lifetime) = assembled.assembly(own_lifetime);
        let mut fields = entry.fields.clone();
        fields.remove(header::ETAG);
        let incoming = IncomingResponse::whole(entry.status, fields.clone(), pieces);
        let to_store = StorePlan {
            status: entry.status,
            fields,
            lifetime,
            tags: Tags {
                ids: entry.scopes.tags.to_vec(),
                names: entry.tags.clone(),
            },
            fragments: ReceivedFragments::default(),
            assembly,
            names: Vec::new(),
            selections: Vec::new(),
            recorder: Recorder::off(),
        };
        self.fill(job, in_progress, sink, incoming, to_store).await
    }
}

/// The results of the includes of a page, in their order.
#[derive(Default)]
struct IncludeResults {
    bodies: Vec<Bytes>,
    parts: Vec<IncludedPart>,
    depth: u8,
    is_cut: bool,
    left: Option<Lifetime>,
}

impl IncludeResults {
    /// Adds the next include.
    fn add(
        &mut self,
        source: &IncludeSource,
        included: Result<IncludedBody, IncludeFailure>,
    ) -> Result<(), FillError> {
        let body = match (included, source.on_error) {
            (Ok(body), _) => body,
            (Err(failure), OnError::Continue) => {
                self.is_cut |= failure == IncludeFailure::Depth;
                IncludedBody {
                    left: UNTIL_RETRY,
                    ..IncludedBody::default()
                }
            }
            (
                Err(IncludeFailure::Upstream(failure @ (FillError::Overload | FillError::Memory))),
                OnError::Fail,
            ) => return Err(failure),
            (Err(_), OnError::Fail) => return Err(FillError::Include),
        };
        let with = |left: Lifetime| left.with_part(Duration::ZERO, body.left, Duration::ZERO);
        self.left = Some(self.left.map_or(body.left, with));
        self.depth = self.depth.max(body.inclusions.depth);
        self.is_cut |= body.inclusions.is_cut;
        self.parts.extend(body.inclusions.parts.iter().cloned());
        self.bodies.push(body.bytes);
        Ok(())
    }

    fn assembled(self, spliced: SplicedBody, slots: Vec<PageInclude>) -> AssembledPage {
        let includes = slots.into_iter().zip(spliced.ranges);
        AssembledPage {
            pieces: spliced.pieces,
            includes: includes
                .map(|(slot, range)| PageInclude { range, ..slot })
                .collect(),
            inclusions: IncludedResponses {
                parts: self.parts.into(),
                depth: self.depth,
                is_cut: self.is_cut,
            },
            left: self.left,
        }
    }
}
