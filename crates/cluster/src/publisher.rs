//! Publishes the purges of this node, and finds out when they are final.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, mpsc::TryRecvError};
use std::time::{Duration, Instant};

use galley_policy::purge::{Purge, Scope, Strength};
use tokio::sync::oneshot;

use crate::engine::{Engine, Progress, Session};
use crate::error::EngineError;
use crate::identity::EngineIdentity;
use crate::lease::KEY_LIFETIME;
use crate::message::{Message, RemotePurge};
use crate::shared::{Outgoing, PurgeReach, SERVES, Shared};
use crate::status::MemberStatus;
use crate::stream_id::StreamId;

/// A purge that is in the stream.
struct Sent {
    id: StreamId,
    appended: Instant,
    outgoing: Outgoing,
}

/// Why a wait for the members ended.
enum Wake {
    Stopped,
    Continue,
}

pub(crate) struct Publisher {
    engine: Engine,
    shared: Arc<Shared>,
    inbox: Receiver<Outgoing>,
    unsent: VecDeque<Outgoing>,
    sent: VecDeque<Sent>,
    /// What was sent lately: published again if the engine may have lost it.
    recent: VecDeque<(Instant, RemotePurge)>,
    newest: Option<StreamId>,
    sequence: u64,
    engine_seen: EngineSeen,
    /// Members and when their keys were last seen.
    members: HashMap<String, Instant>,
    /// How long the engine must be the same before an absent key proves something.
    absence: Duration,
    /// Whether a member counts as gone because its key is absent.
    relies_on_absence: bool,
}

/// The engine's identity and epoch, and since when they are the same.
struct EngineSeen {
    identity: Option<EngineIdentity>,
    epoch: Option<String>,
    since: Instant,
}

impl EngineSeen {
    fn note_identity(&mut self, identity: &EngineIdentity) -> bool {
        let is_new = self.identity.as_ref() != Some(identity);
        if is_new {
            self.identity = Some(identity.clone());
            self.since = Instant::now();
        }
        is_new
    }

    fn note_epoch(&mut self, epoch: Option<String>) {
        if self.epoch != epoch || epoch.is_none() {
            self.epoch = epoch;
            self.since = Instant::now();
        }
    }

    /// Whether a key that is absent has expired, and was not lost.
    fn proves_absence(&self, after: Duration) -> bool {
        self.since.elapsed() >= after
    }
}

impl Publisher {
    pub(crate) fn new(engine: Engine, shared: Arc<Shared>, inbox: Receiver<Outgoing>) -> Self {
        let absence = match engine.sentinels() {
            None => KEY_LIFETIME,
            Some(_) => AFTER_FAILOVER,
        };
        Self {
            engine,
            shared,
            inbox,
            unsent: VecDeque::new(),
            sent: VecDeque::new(),
            recent: VecDeque::new(),
            newest: None,
            sequence: 0,
            engine_seen: EngineSeen {
                identity: None,
                epoch: None,
                since: Instant::now(),
            },
            members: HashMap::new(),
            absence,
            relies_on_absence: false,
        }
    }

    pub(crate) fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        while !self.shared.is_stopped() {
            let began = Instant::now();
            let Err(error) = self.publish() else { return };
            let why: Arc<str> = format!("the cluster's engine cannot be used: {error}").into();
            self.give_back(&why);
            pause = if began.elapsed() > LONGEST_PAUSE {
                FIRST_PAUSE
            } else {
                (pause * 2).min(LONGEST_PAUSE)
            };
            if !self.wait_disconnected(Instant::now() + pause, &why) {
                return;
            }
        }
    }

    /// Over one connection, until it fails or the node ends.
    fn publish(&mut self) -> Result<(), EngineError> {
        let mut session = self.engine.connect()?;
        let is_new = self.engine_seen.note_identity(&session.identity);
        let is_lost = match self.newest {
            Some(newest) => is_new || !session.has(newest)?,
            None => false,
        };
        if is_lost {
            self.publish_recent_again();
        }
        loop {
            if let Wake::Stopped = self.receive() {
                return Ok(());
            }
            self.send(&mut session)?;
            self.settle(&mut session)?;
        }
    }

    /// The engine may have lost what was written last.
    fn publish_recent_again(&mut self) {
        for (since, content) in std::mem::take(&mut self.recent) {
            if since.elapsed() < RECENT {
                self.unsent.push_back(Outgoing {
                    content,
                    reply: None,
                    since,
                });
            }
        }
    }

    /// Takes what waits. With nothing to do it waits for some time.
    fn receive(&mut self) -> Wake {
        let is_idle = self.unsent.is_empty() && self.sent.is_empty();
        let first = if is_idle {
            self.inbox.recv_timeout(IDLE)
        } else {
            self.inbox.try_recv().map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            })
        };
        match first {
            Ok(first) => self.unsent.push_back(first),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Wake::Stopped,
        }
        while let Ok(next) = self.inbox.try_recv() {
            self.unsent.push_back(next);
        }
        self.bound_unsent();
        if self.shared.is_stopped() {
            Wake::Stopped
        } else {
            Wake::Continue
        }
    }

    /// Appends what is unsent, some at a time. What fails stays unsent, and may be in the stream twice.
    fn send(&mut self, session: &mut Session) -> Result<(), EngineError> {
        while !self.unsent.is_empty() {
            let count = self.unsent.len().min(MOST_AT_A_TIME);
            let first = self.sequence + 1;
            let messages: Vec<Message> = (first..)
                .zip(self.unsent.iter().take(count))
                .map(|(sequence, outgoing)| Message {
                    node: self.shared.incarnation.clone(),
                    sequence,
                    content: outgoing.content.clone(),
                })
                .collect();
            let ids = session.append(messages.iter())?;
            if ids.len() != count {
                return Err(EngineError::Reply("the ids of new entries"));
            }
            for (id, outgoing) in ids.into_iter().zip(self.unsent.drain(..count)) {
                self.sequence += 1;
                self.newest = Some(id);
                self.recent
                    .push_back((Instant::now(), outgoing.content.clone()));
                self.sent.push_back(Sent {
                    id,
                    appended: Instant::now(),
                    outgoing,
                });
            }
        }
        while self.recent.len() > MOST_RECENT
            || self
                .recent
                .front()
                .is_some_and(|(at, _)| at.elapsed() > RECENT)
        {
            self.recent.pop_front();
        }
        self.shared.status().unsent = 0;
        Ok(())
    }

    /// Tells the publishers of purges that are final. Entries are settled in their order.
    fn settle(&mut self, session: &mut Session) -> Result<(), EngineError> {
        let known: Vec<String> = self.members.keys().cloned().collect();
        let progress = session.progress(&known)?;
        let oldest = self.note(progress)?;
        let confirmed = session.confirmed(Instant::now())?;
        let mut is_changed = false;
        while let Some(sent) = self.sent.front() {
            // A member that is absent here may renew its lease at another primary, unless this one was confirmed since.
            let is_confirmed = confirmed.is_some_and(|at| at >= sent.appended);
            let reach = match &oldest {
                _ if self.relies_on_absence && !is_confirmed => {
                    if sent.outgoing.since.elapsed() <= LONGEST_WAIT {
                        break;
                    }
                    PurgeReach::Local("the sentinels do not confirm the primary".into())
                }
                Settled::All => PurgeReach::Cluster,
                Settled::Until(id, _) if sent.id <= *id => PurgeReach::Cluster,
                Settled::Until(_, who) if sent.outgoing.since.elapsed() > LONGEST_WAIT => {
                    PurgeReach::Local(format!("node `{who}` has not applied it yet").into())
                }
                Settled::Until(..) => break,
            };
            is_changed = true;
            if let Some(sent) = self.sent.pop_front() {
                self.reply(sent.outgoing.reply, reach);
            }
        }
        if !self.sent.is_empty() && !is_changed {
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// What every other member has applied. A lost epoch ends the connection: then the newest purges are published again.
    fn note(&mut self, progress: Progress) -> Result<Settled, EngineError> {
        let had_epoch = self.engine_seen.epoch.is_some();
        let is_lost = had_epoch && self.engine_seen.epoch != progress.epoch;
        self.engine_seen.note_epoch(progress.epoch);
        if is_lost {
            return Err(EngineError::Lost);
        }
        let now = Instant::now();
        self.relies_on_absence = false;
        let mut settled = Settled::All;
        let mut shown = Vec::with_capacity(progress.members.len());
        for (member, applied) in progress.members {
            if member == self.shared.member {
                continue;
            }
            if applied.is_some() {
                self.members.insert(member.clone(), now);
            } else {
                self.members.entry(member.clone()).or_insert(now);
            }
            let node = member.strip_suffix(SERVES);
            shown.push(MemberStatus {
                node: node.unwrap_or(&member).to_owned(),
                is_present: applied.is_some(),
            });
            let has_applied = match applied {
                Some(id) => id,
                None if node.is_none() && self.engine_seen.proves_absence(self.absence) => {
                    self.relies_on_absence = true;
                    continue;
                }
                None => StreamId::START,
            };
            settled = settled.with(has_applied, &member);
        }
        self.members
            .retain(|_, seen| seen.elapsed() < FORGET_MEMBER);
        // Members may have had a lease before a loss, and may not be back yet.
        if !self.engine_seen.proves_absence(self.absence) {
            settled = settled.with(StreamId::START, "that is not known yet");
        }
        self.shared.status().members = shown;
        Ok(settled)
    }

    fn reply(&self, reply: Option<oneshot::Sender<PurgeReach>>, reach: PurgeReach) {
        let Some(reply) = reply else { return };
        let count = match reach {
            PurgeReach::Cluster => &self.shared.acknowledged,
            PurgeReach::Local(_) => &self.shared.local_only,
        };
        count.fetch_add(1, Ordering::Relaxed);
        // Nobody may wait.
        let _ = reply.send(reach);
    }

    /// Tells all who wait that their purges hold here only. What was sent counts as unsent: it may be lost.
    fn give_back(&mut self, why: &Arc<str>) {
        let sent = std::mem::take(&mut self.sent);
        for Sent { outgoing, .. } in sent {
            self.reply(outgoing.reply, PurgeReach::Local(Arc::clone(why)));
        }
        self.settle_unsent(why);
    }

    fn settle_unsent(&mut self, why: &Arc<str>) {
        for at in 0..self.unsent.len() {
            let reply = self.unsent.get_mut(at).and_then(|it| it.reply.take());
            self.reply(reply, PurgeReach::Local(Arc::clone(why)));
        }
        self.bound_unsent();
        self.shared.status().unsent = self.unsent.len();
    }

    /// Takes purges in while there is no connection. False: the node ends.
    fn wait_disconnected(&mut self, until: Instant, why: &Arc<str>) -> bool {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.inbox.recv_timeout(left) {
                Ok(outgoing) => {
                    self.unsent.push_back(outgoing);
                    self.settle_unsent(why);
                }
                Err(RecvTimeoutError::Timeout) => return !self.shared.is_stopped(),
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Beyond its bound, the queue is replaced by one purge of everything for each of its sites.
    fn bound_unsent(&mut self) {
        if self.unsent.len() <= MOST_UNSENT {
            return;
        }
        let mut sites: Vec<String> = Vec::new();
        let mut kept = VecDeque::new();
        for outgoing in std::mem::take(&mut self.unsent) {
            let site = &outgoing.content.site;
            if sites.contains(site) {
                self.reply(
                    outgoing.reply,
                    PurgeReach::Local("too many purges wait for the cluster's engine".into()),
                );
                continue;
            }
            sites.push(site.clone());
            kept.push_back(Outgoing {
                content: RemotePurge {
                    site: site.clone(),
                    purge: Purge {
                        scope: Scope::Site,
                        strength: Strength::Hard,
                    },
                },
                ..outgoing
            });
        }
        self.unsent = kept;
    }
}

/// Up to where entries are applied by all members.
enum Settled {
    /// There is no other member that may use stored pages.
    All,
    /// Up to an entry; and who is the slowest.
    Until(StreamId, String),
}

impl Settled {
    fn with(self, applied: StreamId, member: &str) -> Self {
        match self {
            Self::Until(id, who) if id <= applied => Self::Until(id, who),
            Self::All | Self::Until(..) => Self::Until(applied, member.to_owned()),
        }
    }
}

/// How long a publisher is kept waiting for the members.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// With sentinels, an absent key proves nothing for so long after a failover. A sentinel that voted for it may confirm the former
/// primary until it hears of the new one: sentinels announce it every 2 s.
const AFTER_FAILOVER: Duration = Duration::from_secs(10);

/// Between two looks at the members' keys.
const POLL: Duration = Duration::from_micros(300);

/// Without purges, members are looked at so often.
const IDLE: Duration = Duration::from_millis(500);

const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long ago a purge may have been lost with its engine.
const RECENT: Duration = Duration::from_secs(600);

/// Purges that can be published again, of 100 bytes or so.
const MOST_RECENT: usize = 10_000;

/// Purges that wait for the engine. An import of a shop makes some thousand.
const MOST_UNSENT: usize = 10_000;

/// Purges in one round trip.
const MOST_AT_A_TIME: usize = 512;

/// A member whose key is absent for so long need not be remembered: the engine's set has it, or it has left.
const FORGET_MEMBER: Duration = Duration::from_secs(60);
