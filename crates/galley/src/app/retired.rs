//! Former generations that drain.

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::generation::{Generation, Retired};
use crate::server::Phase;
use crate::telemetry::counters::CounterReader;

/// Generations that drain.
#[derive(Default)]
pub(super) struct RetiredGenerations {
    pub(super) ending: JoinSet<u64>,
    /// The oldest first.
    all: Vec<Draining>,
    /// What those have counted that have ended.
    past: Option<CounterReader>,
    next: u64,
}

struct Draining {
    number: u64,
    phase: watch::Sender<Phase>,
    counters: Vec<CounterReader>,
}

impl RetiredGenerations {
    /// Waits for the end of a generation from now on.
    pub(super) fn add(
        &mut self,
        retired: Retired,
        phase: watch::Sender<Phase>,
        counters: Vec<CounterReader>,
    ) {
        let number = self.next;
        self.next += 1;
        self.all.push(Draining {
            number,
            phase,
            counters,
        });
        // Their threads and connections are bounded, however often somebody reloads.
        let over = self.all.len().saturating_sub(MOST_DRAINING);
        for oldest in self.all.iter().take(over) {
            oldest.phase.send_replace(Phase::Stopping);
        }
        self.ending.spawn(async move {
            retired.ended().await;
            number
        });
    }

    /// A generation has ended: its counts are kept.
    pub(super) fn forget(&mut self, number: u64) {
        let Some(at) = self.all.iter().position(|one| one.number == number) else {
            return;
        };
        let mut counters = self.all.remove(at).counters;
        counters.extend(self.past.take());
        self.past = Some(CounterReader::sum(&counters));
    }

    /// The counters of these, of the ones that have ended, and of the current one.
    pub(super) fn counters(&self, now: &Generation) -> Vec<CounterReader> {
        let draining = self.all.iter().flat_map(|one| &one.counters);
        let all = self.past.iter().chain(draining).chain(now.counters());
        all.cloned().collect()
    }

    /// Ends their idle connections.
    pub(super) fn stop(&self) {
        for one in &self.all {
            one.phase.send_replace(Phase::Stopping);
        }
    }
}

/// Generations that may drain beside each other; the oldest beyond it have their idle connections ended at once.
const MOST_DRAINING: usize = 4;
