//! The fragments of a site: which versions pages have, which of them can be rendered without a page, and which are switched off.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use galley_policy::fragments::FragmentPart;
use galley_policy::key::fragment_id;
use galley_policy::tags::Tags;
use galley_policy::time::Tick;

use crate::entry::Entry;
use crate::fragments::{FragmentVersion, PageFragment};

/// A fragment that was rendered alone.
#[derive(Clone, Debug)]
pub struct RenderedFragment {
    /// Its bytes, tags and lifetime.
    pub entry: Arc<Entry>,
    /// Stands for the kinds of blocks in it.
    pub blocks: Box<str>,
    /// See [`crate::fragments::digest`].
    pub digest: u128,
}

impl RenderedFragment {
    /// Whether it is what a page shows in place of one of its fragments.
    pub fn fits(&self, fragment: &PageFragment) -> bool {
        let tags = &self.entry.scopes.tags;
        self.blocks == fragment.version.blocks
            && !tags.iter().any(|tag| fragment.except.contains(tag))
    }
}

/// The fragments of a site.
#[derive(Debug, Default)]
pub struct FragmentTable {
    known: Mutex<KnownFragments>,
}

#[derive(Debug, Default)]
struct KnownFragments {
    by_id: HashMap<u64, KnownFragment>,
    /// At this number, fragments that no page has are forgotten.
    swept_at: usize,
}

#[derive(Debug, Default)]
struct KnownFragment {
    rendered: Option<RenderedFragment>,
    /// Somebody sees to its rendering.
    is_claimed: bool,
    failures: Option<Failures>,
    disagreement: Option<Disagreement>,
    is_switched_off: bool,
    versions: Vec<Weak<FragmentVersion>>,
}

/// Renderings that failed since the last that succeeded.
#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    /// Before this, the fragment is not rendered again.
    retry_at: Tick,
}

/// A page showed what was rendered alone, and was generated with other bytes without a purge of the fragment.
#[derive(Clone, Copy, Debug)]
struct Disagreement {
    /// The digest of the rendering.
    rendered: u128,
    at: Tick,
}

impl FragmentTable {
    /// The version that a page of this variant has (`galley_policy::key::variant_id`), shared with the other pages that have the same.
    /// `None`: it differs between too many pages, so it belongs to each of them.
    pub fn version(
        &self,
        variant: u64,
        part: &FragmentPart,
        digest: u128,
    ) -> Option<Arc<FragmentVersion>> {
        let id = fragment_id(variant, &part.definition);
        let mut table = self.lock();
        let known = table.entry(id)?;
        let mut versions = known.versions.iter().filter_map(Weak::upgrade);
        let same =
            versions.find(|version| version.digest == digest && *version.tags == *part.tags.ids);
        if same.is_some() {
            return same;
        }
        known.versions.retain(|version| version.strong_count() > 0);
        if known.versions.len() >= MAX_VERSIONS {
            return None;
        }
        let version = Arc::new(FragmentVersion {
            id,
            label: part.label.as_str().into(),
            definition: part.definition.as_str().into(),
            blocks: part.blocks.as_str().into(),
            tags: part.tags.ids.clone().into(),
            digest,
            rendered_tags: OnceLock::new(),
            is_switched_off: AtomicBool::new(known.is_switched_off),
        });
        if let Some(rendered) = &known.rendered {
            compare(&version, rendered);
        }
        known.versions.push(Arc::downgrade(&version));
        Some(version)
    }

    /// The version of a fragment that was rendered again.
    pub fn replacing(
        &self,
        variant: u64,
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
            has_context: false,
        };
        self.version(variant, &part, new.digest)
    }

    /// Notes a fragment that was rendered alone: versions with the same bytes are known to be shared.
    pub fn rendered(&self, id: u64, rendered: RenderedFragment) {
        let mut table = self.lock();
        let Some(known) = table.by_id.get_mut(&id) else {
            return;
        };
        for version in known.versions.iter().filter_map(Weak::upgrade) {
            compare(&version, &rendered);
        }
        let is_other = known
            .disagreement
            .is_some_and(|d| d.rendered != rendered.digest);
        if is_other {
            known.disagreement = None;
        }
        known.failures = None;
        known.rendered = Some(rendered);
    }

    /// Notes that a fragment could not be rendered alone: each failure doubles the time until [`FragmentTable::may_render`].
    pub fn note_failure(&self, id: u64, now: Tick) {
        let mut table = self.lock();
        if let Some(known) = table.by_id.get_mut(&id) {
            let count = known.failures.map_or(0, |failures| failures.count);
            let pause = FIRST_PAUSE * (1 << count.min(MOST_DOUBLINGS));
            known.failures = Some(Failures {
                count: count.saturating_add(1),
                retry_at: now.plus(pause.min(LONGEST_PAUSE)),
            });
        }
    }

    /// Whether a fragment could not be rendered the last time.
    pub fn has_failed(&self, id: u64) -> bool {
        let table = self.lock();
        let known = table.by_id.get(&id);
        known.is_some_and(|known| known.failures.is_some())
    }

    /// Whether a fragment may be rendered now: it is not switched off, and has not failed lately.
    pub fn may_render(&self, id: u64, now: Tick) -> bool {
        let table = self.lock();
        table.by_id.get(&id).is_none_or(|known| {
            !known.is_switched_off
                && known
                    .failures
                    .is_none_or(|failures| now >= failures.retry_at)
        })
    }

    /// Notes that a page which showed the fragment as it was rendered (`rendered` is that digest) was generated with other bytes,
    /// although no purge touches the fragment. The purge may be under way, so that one disagreement proves nothing; another
    /// `LATEST_PURGE` (5 s) later does. True if this switched the fragment off: its pages are generated again by every purge.
    pub fn note_disagreement(&self, id: u64, rendered: u128, now: Tick) -> bool {
        let mut table = self.lock();
        let Some(known) = table.by_id.get_mut(&id) else {
            return false;
        };
        let first = known
            .disagreement
            .filter(|first| first.rendered == rendered);
        match first {
            _ if known.is_switched_off => false,
            Some(first) if now.since(first.at) >= LATEST_PURGE => {
                known.is_switched_off = true;
                for version in known.versions.iter().filter_map(Weak::upgrade) {
                    version.is_switched_off.store(true, Ordering::Relaxed);
                }
                true
            }
            Some(_) => false,
            None => {
                known.disagreement = Some(Disagreement { rendered, at: now });
                false
            }
        }
    }

    /// Whether one of these fragments of a page is switched off; pages from the disk do not know.
    pub fn has_switched_off(&self, fragments: &[PageFragment]) -> bool {
        let table = self.lock();
        fragments.iter().any(|fragment| {
            let known = table.by_id.get(&fragment.version.id);
            known.is_some_and(|known| known.is_switched_off)
        })
    }

    /// The labels of the fragments that are switched off, as far as stored pages have them.
    pub fn switched_off(&self) -> Vec<Box<str>> {
        let table = self.lock();
        let switched_off = table.by_id.values().filter(|known| known.is_switched_off);
        let mut labels: Vec<_> = switched_off
            .filter_map(|known| known.versions.iter().find_map(Weak::upgrade))
            .map(|version| version.label.clone())
            .collect();
        labels.sort_unstable();
        labels.dedup();
        labels
    }

    /// Whether the caller is to have a fragment rendered; true for one caller until [`FragmentTable::release`].
    pub fn claim(&self, id: u64) -> bool {
        let mut table = self.lock();
        let known = table.by_id.get_mut(&id);
        known.is_some_and(|known| !std::mem::replace(&mut known.is_claimed, true))
    }

    /// Gives a claim back.
    pub fn release(&self, id: u64) {
        let mut table = self.lock();
        if let Some(known) = table.by_id.get_mut(&id) {
            known.is_claimed = false;
        }
    }

    /// The fragment as it was last rendered alone, whatever was purged since.
    pub fn last_rendered(&self, id: u64) -> Option<RenderedFragment> {
        let table = self.lock();
        table.by_id.get(&id)?.rendered.clone()
    }

    /// Knows a fragment that came with a page from the disk.
    pub fn recall(&self, id: u64) {
        self.lock().entry(id);
    }

    fn lock(&self) -> MutexGuard<'_, KnownFragments> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownFragments {
    /// `None`: pages have too many different fragments.
    fn entry(&mut self, id: u64) -> Option<&mut KnownFragment> {
        let is_new = !self.by_id.contains_key(&id);
        if is_new && self.by_id.len() >= self.swept_at.max(FIRST_SWEEP) {
            self.by_id
                .retain(|_, known| known.is_claimed || known.is_used());
            self.swept_at = (2 * self.by_id.len()).min(MAX_FRAGMENTS);
            if self.by_id.len() >= MAX_FRAGMENTS {
                return None;
            }
        }
        Some(self.by_id.entry(id).or_default())
    }
}

impl KnownFragment {
    fn is_used(&self) -> bool {
        self.versions
            .iter()
            .any(|version| version.strong_count() > 0)
    }
}

fn compare(version: &FragmentVersion, rendered: &RenderedFragment) {
    if version.digest == rendered.digest && version.blocks == rendered.blocks {
        let _ = version
            .rendered_tags
            .set(rendered.entry.scopes.tags.clone());
    }
}

/// At least so many fragments are known before unused ones are forgotten.
const FIRST_SWEEP: usize = 64;

/// Fragments of a site that are known at a time.
const MAX_FRAGMENTS: usize = 4096;

/// Versions of one fragment: what differs more often is no shared fragment.
const MAX_VERSIONS: usize = 32;

/// After the first failure; doubled after each of the next.
const FIRST_PAUSE: Duration = Duration::from_secs(2);

/// At most.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// So that the factor fits.
const MOST_DOUBLINGS: u32 = 12;

/// A purge reaches Galley this long after the edit that it is for, at the latest.
const LATEST_PURGE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::entry;

    fn part(definition: &str, tags: &str) -> FragmentPart {
        FragmentPart {
            label: "widget:x".to_owned(),
            start: 0,
            length: 1,
            blocks: "-".to_owned(),
            definition: definition.to_owned(),
            tags: galley_policy::tags::from_list(tags).unwrap(),
            has_context: false,
        }
    }

    fn rendered(digest: u128) -> RenderedFragment {
        RenderedFragment {
            entry: Arc::new(entry("a.test", "/", &["t"], 1)),
            blocks: "-".into(),
            digest,
        }
    }

    #[test]
    fn only_versions_that_were_rendered_alone_are_shared() {
        let table = FragmentTable::default();
        let one = table.version(0, &part("d", "a"), 1).unwrap();
        assert!(Arc::ptr_eq(
            &one,
            &table.version(0, &part("d", "a"), 1).unwrap()
        ));
        let other = table.version(0, &part("d", "a"), 2).unwrap();
        table.rendered(one.id, rendered(1));
        assert!(one.is_shared() && !other.is_shared());
        let later = table.version(0, &part("d", "a,b"), 1).unwrap();
        assert!(later.is_shared(), "known when it comes");
        let elsewhere = table.version(0, &part("e", "a"), 1).unwrap();
        assert!(!elsewhere.is_shared());
    }

    #[test]
    fn a_second_disagreement_switches_a_fragment_off() {
        let table = FragmentTable::default();
        let held = table.version(0, &part("d", "a"), 1).unwrap();
        table.rendered(held.id, rendered(1));
        let later = Tick(0).plus(LATEST_PURGE);
        assert!(!table.note_disagreement(held.id, 1, Tick(0)));
        assert!(
            !table.note_disagreement(held.id, 1, Tick(later.0 - 1)),
            "its purge may come"
        );
        table.rendered(held.id, rendered(2));
        assert!(
            !table.note_disagreement(held.id, 2, later),
            "it was purged meanwhile"
        );
        assert!(held.is_shared() && table.switched_off().is_empty());
        assert!(table.note_disagreement(held.id, 2, later.plus(LATEST_PURGE)));
        assert!(
            !table.note_disagreement(held.id, 2, later.plus(LATEST_PURGE)),
            "once"
        );
        assert!(!held.is_shared() && !table.may_render(held.id, later));
        assert!(
            table
                .version(0, &part("d", "a"), 2)
                .unwrap()
                .is_switched_off()
        );
        assert_eq!(table.switched_off(), ["widget:x".into()]);
        assert!(
            table
                .version(0, &part("e", "a"), 1)
                .is_some_and(|other| !other.is_switched_off())
        );
    }

    #[test]
    fn a_fragment_that_cannot_be_rendered_is_tried_less_and_less_often() {
        let table = FragmentTable::default();
        let held = table.version(0, &part("d", "a"), 1).unwrap();
        let mut now = Tick(0);
        let mut attempts = 0;
        while now < Tick(0).plus(Duration::from_secs(24 * 3600)) {
            if table.may_render(held.id, now) {
                attempts += 1;
                table.note_failure(held.id, now);
            }
            now = now.plus(Duration::from_secs(1));
        }
        assert!((30..40).contains(&attempts), "{attempts} in a day");
        table.rendered(held.id, rendered(1));
        assert!(table.may_render(held.id, now));
    }

    #[test]
    fn fragments_that_no_page_has_are_forgotten() {
        let table = FragmentTable::default();
        let held = table.version(0, &part("held", "a"), 1).unwrap();
        table.rendered(held.id, rendered(1));
        for number in 0..10 * FIRST_SWEEP {
            let gone = table.version(0, &part(&format!("gone{number}"), "a"), 1);
            table.rendered(gone.unwrap().id, rendered(1));
        }
        assert!(table.lock().by_id.len() <= FIRST_SWEEP + 1);
        assert!(table.last_rendered(held.id).is_some());
    }

    #[test]
    fn what_differs_on_every_page_is_not_shared() {
        let table = FragmentTable::default();
        let held: Vec<_> = (0..)
            .map_while(|digest| table.version(0, &part("d", "a"), digest))
            .take(MAX_VERSIONS + 1)
            .collect();
        assert_eq!(held.len(), MAX_VERSIONS);
        drop(held);
        assert!(table.version(0, &part("d", "a"), 99).is_some());
    }
}
