//! The publisher's state of the other members, and the entry up to which all of them have applied the stream.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::engine_replies::Progress;
use crate::error::EngineError;
use crate::identity::EngineIdentity;
use crate::shared::{SERVES, node_of};
use crate::status::MemberStatus;
use crate::stream_id::StreamId;

/// The entry up to which all members have applied the stream.
pub(crate) enum AppliedByAll {
    /// No other member may send stored pages.
    All,
    /// The entry, and the slowest member.
    Until(StreamId, String),
}

impl AppliedByAll {
    fn with(self, applied: StreamId, member: &str) -> Self {
        match self {
            Self::Until(id, who) if id <= applied => Self::Until(id, who),
            Self::All | Self::Until(..) => Self::Until(applied, member.to_owned()),
        }
    }

    /// Whether all members have applied an entry.
    pub(crate) fn covers(&self, id: StreamId) -> bool {
        match self {
            Self::All => true,
            Self::Until(until, _) => id <= *until,
        }
    }
}

/// The other members, and the engine that reports their progress.
pub(crate) struct Members {
    own: String,
    /// The times at which their keys were last present.
    seen: HashMap<String, Instant>,
    engine: ObservedEngine,
    /// The time for which the engine must be unchanged before an absent key proves something.
    absence: Duration,
    /// Whether a member counts as gone because its key is absent.
    pub(crate) relies_on_absence: bool,
    /// Earlier runs of nodes that are back. Their leases are over.
    pub(crate) superseded: Vec<String>,
    /// The members, for display.
    pub(crate) shown: Vec<MemberStatus>,
}

/// The engine's identity and epoch, and the time of their last change.
struct ObservedEngine {
    identity: Option<EngineIdentity>,
    epoch: Option<String>,
    since: Instant,
}

impl ObservedEngine {
    fn note_epoch(&mut self, epoch: Option<String>) {
        if self.epoch != epoch || epoch.is_none() {
            self.epoch = epoch;
            self.since = Instant::now();
        }
    }

    /// Whether an absent key has expired, and was not lost.
    fn proves_absence(&self, after: Duration) -> bool {
        self.since.elapsed() >= after
    }
}

impl Members {
    /// `own`: the member of this node. `absence`: the time for which the engine must be unchanged before an absent key proves
    /// something.
    pub(crate) fn new(own: String, absence: Duration) -> Self {
        Self {
            own,
            seen: HashMap::new(),
            engine: ObservedEngine {
                identity: None,
                epoch: None,
                since: Instant::now(),
            },
            absence,
            relies_on_absence: false,
            superseded: Vec::new(),
            shown: Vec::new(),
        }
    }

    /// Records the engine of a new connection. Returns whether it has changed.
    pub(crate) fn note_identity(&mut self, identity: &EngineIdentity) -> bool {
        let is_new = self.engine.identity.as_ref() != Some(identity);
        if is_new {
            self.engine.identity = Some(identity.clone());
            self.engine.since = Instant::now();
        }
        is_new
    }

    /// The known members, which the engine may have lost.
    pub(crate) fn known(&self) -> Vec<String> {
        self.seen.keys().cloned().collect()
    }

    /// The entry up to which every other member has applied the stream.
    ///
    /// # Errors
    /// The epoch has changed: the engine has lost data.
    pub(crate) fn note(&mut self, progress: Progress) -> Result<AppliedByAll, EngineError> {
        let had_epoch = self.engine.epoch.is_some();
        let is_lost = had_epoch && self.engine.epoch != progress.epoch;
        self.engine.note_epoch(progress.epoch);
        if is_lost {
            return Err(EngineError::Lost);
        }
        let proves_absence = self.engine.proves_absence(self.absence);
        let present: HashSet<String> = (progress.members.iter())
            .filter(|(_, applied)| applied.is_some())
            .map(|(member, _)| node_of(member).to_owned())
            .collect();
        self.relies_on_absence = false;
        self.superseded.clear();
        self.shown.clear();
        let now = Instant::now();
        let mut settled = AppliedByAll::All;
        for (member, applied) in progress.members {
            if member == self.own {
                continue;
            }
            match applied {
                Some(_) => {
                    self.seen.insert(member.clone(), now);
                }
                None => {
                    self.seen.entry(member.clone()).or_insert(now);
                }
            }
            let is_replaced = applied.is_none() && present.contains(node_of(&member));
            if !is_replaced {
                self.shown.push(MemberStatus {
                    node: node_of(&member).to_owned(),
                    is_present: applied.is_some(),
                });
            }
            let has_applied = match applied {
                Some(id) => id,
                // The absent key of a node that serves without a lease proves nothing, unless the node is back: then that run
                // has ended.
                None if proves_absence && (is_replaced || !member.ends_with(SERVES)) => {
                    self.relies_on_absence = true;
                    if is_replaced {
                        self.superseded.push(member);
                    }
                    continue;
                }
                None => StreamId::START,
            };
            settled = settled.with(has_applied, &member);
        }
        self.seen.retain(|_, seen| seen.elapsed() < FORGET_MEMBER);
        // Members may have had a lease before a loss, and may not have returned yet.
        if !proves_absence {
            settled = settled.with(StreamId::START, "that is not known yet");
        }
        Ok(settled)
    }
}

/// The time after which a member with an absent key is removed: the engine's set contains it, or it has left.
const FORGET_MEMBER: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> StreamId {
        StreamId::parse(text).unwrap()
    }

    fn members() -> Members {
        let mut members = Members::new("n1 aa".to_owned(), Duration::ZERO);
        let _ = note(&mut members, "e", &[]);
        members
    }

    fn note(
        members: &mut Members,
        epoch: &str,
        keys: &[(&str, Option<&str>)],
    ) -> Result<AppliedByAll, EngineError> {
        let keys = keys
            .iter()
            .map(|(member, last)| ((*member).to_owned(), last.map(id)));
        members.note(Progress {
            epoch: Some(epoch.to_owned()),
            members: keys.collect(),
        })
    }

    #[test]
    fn the_slowest_member_decides() {
        let mut members = members();
        let keys = [
            ("n1 aa", Some("1-0")),
            ("n2 bb", Some("5-0")),
            ("n3 cc", Some("4-1")),
        ];
        let settled = note(&mut members, "e", &keys).unwrap();
        assert!(settled.covers(id("4-1")) && !settled.covers(id("4-2")));
        assert!(!members.relies_on_absence);
    }

    #[test]
    fn two_nodes_with_one_name_both_count() {
        let mut members = members();
        let settled = note(&mut members, "e", &[("n1 zz", Some("3-0"))]).unwrap();
        assert!(!settled.covers(id("4-0")));
    }

    #[test]
    fn an_earlier_run_of_a_node_that_is_back_is_removed() {
        let mut members = members();
        let keys = [("n2 bb", None), ("n2 cc", Some("9-0")), ("n3 dd", None)];
        assert!(note(&mut members, "e", &keys).unwrap().covers(id("9-0")));
        assert_eq!(members.superseded, ["n2 bb"]);
        let shown: Vec<(&str, bool)> = (members.shown.iter())
            .map(|member| (member.node.as_str(), member.is_present))
            .collect();
        assert_eq!(shown, [("n2", true), ("n3", false)]);
        assert!(members.relies_on_absence);
    }

    #[test]
    fn a_member_without_a_lease_counts_until_it_is_back() {
        let mut members = members();
        let gone = [("n2 bb serves", None)];
        assert!(!note(&mut members, "e", &gone).unwrap().covers(id("1-0")));
        let back = [("n2 bb serves", None), ("n2 cc serves", Some("2-0"))];
        assert!(note(&mut members, "e", &back).unwrap().covers(id("1-0")));
    }

    #[test]
    fn a_changed_epoch_is_a_loss() {
        let mut members = members();
        assert!(note(&mut members, "f", &[]).is_err());
        assert!(note(&mut members, "f", &[]).is_ok());
    }
}
