//! Pages that the nodes of a cluster share: looked up before the upstream is asked, and stored for the others when fetched.
//!
//! Only pages that their key describes completely are shared: those of the WordPress preset, for anonymous visitors. After
//! it was read, a page is compared with the purges of this node, while the lease holds, before it is stored in memory. Each
//! of its fragments and ESI includes has a number of its own for that.

use std::rc::Rc;
use std::sync::Arc;

use galley_cache::disk::{DiskClock, read_record, write_record};
use galley_cache::entry::{Entry, EntryKind};
use galley_cache::memory::Memory;
use galley_cluster::lease::Lease;
use galley_cluster::{
    FetchToken, FoundPage, PageName, PageSearch, PageToShare, RecordWriter, SharedPages,
    SharedPatience,
};
use galley_policy::decide::{Decision, Validity, decide};
use galley_policy::key::variant_id;
use galley_policy::request_info::RequestInfo;

use super::in_progress::{InProgressFetch, WaitTerms, WaiterSlot};
use super::wait::For;
use super::{FetchSite, FetchWorker, PageJob, revalidate, write_to_disk};
use crate::clock::Clock;

/// A look for the page of another node.
pub struct SharedLookup<'l> {
    /// Whose page.
    pub site: &'l FetchSite,
    /// Its key.
    pub key: &'l [u8],
    /// Whose memory it is stored in.
    pub memory: &'l Memory,
    /// Whether stored pages may be used.
    pub lease: &'l Lease,
    /// Time.
    pub clock: Clock,
}

impl SharedLookup<'_> {
    /// What names the page for all nodes.
    pub fn name(&self) -> PageName<'_> {
        PageName {
            site: self.site.purges.site(),
            key: self.key,
        }
    }

    /// The page, if it answers a request and no purge that may have been acknowledged by now came after it.
    pub fn accept(&self, info: &RequestInfo, found: &FoundPage<'_>) -> Option<Arc<Entry>> {
        let entry = self.read(found)?;
        let decision = self.decision(info, &entry);
        matches!(decision, Decision::Hit | Decision::HitAndRefresh).then_some(entry)
    }

    /// What another node has stored, unless a purge that may have been acknowledged by now came after it.
    pub(super) fn read(&self, found: &FoundPage<'_>) -> Option<Arc<Entry>> {
        let purges = &self.site.purges;
        let born = |number| {
            let mut points = found.points.iter();
            let known = points.find(|known| known.born == number)?;
            purges.number_at(&known.point)
        };
        let now = disk_clock(self.clock);
        let entry = read_record(found.record, &born, found.since, now, self.memory.budget())?;
        if entry.key.bytes() != self.key || entry.kind != EntryKind::Page {
            return None;
        }
        // In this order: while the lease holds, every acknowledged purge is in the table that the page is then compared with.
        if !self.lease.holds(self.clock.tick()) {
            return None;
        }
        (purges.prove_waiting(&entry) == Validity::Valid).then_some(entry)
    }

    /// Whether a page that was accepted stays fresh for a while. One that is to be refreshed itself does not end a refresh.
    fn lasts(&self, info: &RequestInfo, entry: &Entry) -> bool {
        self.decision(info, entry) == Decision::Hit
    }

    fn decision(&self, info: &RequestInfo, entry: &Entry) -> Decision {
        let age = entry.age(self.clock.tick());
        let stored = revalidate::stored(entry, Validity::Valid, age);
        decide(info, &self.site.rules, stored.as_ref())
    }
}

impl FetchWorker {
    /// The shared pages, for a job of which they may hold the page.
    fn shared_for(&self, job: &PageJob) -> Option<&SharedPages> {
        let pages = self.shared_pages.as_ref()?;
        let is_page = job.site.keys_say_all() && job.fragments.is_empty();
        (is_page && job.may_store).then_some(pages)
    }

    /// The page as another node has fetched it, in memory. Where another node fetches it now, this waits for that for a moment.
    pub(super) async fn find_shared(
        &self,
        job: &PageJob,
        in_progress: &Rc<InProgressFetch>,
        whom: For,
    ) -> Option<Arc<Entry>> {
        let pages = self.shared_for(job)?;
        if job.info.directives().no_cache {
            return None;
        }
        let lookup = SharedLookup {
            site: &job.site,
            key: job.key.bytes(),
            memory: &self.memory,
            lease: &self.lease,
            clock: self.clock,
        };
        let take = |found: FoundPage<'_>| {
            let entry = lookup.accept(&job.info, &found)?;
            if whom == For::Later && !lookup.lasts(&job.info, &entry) {
                return None;
            }
            let is_kept = self.memory.put(Arc::clone(&entry)).is_ok();
            is_kept.then_some(entry)
        };
        match pages.find(lookup.name(), SharedPatience::Waits, take).await {
            PageSearch::Fetch(token) => {
                in_progress.shared.may_fetch(token);
                None
            }
            PageSearch::Found(entry) => {
                if let Some(variant) = variant_id(job.key.bytes()) {
                    for fragment in entry.fragments() {
                        job.site.fragments.recall(variant, &fragment.version);
                    }
                }
                write_to_disk(&job.site, &entry, Ok(()));
                Some(entry)
            }
        }
    }

    /// What a fetch has found at another node, for a request that waits for it. It has come before the page was compared with purges.
    pub(super) fn found_for(&self, job: &PageJob, slot: &WaiterSlot) -> Option<Arc<Entry>> {
        let entry = slot.in_progress.shared.entry()?;
        let age = entry.age(self.clock.tick());
        let stored = revalidate::stored(&entry, Validity::Valid, age);
        let decision = decide(&job.info, &job.site.rules, stored.as_ref());
        let is_hit = matches!(decision, Decision::Hit | Decision::HitAndRefresh);
        (is_hit || slot.terms == WaitTerms::Leads).then_some(entry)
    }

    /// Stores a fetched page for the other nodes. Nobody waits for that.
    pub(super) fn share(&self, job: &PageJob, in_progress: &InProgressFetch, entry: &Arc<Entry>) {
        if job.may_store {
            self.share_page(&job.site, entry, in_progress.shared.take_token());
        }
    }

    /// The same for a page that was patched.
    pub(super) fn share_patched(&self, site: &FetchSite, entry: &Arc<Entry>) {
        self.share_page(site, entry, None);
    }

    fn share_page(&self, site: &FetchSite, entry: &Arc<Entry>, token: Option<FetchToken>) {
        let (page, clock) = (Arc::clone(entry), self.clock);
        let record = move || write_record(&page, disk_clock(clock));
        self.store_shared(site, entry, token, Box::new(record));
    }

    /// Stores an entry for the other nodes, as `record` writes it.
    pub(super) fn store_shared(
        &self,
        site: &FetchSite,
        entry: &Entry,
        token: Option<FetchToken>,
        record: RecordWriter,
    ) {
        let (Some(pages), true) = (&self.shared_pages, site.keys_say_all()) else {
            return;
        };
        let points = numbers(entry)
            .into_iter()
            .map(|born| site.purges.of_born(born));
        let Some(points) = points.collect() else {
            return;
        };
        let age = entry.age(self.clock.tick());
        let page = PageToShare {
            name: PageName {
                site: site.purges.site(),
                key: entry.key.bytes(),
            },
            points,
            bytes: entry.length(),
            fresh: entry.life.fresh.saturating_sub(age),
            record,
        };
        pages.store(page, token);
    }
}

/// What a page and its parts were born with, each number once. Each needs a point of its own: a purge of a fragment that was rendered again
/// came before it, and after the rest.
fn numbers(entry: &Entry) -> Vec<u64> {
    let fragments = entry.fragments().iter().map(|part| part.born);
    let included = entry.assembly().into_iter();
    let included = included.flat_map(|assembly| &*assembly.inclusions.parts);
    // A record has includes as born with the page, if they are older.
    let included = included.map(|part| part.born.max(entry.born));
    let mut numbers: Vec<u64> = fragments.chain(included).collect();
    numbers.push(entry.born);
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

pub(super) fn disk_clock(clock: Clock) -> DiskClock {
    DiskClock {
        tick: clock.tick(),
        wall: clock.wall(),
    }
}
