//! Waiting for the disk: a batch of purges that become durable together, and the tickets of those that wait for it.
//!
//! It does not depend on a runtime: a thread can block on a ticket, and any executor can poll it. Dropping a ticket does
//! not affect the purge.

use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// The state of a purge that is in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It is on the disk: it outlives a crash. Acknowledge it.
    Kept,
    /// It is in effect until this process ends; [`Loss::restart`] says what happens then. Acknowledge it with a warning.
    Lost(Loss),
}

/// Why a purge is not on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What the system said; for the operator, not for clients.
    pub reason: Arc<str>,
    /// What a restart does.
    pub restart: Restart,
}

/// What a restart does about purges that did not reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// The log was taken away, so everything stored so far counts as purged hard: no purge is forgotten.
    PurgesAll,
    /// Not even that succeeded: the purged entries may come back from the disk after a restart.
    MayForget,
}

/// The place of one purge in the log. Ready when its batch is on the disk, or lost; everything published before it, for any
/// site, is then on the disk too, or lost as well.
#[must_use = "a purge may be acknowledged only when its ticket says so"]
#[derive(Debug)]
pub struct DurableTicket {
    round: Arc<SyncRound>,
}

impl DurableTicket {
    /// Blocks until the purge is on the disk or known not to come there.
    pub fn wait(self) -> Durability {
        let mut waiting = self.round.lock();
        loop {
            if let Some(outcome) = &waiting.outcome {
                return outcome.clone();
            }
            waiting = self
                .round
                .done
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Its state so far; `None`: not written yet.
    pub fn outcome(&self) -> Option<Durability> {
        self.round.lock().outcome.clone()
    }
}

/// The same without a thread: polled, it wakes when the round is done. Cancel-safe; may be polled again afterwards.
impl Future for DurableTicket {
    type Output = Durability;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Durability> {
        let mut waiting = self.round.lock();
        if let Some(outcome) = &waiting.outcome {
            return Poll::Ready(outcome.clone());
        }
        if !waiting
            .wakers
            .iter()
            .any(|waker| waker.will_wake(cx.waker()))
        {
            waiting.wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// Orders that share one fdatasync.
#[derive(Debug, Default)]
pub(super) struct SyncRound {
    waiting: Mutex<TicketWaiters>,
    done: Condvar,
}

#[derive(Debug, Default)]
struct TicketWaiters {
    /// Written once, by the log's writer.
    outcome: Option<Durability>,
    wakers: Vec<Waker>,
}

impl SyncRound {
    pub(super) fn ticket(self: &Arc<Self>) -> DurableTicket {
        DurableTicket {
            round: Arc::clone(self),
        }
    }

    /// Tells everyone; a second call changes nothing.
    pub(super) fn finish(&self, outcome: Durability) {
        let wakers = {
            let mut waiting = self.lock();
            if waiting.outcome.is_none() {
                waiting.outcome = Some(outcome);
            }
            std::mem::take(&mut waiting.wakers)
        };
        self.done.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, TicketWaiters> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
