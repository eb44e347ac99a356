//! Shared fragments of stored pages: parts that many pages show and that have separate tags.
//!
//! A purge that touches only fragments does not invalidate the rest of a page. If the plugin can render the purged fragment
//! alone, Galley replaces its bytes in the stored page. A [`FragmentVersion`] is known to be renderable if its bytes were once
//! equal to those of the fragment rendered alone ([`crate::fragment_table::FragmentTable::rendered`]). A fragment that
//! depends on its page is never renderable.

use std::hash::Hasher;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use galley_policy::fragments::FragmentPart;
use galley_policy::private::PrivateScope;
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::budget::{MemoryBudget, OutOfBudget, Reservation};

/// A fragment of one stored page.
#[derive(Clone, Debug)]
pub struct PageFragment {
    /// The position of the fragment in the page's body.
    pub range: Range<u32>,
    /// The version of the fragment, shared with other pages.
    pub version: Arc<FragmentVersion>,
    /// If the page was patched: the dependencies that the fragment had when PHP last generated the whole page. Shared with other
    /// pages. See [`PageFragment::tags`].
    pub generated_tags: Arc<[u64]>,
    /// The site's purge counter immediately before the fragment was rendered.
    pub born: u64,
    /// Tags of fragments that would show this page as the current one, and therefore must not replace the fragment. Shared by
    /// the page's fragments.
    pub except: Arc<[u64]>,
}

impl PageFragment {
    /// A fragment without its page.
    pub(crate) fn alone(version: Arc<FragmentVersion>) -> Self {
        Self {
            range: 0..0,
            version,
            generated_tags: Arc::default(),
            born: 0,
            except: Arc::default(),
        }
    }

    /// A new version of the fragment at another position of the patched page.
    pub(crate) fn replaced(
        &self,
        range: Range<u32>,
        version: Arc<FragmentVersion>,
        born: u64,
    ) -> Self {
        let generated_tags = match &self.generated_tags {
            none if none.is_empty() => &self.version.tags,
            generated_tags => generated_tags,
        };
        Self {
            range,
            version,
            generated_tags: Arc::clone(generated_tags),
            born,
            except: Arc::clone(&self.except),
        }
    }

    /// All tags by which a purge may reach the fragment.
    ///
    /// After a patch, these include those of the generated page. The tags of a rendering may be incomplete: one request renders
    /// several fragments, and PHP may print one of them from what it remembers of another. A purge that reaches a fragment of a
    /// generated page must still reach it after any number of patches.
    pub fn tags(&self) -> impl Iterator<Item = u64> {
        self.version
            .all_tags()
            .chain(self.generated_tags.iter().copied())
    }
}

/// One version of a fragment in stored pages.
#[derive(Debug)]
pub struct FragmentVersion {
    /// `galley_policy::key::fragment_id` of the definition.
    pub id: u64,
    /// The name for display.
    pub label: Box<str>,
    /// The definition that the plugin needs to render the fragment.
    pub definition: Box<str>,
    /// Identifies the kinds of blocks in the fragment.
    pub blocks: Box<str>,
    /// `galley_policy::key::tag_id` of the dependencies, ascending.
    pub tags: Arc<[u64]>,
    /// The digest of the bytes and kinds of blocks; see [`digest`].
    pub digest: u128,
    /// The dependencies of the fragment when it was rendered alone with the same bytes. Set once.
    pub(crate) rendered_tags: OnceLock<Box<[u64]>>,
    /// Whether the fragment changes without a purge; see [`crate::fragment_table::FragmentTable::note_disagreement`].
    pub(crate) is_switched_off: AtomicBool,
    /// Whether the last attempt to render the fragment failed.
    pub(crate) has_failed: AtomicBool,
    /// The reservation, once for all pages with this version. Written when the first of them is stored in memory.
    pub(crate) held: OnceLock<Reservation>,
}

impl FragmentVersion {
    /// Whether the fragment can be rendered alone.
    pub fn is_shared(&self) -> bool {
        self.rendered_tags.get().is_some() && !self.is_switched_off()
    }

    /// Whether every purge regenerates the pages with this fragment, because the fragment changes without a purge.
    pub fn is_switched_off(&self) -> bool {
        self.is_switched_off.load(Ordering::Relaxed)
    }

    /// Whether the last attempt to render the fragment alone failed, so that a purge of it purges its pages until an attempt
    /// succeeds.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// A private fragment as anonymous visitors see it. It has no tags, because its bytes in the public page belong to the page.
    pub fn private(part: &FragmentPart, digest: u128) -> Self {
        Self {
            id: 0,
            label: part.label.as_str().into(),
            definition: part.definition.as_str().into(),
            blocks: part.blocks.as_str().into(),
            tags: Arc::default(),
            digest,
            rendered_tags: OnceLock::new(),
            is_switched_off: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            held: OnceLock::new(),
        }
    }

    /// For a private fragment: the pages on which a member's version is valid. It is never rendered alone.
    pub fn private_scope(&self) -> Option<PrivateScope> {
        PrivateScope::of(&self.definition)
    }

    /// The tags of this version, in a page and alone.
    fn all_tags(&self) -> impl Iterator<Item = u64> {
        let rendered = self.rendered_tags.get().map_or(&[][..], |tags| tags);
        self.tags.iter().chain(rendered).copied()
    }

    /// Reserves the memory of the version, unless another page has reserved it.
    pub(crate) fn reserve(&self, budget: &MemoryBudget) -> Result<(), OutOfBudget> {
        if self.held.get().is_none() {
            let reservation = budget.try_reserve(self.weight()).ok_or(OutOfBudget)?;
            // If another thread was faster, this reservation is released.
            let _ = self.held.set(reservation);
        }
        Ok(())
    }

    fn weight(&self) -> u64 {
        let texts = self.label.len() + self.definition.len() + self.blocks.len();
        // The tags of the rendering are set later. They are usually the same.
        let tags = 2 * size_of_val(&*self.tags);
        (size_of::<Self>() + SHARED_VERSION + texts + tags) as u64
    }
}

/// The memory that the fragments of a page use, in bytes, without their versions.
pub(crate) fn weight_of(fragments: &[PageFragment]) -> usize {
    let mut seen: Option<&Arc<[u64]>> = None;
    let mut except = 0;
    let mut generated = 0;
    for fragment in fragments {
        generated += size_of_val(&*fragment.generated_tags);
        if !seen.is_some_and(|seen| Arc::ptr_eq(seen, &fragment.except)) {
            except += size_of_val(&*fragment.except);
            seen = Some(&fragment.except);
        }
    }
    size_of_val(fragments) + except + generated
}

/// Counters of the `Arc`, and the slot in the table of versions.
const SHARED_VERSION: usize = 16 + size_of::<usize>();

/// Identifies the bytes of a fragment with its kinds of blocks. Must not change: it is written to the disk.
pub fn digest(bytes: &[u8], blocks: &str) -> u128 {
    let mut hasher = SipHasher24::new();
    hasher.write(&(bytes.len() as u64).to_le_bytes());
    hasher.write(bytes);
    hasher.write(blocks.as_bytes());
    hasher.finish128().as_u128()
}
