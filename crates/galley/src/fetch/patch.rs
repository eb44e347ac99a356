//! Shared fragments: a page whose fragments were purged is patched with fragments that were rendered again.
//!
//! One request to PHP serves all pages that show a fragment ([`super::render`]). A page is patched when it is next requested, or before
//! that in the background ([`super::patcher`]).

use std::rc::Rc;
use std::sync::Arc;

use galley_cache::body::StoredBody;
use galley_cache::entry::{Entry, EntryParts};
use galley_cache::fragment_table::RenderedFragment;
use galley_cache::fragments::{PageFragment, digest};
use galley_cache::purge_table::{Touched, Validity};
use galley_policy::fragments::{self, FragmentPart, InvalidFragments};
use galley_policy::key::{fragment_id, variant_id};
use galley_policy::tags::Tags;
use galley_policy::time::write_date;
use http::header::{self, HeaderMap, HeaderValue};
use tokio::sync::oneshot;

use super::entry_parts::{scopes, strong_etag};
use super::render::RenderFor;
use super::{FetchSite, FetchWorker, PageJob, write_to_disk};

impl FetchWorker {
    /// Patches `held`, and answers with the page as it is now. Nothing: it has to be fetched.
    pub(super) async fn patch(
        self: Rc<Self>,
        job: PageJob,
        held: Arc<Entry>,
        reply: oneshot::Sender<Option<Arc<Entry>>>,
    ) {
        self.patch_later(&job);
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
        if job.site.fragments.has_switched_off(held.fragments()) {
            return None;
        }
        let purged = purges.table().purged_fragments(held)?;
        let version = |number: &usize| Some(Arc::clone(&held.fragments().get(*number)?.version));
        let wanted: Vec<_> = purged.iter().filter_map(version).collect();
        for version in &wanted {
            job.site.fragments.recall(version.id);
        }
        self.render(job, &wanted, RenderFor::Visitor).await;
        // All who waited for the same rendering continue at the same moment: one of them patches the page.
        newer().or_else(|| self.patch_if_rendered(&job.site, held))
    }

    /// Patches a page whose purged fragments have been rendered again.
    pub(super) fn patch_if_rendered(
        &self,
        site: &FetchSite,
        held: &Arc<Entry>,
    ) -> Option<Arc<Entry>> {
        let variant = variant_id(held.key.bytes())?;
        let purged = site.purges.table().purged_fragments(held)?;
        let mut fragments = Vec::with_capacity(purged.len());
        for number in purged {
            let version = &held.fragments().get(number)?.version;
            // A page from the disk may have an id that another variant of the page had as well.
            if version.id != fragment_id(variant, &version.definition) {
                return None;
            }
            fragments.push((number, self.valid_rendering(site, version.id)?));
        }
        let entry = Arc::new(self.with_rendered(site, held, &fragments)?);
        if site.purges.prove_waiting(&entry) != Validity::Valid {
            return None;
        }
        let outcome = self.memory.put_if_same(held, Arc::clone(&entry));
        if outcome.is_ok() {
            write_to_disk(site, &entry, outcome);
        }
        site.counters.patched();
        Some(entry)
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
        let variant = variant_id(held.key.bytes())?;
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
                        site.fragments.replacing(variant, &fragment.version, new)?,
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
        Some(
            Entry::new(parts)
                .with_fragments(fragments)
                .with_hits_of(held),
        )
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
        let Some(variant) = variant_id(job.key.bytes()) else {
            *tags = Tags::everything();
            return Vec::new();
        };
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
            let Some(version) = job.site.fragments.version(variant, part, digest) else {
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
                except: if part.has_context {
                    Arc::default()
                } else {
                    Arc::clone(except)
                },
            });
        }
        if let Some(replaced) = self.memory.peek(job.key.bytes()) {
            self.compare_with_shared(job, &replaced, &fragments);
        }
        if !fragments.is_empty() {
            self.patch_later(job);
        }
        if !unknown.is_empty() {
            let page = job.in_background();
            tokio::task::spawn_local(Rc::clone(self).render_new(page, unknown));
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
