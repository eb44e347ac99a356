//! Shared fragments: a page whose fragments were purged is patched with fragments that were rendered again.
//!
//! A fragment is rendered by an ordinary fetch under a key of its own, so it is coalesced, queued and purged as a page is. One
//! request to PHP serves all pages that show the fragment. A page is patched when it is next requested.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use galley_cache::body::StoredBody;
use galley_cache::entry::{Entry, EntryParts};
use galley_cache::fill::{FillError, FillReader};
use galley_cache::fragment_table::{FragmentTable, RenderedFragment};
use galley_cache::fragments::{FragmentVersion, PageFragment, digest};
use galley_cache::key::Key;
use galley_cache::purge_table::{Touched, Validity};
use galley_policy::forward;
use galley_policy::fragments::{self, FragmentPart, InvalidFragments};
use galley_policy::key::write_fragment_key;
use galley_policy::tags::Tags;
use galley_policy::time::write_date;
use http::header::{self, HeaderMap, HeaderValue};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::entry_parts::{scopes, strong_etag};
use super::jobs::{WantedFragment, When};
use super::{FetchSite, FetchWorker, Fetched, PageJob, write_to_disk};

impl FetchWorker {
    /// Patches `held`, and answers with the page as it is now. Nothing: it has to be fetched.
    pub(super) async fn patch(
        self: Rc<Self>,
        job: PageJob,
        held: Arc<Entry>,
        reply: oneshot::Sender<Option<Arc<Entry>>>,
    ) {
        let patched = Box::pin(self.patched(&job, &held)).await;
        if patched.is_none() {
            job.site.counters.patch_failed();
        }
        let _ = reply.send(patched);
    }

    async fn patched(self: Rc<Self>, job: &PageJob, held: &Arc<Entry>) -> Option<Arc<Entry>> {
        let purges = &job.site.purges;
        let newer = || {
            let stored = self.memory.peek(job.key.bytes());
            stored.filter(|entry| {
                !Arc::ptr_eq(entry, held) && purges.prove_waiting(entry) == Validity::Valid
            })
        };
        if let Some(entry) = newer() {
            return Some(entry);
        }
        let purged = purges.table().purged_fragments(held)?;
        let now = self.clock.tick();
        let may_render = |number: &usize| {
            let fragment = held.fragments().get(*number);
            fragment.is_some_and(|f| job.site.fragments.may_render(f.version.id, now))
        };
        if job.site.fragments.has_switched_off(held.fragments()) || !purged.iter().all(may_render) {
            return None;
        }
        let mut renderings = Vec::new();
        for number in purged {
            let version = &held.fragments().get(number)?.version;
            renderings.push((number, self.begin_rendering(job, version)));
        }
        let mut fragments = Vec::new();
        for (number, rendering) in renderings {
            let rendered = self.rendering(job, rendering).await?;
            fragments.push((number, rendered));
        }
        // All who waited for the same rendering continue at the same moment: one of them patches the page.
        if let Some(entry) = newer() {
            return Some(entry);
        }
        let entry = Arc::new(self.with_rendered(&job.site, held, &fragments)?);
        if purges.prove_waiting(&entry) != Validity::Valid {
            return None;
        }
        let outcome = self.memory.put_if_same(held, Arc::clone(&entry));
        if outcome.is_ok() {
            write_to_disk(&job.site, &entry, outcome);
        }
        job.site.counters.patched();
        Some(entry)
    }

    /// Begins to render a fragment, for all who wait for it, unless its last rendering is still right.
    fn begin_rendering(self: &Rc<Self>, job: &PageJob, version: &FragmentVersion) -> Rendering {
        if let Some(rendered) = self.valid_rendering(&job.site, version.id) {
            return Rendering::Known(rendered);
        }
        let table = &job.site.fragments;
        table.recall(version.id);
        let wanted = fragment_order(job, version.id, &version.definition);
        let (reply, response) = oneshot::channel();
        tokio::task::spawn_local(Rc::clone(self).page(Box::new(wanted), None, reply));
        Rendering::Ordered(version.id, response)
    }

    async fn rendering(&self, job: &PageJob, rendering: Rendering) -> Option<RenderedFragment> {
        let (id, response) = match rendering {
            Rendering::Known(rendered) => return Some(rendered),
            Rendering::Ordered(id, response) => (id, response),
        };
        match response.await.ok()? {
            Ok(Fetched::Fill { reader, .. }) => read_to_end(reader).await.ok()?,
            Ok(Fetched::Entry(_) | Fetched::Awaited(_) | Fetched::HitForPass)
            | Err(FillError::Unstorable(_)) => {}
            Err(_) => return None,
        }
        let rendered = self.valid_rendering(&job.site, id);
        if rendered.is_none() {
            job.site.fragments.note_failure(id, self.clock.tick());
        }
        rendered
    }

    fn valid_rendering(&self, site: &FetchSite, id: u64) -> Option<RenderedFragment> {
        let now = self.clock.tick();
        site.fragments.last_rendered(id).filter(|rendered| {
            let entry = &rendered.entry;
            entry.life.fresh > entry.age(now) && site.purges.prove_waiting(entry) == Validity::Valid
        })
    }

    /// The page with other bytes in place of some fragments.
    fn with_rendered(
        &self,
        site: &FetchSite,
        held: &Entry,
        rendered: &[(usize, RenderedFragment)],
    ) -> Option<Entry> {
        if held.pieces().is_some() {
            return None;
        }
        let now = self.clock.tick();
        let mut body = Vec::with_capacity(held.body.len());
        let mut fragments = Vec::with_capacity(held.fragments().len());
        let mut copied = 0;
        let mut life = held.life;
        for (number, fragment) in held.fragments().iter().enumerate() {
            let range = &fragment.range;
            let (from, to) = (
                usize::try_from(range.start).ok()?,
                usize::try_from(range.end).ok()?,
            );
            body.extend_from_slice(held.body.get(copied..from)?);
            let start = u32::try_from(body.len()).ok()?;
            let new = rendered.iter().find(|(place, _)| *place == number);
            let (version, born) = match new {
                Some((_, new)) if !new.fits(fragment) => return None,
                Some((_, new)) => {
                    body.extend_from_slice(&new.entry.body);
                    let left = new.entry.life.fresh.saturating_sub(new.entry.age(now));
                    life.fresh = life.fresh.min(held.age(now).saturating_add(left));
                    (
                        replaced(&site.fragments, &fragment.version, new)?,
                        new.entry.born,
                    )
                }
                None => {
                    body.extend_from_slice(held.body.get(from..to)?);
                    (Arc::clone(&fragment.version), fragment.born)
                }
            };
            let range = start..u32::try_from(body.len()).ok()?;
            fragments.push(PageFragment {
                range,
                version,
                born,
                except: Arc::clone(&fragment.except),
            });
            copied = to;
        }
        body.extend_from_slice(held.body.get(copied..)?);
        let mut fields = held.fields.clone();
        self.renew_validators(&mut fields, &body);
        let reservation = self.memory.budget().try_reserve(body.len() as u64)?;
        let parts = EntryParts {
            key: held.key.clone(),
            kind: held.kind,
            status: held.status,
            fields,
            body: StoredBody::reserved(body, reservation),
            stored_at: held.stored_at,
            life,
            scopes: held.scopes.clone(),
            tags: held.tags.clone(),
            born: held.born,
        };
        Some(Entry::new(parts).with_fragments(fragments))
    }

    /// Another body is another representation (RFC 9110 section 8.8).
    fn renew_validators(&self, fields: &mut HeaderMap, body: &[u8]) {
        fields.insert(header::ETAG, strong_etag(body));
        if fields.contains_key(header::LAST_MODIFIED) {
            let mut text = Vec::with_capacity(29);
            write_date(self.clock.wall(), &mut text);
            if let Ok(value) = HeaderValue::from_bytes(&text) {
                fields.insert(header::LAST_MODIFIED, value);
            }
        }
        if fields.contains_key(header::CONTENT_LENGTH) {
            fields.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
    }

    /// The fragments of a page that was received; the tags of those that are not told apart become the page's own.
    pub(super) fn fragments_of(
        self: &Rc<Self>,
        job: &PageJob,
        received: &ReceivedFragments,
        body: &[u8],
        born: u64,
        tags: &mut Tags,
    ) -> Vec<PageFragment> {
        let ReceivedFragments { parts, except } = received;
        let mut fragments = Vec::with_capacity(parts.len());
        let mut unknown = Vec::new();
        for part in parts {
            let end = part.start.saturating_add(part.length);
            let (Some(bytes), Ok(start), Ok(end)) = (
                body.get(part.start..end),
                u32::try_from(part.start),
                u32::try_from(end),
            ) else {
                *tags = Tags::everything();
                return Vec::new();
            };
            let digest = digest(bytes, &part.blocks);
            let Some(version) = job.site.fragments.version(part, digest) else {
                tags.add(&part.tags);
                continue;
            };
            if !version.is_shared()
                && self.valid_rendering(&job.site, version.id).is_none()
                && job.site.fragments.may_render(version.id, self.clock.tick())
                && job.site.fragments.claim(version.id)
            {
                unknown.push(Arc::clone(&version));
            }
            fragments.push(PageFragment {
                range: start..end,
                version,
                born,
                except: Arc::clone(except),
            });
        }
        if let Some(replaced) = self.memory.peek(job.key.bytes()) {
            self.compare_with_shared(job, &replaced, &fragments);
        }
        if !unknown.is_empty() {
            let jobs = unknown
                .iter()
                .map(|version| fragment_order(job, version.id, &version.definition))
                .collect();
            tokio::task::spawn_local(Rc::clone(self).render_in_background(jobs));
        }
        fragments
    }

    /// Switches off fragments that change without a purge: the page showed what is shared, and does not any more.
    fn compare_with_shared(&self, job: &PageJob, replaced: &Entry, fragments: &[PageFragment]) {
        for fragment in fragments {
            let version = &fragment.version;
            let Some(shared) = self.valid_rendering(&job.site, version.id) else {
                continue;
            };
            let mut before = replaced.fragments().iter();
            let showed_it = before
                .any(|old| old.version.id == version.id && old.version.digest == shared.digest);
            let tags = scopes(&job.info, version.all_tags().collect());
            if !showed_it
                || version.digest == shared.digest
                || !shared.fits(fragment)
                || job.site.purges.newer_than(fragment.born, tags.touch()) != Touched::No
            {
                continue;
            }
            let table = &job.site.fragments;
            if table.note_disagreement(version.id, shared.digest, self.clock.tick()) {
                tracing::warn!(
                    site = job.site.name,
                    fragment = &*version.label,
                    "a part of the pages changes without a purge: pages with it are generated again by each purge"
                );
            }
        }
    }

    /// Renders fragments once for all pages that show them, one after the other: then it is known which of them can be rendered
    /// alone. While PHP is busy with visitors they wait; one that fails does not hold up the others.
    async fn render_in_background(self: Rc<Self>, mut jobs: Vec<PageJob>) {
        for attempt in 0..ATTEMPTS {
            let mut left = Vec::new();
            for job in jobs {
                let Some(WantedFragment { id }) = job.fragment else {
                    continue;
                };
                let is_sent = Rc::clone(&self).refresh(job.again(), When::Stale).await;
                if self.valid_rendering(&job.site, id).is_some() {
                    job.site.fragments.release(id);
                } else if is_sent {
                    job.site.fragments.note_failure(id, self.clock.tick());
                    job.site.fragments.release(id);
                } else {
                    left.push(job);
                }
            }
            jobs = left;
            if jobs.is_empty() {
                return;
            }
            sleep(FIRST_PAUSE * (1 << attempt)).await;
        }
        for job in jobs {
            if let Some(WantedFragment { id }) = job.fragment {
                job.site.fragments.release(id);
            }
        }
    }
}

/// Notes a fragment that was rendered and stored.
pub(super) fn note_rendered(job: &PageJob, entry: &Arc<Entry>, blocks: &str) {
    if let Some(wanted) = &job.fragment {
        let rendered = RenderedFragment {
            digest: digest(&entry.body, blocks),
            blocks: blocks.into(),
            entry: Arc::clone(entry),
        };
        job.site.fragments.rendered(wanted.id, rendered);
    }
}

/// The fragments of a response, as its fields describe them.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceivedFragments {
    pub(super) parts: Vec<FragmentPart>,
    pub(super) except: Arc<[u64]>,
}

impl ReceivedFragments {
    /// Reads the fields.
    pub(super) fn of(fields: &HeaderMap) -> Result<Self, InvalidFragments> {
        Ok(Self {
            parts: fragments::parse(fields)?,
            except: fragments::exceptions(fields)?.into(),
        })
    }
}

/// A fragment that a page waits for.
enum Rendering {
    Known(RenderedFragment),
    Ordered(u64, oneshot::Receiver<Result<Fetched, FillError>>),
}

async fn read_to_end(mut reader: FillReader) -> Result<(), FillError> {
    while reader.next().await?.is_some() {}
    Ok(())
}

/// The version of a fragment that was rendered again.
fn replaced(
    table: &FragmentTable,
    old: &FragmentVersion,
    new: &RenderedFragment,
) -> Option<Arc<FragmentVersion>> {
    let part = FragmentPart {
        label: old.label.to_string(),
        start: 0,
        length: 0,
        blocks: new.blocks.to_string(),
        definition: old.definition.to_string(),
        tags: Tags {
            ids: new.entry.scopes.tags.to_vec(),
            names: Vec::new(),
        },
    };
    table.version(&part, new.digest)
}

/// The job for a fragment of a page: the page's request, for which the plugin renders only the fragment.
fn fragment_order(page: &PageJob, id: u64, definition: &str) -> PageJob {
    let mut key = Vec::new();
    write_fragment_key(&page.info, id, &mut key);
    let site_mark = page
        .key
        .bytes()
        .last_chunk::<4>()
        .copied()
        .unwrap_or_default();
    key.extend_from_slice(&site_mark);
    let mut call = page.call.without_body();
    forward::fragment(&mut call.request, definition);
    PageJob {
        site: Arc::clone(&page.site),
        pool: page.pool,
        key: Key::new(&key),
        info: page.info.clone(),
        call,
        held: None,
        fragment: Some(WantedFragment { id }),
    }
}

/// How often a slot at PHP is tried for; with pauses of 0.2 s to 6.4 s, thirteen seconds in all.
const ATTEMPTS: u32 = 6;

/// Doubled after each attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
