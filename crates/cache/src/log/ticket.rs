//! Waiting for the disk: a batch of purges that become durable together, and their tickets.
//!
//! Tickets do not depend on a runtime: any executor can poll one. Dropping a ticket does not affect the purge.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use galley_sys::Lock;

/// The durability of a purge that is in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The purge is on the disk and survives a crash. Acknowledge it.
    Kept,
    /// The purge is in effect until this process ends; [`NotDurable::restart`] tells what happens then. Acknowledge it with a warning.
    Lost(NotDurable),
}

/// Why a purge is not on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotDurable {
    /// The error of the system, for the operator, not for clients.
    pub reason: Arc<str>,
    /// The effect of a restart.
    pub restart: RestartEffect,
}

/// The effect of a restart on purges that are not on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartEffect {
    /// The log was removed, so everything stored so far counts as purged hard: no purge is lost.
    PurgesAll,
    /// The log could not be removed: purged entries may be sent again from the disk after a restart.
    MayForget,
}

/// A purge in the log. Ready when its batch is on the disk or lost. Everything published before it, for any site, is then on
/// the disk or lost, too.
#[must_use = "a purge may be acknowledged only when its ticket says so"]
#[derive(Debug)]
pub struct DurableTicket {
    round: Arc<SyncRound>,
}

/// Waits without blocking a thread. Cancel-safe; may be polled again after it was ready.
impl Future for DurableTicket {
    type Output = Durability;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Durability> {
        let mut waiting = self.round.waiting.lock();
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

/// Purges that share one fdatasync.
#[derive(Debug, Default)]
pub(super) struct SyncRound {
    waiting: Lock<TicketWaiters>,
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

    /// Sets the outcome and wakes all waiters. Further calls change nothing.
    pub(super) fn finish(&self, outcome: Durability) {
        let wakers = {
            let mut waiting = self.waiting.lock();
            if waiting.outcome.is_none() {
                waiting.outcome = Some(outcome);
            }
            std::mem::take(&mut waiting.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}
