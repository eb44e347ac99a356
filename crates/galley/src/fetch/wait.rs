//! The request of a fetch waits for its slot at the upstream.
//!
//! It is queued for the client that started the fetch, and for clients that join it if they are served sooner: a page that
//! a crawler requested and a visitor wants does not wait in the crawler's queue. A fetch for visitors is removed from the
//! queue when all of them have disconnected; once its request is sent it runs to its end.

use galley_cache::fill::FillError;

use super::in_progress::InProgressFetch;
use super::{FetchWorker, PageJob};
use crate::upstream::Slot;

/// The clients of a fetch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// The waiters for it: not sent yet, it ends when they all have left.
    Visitors,
    /// Later requests.
    Later,
}

impl FetchWorker {
    /// Waits for a slot. Cancel-safe.
    pub(super) async fn slot_for(
        &self,
        job: &PageJob,
        in_progress: &InProgressFetch,
        whom: For,
    ) -> Result<Slot, FillError> {
        let pool = self.pool(job.pool)?;
        let _waiting = job.call.begin_span("queue");
        let enter = async {
            in_progress.wait_for_former().await;
            pool.enter(job.call.queue_identity(), &in_progress.turn)
                .await
        };
        match whom {
            For::Later => enter.await,
            For::Visitors => tokio::select! {
                biased;
                slot = enter => slot,
                () = in_progress.abandoned() => Err(FillError::Aborted),
            },
        }
    }

    /// A request joins a fetch that may be queued.
    pub(super) fn promote(&self, job: &PageJob, in_progress: &InProgressFetch) {
        if let Ok(pool) = self.pool(job.pool) {
            pool.promote(&in_progress.turn, job.call.queue_identity());
        }
    }
}
