//! Access of other threads to a fetch thread: commands in a bounded channel, and fetches in progress to wait for.

use std::pin::pin;
use std::sync::Arc;

use galley_cache::entry::Entry;
use galley_cache::fill::{self, FillError, FillReader, FillWriter};
use galley_cache::key::Key;
use galley_policy::outcome::StoreOutcome;
use galley_policy::request_info::RequestInfo;
use galley_policy::site::VaryPolicy;
use galley_policy::time::Tick;
use tokio::sync::{mpsc, oneshot};

use super::activity::{Activity, ActivityGuard};
use super::cron_runs::CronError;
use super::jobs::{CronJob, FetchResult, PageJob, PassJob, RefreshReason};
use super::registry::FetchRegistry;
use super::site::FetchSite;
use super::spool::AHEAD;
use super::waiters::WaitResult;
use galley_upstream::{QueueIdentity, UpstreamStats};

pub(super) enum FetchCommand {
    /// A page. If this job has waited for a fetch that fell silent, with the time when that fetch's request was sent.
    Page(
        Box<PageJob>,
        Option<Tick>,
        oneshot::Sender<Result<FetchResult, FillError>>,
    ),
    Pass(Box<PassJob>, FillWriter),
    Refresh(Box<PageJob>, RefreshReason),
    /// A stored page whose purged fragments must be replaced.
    Patch(
        Box<PageJob>,
        Arc<Entry>,
        oneshot::Sender<Option<Arc<Entry>>>,
    ),
    Cron(Box<CronJob>, oneshot::Sender<Result<(), CronError>>),
}

/// A command in the queue of a fetch thread.
pub(super) struct QueuedCommand {
    pub(super) command: FetchCommand,
    pub(super) work: ActivityGuard,
}

/// Sends jobs to one fetch thread. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    pub(super) commands: mpsc::Sender<QueuedCommand>,
    pub(super) activity: Arc<Activity>,
    pub(super) upstream_stats: Arc<[Arc<UpstreamStats>]>,
    pub(super) registry: Arc<FetchRegistry>,
}

impl Handle {
    /// Whether a request of `who` is rejected at once: the queue of the pool with index `pool` is full for it, and there is no
    /// fetch of the page `key` that it could join. The fetch thread would decide the same; during a crawl it would do so a
    /// thousand times a second, and wake the requester each time. `key` is `None` for requests that bypass the cache. A rejection
    /// is counted.
    ///
    /// A page that a browser prefetches (`is_prefetch`) is rejected too if it would take the last free slot: no visitor
    /// waits for it, and the browser requests it again when the user follows the link.
    pub fn rejects_early(
        &self,
        pool: usize,
        who: QueueIdentity,
        key: Option<&[u8]>,
        is_prefetch: bool,
    ) -> bool {
        let Some(stats) = self.upstream_stats.get(pool) else {
            return false;
        };
        let is_rejected = (stats.is_full_for(who) || (is_prefetch && stats.is_busy()))
            && !key.is_some_and(|key| self.registry.has(&Key::new(key)));
        if is_rejected {
            stats.count_rejected(who.class);
        }
        is_rejected
    }

    /// Fetches, passed requests and background work of the thread, in progress or queued. 0: nothing that the thread does
    /// will change the cache until the next request, purge or timer.
    pub fn in_progress(&self) -> usize {
        self.activity.count()
    }

    fn queue(&self, command: FetchCommand) -> Result<(), FillError> {
        let work = self.activity.job();
        self.commands
            .try_send(QueuedCommand { command, work })
            .map_err(|_| FillError::Overload)
    }

    /// Sends the job for a page and returns a reader of it; `since` as in [`FetchCommand::Page`]. Cancel-safe: the fill
    /// continues without this reader.
    async fn send(&self, job: PageJob, since: Option<Tick>) -> Result<FetchResult, FillError> {
        let (reply, response) = oneshot::channel();
        self.queue(FetchCommand::Page(Box::new(job), since, reply))?;
        response.await.map_err(|_| FillError::Aborted)?
    }

    /// Passes a request unchanged. The response is read from the returned fill, which is created here: if the fetch thread created it, it
    /// would have to wake this thread to hand it over.
    pub fn pass(&self, job: PassJob) -> Result<FillReader, FillError> {
        let (writer, fill) = fill::fill(AHEAD, None);
        let reader = fill.reader().ok_or(FillError::Aborted)?;
        self.queue(FetchCommand::Pass(Box::new(job), writer))?;
        Ok(reader)
    }

    /// Starts a background refresh of a page. Does nothing if one is in progress or the channel is full.
    pub fn refresh(&self, job: PageJob, when: RefreshReason) {
        let _ = self.queue(FetchCommand::Refresh(Box::new(job), when));
    }

    /// Replaces the purged fragments of a stored page. `None`: the page must be fetched. Cancel-safe.
    pub async fn patch(&self, page: PageJob, held: Arc<Entry>) -> Option<Arc<Entry>> {
        let (reply, response) = oneshot::channel();
        let command = FetchCommand::Patch(Box::new(page), held, reply);
        self.queue(command).ok()?;
        response.await.ok()?
    }

    /// The load of each pool.
    pub fn upstream_stats(&self) -> &[Arc<UpstreamStats>] {
        &self.upstream_stats
    }

    /// The page of `key` for a request with this information: waits for a fetch in progress if that is possible on this thread, otherwise
    /// sends a job. Cancel-safe: the fill continues without this reader.
    pub async fn page(
        &self,
        site: &FetchSite,
        info: &RequestInfo,
        key: &[u8],
        job: impl FnOnce() -> PageJob,
    ) -> Result<FetchResult, FillError> {
        // With RFC 9111 the fetch in progress for a key may be for another variant.
        let waiters = match site.policy.storage.vary {
            VaryPolicy::CoveredByKey => self.registry.waiters(&Key::new(key)),
            VaryPolicy::Variants => None,
        };
        let Some(waiter) = waiters.and_then(|waiters| waiters.join(site.purges.current())) else {
            return self.send(job(), None).await;
        };
        let silent = match waiter.wait(site, info).await {
            WaitResult::Fetched(fetched) => return Ok(fetched),
            WaitResult::Nothing(silent) => silent,
        };
        let ordered = self.send(job(), silent.as_ref().map(|silent| silent.sent_at));
        let fetched = match silent {
            Some(silent) => either(silent.reader, ordered).await,
            None => ordered.await,
        };
        fetched.map(FetchResult::after_a_wait)
    }

    /// The response for a job that needs a new fetch ([`PageJob::while_partitioned`]). Cancel-safe: the fill continues without this
    /// reader.
    pub async fn new_page(&self, job: PageJob) -> Result<FetchResult, FillError> {
        self.send(job, None).await
    }

    /// Runs the scheduler and returns when it has ended. Dropping the future aborts the run.
    pub async fn cron(&self, job: CronJob) -> Result<(), CronError> {
        let (reply, response) = oneshot::channel();
        self.queue(FetchCommand::Cron(Box::new(job), reply))
            .map_err(CronError::Upstream)?;
        let gone = CronError::Upstream(FillError::Aborted);
        response.await.unwrap_or(Err(gone))
    }
}

/// The first of two: the head of a page that has fallen silent, or the later fetch. If both fail, the later failure.
pub(super) async fn either(
    mut silent: FillReader,
    ordered: impl Future<Output = Result<FetchResult, FillError>>,
) -> Result<FetchResult, FillError> {
    let mut ordered = pin!(ordered);
    tokio::select! {
        biased;
        fetched = &mut ordered => match fetched {
            Ok(fetched) => return Ok(fetched),
            Err(_) => silent.head().await.map(drop)?,
        },
        head = silent.head() => if head.is_err() {
            return ordered.await;
        },
    }
    Ok(FetchResult::Fill {
        reader: silent,
        coded: None,
        outcome: StoreOutcome::Undecided,
        collapsed: true,
    })
}
