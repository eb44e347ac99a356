//! Waiters on other threads for a page that is being fetched.
//!
//! A thousand visitors who request the same page at once would cost the fetch thread a thousand jobs, and a turn for each
//! of them when the page has arrived. Once the request of the fetch is sent they can wait on their own threads: the facts
//! about the fetch that they need are here, behind locks that no hit takes. When the page is stored all of them are
//! notified together, and each sends it like a stored page. The fetch thread decides for each request what happens if a
//! fetch is slow or silent. It also decides before the request is sent, because it must know for which clients it is queued.
//!
//! Waiters read the fill like requests that send a job to the fetch thread: they are counted, and a page that is not stored
//! is not fetched again for them. After a purge since the request was sent, no request can join in this way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use galley_cache::entry::Entry;
use galley_cache::fill::{Fill, FillReader};
use galley_cache::purge_table::Validity;
use galley_policy::encoding::Coding;
use galley_policy::outcome::StoreOutcome;
use galley_policy::request_info::RequestInfo;
use galley_policy::time::Tick;
use galley_sys::Lock;
use tokio::sync::watch;

use super::jobs::FetchResult;
use super::site::FetchSite;

/// A fetch in progress, as other threads see it.
pub(super) struct Waiters {
    fill: Arc<Fill>,
    /// The same page in requested codings, as far as they are being made.
    coded: Lock<Vec<(Coding, Arc<Fill>)>>,
    /// See [`Waiters::admission`].
    admission: Lock<()>,
    /// The purge counter before the request was sent; [`NOT_SENT`] until then.
    born: AtomicU64,
    /// When the request was sent, in milliseconds of [`Tick`].
    sent_at: AtomicU64,
    /// Maximum number of requests that may read the page.
    most: usize,
    progress: watch::Sender<FetchProgress>,
}

/// The progress of a fetch.
#[derive(Clone, Default)]
pub(super) enum FetchProgress {
    #[default]
    None,
    /// It takes longer: each reader gets the parts as they arrive.
    Slow(StoreOutcome),
    /// The page is stored.
    Stored(Arc<Entry>),
    /// The fetch has ended, and the page is not stored in memory.
    Ended(StoreOutcome),
}

/// A request that waits for a fetch in progress.
pub(super) struct Waiter {
    waiters: Arc<Waiters>,
    reader: FillReader,
    progress: watch::Receiver<FetchProgress>,
}

impl Waiters {
    pub(super) fn new(fill: Arc<Fill>, most: usize) -> Self {
        Self {
            fill,
            coded: Lock::default(),
            admission: Lock::default(),
            born: AtomicU64::new(NOT_SENT),
            sent_at: AtomicU64::new(0),
            most,
            progress: watch::Sender::default(),
        }
    }

    /// Whether a request on another thread waits now.
    pub(super) fn has_waiters(&self) -> bool {
        self.progress.receiver_count() > 0
    }

    /// Permits other threads to wait from now on: the request is about to be sent.
    pub(super) fn open(&self, born: u64, now: Tick) {
        self.sent_at.store(now.0, Ordering::Relaxed);
        self.born.store(born, Ordering::Release);
    }

    /// Notifies the waiters and closes joining. Only the first call has an effect.
    pub(super) fn announce(&self, progress: FetchProgress) {
        self.progress.send_if_modified(|current| {
            let is_first = matches!(current, FetchProgress::None);
            if is_first {
                *current = progress;
            }
            is_first
        });
    }

    /// Joins the fetch, if that is possible for a request that arrived while `current` was the purge counter.
    pub(super) fn join(self: Arc<Self>, current: u64) -> Option<Waiter> {
        // A newer purge may concern the page or not; the fetch thread decides.
        let born = self.born.load(Ordering::Acquire);
        if born == NOT_SENT || born != current {
            return None;
        }
        let (reader, progress) = {
            let _admission = self.admission();
            // A client that has received the page and requests it again need not wait: the page is stored before
            // the fetch thread gets to a job.
            if self.readers() >= self.most || self.fill.has_all() {
                return None;
            }
            // Subscribed before the check, so that no later notification is missed.
            let progress = self.progress.subscribe();
            (self.fill.reader()?, progress)
        };
        let is_open = matches!(*progress.borrow(), FetchProgress::None);
        is_open.then_some(Waiter {
            waiters: self,
            reader,
            progress,
        })
    }

    /// Must be held from counting the readers until one is added, because several threads may join.
    pub(super) fn admission(&self) -> std::sync::MutexGuard<'_, ()> {
        self.admission.lock()
    }

    /// A reader of the page in `coding`, if it is being made.
    pub(super) fn coded(&self, coding: Coding) -> Option<FillReader> {
        let coded = self.coded.lock();
        let (_, fill) = coded.iter().find(|(known, _)| *known == coding)?;
        fill.reader()
    }

    /// Makes the page available to others while it is being compressed.
    pub(super) fn add_coded(&self, coding: Coding, fill: Arc<Fill>) {
        self.forget_coded(coding);
        self.coded.lock().push((coding, fill));
    }

    /// Removes a coding that failed, or that cannot be joined any more.
    pub(super) fn forget_coded(&self, coding: Coding) {
        let mut coded = self.coded.lock();
        let (to_store, forgotten) = std::mem::take(&mut *coded)
            .into_iter()
            .partition(|(known, _)| *known != coding);
        *coded = to_store;
        drop(coded);
        // Not under the lock, because dropping the contents may wake other tasks.
        drop::<Vec<_>>(forgotten);
    }

    /// The number of requests that read the page or wait for it, in any coding.
    pub(super) fn readers(&self) -> usize {
        let coded = self.coded.lock();
        let coded = coded.iter().map(|(_, fill)| fill.readers());
        self.fill.readers() + coded.sum::<usize>()
    }
}

/// A fetch that has fallen silent.
pub(super) struct SilentFetch {
    pub(super) reader: FillReader,
    pub(super) sent_at: Tick,
}

/// The result of waiting.
pub(super) enum WaitResult {
    Fetched(FetchResult),
    /// The fetch thread must decide. A fetch in progress that has only fallen silent may still answer.
    Nothing(Option<SilentFetch>),
}

impl FetchResult {
    /// The same for a request that had waited before its job was sent: it has also waited for the fetch that has stored the page
    /// since then.
    pub(super) fn after_a_wait(self) -> Self {
        match self {
            Self::Entry(entry) => Self::Awaited(entry),
            other => other,
        }
    }
}

impl Waiter {
    /// Waits for the page on behalf of a request. Cancel-safe.
    pub(super) async fn wait(mut self, site: &FetchSite, info: &RequestInfo) -> WaitResult {
        let progress = self
            .progress
            .wait_for(|progress| !matches!(progress, FetchProgress::None));
        // A fetch whose sender was dropped has ended.
        let gone = FetchProgress::Ended(StoreOutcome::Undecided);
        let progress = progress.await.map_or(gone, |progress| progress.clone());
        match progress {
            FetchProgress::Stored(entry) => self.use_stored(entry, site, info),
            FetchProgress::Ended(outcome) => self.read_fill(None, outcome),
            FetchProgress::Slow(outcome) => self.read_slow(site, info, outcome).await,
            FetchProgress::None => self.read_slow(site, info, StoreOutcome::Undecided).await,
        }
    }

    fn use_stored(self, entry: Arc<Entry>, site: &FetchSite, info: &RequestInfo) -> WaitResult {
        // Purged since then: the fetch thread decides what to send instead.
        if site.purges.validity_waiting(&entry) == Validity::Purged {
            return WaitResult::Nothing(None);
        }
        let length = Some(entry.length());
        let compressing = &site.compressing;
        let coding = compressing.live(info, entry.status, &entry.fields, length);
        // The compressor has usually not compressed the stored page yet.
        let coding = coding.filter(|_| entry.coded().is_empty());
        match coding.and_then(|coding| self.waiters.coded(coding)) {
            Some(coded) => self.read_fill(Some(coded), StoreOutcome::Stored),
            None => WaitResult::Fetched(FetchResult::Awaited(entry)),
        }
    }

    async fn read_slow(
        mut self,
        site: &FetchSite,
        info: &RequestInfo,
        outcome: StoreOutcome,
    ) -> WaitResult {
        if !self.waiters.fill.has_head() {
            let sent_at = Tick(self.waiters.sent_at.load(Ordering::Relaxed));
            let reader = self.reader;
            return WaitResult::Nothing(Some(SilentFetch { reader, sent_at }));
        }
        let Ok(head) = self.reader.head().await else {
            return self.read_fill(None, outcome);
        };
        let length = head.length.or_else(|| self.waiters.fill.whole_length());
        let compressing = &site.compressing;
        let Some(coding) = compressing.live(info, head.status, &head.fields, length) else {
            return self.read_fill(None, outcome);
        };
        match self.waiters.coded(coding) {
            Some(coded) => self.read_fill(Some(coded), outcome),
            // The coding is not being made yet: the fetch thread starts it.
            None => WaitResult::Nothing(None),
        }
    }

    fn read_fill(self, coded: Option<FillReader>, outcome: StoreOutcome) -> WaitResult {
        WaitResult::Fetched(FetchResult::Fill {
            reader: self.reader,
            coded,
            outcome,
            collapsed: true,
        })
    }
}

/// The value of `born` before the request is sent.
pub(super) const NOT_SENT: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use bytes::Bytes;
    use galley_cache::fill::{self, FillHead, FillSharing, FillWriter};
    use http::{HeaderMap, StatusCode};

    use galley_cache::fill::FillError;

    use super::super::handle::either;
    use super::*;

    fn waiters(most: usize) -> (FillWriter, Arc<Waiters>) {
        let (writer, fill) = fill::fill(1, None);
        (writer, Arc::new(Waiters::new(fill, most)))
    }

    fn joins(waiters: &Arc<Waiters>, current: u64) -> Option<Waiter> {
        Arc::clone(waiters).join(current)
    }

    #[test]
    fn a_fetch_can_be_joined_from_its_request_until_its_first_progress() {
        let (_writer, waiters) = waiters(10);
        assert!(joins(&waiters, 7).is_none(), "not sent yet");
        assert!(joins(&waiters, NOT_SENT).is_none(), "not sent yet");
        waiters.open(7, Tick(1));
        assert!(joins(&waiters, 7).is_some());
        assert!(joins(&waiters, 8).is_none(), "ordered since");
        waiters.announce(FetchProgress::Slow(StoreOutcome::Stored));
        assert!(joins(&waiters, 7).is_none(), "there is news");
    }

    #[test]
    fn the_number_of_readers_is_limited_and_a_dropped_reader_frees_a_place() {
        let (_writer, waiters) = waiters(2);
        waiters.open(0, Tick(1));
        let (first, second) = (joins(&waiters, 0), joins(&waiters, 0));
        assert!(first.is_some() && second.is_some());
        assert_eq!(waiters.readers(), 2);
        assert!(joins(&waiters, 0).is_none());
        drop(first);
        assert!(joins(&waiters, 0).is_some());
    }

    #[test]
    fn requests_on_many_threads_never_exceed_the_limit_of_waiters() {
        let pages: Vec<_> = (0..PAGES).map(|_| waiters(3)).collect();
        for (_, waiters) in &pages {
            waiters.open(0, Tick(1));
        }
        let start = std::sync::Barrier::new(4);
        let admitted: Vec<Vec<_>> = std::thread::scope(|scope| {
            let join_all = || {
                start.wait();
                let pages = pages.iter();
                pages.map(|(_, waiters)| joins(waiters, 0)).collect()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(join_all)).collect();
            let threads = threads.into_iter();
            threads.map(|thread| thread.join().unwrap()).collect()
        });
        for page in 0..PAGES {
            let admitted = admitted.iter().filter(|all| all[page].is_some());
            assert_eq!(admitted.count(), 3, "page {page}");
        }
    }

    const PAGES: usize = 20_000;

    #[test]
    fn only_the_first_progress_is_announced() {
        let (_writer, waiters) = waiters(2);
        waiters.open(0, Tick(1));
        let waiter = joins(&waiters, 0).unwrap();
        waiters.announce(FetchProgress::Slow(StoreOutcome::Stored));
        waiters.announce(FetchProgress::Ended(StoreOutcome::Stored));
        assert!(matches!(*waiter.progress.borrow(), FetchProgress::Slow(_)));
    }

    #[test]
    fn a_complete_fetch_cannot_be_joined() {
        let (mut writer, waiters) = waiters(2);
        waiters.open(0, Tick(1));
        writer.head(head());
        writer.put(Bytes::from_static(b"page")).unwrap();
        assert!(joins(&waiters, 0).is_some(), "more may come");
        writer.finish();
        assert!(joins(&waiters, 0).is_none());

        let (mut writer, waiters) = self::waiters(2);
        waiters.open(0, Tick(1));
        let length = Some(4);
        writer.head(FillHead { length, ..head() });
        let reader = joins(&waiters, 0);
        assert!(reader.is_some());
        writer.put(Bytes::from_static(b"page")).unwrap();
        assert!(joins(&waiters, 0).is_none(), "no more was promised");
    }

    fn head() -> FillHead {
        FillHead {
            status: StatusCode::OK,
            fields: HeaderMap::new(),
            share: FillSharing::Private,
            length: None,
        }
    }

    #[tokio::test]
    async fn a_silent_fetch_may_still_respond() {
        let failed = || ready(Err(FillError::Closed));
        // Whether the page arrives, and whether a later fetch exists.
        for (arrives, has_later) in [(true, false), (true, true), (false, true)] {
            let (mut writer, fill) = fill::fill(1, None);
            let silent = fill.reader().unwrap();
            if arrives {
                writer.head(head());
            } else {
                writer.fail(FillError::Timeout);
            }
            let fetched = if has_later {
                either(silent, failed()).await
            } else {
                either(silent, pending()).await
            };
            match fetched {
                Ok(fetched) => assert!(arrives && matches!(fetched, FetchResult::Fill { .. })),
                Err(failure) => assert_eq!((arrives, failure), (false, FillError::Timeout)),
            }
        }
        let (_writer, fill) = fill::fill(1, None);
        let ordered = ready(Ok(FetchResult::HitForPass));
        let fetched = either(fill.reader().unwrap(), ordered).await;
        assert!(matches!(fetched, Ok(FetchResult::HitForPass)));
    }
}
