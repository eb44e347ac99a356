//! Shared fragments: a page whose fragments were purged is patched with fragments that were rendered again.
//!
//! One request to PHP serves all pages that show a fragment ([`super::render`]). A page is patched when it is next requested,
//! or before that in the background ([`super::patcher`]).

use std::rc::Rc;
use std::sync::Arc;

use galley_cache::body::StoredBody;
use galley_cache::entry::{Entry, EntryParts};
use galley_cache::fragment_table::RenderedFragment;
use galley_cache::fragments::{FragmentVersion, PageFragment, digest};
use galley_cache::patch::PatchedPage;
use galley_cache::purge_table::{FillPurgeState, Validity};
use galley_policy::fragments::{self, FragmentPart, InvalidFragments};
use galley_policy::key::variant_id;
use galley_policy::private::PrivateScope;
use galley_policy::tags::Tags;
use http::header::HeaderMap;
use tokio::sync::oneshot;

use super::entry_parts::{renew_validators, scopes};
use super::render::RenderFor;
use super::{FetchSite, FetchWorker, PageJob};

impl FetchWorker {
    /// Patches `held` and replies with the current page; `None` if the page has to be fetched.
    pub(super) async fn patch(
        self: Rc<Self>,
        job: PageJob,
        held: Arc<Entry>,
        reply: oneshot::Sender<Option<Arc<Entry>>>,
    ) {
        self.renderer.patched_sites().add(&job);
        let patched = Box::pin(self.patched(&job, &held)).await;
        if patched.is_none() {
            job.site.counters.patch_failed();
        }
        let _ = reply.send(patched);
    }

    async fn patched(self: Rc<Self>, job: &PageJob, held: &Arc<Entry>) -> Option<Arc<Entry>> {
        let purges = &job.site.purges;
        let newer = || {
            let stored = self.storer.peek(job.key.bytes());
            stored.filter(|entry| {
                !Arc::ptr_eq(entry, held) && purges.validity_waiting(entry) == Validity::Valid
            })
        };
        if let Some(entry) = newer() {
            return Some(entry);
        }
        if job.site.fragments.has_switched_off(held.fragments()) {
            return None;
        }
        let purged = purges.table().purged_fragments(held)?;
        let fragment = |number: &usize| held.fragments().get(*number).cloned();
        let fragments: Vec<_> = purged.iter().filter_map(fragment).collect();
        let variant = variant_id(held.key.bytes())?;
        for fragment in &fragments {
            job.site.fragments.recall(variant, &fragment.version);
        }
        self.render(job, &fragments, RenderFor::Visitor).await;
        // All waiters for the same rendering continue at the same time: one of them patches the page.
        newer().or_else(|| self.patch_if_rendered(&job.site, held))
    }

    /// Patches a page whose purged fragments have been rendered again.
    pub(super) fn patch_if_rendered(
        &self,
        site: &FetchSite,
        held: &Arc<Entry>,
    ) -> Option<Arc<Entry>> {
        let (table, now) = (site.purges.table(), self.clock.tick());
        let rendered = site.fragments.renderings_for(table, held, now)?;
        let entry = Arc::new(self.with_rendered(site, held, &rendered)?);
        if site.purges.validity_waiting(&entry) != Validity::Valid {
            return None;
        }
        self.storer.replace(site, held, &entry);
        site.counters.patched();
        Some(entry)
    }

    /// The page with new bytes in place of the given fragments.
    fn with_rendered(
        &self,
        site: &FetchSite,
        held: &Arc<Entry>,
        rendered: &[(usize, RenderedFragment)],
    ) -> Option<Entry> {
        let unpacked = site.compressing.unpacked(held)?;
        let plain = unpacked.body()?;
        let now = self.clock.tick();
        let PatchedPage {
            pieces,
            fragments,
            lifetime,
        } = site.fragments.patched(held, plain, rendered, now)?;
        let body = StoredBody::join(&pieces, self.storer.room().ok()?)?;
        let mut fields = held.fields.clone();
        renew_validators(&mut fields, body.bytes(), self.clock.wall());
        let parts = EntryParts {
            key: held.key.clone(),
            kind: held.kind,
            status: held.status,
            fields,
            body,
            stored_at: held.stored_at,
            lifetime,
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

    /// The fragments of a received page. The tags of parts that cannot become fragments are added to `tags`, those of the page.
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
            if PrivateScope::of(&part.definition).is_some() {
                // The content for anonymous visitors belongs to the page.
                tags.add(&part.tags);
                fragments.push(PageFragment {
                    range: start..end,
                    version: Arc::new(FragmentVersion::private(part, digest)),
                    generated_tags: Arc::default(),
                    born,
                    except: Arc::default(),
                });
                continue;
            }
            let Some(version) = job.site.fragments.version(variant, part, digest) else {
                tags.add(&part.tags);
                continue;
            };
            let fragment = PageFragment {
                range: start..end,
                version,
                generated_tags: Arc::default(),
                born,
                except: if part.has_context {
                    Arc::default()
                } else {
                    Arc::clone(except)
                },
            };
            if self.claims_unknown(&job.site, &fragment) {
                unknown.push(fragment.clone());
            }
            fragments.push(fragment);
        }
        if let Some(replaced) = self.storer.peek(job.key.bytes()) {
            self.compare_with_shared(job, &replaced, &fragments);
        }
        if !fragments.is_empty() {
            self.renderer.patched_sites().add(job);
        }
        if !unknown.is_empty() {
            self.render_soon(job, variant, unknown);
        }
        fragments
    }

    /// Whether nobody knows yet whether a fragment can be rendered alone, and the caller has to find out.
    fn claims_unknown(&self, site: &FetchSite, fragment: &PageFragment) -> bool {
        let (table, id) = (&site.fragments, fragment.version.id);
        !fragment.version.is_shared()
            && self.rendering_for(site, fragment).is_none()
            && table.may_render(id, self.clock.tick())
            && table.claim(id)
    }

    /// Switches off fragments that change without a purge: old pages had the shared bytes, and new ones do not.
    fn compare_with_shared(&self, job: &PageJob, replaced: &Entry, fragments: &[PageFragment]) {
        for fragment in fragments {
            let version = &fragment.version;
            let Some(shared) = self.rendering_for(&job.site, fragment) else {
                continue;
            };
            let Some(is_same) = keeps_shared_bytes(replaced.fragments(), fragment, &shared) else {
                continue;
            };
            let tags = scopes(&job.info, fragment.tags().collect());
            if job.site.purges.newer_than(fragment.born, tags.touch()) != FillPurgeState::No {
                continue;
            }
            let table = &job.site.fragments;
            if is_same {
                table.note_agreement(version.id);
            } else if table.note_disagreement(version.id, shared.digest, self.clock.tick()) {
                tracing::warn!(
                    site = job.site.name,
                    fragment = &*version.label,
                    "a fragment changes without a purge: each purge of a fragment generates its pages again"
                );
            }
        }
    }
}

/// Whether a page that had the shared bytes of a fragment has them after it was generated again. `None` if it did not have them, or if
/// the rendering does not fit the new page.
fn keeps_shared_bytes(
    replaced: &[PageFragment],
    fragment: &PageFragment,
    shared: &RenderedFragment,
) -> Option<bool> {
    let version = &fragment.version;
    let mut before = replaced.iter().map(|old| &old.version);
    let had = before.any(|old| old.id == version.id && old.digest == shared.digest);
    (had && shared.fits(fragment)).then_some(version.digest == shared.digest)
}

/// The fragments of a response, as its fields describe them.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceivedFragments {
    pub(super) parts: Vec<FragmentPart>,
    pub(super) except: Arc<[u64]>,
}

impl ReceivedFragments {
    /// Parses the fields.
    pub(super) fn of(fields: &HeaderMap) -> Result<Self, InvalidFragments> {
        Ok(Self {
            parts: fragments::parse(fields)?,
            except: fragments::exceptions(fields)?.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use galley_cache::entry::{EntryKind, Scopes};
    use galley_cache::fragment_table::FragmentTable;
    use galley_cache::key::Key;
    use galley_policy::storable::Lifetime;
    use galley_policy::time::Tick;

    use super::*;

    const SHARED: u128 = 1;

    fn part(definition: &str, blocks: &str) -> FragmentPart {
        FragmentPart {
            label: "widget/x".to_owned(),
            start: 0,
            length: 0,
            blocks: blocks.to_owned(),
            definition: definition.to_owned(),
            tags: Tags::default(),
            has_context: false,
        }
    }

    fn rendered(blocks: &str, tags: &[u64]) -> RenderedFragment {
        let entry = Entry::new(EntryParts {
            key: Key::new(b"k"),
            kind: EntryKind::Page,
            status: http::StatusCode::OK,
            fields: HeaderMap::new(),
            body: StoredBody::default(),
            stored_at: Tick(0),
            lifetime: Lifetime {
                fresh: Duration::from_secs(60),
                ..Lifetime::default()
            },
            scopes: Scopes {
                host: 0,
                url: 0,
                path_query: Box::default(),
                tags: tags.into(),
            },
            tags: Vec::new(),
            born: 0,
        });
        RenderedFragment {
            entry: Arc::new(entry),
            blocks: blocks.into(),
            digest: SHARED,
        }
    }

    #[test]
    fn only_different_bytes_in_place_of_the_shared_ones_are_a_disagreement() {
        let table = FragmentTable::default();
        let of = |definition: &str, digest: u128, except: &[u64]| PageFragment {
            range: 0..0,
            version: table.version(0, &part(definition, "-"), digest).unwrap(),
            generated_tags: Arc::default(),
            born: 0,
            except: except.into(),
        };
        let (shared, other) = (of("d", SHARED, &[]), of("d", 2, &[]));
        let fine = rendered("-", &[7]);
        let rows = [
            (
                "changed",
                vec![shared.clone()],
                other.clone(),
                &fine,
                Some(false),
            ),
            (
                "same",
                vec![shared.clone()],
                shared.clone(),
                &fine,
                Some(true),
            ),
            (
                "never shown",
                vec![other.clone()],
                other.clone(),
                &fine,
                None,
            ),
            (
                "another part",
                vec![of("e", SHARED, &[])],
                other.clone(),
                &fine,
                None,
            ),
            ("a new page", Vec::new(), other.clone(), &fine, None),
            (
                "marks the page",
                vec![shared.clone()],
                of("d", 2, &[7]),
                &fine,
                None,
            ),
            (
                "other blocks",
                vec![shared],
                other,
                &rendered("b", &[]),
                None,
            ),
        ];
        for (name, before, now, rendered, expected) in &rows {
            assert_eq!(
                keeps_shared_bytes(before, now, rendered),
                *expected,
                "{name}"
            );
        }
    }
}
