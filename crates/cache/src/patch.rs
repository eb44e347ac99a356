//! A stored page with new bytes in place of its purged fragments.
//!
//! A purge is final for each fragment of a page: new bytes must have been rendered after every purge that touches the fragment,
//! as the page describes it and as the rendering does ([`FragmentTable::rendering_for`]). The new page has the purge sequence
//! numbers of its parts and all of these tags ([`PageFragment::tags`]). Before the server sends or stores it, it compares the new
//! page with the purges since then.
//!
//! This module does not render, and does not store the new page.

use bytes::Bytes;
use galley_policy::key::{fragment_id, variant_id};
use galley_policy::storable::Lifetime;
use galley_policy::time::Tick;

use crate::entry::Entry;
use crate::fragment_table::{FragmentTable, RenderedFragment};
use crate::fragments::PageFragment;
use crate::purge_table::PurgeTable;
use crate::splice::{SplicedBody, splice};

/// The number of a fragment of a page, and the rendering in its place.
type Replacement = (usize, RenderedFragment);

/// What differs in a patched page from the page that it replaces.
#[derive(Debug)]
pub struct PatchedPage {
    /// The body without encoding, in pieces that share the bytes of the page and of the renderings.
    pub pieces: Vec<Bytes>,
    /// The fragments, at their positions in this body.
    pub fragments: Vec<PageFragment>,
    /// The lifetime since the page was stored. It ends with that of the first part.
    pub lifetime: Lifetime,
}

impl FragmentTable {
    /// The last rendering of a fragment, if it may replace the fragment of a page: it is fresh, and since it was rendered no purge
    /// has touched either.
    pub fn rendering_for(
        &self,
        purges: &PurgeTable,
        fragment: &PageFragment,
        now: Tick,
    ) -> Option<RenderedFragment> {
        let rendered = self.last_rendered(fragment.version.id)?;
        let entry = &rendered.entry;
        let is_fresh = entry.lifetime.fresh > entry.age(now);
        (is_fresh && purges.is_current(entry, fragment)).then_some(rendered)
    }

    /// The renderings for all purged fragments of a page; `None` if one is missing, or if patching is not enough.
    pub fn renderings_for(
        &self,
        purges: &PurgeTable,
        held: &Entry,
        now: Tick,
    ) -> Option<Vec<Replacement>> {
        let variant = variant_id(held.key.bytes())?;
        let of_number = |number: usize| {
            let fragment = held.fragments().get(number)?;
            let version = &fragment.version;
            // A page from the disk may have an id that another variant of the page had as well.
            let is_of_variant = version.id == fragment_id(variant, &version.definition);
            let rendered = self.rendering_for(purges, fragment, now);
            Some((number, rendered.filter(|_| is_of_variant)?))
        };
        let purged = purges.purged_fragments(held)?;
        purged.into_iter().map(of_number).collect()
    }

    /// The page with new bytes in place of some fragments. `plain` is its body without encoding. `None`: the page cannot show
    /// one of the renderings.
    pub fn patched(
        &self,
        held: &Entry,
        plain: &Bytes,
        rendered: &[Replacement],
        now: Tick,
    ) -> Option<PatchedPage> {
        let variant = variant_id(held.key.bytes())?;
        let replacement = |number: usize| {
            let mut rendered = rendered.iter();
            rendered
                .find(|(index, _)| *index == number)
                .map(|(_, new)| new)
        };
        let parts = held.fragments().iter().enumerate();
        let replacements = parts.clone().map(|(number, fragment)| {
            let body = replacement(number).and_then(|new| new.entry.body());
            (&fragment.range, body.cloned())
        });
        let SplicedBody { pieces, ranges } = splice(plain, replacements)?;
        let mut lifetime = held.lifetime;
        let mut fragments = Vec::with_capacity(held.fragments().len());
        for ((number, fragment), range) in parts.zip(ranges) {
            let Some(new) = replacement(number) else {
                fragments.push(PageFragment {
                    range,
                    ..fragment.clone()
                });
                continue;
            };
            // The entry is in its original form here; only its copy in the memory cache may be packed.
            if !new.fits(fragment) || new.entry.body().is_none() {
                return None;
            }
            let part = &new.entry;
            lifetime = lifetime.with_part(held.age(now), part.lifetime, part.age(now));
            let version = self.replacing(variant, &fragment.version, new)?;
            fragments.push(fragment.replaced(range, version, new.entry.born));
        }
        Some(PatchedPage {
            pieces,
            fragments,
            lifetime,
        })
    }
}

#[cfg(test)]
mod tests;
