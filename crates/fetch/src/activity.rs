//! Counts the jobs of one fetch thread, for that thread and the threads that send it jobs; any thread may read the count.
//!
//! A job counts from before it is sent until its response is stored, so a client that has received its response cannot read a
//! count without the job while work remains.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The counts of one fetch thread; see the module.
#[derive(Default)]
pub(super) struct Activity {
    jobs: AtomicUsize,
    /// Work for which no job waits.
    background: AtomicUsize,
    no_jobs: Notify,
}

/// One job or piece of background work, which counts until it is dropped.
pub(super) struct ActivityGuard {
    activity: Arc<Activity>,
    kind: WorkKind,
}

#[derive(Clone, Copy)]
enum WorkKind {
    Job,
    Background,
}

impl Activity {
    /// Counts a job.
    pub(super) fn job(self: &Arc<Self>) -> ActivityGuard {
        self.begin(WorkKind::Job)
    }

    /// Counts work that may be abandoned when the thread ends.
    pub(super) fn background(self: &Arc<Self>) -> ActivityGuard {
        self.begin(WorkKind::Background)
    }

    /// Jobs and background work in progress.
    pub(super) fn count(&self) -> usize {
        self.jobs.load(Ordering::Acquire) + self.background.load(Ordering::Acquire)
    }

    /// Waits until no job is in progress.
    pub(super) async fn jobs_ended(&self) {
        while self.jobs.load(Ordering::Acquire) > 0 {
            self.no_jobs.notified().await;
        }
    }

    fn begin(self: &Arc<Self>, kind: WorkKind) -> ActivityGuard {
        self.of(kind).fetch_add(1, Ordering::Relaxed);
        ActivityGuard {
            activity: Arc::clone(self),
            kind,
        }
    }

    fn of(&self, kind: WorkKind) -> &AtomicUsize {
        match kind {
            WorkKind::Job => &self.jobs,
            WorkKind::Background => &self.background,
        }
    }
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("a request to the upstream ended in a panic");
        }
        self.activity.of(self.kind).fetch_sub(1, Ordering::Release);
        // The notification is kept for a later waiter.
        self.activity.no_jobs.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn shutdown_waits_for_all_jobs_and_not_for_background_work() {
        let activity = Arc::new(Activity::default());
        let (job, other) = (activity.job(), activity.job());
        let _background = activity.background();
        assert_eq!(activity.count(), 3);
        drop(other);
        assert_eq!(activity.count(), 2);
        let (ended, ()) = tokio::join!(
            async {
                activity.jobs_ended().await;
                activity.count()
            },
            async {
                tokio::task::yield_now().await;
                drop(job);
            }
        );
        assert_eq!(ended, 1);
    }
}
