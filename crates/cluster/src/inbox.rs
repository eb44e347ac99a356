//! The bounded queue of purges for the publisher's thread.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use galley_policy::purge::{Purge, Scope, Strength};
use tokio::sync::oneshot;

use crate::message::RemotePurge;
use crate::own_purges::StartedPurge;
use crate::reach::PurgeReach;

/// A purge that is to be added to the stream.
pub(crate) struct Outgoing {
    pub(crate) content: RemotePurge,
    /// `None`: its publisher was informed that it is in effect on this node only.
    pub(crate) reply: Option<oneshot::Sender<PurgeReach>>,
    pub(crate) since: Instant,
    /// Whether the outbox contains it.
    pub(crate) is_in_outbox: bool,
    /// `None`: it is in the stream.
    pub(crate) begun: Option<StartedPurge>,
}

impl Outgoing {
    /// Called when the purge is in the stream, or will be replaced by another one.
    pub(crate) fn settle(&mut self) {
        if let Some(begun) = self.begun.take() {
            begun.settle();
        }
    }

    /// A purge without a waiter.
    pub(crate) fn without_waiter(
        content: RemotePurge,
        since: Instant,
        is_in_outbox: bool,
        begun: StartedPurge,
    ) -> Self {
        Self {
            content,
            reply: None,
            since,
            is_in_outbox,
            begun: Some(begun),
        }
    }
}

/// The queue. Every thread adds purges; the publisher removes them.
#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<InboxState>,
    changed: Condvar,
}

#[derive(Default)]
struct InboxState {
    queue: VecDeque<Outgoing>,
    is_stopped: bool,
}

/// The purges that the publisher received.
pub(crate) enum ReceivedPurges {
    Purges(VecDeque<Outgoing>),
    /// The last purges before the end.
    Stopped(VecDeque<Outgoing>),
}

impl Inbox {
    /// Queues a purge. After [`Inbox::stop`], its publisher is informed that it is in effect on this node only.
    pub(crate) fn push(&self, outgoing: Outgoing) {
        let mut replaced = Vec::new();
        let mut state = self.lock();
        if !state.is_stopped {
            state.queue.push_back(outgoing);
            replaced = bound(&mut state.queue);
        }
        drop(state);
        self.changed.notify_one();
        drop(replaced);
    }

    /// Removes all purges from the queue. Waits up to `wait` for the first one.
    pub(crate) fn take(&self, wait: Duration) -> ReceivedPurges {
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, wait, |state| {
            state.queue.is_empty() && !state.is_stopped
        });
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let queue = std::mem::take(&mut state.queue);
        if state.is_stopped {
            ReceivedPurges::Stopped(queue)
        } else {
            ReceivedPurges::Purges(queue)
        }
    }

    /// Rejects further purges.
    pub(crate) fn stop(&self) {
        self.lock().is_stopped = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, InboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `None`: there is no waiter.
type ReplyToPublisher = Option<oneshot::Sender<PurgeReach>>;

/// If a queue exceeds its limit, replaces it by one purge of the whole site for each of its sites. Returns the reply channels
/// of replaced purges: when they are dropped, the publishers are informed that their purges are in effect on this node only.
pub(crate) fn bound(queue: &mut VecDeque<Outgoing>) -> Vec<ReplyToPublisher> {
    if queue.len() <= MAX_WAITING {
        return Vec::new();
    }
    let mut kept: VecDeque<Outgoing> = VecDeque::new();
    let mut replaced = Vec::with_capacity(queue.len());
    for mut outgoing in queue.drain(..) {
        let site = &outgoing.content.site;
        if kept.iter().any(|one| one.content.site == *site) {
            outgoing.settle();
            replaced.push(outgoing.reply);
            continue;
        }
        let content = whole_site(site);
        kept.push_back(Outgoing {
            content,
            is_in_outbox: false,
            ..outgoing
        });
    }
    *queue = kept;
    replaced
}

/// A purge of a whole site.
pub(crate) fn whole_site(site: &str) -> RemotePurge {
    RemotePurge {
        site: site.to_owned(),
        purge: Purge {
            scope: Scope::Site,
            strength: Strength::Hard,
        },
    }
}

/// The maximum number of queued purges. An import into a shop causes some thousand.
const MAX_WAITING: usize = 10_000;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::own_purges::OwnPurges;

    fn tag(
        own: &Arc<OwnPurges>,
        site: &str,
        number: usize,
    ) -> (Outgoing, oneshot::Receiver<PurgeReach>) {
        let (reply, receiver) = oneshot::channel();
        let begun = StartedPurge::new(own);
        let mut outgoing = Outgoing::without_waiter(whole_site(site), Instant::now(), false, begun);
        outgoing.content.purge.scope = Scope::Tag(format!("t{number}"));
        outgoing.reply = Some(reply);
        (outgoing, receiver)
    }

    #[test]
    fn a_full_queue_becomes_one_purge_for_each_site() {
        let (inbox, own) = (Inbox::default(), Arc::default());
        let mut receivers = Vec::new();
        for number in 0..=MAX_WAITING {
            let site = if number % 2 == 0 { "a" } else { "b" };
            let (outgoing, receiver) = tag(&own, site, number);
            receivers.push(receiver);
            inbox.push(outgoing);
        }
        let ReceivedPurges::Purges(queue) = inbox.take(Duration::ZERO) else {
            panic!("it is stopped")
        };
        own.connected("e".to_owned(), None);
        assert_eq!(own.newest("e"), None);
        let left: Vec<RemotePurge> = queue
            .into_iter()
            .map(|mut one| {
                one.settle();
                one.content
            })
            .collect();
        assert!(own.newest("e").is_some());
        assert_eq!(left, [whole_site("a"), whole_site("b")]);
        // Waiters of replaced purges are notified immediately.
        assert!(receivers[5].try_recv().is_err());
    }

    #[test]
    fn purges_before_the_end_are_received() {
        let (inbox, own) = (Inbox::default(), Arc::default());
        inbox.push(tag(&own, "a", 1).0);
        inbox.stop();
        let (late, mut receiver) = tag(&own, "a", 2);
        inbox.push(late);
        let ReceivedPurges::Stopped(queue) = inbox.take(Duration::from_secs(60)) else {
            panic!("it is not stopped")
        };
        assert_eq!(queue.len(), 1);
        assert!(receiver.try_recv().is_err());
    }
}
