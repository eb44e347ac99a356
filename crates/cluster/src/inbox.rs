//! The bounded queue of purges for the publisher's thread.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, PoisonError};
use std::time::{Duration, Instant};

use galley_policy::purge::{Purge, Scope, Strength};
use galley_sys::Lock;
use tokio::sync::oneshot;

use crate::message::RemotePurge;
use crate::own_purges::StartedPurge;
use crate::reach::PurgeReach;

/// A purge that is to be added to the stream.
pub(crate) struct Outgoing {
    pub(crate) content: RemotePurge,
    /// To the requests that wait for it, or for purges that it covers.
    pub(crate) replies: Vec<oneshot::Sender<PurgeReach>>,
    pub(crate) since: Instant,
    /// Whether the outbox contains it.
    pub(crate) is_in_outbox: bool,
    /// `None`: it is in the stream.
    pub(crate) begun: Option<StartedPurge>,
}

impl Outgoing {
    /// Replaces a purge that this one covers.
    fn cover(&mut self, mut other: Self) {
        other.settle();
        if self.replies.len() >= MIN_PRUNED {
            self.replies.retain(|reply| !reply.is_closed());
        }
        self.replies.append(&mut other.replies);
    }

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
            replies: Vec::new(),
            since,
            is_in_outbox,
            begun: Some(begun),
        }
    }
}

/// The queue. Every thread adds purges; the publisher removes them.
#[derive(Default)]
pub(crate) struct Inbox {
    state: Lock<InboxState>,
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
        let mut state = self.state.lock();
        if !state.is_stopped {
            // A site that exceeds its budget purges the whole site each time.
            let is_whole = outgoing.content.purge.scope == Scope::Site;
            // Only the newest of the site: one behind it would be acknowledged with it, and not be in the stream yet.
            let site = &outgoing.content.site;
            let mut newest = state.queue.iter_mut().rev().take(SEARCHED);
            let same = newest
                .find(|one| one.content.site == *site)
                .filter(|one| is_whole && one.content == outgoing.content);
            match same {
                Some(same) => same.cover(outgoing),
                None => state.queue.push_back(outgoing),
            }
            bound(&mut state.queue);
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Removes all purges from the queue. Waits up to `wait` for the first one.
    pub(crate) fn take(&self, wait: Duration) -> ReceivedPurges {
        let state = self.state.lock();
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
        self.state.lock().is_stopped = true;
        self.changed.notify_all();
    }
}

/// While a queue exceeds its limit, replaces the purges of the site that has most in it by one purge of that whole site.
pub(crate) fn bound(queue: &mut VecDeque<Outgoing>) {
    while queue.len() > MAX_WAITING {
        let before = queue.len();
        let Some(site) = largest_site(queue.iter().map(|one| (&one.content, 1))) else {
            return;
        };
        widen(queue, &site);
        if queue.len() == before {
            return;
        }
    }
}

/// The site with the largest sum.
pub(crate) fn largest_site<'p>(
    purges: impl Iterator<Item = (&'p RemotePurge, usize)>,
) -> Option<String> {
    let mut sums: HashMap<&str, usize> = HashMap::new();
    for (purge, size) in purges {
        *sums.entry(&purge.site).or_default() += size;
    }
    let largest = sums.into_iter().max_by_key(|(_, sum)| *sum);
    largest.map(|(site, _)| site.to_owned())
}

/// Replaces all purges of a site by one of the whole site, with the replies of all.
pub(crate) fn widen(queue: &mut VecDeque<Outgoing>, site: &str) {
    let mut kept = VecDeque::with_capacity(queue.len());
    let mut whole: Option<Outgoing> = None;
    for outgoing in queue.drain(..) {
        match &mut whole {
            _ if outgoing.content.site != site => kept.push_back(outgoing),
            Some(whole) => whole.cover(outgoing),
            None => {
                whole = Some(Outgoing {
                    content: whole_site(site),
                    is_in_outbox: false,
                    ..outgoing
                });
            }
        }
    }
    kept.extend(whole);
    *queue = kept;
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

/// The number of the newest purges among which the same purge of a whole site is searched.
const SEARCHED: usize = 64;

/// From this number on, replies of waiters that have left are removed.
const MIN_PRUNED: usize = 64;

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
        outgoing.replies = vec![reply];
        (outgoing, receiver)
    }

    #[test]
    fn a_full_queue_becomes_one_purge_of_the_site_that_filled_it() {
        let (inbox, own) = (Inbox::default(), Arc::default());
        let mut receivers = Vec::new();
        for number in 0..=MAX_WAITING {
            let site = if number % 100 == 0 { "b" } else { "a" };
            let (outgoing, receiver) = tag(&own, site, number);
            receivers.push(receiver);
            inbox.push(outgoing);
        }
        let ReceivedPurges::Purges(mut queue) = inbox.take(Duration::ZERO) else {
            panic!("it is stopped")
        };
        own.connected("e".to_owned(), None);
        assert_eq!(own.newest("e"), None);
        let whole = queue.pop_back().unwrap();
        assert_eq!(whole.content, whole_site("a"));
        assert!(queue.iter().all(|one| one.content.site == "b"));
        assert_eq!(queue.len(), 1 + MAX_WAITING / 100);
        for mut one in queue.into_iter().chain([whole]) {
            one.settle();
            for reply in one.replies {
                reply.send(PurgeReach::Cluster).unwrap();
            }
        }
        assert!(own.newest("e").is_some());
        // The publishers of replaced purges wait for the one that takes their place.
        assert!(
            receivers
                .iter_mut()
                .all(|one| one.try_recv() == Ok(PurgeReach::Cluster))
        );
    }

    #[test]
    fn purges_of_a_whole_site_that_wait_together_are_one() {
        let (inbox, own) = (Inbox::default(), Arc::default());
        for number in 0..1_000 {
            for site in ["a", "b"] {
                let (mut outgoing, receiver) = tag(&own, site, number);
                outgoing.content = whole_site(site);
                inbox.push(outgoing);
                drop(receiver);
            }
        }
        let ReceivedPurges::Purges(queue) = inbox.take(Duration::ZERO) else {
            panic!("it is stopped")
        };
        assert_eq!(queue.len(), 2);
        assert!(queue[0].replies.len() <= MIN_PRUNED + 1);
    }

    #[test]
    fn a_purge_of_a_whole_site_waits_for_those_of_the_site_before_it() {
        let (inbox, own) = (Inbox::default(), Arc::default());
        let whole = || {
            let (mut outgoing, receiver) = tag(&own, "a", 0);
            outgoing.content = whole_site("a");
            (outgoing, receiver)
        };
        let (first, mut first_reply) = whole();
        let (last, mut last_reply) = whole();
        for outgoing in [first, tag(&own, "a", 1).0, tag(&own, "b", 1).0, last] {
            inbox.push(outgoing);
        }
        let ReceivedPurges::Purges(mut queue) = inbox.take(Duration::ZERO) else {
            panic!("it is stopped")
        };
        assert_eq!(queue.len(), 4);
        for reply in queue.remove(0).unwrap().replies {
            reply.send(PurgeReach::Cluster).unwrap();
        }
        assert_eq!(first_reply.try_recv(), Ok(PurgeReach::Cluster));
        assert!(last_reply.try_recv().is_err());
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
