//! The fragments of a site: which versions pages have, and which of them can be rendered without a page.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use galley_policy::fragments::FragmentPart;
use galley_policy::key::fragment_id;

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
    versions: Vec<Weak<FragmentVersion>>,
}

impl FragmentTable {
    /// The version that a page has, shared with the other pages that have the same. `None`: it differs between too many pages, so it
    /// belongs to each of them.
    pub fn version(&self, part: &FragmentPart, digest: u128) -> Option<Arc<FragmentVersion>> {
        let id = fragment_id(&part.definition);
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
        });
        if let Some(rendered) = &known.rendered {
            compare(&version, rendered);
        }
        known.versions.push(Arc::downgrade(&version));
        Some(version)
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
        known.rendered = Some(rendered);
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
        let one = table.version(&part("d", "a"), 1).unwrap();
        assert!(Arc::ptr_eq(
            &one,
            &table.version(&part("d", "a"), 1).unwrap()
        ));
        let other = table.version(&part("d", "a"), 2).unwrap();
        table.rendered(one.id, rendered(1));
        assert!(one.is_shared() && !other.is_shared());
        let later = table.version(&part("d", "a,b"), 1).unwrap();
        assert!(later.is_shared(), "known when it comes");
        let elsewhere = table.version(&part("e", "a"), 1).unwrap();
        assert!(!elsewhere.is_shared());
    }

    #[test]
    fn fragments_that_no_page_has_are_forgotten() {
        let table = FragmentTable::default();
        let held = table.version(&part("held", "a"), 1).unwrap();
        table.rendered(held.id, rendered(1));
        for number in 0..10 * FIRST_SWEEP {
            let gone = table.version(&part(&format!("gone{number}"), "a"), 1);
            table.rendered(gone.unwrap().id, rendered(1));
        }
        assert!(table.lock().by_id.len() <= FIRST_SWEEP + 1);
        assert!(table.last_rendered(held.id).is_some());
    }

    #[test]
    fn what_differs_on_every_page_is_not_shared() {
        let table = FragmentTable::default();
        let held: Vec<_> = (0..)
            .map_while(|digest| table.version(&part("d", "a"), digest))
            .take(MAX_VERSIONS + 1)
            .collect();
        assert_eq!(held.len(), MAX_VERSIONS);
        drop(held);
        assert!(table.version(&part("d", "a"), 99).is_some());
    }
}
