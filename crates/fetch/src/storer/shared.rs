//! Pages that the nodes of a cluster share: looked up before a request is sent to the upstream, and stored for the other
//! nodes after a fetch.
//!
//! Only pages that their key describes completely are shared: those of the WordPress preset, for anonymous visitors. A page
//! from another node is compared with the purges of this node, while the lease is valid, before it is stored in memory. Each
//! of its fragments and ESI includes has a separate purge number for this.

use std::rc::Rc;
use std::sync::Arc;

use galley_cache::disk::{DiskClock, read_record, write_record};
use galley_cache::entry::{Entry, EntryKind};
use galley_cache::memory::Memory;
use galley_cluster::lease::Lease;
use galley_cluster::{
    FetchToken, FoundPage, PageName, PageSearch, PageToShare, RecordWriter, SharedPages, SharedWait,
};
use galley_policy::decide::{Decision, Validity, decide};
use galley_policy::key::variant_id;
use galley_policy::request_info::RequestInfo;

use super::Storer;
use crate::in_progress::{InProgressFetch, WaitRole, WaiterSlot};
use crate::wait::FetchFor;
use crate::{FetchSite, PageJob, revalidate, write_to_disk};
use galley_sys::clock::Clock;

/// A lookup of a page that another node may have stored.
pub struct SharedLookup<'l> {
    /// The site of the page.
    pub site: &'l FetchSite,
    /// The key of the page.
    pub key: &'l [u8],
    /// The memory cache that stores the page.
    pub memory: &'l Memory,
    /// Permits the use of stored pages while it is valid.
    pub lease: &'l Lease,
    /// The clock of this node.
    pub clock: Clock,
}

impl SharedLookup<'_> {
    /// The name of the page, the same on all nodes.
    pub fn name(&self) -> PageName<'_> {
        PageName {
            site: self.site.purges.site(),
            key: self.key,
        }
    }

    /// The page, if it satisfies the request and no purge of it that may have been acknowledged by now is newer.
    pub fn accept(&self, info: &RequestInfo, found: &FoundPage<'_>) -> Option<Arc<Entry>> {
        let entry = self.read(found)?;
        let decision = self.decision(info, &entry);
        matches!(decision, Decision::Hit | Decision::HitAndRefresh).then_some(entry)
    }

    /// The page that another node stored, unless a purge of it that may have been acknowledged by now is newer.
    pub(super) fn read(&self, found: &FoundPage<'_>) -> Option<Arc<Entry>> {
        let purges = &self.site.purges;
        let born = |number| {
            let mut points = found.points.iter();
            let point = points.find(|known| known.born == number)?;
            purges.number_at(&point.point)
        };
        let now = disk_clock(self.clock);
        let entry = read_record(found.record, &born, found.since, now, self.memory.budget())?;
        if entry.key.bytes() != self.key || entry.kind != EntryKind::Page {
            return None;
        }
        // In this order: while the lease is valid, the purge table contains every acknowledged purge, and the page is then compared
        // with that table.
        if !self.lease.holds(self.clock.tick()) {
            return None;
        }
        (purges.validity_waiting(&entry) == Validity::Valid).then_some(entry)
    }

    /// Whether an accepted page is fresh and needs no refresh. A page that needs a refresh does not replace one.
    fn lasts(&self, info: &RequestInfo, entry: &Entry) -> bool {
        self.decision(info, entry) == Decision::Hit
    }

    fn decision(&self, info: &RequestInfo, entry: &Entry) -> Decision {
        let age = entry.age(self.clock.tick());
        let stored = revalidate::stored(entry, Validity::Valid, age);
        decide(info, &self.site.policy, stored.as_ref())
    }
}

impl Storer {
    /// The shared pages, if they may contain the page of the job.
    fn shared_for(&self, job: &PageJob) -> Option<&SharedPages> {
        let pages = self.shared_pages.as_ref()?;
        let is_page = job.site.keys_identify_responses() && job.fragments.is_empty();
        (is_page && job.may_store).then_some(pages)
    }

    /// Stores the page of another node in memory and returns it. If another node is fetching the page, waits for a short time.
    pub(crate) async fn find_shared(
        &self,
        job: &PageJob,
        in_progress: &Rc<InProgressFetch>,
        purpose: FetchFor,
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
            if purpose == FetchFor::Later && !lookup.lasts(&job.info, &entry) {
                return None;
            }
            let is_kept = self.memory.put(Arc::clone(&entry)).is_ok();
            is_kept.then_some(entry)
        };
        match pages.find(lookup.name(), SharedWait::Waits, take).await {
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

    /// The page that a fetch found at another node, for a waiting request. The request arrived before the page was compared
    /// with purges.
    pub(crate) fn found_for(&self, job: &PageJob, slot: &WaiterSlot) -> Option<Arc<Entry>> {
        let entry = slot.in_progress.shared.entry()?;
        let age = entry.age(self.clock.tick());
        let stored = revalidate::stored(&entry, Validity::Valid, age);
        let decision = decide(&job.info, &job.site.policy, stored.as_ref());
        let is_hit = matches!(decision, Decision::Hit | Decision::HitAndRefresh);
        (is_hit || slot.terms == WaitRole::Leads).then_some(entry)
    }

    /// Stores a fetched page for the other nodes, without waiting.
    pub(super) fn share(&self, job: &PageJob, in_progress: &InProgressFetch, entry: &Arc<Entry>) {
        if job.may_store {
            self.share_page(&job.site, entry, in_progress.shared.take_token());
        }
    }

    /// Replaces a page by its patched version, unless another one has replaced it, and stores that for the other nodes, too.
    pub(crate) fn replace(&self, site: &FetchSite, held: &Arc<Entry>, patched: &Arc<Entry>) {
        let outcome = self.memory.put_if_same(held, Arc::clone(patched));
        if outcome.is_ok() {
            write_to_disk(site, patched, outcome);
            self.share_page(site, patched, None);
        }
    }

    fn share_page(&self, site: &FetchSite, entry: &Arc<Entry>, token: Option<FetchToken>) {
        let (page, clock) = (Arc::clone(entry), self.clock);
        let record = move || write_record(&page, disk_clock(clock));
        self.store_shared(site, entry, token, Box::new(record));
    }

    /// Stores an entry for the other nodes; `record` serializes it.
    pub(super) fn store_shared(
        &self,
        site: &FetchSite,
        entry: &Entry,
        token: Option<FetchToken>,
        record: RecordWriter,
    ) {
        let (Some(pages), true) = (&self.shared_pages, site.keys_identify_responses()) else {
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
            fresh: entry.lifetime.fresh.saturating_sub(age),
            record,
        };
        pages.store(page, token);
    }
}

/// The purge numbers of a page and its parts, without duplicates. Each number needs a separate point: a purge can be older than
/// a fragment that was rendered again, and newer than the rest of the page.
fn numbers(entry: &Entry) -> Vec<u64> {
    let fragments = entry.fragments().iter().map(|part| part.born);
    let included = entry.assembly().into_iter();
    let included = included.flat_map(|assembly| &*assembly.inclusions.parts);
    // In a record, includes that are older than the page have the number of the page.
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
