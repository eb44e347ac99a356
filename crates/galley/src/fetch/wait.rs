//! A flight's request waits for its place at the upstream.
//!
//! It waits in the name of whoever led it, and in that of those who join it where they are served sooner: a page that a crawl
//! has asked for and a visitor wants does not wait in the crawl's line. Led for visitors, it leaves the queue when they all have
//! left; once it is sent it is composed to its end.

use galley_cache::fill::FillError;

use super::in_progress::{For, InProgressFetch};
use super::{FetchWorker, PageOrder};
use crate::upstream::Slot;

impl FetchWorker {
    /// Waits for a place. Cancel-safe.
    pub(super) async fn place_for(
        &self,
        order: &PageOrder,
        flight: &InProgressFetch,
        whom: For,
    ) -> Result<Slot, FillError> {
        let enter = self.pool(order.pool)?.enter(order.ask.who(), &flight.turn);
        match whom {
            For::Later => enter.await,
            For::Visitors => tokio::select! {
                biased;
                place = enter => place,
                () = flight.deserted() => Err(FillError::Aborted),
            },
        }
    }

    /// Somebody joins a flight that may stand in the queue.
    pub(super) fn hurry(&self, order: &PageOrder, flight: &InProgressFetch) {
        if let Ok(pool) = self.pool(order.pool) {
            pool.hurry(&flight.turn, order.ask.who());
        }
    }
}
