//! Renders fragments without their page: several with one request to PHP, each once for all pages that show it.
//!
//! The request is an ordinary fetch with a separate key, so it is queued like fetches of pages. Its response describes its
//! parts as a page does, and is not stored: each part becomes a rendering in the site's table. A fragment that another node
//! of a cluster has rendered is not requested ([`super::shared_rendering`]).

use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use galley_cache::body::StoredBody;
use galley_cache::entry::{self, EntryKind, EntryParts, Scopes};
use galley_cache::fill::{FillError, FillReader};
use galley_cache::fragment_table::{RenderedFragment, SharedFragment};
use galley_cache::fragments::{PageFragment, digest};
use galley_cache::key::Key;
use galley_policy::forward;
use galley_policy::fragments::FragmentPart;
use galley_policy::key::{fragment_id, variant_id, write_fragment_key};
use galley_policy::storable::Lifetime;
use galley_policy::tags::Tags;
use galley_policy::time::Tick;
use http::HeaderMap;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::entry_parts::scopes;
use super::jobs::RefreshReason;
use super::{FetchResult, FetchSite, FetchWorker, PageJob};

/// Why fragments are rendered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RenderFor {
    /// For a waiting visitor.
    Visitor,
    /// In the background: visitors keep at least half of the slots at PHP.
    Background,
}

/// The properties of a response that apply to all of its fragments.
pub(super) struct RenderedWith<'r> {
    pub(super) tags: &'r Tags,
    pub(super) lifetime: Lifetime,
    pub(super) born: u64,
    /// The response time of PHP.
    pub(super) took: Duration,
}

/// The result of rendering fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RenderOutcome {
    /// All are rendered.
    All,
    /// Some cannot be rendered now.
    NotAll,
    /// PHP had no slot, or did not respond: another attempt may succeed.
    NotReceived,
}

impl FetchWorker {
    /// Renders the given fragments that have no valid rendering, together with other purged fragments of such pages.
    pub(super) async fn render(
        self: &Rc<Self>,
        page: &PageJob,
        wanted: &[PageFragment],
        purpose: RenderFor,
    ) -> RenderOutcome {
        // Each round renders at least one, or ends; a purge may arrive between rounds.
        for _ in 0..wanted.len() + RETRIES {
            if let ControlFlow::Break(outcome) = self.render_some(page, wanted, purpose).await {
                return outcome;
            }
        }
        RenderOutcome::NotAll
    }

    /// Renders as many fragments as fit into one request, or waits for another request that renders them. Breaks when all are
    /// rendered, or no more can be.
    async fn render_some(
        self: &Rc<Self>,
        page: &PageJob,
        wanted: &[PageFragment],
        purpose: RenderFor,
    ) -> ControlFlow<RenderOutcome> {
        let site = &page.site;
        let is_missing = |fragment: &&PageFragment| self.rendering_for(site, fragment).is_none();
        let missing: Vec<_> = wanted.iter().filter(is_missing).collect();
        if missing.is_empty() {
            return ControlFlow::Break(RenderOutcome::All);
        }
        let now = self.clock.tick();
        let may_render =
            |fragment: &&&PageFragment| site.fragments.may_render(fragment.version.id, now);
        let possible: Vec<_> = missing.iter().filter(may_render).copied().collect();
        if possible.is_empty() || (purpose == RenderFor::Visitor && possible.len() < missing.len())
        {
            return ControlFlow::Break(RenderOutcome::NotAll);
        }
        let Some(batch) = self.claim_batch(page, &possible) else {
            let mut in_progress = possible.iter().map(|fragment| fragment.version.id);
            return match in_progress.find_map(|id| self.renderer.end_of(site, id)) {
                Some(rendering) => {
                    let _ = rendering.acquire().await;
                    ControlFlow::Continue(())
                }
                None => ControlFlow::Break(RenderOutcome::NotAll),
            };
        };
        let left = self.find_renderings(page, &batch.fragments).await;
        if left.is_empty() {
            return ControlFlow::Continue(());
        }
        let now = self.clock.tick();
        if !self.fetch_batch(batch_job(page, &left), purpose).await {
            return ControlFlow::Break(RenderOutcome::NotReceived);
        }
        note_failures(site, &left, now, self.clock.tick());
        ControlFlow::Continue(())
    }

    /// Returns whether PHP has responded. If it has not, the failure does not count against the fragments.
    async fn fetch_batch(self: &Rc<Self>, job: PageJob, purpose: RenderFor) -> bool {
        match purpose {
            RenderFor::Background => Rc::clone(self).refresh(job, RefreshReason::Stale).await,
            RenderFor::Visitor => {
                let (reply, response) = oneshot::channel();
                tokio::task::spawn_local(Rc::clone(self).page(Box::new(job), None, reply));
                match response.await {
                    Ok(Ok(FetchResult::Fill { reader, .. })) => read_to_end(reader).await.is_ok(),
                    Ok(Ok(_) | Err(FillError::Unstorable(_))) => true,
                    Ok(Err(_)) | Err(_) => false,
                }
            }
        }
    }

    /// A batch of the given fragments that are not being rendered and that fit into one request. Other purged fragments of similar
    /// pages are added: they will be needed soon, and one more fragment in a request takes PHP less time than another request.
    fn claim_batch(
        self: &Rc<Self>,
        page: &PageJob,
        missing: &[&PageFragment],
    ) -> Option<RenderBatch> {
        let mut batch = RenderBatch::new(self, &page.site);
        for fragment in missing {
            batch.add(fragment);
        }
        if batch.fragments.is_empty() {
            return None;
        }
        if batch.most == MAX_RENDERED {
            let others = page.site.fragments.shared().into_iter().filter(|other| {
                variant_id(page.key.bytes()) == Some(other.variant) && is_purged(&page.site, other)
            });
            for other in others {
                batch.add(&other.fragment);
            }
        }
        Some(batch)
    }

    /// Renders new fragments of pages after a short delay, together with those of other pages, to find out which of them can be
    /// rendered without their page.
    pub(super) fn render_soon(
        self: &Rc<Self>,
        page: &PageJob,
        variant: u64,
        fragments: Vec<PageFragment>,
    ) {
        if self.renderer.gather(&page.site, variant, fragments) {
            let page = page.in_background();
            let worker = Rc::clone(self);
            let work = self.activity.background();
            tokio::task::spawn_local(async move {
                let _work = work;
                sleep(GATHERING).await;
                let fragments = worker.renderer.take_gathered(&page.site, variant);
                worker.render_new(page, fragments).await;
            });
        }
    }

    /// See [`FragmentTable::rendering_for`](galley_cache::fragment_table::FragmentTable::rendering_for).
    pub(super) fn rendering_for(
        &self,
        site: &FetchSite,
        fragment: &PageFragment,
    ) -> Option<RenderedFragment> {
        let (purges, now) = (site.purges.table(), self.clock.tick());
        site.fragments.rendering_for(purges, fragment, now)
    }

    /// Renders new fragments, and retries with pauses while PHP is busy with visitors.
    async fn render_new(self: Rc<Self>, page: PageJob, fragments: Vec<PageFragment>) {
        let site = &page.site;
        for attempt in 0..ATTEMPTS {
            let outcome = self.render(&page, &fragments, RenderFor::Background).await;
            let now = self.clock.tick();
            let waits = |fragment: &PageFragment| {
                site.fragments.may_render(fragment.version.id, now)
                    && self.rendering_for(site, fragment).is_none()
            };
            if outcome == RenderOutcome::All || !fragments.iter().any(waits) {
                break;
            }
            sleep(FIRST_PAUSE * (1 << attempt)).await;
        }
        for fragment in fragments {
            site.fragments.release(fragment.version.id);
        }
    }

    /// Stores the parts of a response to [`forward::fragment`] in the site's table.
    pub(super) fn note_rendered(
        &self,
        job: &PageJob,
        parts: &[FragmentPart],
        body: &[u8],
        with: &RenderedWith<'_>,
    ) {
        for part in parts {
            let number: Option<usize> = part.definition.parse().ok();
            let end = part.start.saturating_add(part.length);
            let (Some(&id), Some(bytes)) = (
                number.and_then(|number| job.fragments.get(number)),
                body.get(part.start..end),
            ) else {
                continue;
            };
            let Some(reservation) = self.storer.budget().try_reserve(bytes.len() as u64) else {
                continue;
            };
            let mut tags = part.tags.clone();
            tags.add(with.tags);
            let entry = entry::Entry::new(EntryParts {
                key: Key::new(&fragment_key(job, id)),
                kind: EntryKind::Page,
                status: http::StatusCode::OK,
                fields: HeaderMap::new(),
                body: StoredBody::reserved(bytes.to_vec(), reservation),
                stored_at: self.clock.tick(),
                lifetime: with.lifetime,
                // The rendering does not depend on the page for which it was requested.
                scopes: Scopes {
                    url: 0,
                    ..scopes(&job.info, tags.ids)
                },
                tags: Vec::new(),
                born: with.born,
            });
            let rendered = RenderedFragment {
                digest: digest(bytes, &part.blocks),
                blocks: part.blocks.as_str().into(),
                entry: Arc::new(entry),
            };
            let token = self.renderer.take_token(&job.site, id);
            self.storer.share_rendering(&job.site, &rendered, token);
            let table = &job.site.fragments;
            table.rendered(id, rendered);
            table.note_duration(id, job.fragments.len(), with.took > SLOW);
        }
    }
}

/// Records the fragments of a request, sent at `sent`, that PHP could not render. PHP renders them in order and may stop
/// early, so those after the last rendered one may still be possible. A rendering that was purged since then is not a
/// failure.
fn note_failures(site: &FetchSite, requested: &[PageFragment], sent: Tick, now: Tick) {
    let is_rendered = |fragment: &PageFragment| {
        let rendered = site.fragments.last_rendered(fragment.version.id);
        rendered.is_some_and(|rendered| rendered.entry.stored_at >= sent)
    };
    let tried = match requested.iter().rposition(is_rendered) {
        Some(last) => requested.get(..last).unwrap_or_default(),
        None => requested,
    };
    for fragment in tried.iter().filter(|fragment| !is_rendered(fragment)) {
        site.fragments.note_failure(fragment.version.id, now);
    }
}

/// Whether a purge has touched a fragment since its last rendering.
pub(super) fn is_purged(site: &FetchSite, fragment: &SharedFragment) -> bool {
    let mut rendered = fragment.rendered.iter();
    let purges = site.purges.table();
    !rendered.any(|last| purges.is_current(last, &fragment.fragment))
}

/// The fragments that one request renders.
struct RenderBatch {
    worker: Rc<FetchWorker>,
    site: Arc<FetchSite>,
    fragments: Vec<PageFragment>,
    /// The size of the fragment definitions, in bytes.
    bytes: usize,
    /// The maximum number of fragments in a request with the first one.
    most: usize,
}

impl RenderBatch {
    fn new(worker: &Rc<FetchWorker>, site: &Arc<FetchSite>) -> Self {
        Self {
            worker: Rc::clone(worker),
            site: Arc::clone(site),
            fragments: Vec::new(),
            bytes: 0,
            most: MAX_RENDERED,
        }
    }

    /// Adds a fragment, unless another batch contains it, or the request would become too large.
    fn add(&mut self, fragment: &PageFragment) {
        let version = &fragment.version;
        let most = self.site.fragments.max_batch(version.id);
        let most = most.map_or(MAX_RENDERED, |most| most.min(MAX_RENDERED));
        let bytes = self.bytes + version.definition.len() + 1;
        let is_first = self.fragments.is_empty();
        // Fragments that failed or took long must not delay the others.
        let fits =
            most == self.most && self.fragments.len() < self.most && bytes <= MAX_DEFINITION_BYTES;
        if !is_first && !fits {
            return;
        }
        if self.worker.renderer.claim(&self.site, version.id) {
            self.fragments.push(fragment.clone());
            self.bytes = bytes;
            self.most = most;
        }
    }
}

impl Drop for RenderBatch {
    fn drop(&mut self) {
        for fragment in &self.fragments {
            let id = fragment.version.id;
            self.worker.renderer.release(&self.site, id);
        }
    }
}

/// The job for some fragments of a page: the request for the page, with a field that lets the plugin render only these.
fn batch_job(page: &PageJob, fragments: &[PageFragment]) -> PageJob {
    let definitions: Vec<&str> = fragments
        .iter()
        .map(|fragment| &*fragment.version.definition)
        .collect();
    let definitions = definitions.join(",");
    let mut call = page.call.without_body();
    forward::fragment(&mut call.request, &definitions);
    PageJob {
        site: Arc::clone(&page.site),
        pool: page.pool,
        key: Key::new(&fragment_key(page, fragment_id(0, &definitions))),
        info: page.info.clone(),
        call,
        held: None,
        fragments: fragments.iter().map(|one| one.version.id).collect(),
        depth: 0,
        may_store: true,
        needs_new_response: false,
        includes: None,
    }
}

/// The key of a rendering.
pub(super) fn fragment_key(page: &PageJob, id: u64) -> Vec<u8> {
    let mut key = Vec::new();
    write_fragment_key(&page.info, id, &mut key);
    key.extend_from_slice(page.site_mark());
    key
}

async fn read_to_end(mut reader: FillReader) -> Result<(), FillError> {
    while reader.next().await?.is_some() {}
    Ok(())
}

/// The maximum number of fragments in one request; the plugin renders no more.
const MAX_RENDERED: usize = 24;

/// The maximum size of the definitions of a request, in bytes: they are sent in one field.
const MAX_DEFINITION_BYTES: usize = 8000;

/// The response time above which one of the fragments of a request counts as slow.
const SLOW: Duration = Duration::from_secs(1);

/// The time for which new fragments of pages are gathered before they are rendered.
const GATHERING: Duration = Duration::from_millis(500);

/// The maximum number of renderings for one page that purges may make useless.
const RETRIES: usize = 3;

/// The number of attempts to get a slot at PHP: with pauses from 0.2 s to 6.4 s, thirteen seconds in total.
const ATTEMPTS: u32 = 6;

/// The first pause between attempts; each following pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
