//! Publishes the purges of this node, and determines when all members have applied them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::cluster_key::ClusterKey;
use crate::engine::{Engine, Session};
use crate::engine_replies::EngineSpace;
use crate::error::EngineError;
use crate::inbox::{Outgoing, ReceivedPurges, bound, largest_site, widen};
use crate::lease::KEY_LIFETIME;
use crate::members::{AppliedByAll, Members};
use crate::message::{Message, RemotePurge};
use crate::outbox::Outbox;
use crate::own_purges::StartedPurge;
use crate::reach::{MAX_WAIT, PurgeReach};
use crate::shared::ClusterState;
use crate::stream_id::StreamId;

/// A purge that is in the stream.
struct StreamedPurge {
    id: StreamId,
    appended: Instant,
    outgoing: Outgoing,
}

/// The result of waiting for purges.
enum WakeReason {
    Stopped,
    Continue,
}

pub(crate) struct Publisher {
    engine: Engine,
    pub(crate) shared: Arc<ClusterState>,
    unsent: VecDeque<Outgoing>,
    sent: VecDeque<StreamedPurge>,
    /// Purges that were sent recently. They are published again if the engine may have lost them.
    recent: VecDeque<(Instant, RemotePurge)>,
    /// The size of `recent`.
    recent_bytes: usize,
    /// The time of the last warning about a full engine.
    warned: Option<Instant>,
    pub(crate) newest: Option<StreamId>,
    pub(crate) sequence: u64,
    /// Seals entries, if nodes share a key.
    pub(crate) key: Option<Arc<ClusterKey>>,
    /// The last entry of this run, if it is in the stream.
    pub(crate) previous: StreamId,
    members: Members,
    /// Whether the engine has lost data since `recent` was published.
    has_lost: bool,
    outbox: Outbox,
    /// The newest entry of the stream that is also in the outbox.
    outbox_until: Option<StreamId>,
    /// The pause before the next check of the members.
    poll: Duration,
}

impl Publisher {
    pub(crate) fn new(
        engine: Engine,
        shared: Arc<ClusterState>,
        key: Option<Arc<ClusterKey>>,
        mut outbox: Outbox,
    ) -> Self {
        let absence = match engine.sentinels() {
            None => KEY_LIFETIME,
            Some(_) => AFTER_FAILOVER,
        };
        let now = Instant::now();
        let left = outbox.read().into_iter();
        let unsent: VecDeque<Outgoing> = left
            .map(|content| {
                Outgoing::without_waiter(content, now, true, StartedPurge::new(&shared.own))
            })
            .collect();
        shared.status().unsent = unsent.len();
        Self {
            engine,
            unsent,
            sent: VecDeque::new(),
            recent: VecDeque::new(),
            recent_bytes: 0,
            warned: None,
            newest: None,
            sequence: 0,
            key,
            previous: StreamId::START,
            members: Members::new(shared.member.clone(), absence),
            has_lost: false,
            outbox,
            outbox_until: None,
            poll: FIRST_POLL,
            shared,
        }
    }

    pub(crate) fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let began = Instant::now();
            let Err(error) = self.publish() else {
                break;
            };
            let why: Arc<str> = format!("the cluster's engine cannot be used: {error}").into();
            self.fail_waiters(&why);
            pause = if began.elapsed() > MAX_PAUSE {
                FIRST_PAUSE
            } else {
                (pause * 2).min(MAX_PAUSE)
            };
            if let WakeReason::Stopped = self.wait_disconnected(Instant::now() + pause, &why) {
                break;
            }
        }
        self.fail_waiters(&"the server ends".into());
    }

    /// Uses one connection until it fails or the node ends.
    fn publish(&mut self) -> Result<(), EngineError> {
        let mut session = self.engine.connect(REPLY_TIMEOUT)?;
        self.has_lost |= self.members.note_identity(&session.identity);
        session.begin_stream()?;
        // A purge that is appended before the epoch is known could be lost unnoticed.
        self.check_members(&mut session)?;
        let is_lost = match self.newest {
            Some(newest) => self.has_lost || !session.has(newest)?,
            None => false,
        };
        let mut least = None;
        if is_lost {
            self.publish_recent_again();
            least = Some(session.newest()?.next());
            self.previous = StreamId::START;
        }
        self.shared.own.connected(session.identity.word(), least);
        self.has_lost = false;
        if is_lost || self.sequence == 0 {
            self.mark(&mut session)?;
        }
        loop {
            let wake = self.receive();
            if self.shared.own.wants_mark() {
                self.mark(&mut session)?;
            }
            self.send(&mut session)?;
            if let WakeReason::Stopped = wake {
                return Ok(());
            }
            self.settle(&mut session)?;
        }
    }

    /// Queues the recent purges again, because the engine may have lost the last writes.
    fn publish_recent_again(&mut self) {
        let is_in_outbox = !self.outbox.is_empty();
        self.recent_bytes = 0;
        for (since, content) in std::mem::take(&mut self.recent) {
            if since.elapsed() < RECENT {
                let begun = StartedPurge::new(&self.shared.own);
                self.unsent.push_back(Outgoing::without_waiter(
                    content,
                    since,
                    is_in_outbox,
                    begun,
                ));
            }
        }
    }

    /// Receives queued purges. If there is nothing to do, waits for some time.
    fn receive(&mut self) -> WakeReason {
        let is_idle = self.unsent.is_empty() && self.sent.is_empty();
        self.take(if is_idle { IDLE } else { Duration::ZERO })
    }

    fn take(&mut self, wait: Duration) -> WakeReason {
        let (queue, wake) = match self.shared.inbox.take(wait) {
            ReceivedPurges::Purges(queue) => (queue, WakeReason::Continue),
            ReceivedPurges::Stopped(queue) => (queue, WakeReason::Stopped),
        };
        self.unsent.extend(queue);
        bound(&mut self.unsent);
        wake
    }

    /// Appends unsent purges in batches. After a failure they remain unsent, and may be in the stream twice.
    fn send(&mut self, session: &mut Session) -> Result<(), EngineError> {
        let mut space = EngineSpace::Left;
        while !self.unsent.is_empty() {
            self.poll = first_poll(self.members.shown.len());
            let count = self.unsent.len().min(MAX_AT_A_TIME);
            let first = self.sequence + 1;
            let messages: Vec<Message> = (first..)
                .zip(self.unsent.iter().take(count))
                .map(|(sequence, one)| self.message(sequence, Some(one.content.clone())))
                .collect();
            let kept = self.kept_in_stream();
            let ids = match self.append(session, &messages, kept, space) {
                Err(error) if error.is_full() && space == EngineSpace::Left => {
                    space = EngineSpace::None;
                    self.give_way(&error);
                    continue;
                }
                ids => ids?,
            };
            for id in ids {
                let Some(mut outgoing) = self.unsent.pop_front() else {
                    break;
                };
                self.note_entry(id);
                self.shared.own.appended(self.sequence, id);
                outgoing.settle();
                if outgoing.is_in_outbox {
                    self.outbox_until = Some(id);
                }
                self.recent_bytes += size(&outgoing.content);
                self.recent
                    .push_back((Instant::now(), outgoing.content.clone()));
                self.sent.push_back(StreamedPurge {
                    id,
                    appended: Instant::now(),
                    outgoing,
                });
            }
        }
        while let Some((at, content)) = self.recent.front()
            && (self.recent.len() > MAX_RECENT
                || self.recent_bytes > MAX_RECENT_BYTES
                || at.elapsed() > RECENT)
        {
            self.recent_bytes -= size(content);
            self.recent.pop_front();
        }
        self.shared.status().unsent = 0;
        Ok(())
    }

    /// The number of entries that fit into the stream, by the average size of this node's recent ones. A site whose purges are long
    /// must not fill the engine.
    pub(crate) fn kept_in_stream(&self) -> usize {
        let average = (self.recent_bytes / self.recent.len().max(1)).max(1);
        (MAX_STREAM_BYTES / average).clamp(MIN_IN_STREAM, MAX_IN_STREAM)
    }

    /// At a full engine, replaces the waiting purges of the site that has written most by one of that site.
    fn give_way(&mut self, error: &EngineError) {
        let recent = self.recent.iter().map(|(_, content)| content);
        let contents = recent.chain(self.unsent.iter().map(|one| &one.content));
        let Some(site) = largest_site(contents.map(|content| (content, size(content)))) else {
            return;
        };
        widen(&mut self.unsent, &site);
        if self.warned.is_none_or(|at| at.elapsed() > WARN_EVERY) {
            self.warned = Some(Instant::now());
            tracing::warn!(
                site,
                %error,
                "the cluster's engine is full: waiting purges of the site that has sent most become one of the whole site; raise `maxmemory` there"
            );
        }
    }

    /// The entry up to which all members have applied the stream.
    ///
    /// # Errors
    /// The engine has lost data.
    fn check_members(&mut self, session: &mut Session) -> Result<AppliedByAll, EngineError> {
        let progress = session.progress(&self.members.known())?;
        let noted = self.members.note(progress);
        self.has_lost |= noted.is_err();
        noted
    }

    /// Replies to the publishers of final purges, in the order of the entries.
    fn settle(&mut self, session: &mut Session) -> Result<(), EngineError> {
        let settled = self.check_members(session)?;
        self.shared.status().members.clone_from(&self.members.shown);
        let confirmed = session.confirmed(Instant::now())?;
        // A member that is absent here may renew its lease at another primary, unless this primary was confirmed since.
        let relies_on_absence = self.members.relies_on_absence;
        let is_confirmed = |sent: &StreamedPurge| {
            !relies_on_absence || confirmed.is_some_and(|at| at >= sent.appended)
        };
        let mut is_changed = false;
        while let Some(sent) = self.sent.front() {
            let reach = if settled.covers(sent.id) && is_confirmed(sent) {
                PurgeReach::Cluster
            } else if sent.outgoing.since.elapsed() <= MAX_WAIT {
                break;
            } else {
                PurgeReach::Local(why_late(&settled, is_confirmed(sent)))
            };
            is_changed = true;
            let Some(sent) = self.sent.pop_front() else {
                break;
            };
            if reach != PurgeReach::Cluster {
                self.keep_sent(&sent);
            }
            self.reply(sent.outgoing.replies, &reach);
        }
        self.clear_outbox(&settled, !relies_on_absence || confirmed.is_some());
        if !self.members.superseded.is_empty() {
            session.remove(&self.members.superseded)?;
        }
        if !self.sent.is_empty() && !is_changed {
            std::thread::sleep(self.poll);
            let longest = MAX_POLL.max(first_poll(self.members.shown.len()));
            self.poll = (self.poll * 3 / 2).min(longest);
        }
        Ok(())
    }

    /// Empties the outbox when all members have applied its contents.
    fn clear_outbox(&mut self, settled: &AppliedByAll, is_confirmed: bool) {
        let is_sent = !self.unsent.iter().any(|outgoing| outgoing.is_in_outbox);
        let is_final = self.outbox_until.is_some_and(|id| settled.covers(id));
        if !self.outbox.is_empty() && is_confirmed && is_sent && is_final {
            self.outbox.clear();
            self.outbox_until = None;
        }
    }

    fn keep_sent(&mut self, sent: &StreamedPurge) {
        if !sent.outgoing.is_in_outbox {
            self.outbox.keep(std::iter::once(&sent.outgoing.content));
        }
        self.outbox_until = self.outbox_until.max(Some(sent.id));
    }

    fn reply(&self, replies: Vec<oneshot::Sender<PurgeReach>>, reach: &PurgeReach) {
        let count = match reach {
            PurgeReach::Cluster => &self.shared.acknowledged,
            PurgeReach::Local(_) => &self.shared.local_only,
        };
        for reply in replies {
            count.fetch_add(1, Ordering::Relaxed);
            // The waiter may have left.
            let _ = reply.send(reach.clone());
        }
    }

    /// Replies to all waiters that their purges are in effect on this node only. Purges that were sent count as unsent, because
    /// they may be lost.
    fn fail_waiters(&mut self, why: &Arc<str>) {
        let sent = std::mem::take(&mut self.sent);
        let fresh = sent.iter().filter(|sent| !sent.outgoing.is_in_outbox);
        self.outbox.keep(fresh.map(|sent| &sent.outgoing.content));
        for StreamedPurge { id, outgoing, .. } in sent {
            self.outbox_until = self.outbox_until.max(Some(id));
            self.reply(outgoing.replies, &PurgeReach::Local(Arc::clone(why)));
        }
        self.settle_unsent(why);
    }

    fn settle_unsent(&mut self, why: &Arc<str>) {
        let fresh = self.unsent.iter().filter(|outgoing| !outgoing.is_in_outbox);
        self.outbox.keep(fresh.map(|outgoing| &outgoing.content));
        for at in 0..self.unsent.len() {
            let replies = self.unsent.get_mut(at).map(|outgoing| {
                outgoing.is_in_outbox = true;
                std::mem::take(&mut outgoing.replies)
            });
            let reach = PurgeReach::Local(Arc::clone(why));
            self.reply(replies.unwrap_or_default(), &reach);
        }
        self.shared.status().unsent = self.unsent.len();
    }

    /// Collects purges while there is no connection.
    fn wait_disconnected(&mut self, until: Instant, why: &Arc<str>) -> WakeReason {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let wake = self.take(left);
            self.settle_unsent(why);
            if matches!(wake, WakeReason::Stopped) || left.is_zero() {
                return wake;
            }
        }
    }
}

/// The pause before the first check. A check costs the engine time proportional to the number of members.
fn first_poll(members: usize) -> Duration {
    let members = u32::try_from(members).unwrap_or(u32::MAX);
    FIRST_POLL.max(POLL_OF_A_MEMBER.saturating_mul(members))
}

/// The size of a purge in the stream, with the names of its fields.
fn size(purge: &RemotePurge) -> usize {
    FIELD_BYTES + purge.site.len() + purge.purge.scope.text_bytes()
}

const FIELD_BYTES: usize = 100;

/// Why a purge is not final in time.
fn why_late(settled: &AppliedByAll, is_confirmed: bool) -> Arc<str> {
    match settled {
        AppliedByAll::Until(_, who) if is_confirmed => {
            format!("node `{who}` has not applied it yet").into()
        }
        AppliedByAll::All | AppliedByAll::Until(..) => {
            "the sentinels do not confirm the primary".into()
        }
    }
}

/// The time after a failover during which, with sentinels, an absent key proves nothing. A sentinel that voted for the failover
/// may confirm the former primary until it learns of the new one; sentinels announce it every 2 s.
const AFTER_FAILOVER: Duration = Duration::from_secs(10);

/// The timeout of each reply. Publishers get a reply after at most [`MAX_WAIT`], which is longer than connecting again takes.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);

/// The pause between two checks of the members' keys. Most members apply a purge immediately; an absent one takes seconds.
const FIRST_POLL: Duration = Duration::from_micros(300);
const MAX_POLL: Duration = Duration::from_millis(10);

/// The pause per member. With 100 members, a check takes the engine 125 us.
const POLL_OF_A_MEMBER: Duration = Duration::from_micros(30);

/// The interval of checking the members if there are no purges.
const IDLE: Duration = Duration::from_millis(500);

const FIRST_PAUSE: Duration = Duration::from_millis(25);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The maximum age of a purge that may have been lost with its engine.
const RECENT: Duration = Duration::from_secs(600);

/// The maximum number of purges that can be published again, of about 100 bytes each.
const MAX_RECENT: usize = 10_000;

/// The maximum size of purges that can be published again.
const MAX_RECENT_BYTES: usize = 8 << 20;

/// The approximate number of entries that the stream keeps, and their size: 16 MiB of usual ones, at most 32 MiB.
const MAX_IN_STREAM: usize = 100_000;
const MAX_STREAM_BYTES: usize = 32 << 20;

/// As many entries stay whatever their size: those of a second of a site that exceeds its budget.
const MIN_IN_STREAM: usize = 1_000;

/// The interval of warnings about a full engine.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The maximum number of purges in one round trip.
const MAX_AT_A_TIME: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_members_are_checked_less_often() {
        let microseconds = |members| first_poll(members).as_micros();
        assert_eq!([0, 2, 10].map(microseconds), [300; 3]);
        assert_eq!([20, 100].map(microseconds), [600, 3000]);
    }
}
