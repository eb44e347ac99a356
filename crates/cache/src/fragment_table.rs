//! The fragments of a site: the versions that pages have, whether they can be rendered alone, and whether they are switched off.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use galley_policy::fragments::FragmentPart;
use galley_policy::key::fragment_id;
use galley_policy::tags::Tags;
use galley_policy::time::Tick;
use galley_sys::Lock;

use crate::entry::Entry;
use crate::fragments::{FragmentVersion, PageFragment};

/// A fragment that was rendered alone.
#[derive(Clone, Debug)]
pub struct RenderedFragment {
    /// The bytes, tags and lifetime.
    pub entry: Arc<Entry>,
    /// Identifies the kinds of blocks in the fragment.
    pub blocks: Box<str>,
    /// See [`crate::fragments::digest`].
    pub digest: u128,
}

impl RenderedFragment {
    /// Whether a page may show the rendering in place of one of its fragments.
    pub fn fits(&self, fragment: &PageFragment) -> bool {
        let tags = &self.entry.scopes.tags;
        self.blocks == fragment.version.blocks
            && !tags.iter().any(|tag| fragment.except.contains(tag))
    }
}

/// A fragment that pages share.
#[derive(Debug)]
pub struct SharedFragment {
    /// The variant of the pages with this fragment (`galley_policy::key::variant_id`).
    pub variant: u64,
    /// One version of the fragment, without a page.
    pub fragment: PageFragment,
    /// The last rendering; `None`: the fragment was read with a page from the disk.
    pub rendered: Option<Arc<Entry>>,
}

/// The fragments of a site.
#[derive(Debug, Default)]
pub struct FragmentTable {
    known: Lock<KnownFragments>,
}

#[derive(Debug, Default)]
struct KnownFragments {
    by_id: HashMap<u64, KnownFragment>,
    /// The number of fragments at which fragments without a page are removed.
    swept_at: usize,
    /// The number of fragments refused since the last sweep, because pages have too many.
    refused: usize,
}

#[derive(Debug, Default)]
struct KnownFragment {
    /// The variant of the pages that may have the fragment (`galley_policy::key::variant_id`).
    variant: u64,
    rendered: Option<RenderedFragment>,
    /// The maximum number of fragments in one request with this one, if the last such request was slow.
    max_batch: Option<usize>,
    /// Whether a caller is rendering the fragment.
    is_claimed: bool,
    failures: Option<Failures>,
    disagreement: Option<Disagreement>,
    is_switched_off: bool,
    versions: Vec<Weak<FragmentVersion>>,
}

/// Failed renderings since the last successful one.
#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    /// The time before which the fragment is not rendered again.
    retry_at: Tick,
}

/// A page showed bytes that were rendered alone, and was then generated with other bytes although no purge touched the fragment.
#[derive(Clone, Copy, Debug)]
struct Disagreement {
    /// The digest of the rendering.
    rendered: u128,
    at: Tick,
}

impl FragmentTable {
    /// The version for a page of this variant (`galley_policy::key::variant_id`), shared with other pages that have the same
    /// version. `None`: the fragment differs between too many pages to be shared.
    pub fn version(
        &self,
        variant: u64,
        part: &FragmentPart,
        digest: u128,
    ) -> Option<Arc<FragmentVersion>> {
        let id = fragment_id(variant, &part.definition);
        let mut table = self.known.lock();
        let of_fragment = table.entry(id, variant)?;
        let mut versions = of_fragment.versions.iter().filter_map(Weak::upgrade);
        let same =
            versions.find(|version| version.digest == digest && *version.tags == *part.tags.ids);
        if same.is_some() {
            return same;
        }
        of_fragment
            .versions
            .retain(|version| version.strong_count() > 0);
        if of_fragment.versions.len() >= MAX_VERSIONS {
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
            is_switched_off: AtomicBool::new(of_fragment.is_switched_off),
            has_failed: AtomicBool::new(of_fragment.failures.is_some()),
            held: OnceLock::new(),
        });
        if let Some(rendered) = &of_fragment.rendered {
            compare(&version, rendered);
        }
        of_fragment.versions.push(Arc::downgrade(&version));
        Some(version)
    }

    /// The version of a fragment after it was rendered again.
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

    /// Records a fragment that was rendered alone: versions with the same bytes are known to be renderable. A rendering never
    /// replaces one that began after it. Returns whether it is the last one now.
    pub fn rendered(&self, id: u64, rendered: RenderedFragment) -> bool {
        let mut table = self.known.lock();
        let Some(known) = table.by_id.get_mut(&id) else {
            return false;
        };
        let last = known.rendered.as_ref();
        if last.is_some_and(|last| last.entry.born > rendered.entry.born) {
            return false;
        }
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
        known.update_versions();
        known.rendered = Some(rendered);
        true
    }

    /// Records that a fragment could not be rendered alone. Each failure doubles the time until [`FragmentTable::may_render`].
    pub fn note_failure(&self, id: u64, now: Tick) {
        let mut table = self.known.lock();
        if let Some(known) = table.by_id.get_mut(&id) {
            let count = known.failures.map_or(0, |failures| failures.count);
            let pause = FIRST_PAUSE * (1 << count.min(MAX_DOUBLINGS));
            known.failures = Some(Failures {
                count: count.saturating_add(1),
                retry_at: now.plus(pause.min(MAX_PAUSE)),
            });
            known.update_versions();
        }
    }

    /// Records whether the request that rendered a fragment together with others, `together` in all, was slow. If so, the next
    /// request contains half as many, so that the slow fragment is soon rendered alone.
    pub fn note_duration(&self, id: u64, together: usize, is_slow: bool) {
        let mut table = self.known.lock();
        if let Some(known) = table.by_id.get_mut(&id) {
            known.max_batch = is_slow.then_some((together / 2).max(1));
        }
    }

    /// The maximum number of fragments in a request that renders this one: 1 if the last rendering failed. `None`: no limit.
    pub fn max_batch(&self, id: u64) -> Option<usize> {
        let table = self.known.lock();
        table.by_id.get(&id).and_then(KnownFragment::max_batch)
    }

    /// The fragments that pages share.
    pub fn shared(&self) -> Vec<SharedFragment> {
        let table = self.known.lock();
        let shared = table.by_id.values().filter_map(|known| {
            let mut versions = known.versions.iter().filter_map(Weak::upgrade);
            Some(SharedFragment {
                variant: known.variant,
                fragment: PageFragment::alone(versions.find(|version| version.is_shared())?),
                rendered: known.rendered.as_ref().map(|last| Arc::clone(&last.entry)),
            })
        });
        shared.collect()
    }

    /// The labels of stored pages' fragments whose last rendering failed.
    pub fn failed(&self) -> Vec<Box<str>> {
        self.labels(|known| known.failures.is_some() && !known.is_switched_off)
    }

    /// Whether a fragment may be rendered now: it is not switched off and has not failed recently.
    pub fn may_render(&self, id: u64, now: Tick) -> bool {
        let table = self.known.lock();
        table.by_id.get(&id).is_none_or(|known| {
            !known.is_switched_off
                && known
                    .failures
                    .is_none_or(|failures| now >= failures.retry_at)
        })
    }

    /// Records that a page that showed the fragment as it was rendered (with the digest `rendered`) was generated with other
    /// bytes, although no purge touches the fragment. The purge may be in progress, so one disagreement is no proof; another
    /// one `LATEST_PURGE` (5 s) later is. Returns true if this switched the fragment off: then every purge regenerates its
    /// pages.
    pub fn note_disagreement(&self, id: u64, rendered: u128, now: Tick) -> bool {
        let mut table = self.known.lock();
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

    /// Records that a page that showed the fragment as it was rendered was generated with the same bytes. The disagreement of another
    /// page then came from that page: a search form has another number in a page that begins to show a second form.
    pub fn note_agreement(&self, id: u64) {
        if let Some(known) = self.known.lock().by_id.get_mut(&id) {
            known.disagreement = None;
        }
    }

    /// Whether one of these fragments of a page is switched off. Needed for pages from the disk, whose versions do not contain
    /// this.
    pub fn has_switched_off(&self, fragments: &[PageFragment]) -> bool {
        let table = self.known.lock();
        fragments.iter().any(|fragment| {
            let of_fragment = table.by_id.get(&fragment.version.id);
            of_fragment.is_some_and(|of_fragment| of_fragment.is_switched_off)
        })
    }

    /// The labels of stored pages' fragments that are switched off.
    pub fn switched_off(&self) -> Vec<Box<str>> {
        self.labels(|known| known.is_switched_off)
    }

    fn labels(&self, is_meant: impl Fn(&KnownFragment) -> bool) -> Vec<Box<str>> {
        let table = self.known.lock();
        let meant = table.by_id.values().filter(|known| is_meant(known));
        let mut labels: Vec<_> = meant
            .filter_map(|known| known.versions.iter().find_map(Weak::upgrade))
            .map(|version| version.label.clone())
            .collect();
        labels.sort_unstable();
        labels.dedup();
        labels
    }

    /// Whether the caller must render a fragment: true for one caller until [`FragmentTable::release`].
    pub fn claim(&self, id: u64) -> bool {
        let mut table = self.known.lock();
        let of_fragment = table.by_id.get_mut(&id);
        of_fragment.is_some_and(|of_fragment| !std::mem::replace(&mut of_fragment.is_claimed, true))
    }

    /// Releases the claim of a fragment.
    pub fn release(&self, id: u64) {
        let mut table = self.known.lock();
        if let Some(known) = table.by_id.get_mut(&id) {
            known.is_claimed = false;
        }
    }

    /// The last rendering of the fragment, whatever was purged since.
    pub fn last_rendered(&self, id: u64) -> Option<RenderedFragment> {
        let table = self.known.lock();
        table.by_id.get(&id)?.rendered.clone()
    }

    /// Adds a fragment that was read with a page from the disk.
    pub fn recall(&self, variant: u64, version: &Arc<FragmentVersion>) {
        let mut table = self.known.lock();
        let Some(known) = table.entry(version.id, variant) else {
            return;
        };
        known.versions.retain(|held| held.strong_count() > 0);
        let mut versions = known.versions.iter().filter_map(Weak::upgrade);
        let is_known =
            versions.any(|held| held.digest == version.digest && held.tags == version.tags);
        if known.versions.len() < MAX_VERSIONS && !is_known {
            known.versions.push(Arc::downgrade(version));
        }
    }
}

impl KnownFragments {
    /// The row of a fragment, created if needed. `None`: pages have too many different fragments.
    fn entry(&mut self, id: u64, variant: u64) -> Option<&mut KnownFragment> {
        if !self.by_id.contains_key(&id) && !self.can_add() {
            return None;
        }
        let of_fragment = self.by_id.entry(id).or_default();
        of_fragment.variant = variant;
        Some(of_fragment)
    }

    /// Whether another fragment can be added. Removes unused fragments if needed. That takes time proportional to the number of
    /// fragments, so it is done only after as many additions.
    fn can_add(&mut self) -> bool {
        let count = self.by_id.len();
        if count < self.swept_at.max(FIRST_SWEEP) {
            return true;
        }
        if self.swept_at == MAX_FRAGMENTS && self.refused < MAX_FRAGMENTS {
            self.refused += 1;
            return false;
        }
        self.by_id
            .retain(|_, known| known.is_claimed || known.is_used());
        self.swept_at = (2 * self.by_id.len()).min(MAX_FRAGMENTS);
        self.refused = 0;
        self.by_id.len() < MAX_FRAGMENTS
    }
}

impl KnownFragment {
    /// Tells the versions whether the last rendering failed.
    fn update_versions(&self) {
        for version in self.versions.iter().filter_map(Weak::upgrade) {
            let has_failed = self.failures.is_some();
            version.has_failed.store(has_failed, Ordering::Relaxed);
        }
    }

    fn max_batch(&self) -> Option<usize> {
        self.failures.map_or(self.max_batch, |_| Some(1))
    }

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

/// The minimum number of fragments at which unused ones are removed.
const FIRST_SWEEP: usize = 64;

/// The maximum number of fragments of a site.
const MAX_FRAGMENTS: usize = 4096;

/// The maximum number of versions of one fragment. A part with more versions is not a shared fragment.
const MAX_VERSIONS: usize = 32;

/// The pause after the first failure. Each further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(2);

/// The maximum pause.
const MAX_PAUSE: Duration = Duration::from_secs(3600);

/// The maximum exponent, so that the factor fits.
const MAX_DOUBLINGS: u32 = 12;

/// The maximum time from an edit to its purge.
const LATEST_PURGE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
