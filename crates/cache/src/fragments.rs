//! Shared fragments of stored pages: parts that many pages show, with tags of their own.
//!
//! A purge that touches only fragments does not invalidate the rest of a page. If the plugin can render the purged fragment
//! alone, its bytes are replaced in the stored page. A [`FragmentVersion`] is known to be renderable if its bytes were once
//! equal to those of the fragment rendered alone ([`crate::fragment_table::FragmentTable::rendered`]); a fragment that
//! depends on its page never is.

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
    /// Where its bytes are in the page's body.
    pub range: Range<u32>,
    /// Its identity, shared with other pages.
    pub version: Arc<FragmentVersion>,
    /// The site's purge counter immediately before the fragment was rendered.
    pub born: u64,
    /// Tags of fragments that would show this page as the current one: they are not put in its place. Shared by the page's fragments.
    pub except: Arc<[u64]>,
}

/// One state of a fragment, as pages have it.
#[derive(Debug)]
pub struct FragmentVersion {
    /// `galley_policy::key::fragment_id` of the definition.
    pub id: u64,
    /// For people.
    pub label: Box<str>,
    /// What the plugin needs to render it.
    pub definition: Box<str>,
    /// Identifies the kinds of blocks in it.
    pub blocks: Box<str>,
    /// `galley_policy::key::tag_id` of its dependencies, ascending.
    pub tags: Box<[u64]>,
    /// Of its bytes and kinds of blocks; see [`digest`].
    pub digest: u128,
    /// Its dependencies when it was rendered alone and had the same bytes. Set once.
    pub(crate) rendered_tags: OnceLock<Box<[u64]>>,
    /// Its fragment changes without a purge; see [`crate::fragment_table::FragmentTable::note_disagreement`].
    pub(crate) is_switched_off: AtomicBool,
    /// Its fragment could not be rendered the last time.
    pub(crate) has_failed: AtomicBool,
    /// Its reservation, once for all pages that have it. Written with the first of them that is stored in memory.
    pub(crate) held: OnceLock<Reservation>,
}

impl FragmentVersion {
    /// Whether it can be rendered alone.
    pub fn is_shared(&self) -> bool {
        self.rendered_tags.get().is_some() && !self.is_switched_off()
    }

    /// Whether pages with this fragment are generated again by every purge, because the fragment changes without one.
    pub fn is_switched_off(&self) -> bool {
        self.is_switched_off.load(Ordering::Relaxed)
    }

    /// Whether the last attempt to render it without a page failed, so that a purge of it purges its pages until another one succeeds.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// A private fragment as anonymous visitors see it. It has no tags of its own: its bytes in the public page belong to the
    /// page.
    pub fn private(part: &FragmentPart, digest: u128) -> Self {
        Self {
            id: 0,
            label: part.label.as_str().into(),
            definition: part.definition.as_str().into(),
            blocks: part.blocks.as_str().into(),
            tags: Box::default(),
            digest,
            rendered_tags: OnceLock::new(),
            is_switched_off: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            held: OnceLock::new(),
        }
    }

    /// For a private fragment: where a visitor's own bytes are right. It is never rendered alone.
    pub fn private_scope(&self) -> Option<PrivateScope> {
        PrivateScope::of(&self.definition)
    }

    /// All tags that a purge may reach it by.
    pub fn all_tags(&self) -> impl Iterator<Item = u64> {
        let rendered = self.rendered_tags.get().map_or(&[][..], |tags| tags);
        self.tags.iter().chain(rendered).copied()
    }

    /// Reserves the bytes that it occupies, unless another page has.
    pub(crate) fn hold(&self, budget: &MemoryBudget) -> Result<(), OutOfBudget> {
        if self.held.get().is_none() {
            let reservation = budget.try_reserve(self.weight()).ok_or(OutOfBudget)?;
            // Losing a race gives this reservation back.
            let _ = self.held.set(reservation);
        }
        Ok(())
    }

    fn weight(&self) -> u64 {
        let texts = self.label.len() + self.definition.len() + self.blocks.len();
        // Those of the rendering come later, and are the same as a rule.
        let tags = 2 * size_of_val(&*self.tags);
        (size_of::<Self>() + SHARED_VERSION + texts + tags) as u64
    }
}

/// Bytes that the fragments of a page occupy, without their versions.
pub(crate) fn weight_of(fragments: &[PageFragment]) -> usize {
    let mut seen: Option<&Arc<[u64]>> = None;
    let mut except = 0;
    for fragment in fragments {
        if !seen.is_some_and(|seen| Arc::ptr_eq(seen, &fragment.except)) {
            except += size_of_val(&*fragment.except);
            seen = Some(&fragment.except);
        }
    }
    size_of_val(fragments) + except
}

/// Counters of the `Arc`, and the place in the table of versions.
const SHARED_VERSION: usize = 16 + size_of::<usize>();

/// Names the bytes of a fragment with its kinds of blocks. Fixed: it is written to the disk.
pub fn digest(bytes: &[u8], blocks: &str) -> u128 {
    let mut hasher = SipHasher24::new();
    hasher.write(&(bytes.len() as u64).to_le_bytes());
    hasher.write(bytes);
    hasher.write(blocks.as_bytes());
    hasher.finish128().as_u128()
}
