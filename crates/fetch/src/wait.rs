//! Waits for a slot at the upstream for the request of a fetch.
//!
//! The request is queued for the client that started the fetch, and for clients that join it if they are served sooner: a page
//! that a crawler requested first does not delay a visitor in the crawler's queue. A fetch for visitors is removed from the
//! queue when all of them have disconnected. Once its request is sent, the fetch runs to its end.

use galley_cache::fill::FillError;

use super::in_progress::InProgressFetch;
use super::{FetchWorker, PageJob};
use galley_upstream::Slot;

/// The clients that a fetch serves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FetchFor {
    /// The waiting clients: the fetch ends if all of them disconnect before its request is sent.
    Visitors,
    /// Later requests.
    Later,
}

impl FetchWorker {
    /// Waits for a slot at the upstream. Cancel-safe.
    pub(super) async fn slot_for(
        &self,
        job: &PageJob,
        in_progress: &InProgressFetch,
        purpose: FetchFor,
    ) -> Result<Slot, FillError> {
        let pool = self.upstreams.pool(job.pool)?;
        let _waiting = job.call.begin_span("queue");
        let acquire = async {
            in_progress.wait_for_former().await;
            pool.acquire(job.call.queue_identity(), &in_progress.turn)
                .await
        };
        match purpose {
            FetchFor::Later => acquire.await,
            FetchFor::Visitors => tokio::select! {
                biased;
                slot = acquire => slot,
                () = in_progress.abandoned() => Err(FillError::Aborted),
            },
        }
    }

    /// Moves a queued fetch forward in the queue if the request that joins it would be served sooner.
    pub(super) fn promote(&self, job: &PageJob, in_progress: &InProgressFetch) {
        if let Ok(pool) = self.upstreams.pool(job.pool) {
            pool.promote(&in_progress.turn, job.call.queue_identity());
        }
    }
}
