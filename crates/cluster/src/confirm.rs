//! The part of the reader that compares what it has read with the heads of other nodes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use galley_policy::purge::Strength;

use crate::engine::Session;
use crate::engine_replies::MemberHead;
use crate::error::EngineError;
use crate::ledger::{HeadComparison, Ledger, Lineage, start_wait};
use crate::reader::{PurgeLoss, Reader};
use crate::shared::node_of;

impl Reader {
    /// Before the first lease, makes sure that no purge is missing that was published while the node was down.
    pub(crate) fn confirm_start(&mut self, session: &mut Session) -> Result<(), EngineError> {
        // A process that replaces another one goes on as that one: it compares while it runs.
        self.has_started |= self.is_inherited;
        if self.ledger.is_none() || self.has_started {
            self.start_ledger();
            return Ok(());
        }
        let began = Instant::now();
        loop {
            let members = self.exchange(session)?;
            self.catch_up(session)?;
            let ledger = self.ledger.as_ref();
            let is_answered = ledger.is_some_and(Ledger::has_confirming);
            let may_follow = self.may_confirm(&members);
            if is_answered || !may_follow || began.elapsed() > start_wait(&members) {
                break;
            }
            session.join(&self.shared.member, self.last())?;
            std::thread::sleep(PAUSE);
        }
        self.settle_start();
        self.has_started = true;
        self.start_ledger();
        Ok(())
    }

    /// From now on, this node confirms to others what it knows.
    fn start_ledger(&mut self) {
        if let Some(ledger) = &mut self.ledger {
            ledger.start();
        }
    }

    /// Whether another node writes heads.
    fn may_confirm(&self, members: &[MemberHead]) -> bool {
        let own_node = node_of(&self.shared.member);
        members.iter().any(|member| {
            member.is_present && member.head.is_some() && node_of(&member.member) != own_node
        })
    }

    fn settle_start(&mut self) {
        let has_pages = self.sink.has_earlier_pages();
        let Some(ledger) = &mut self.ledger else {
            return;
        };
        let restored = ledger.restored();
        let is_restored = restored.is_some();
        let is_trusted = restored.is_none_or(|kept| kept.is_alone);
        let why = match ledger.compare() {
            // Without a ledger, the position is one of an earlier version.
            HeadComparison::Complete(Lineage::Other) if is_restored => {
                Some("no node that runs has known all purges since this node was stopped")
            }
            HeadComparison::Complete(Lineage::Same | Lineage::Other) => None,
            HeadComparison::Missing => {
                self.gap(PurgeLoss::Unnoticed, MISSING);
                return;
            }
            HeadComparison::NoHead => {
                ledger.kept.is_alone |= !is_trusted;
                (!is_trusted).then_some("no other node confirms that no purge is missing")
            }
        };
        if let Some(why) = why {
            self.restart_ledger();
            if has_pages {
                self.purge_everything(Strength::Hard, why);
            }
        }
    }

    /// Writes this node's head and reads those of the others, if it is time. Before, the whole stream must have been read.
    pub(crate) fn exchange_when_due(&mut self, session: &mut Session) -> Result<(), EngineError> {
        for _ in 0..2 {
            let ledger = self.ledger.as_ref();
            if ledger.is_some_and(|ledger| ledger.is_due(Instant::now())) {
                self.exchange(session)?;
            }
        }
        Ok(())
    }

    fn exchange(&mut self, session: &mut Session) -> Result<Vec<MemberHead>, EngineError> {
        let Some(ledger) = &mut self.ledger else {
            return Ok(Vec::new());
        };
        let now = Instant::now();
        let own_last = self.shared.own.last(&session.identity.word());
        let head = ledger.next_head(own_last, now);
        let (key, heard) = (Arc::clone(&ledger.key), ledger.heard());
        let members = session.exchange_heads(&key, &self.shared.member, &head, &heard)?;
        let silent = ledger.receive(&members, Instant::now());
        self.shared.own.note_horizon(ledger.kept.horizon);
        if let Some(node) = silent {
            tracing::warn!(
                node,
                "a node renews its lease, but not its head: a program that is no node may write to the cluster's engine"
            );
            self.gap(
                PurgeLoss::Unnoticed,
                "purges of another node may be missing",
            );
        }
        Ok(members)
    }

    /// Compares the stream, which was read to its end, with the heads that were received before.
    pub(crate) fn compare(&mut self) {
        let Some(ledger) = &mut self.ledger else {
            return;
        };
        match ledger.compare() {
            HeadComparison::Missing => self.gap(PurgeLoss::Unnoticed, MISSING),
            HeadComparison::Complete(_) | HeadComparison::NoHead => {}
        }
    }
}

const MISSING: &str = "purges of another node are missing in the stream";

/// The pause of a node that starts between two looks at the heads.
const PAUSE: Duration = Duration::from_millis(50);
