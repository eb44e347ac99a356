//! The fragments of a site: which versions pages have, and which of them can be rendered without a page.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

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
    known: Mutex<HashMap<u64, KnownFragment>>,
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
        let mut table = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if table.len() >= MAX_FRAGMENTS && !table.contains_key(&id) {
            table.retain(|_, known| known.is_used());
            if table.len() >= MAX_FRAGMENTS {
                return None;
            }
        }
        let known = table.entry(id).or_default();
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
        let mut table = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = table.get_mut(&id) else {
            return;
        };
        for version in known.versions.iter().filter_map(Weak::upgrade) {
            compare(&version, &rendered);
        }
        known.rendered = Some(rendered);
    }

    /// Whether the caller is to have a fragment rendered; true for one caller until [`FragmentTable::release`].
    pub fn claim(&self, id: u64) -> bool {
        let mut table = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = table.get_mut(&id);
        known.is_some_and(|known| !std::mem::replace(&mut known.is_claimed, true))
    }

    /// Gives a claim back.
    pub fn release(&self, id: u64) {
        let mut table = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = table.get_mut(&id) {
            known.is_claimed = false;
        }
    }

    /// The fragment as it was last rendered alone, whatever was purged since.
    pub fn last_rendered(&self, id: u64) -> Option<RenderedFragment> {
        let table = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        table.get(&id)?.rendered.clone()
    }

    /// Knows a fragment that came with a page from the disk.
    pub fn recall(&self, id: u64) {
        let mut table = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if table.len() < MAX_FRAGMENTS {
            table.entry(id).or_default();
        }
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
