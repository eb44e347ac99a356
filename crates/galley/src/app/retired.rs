//! Previous generations that drain.

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::generation::{Generation, RetiredGeneration};
use galley_server::Phase;
use galley_telemetry::counters::CounterReader;

/// The draining generations.
#[derive(Default)]
pub(super) struct RetiredGenerations {
    pub(super) ending: JoinSet<u64>,
    /// Ordered from the oldest to the newest.
    all: Vec<DrainingGeneration>,
    /// The sum of the counters of generations that have ended.
    past: Option<CounterReader>,
    next: u64,
}

struct DrainingGeneration {
    number: u64,
    phase: watch::Sender<Phase>,
    counters: Vec<CounterReader>,
}

impl RetiredGenerations {
    /// Adds a generation, and waits for its end in the background.
    pub(super) fn add(
        &mut self,
        retired: RetiredGeneration,
        phase: watch::Sender<Phase>,
        counters: Vec<CounterReader>,
    ) {
        let number = self.next;
        self.next += 1;
        self.all.push(DrainingGeneration {
            number,
            phase,
            counters,
        });
        // Limits the number of threads and connections, however often the configuration is reloaded.
        let over = self.all.len().saturating_sub(MAX_DRAINING);
        for oldest in self.all.iter().take(over) {
            oldest.phase.send_replace(Phase::Stopping);
        }
        self.ending.spawn(async move {
            retired.ended().await;
            number
        });
    }

    /// Removes a generation that has ended, and keeps its counts.
    pub(super) fn forget(&mut self, number: u64) {
        let Some(at) = self.all.iter().position(|one| one.number == number) else {
            return;
        };
        let mut counters = self.all.remove(at).counters;
        counters.extend(self.past.take());
        self.past = Some(CounterReader::sum(&counters));
    }

    /// The counters of the draining generations, of the ended ones, and of the current one.
    pub(super) fn counters(&self, now: &Generation) -> Vec<CounterReader> {
        let draining = self.all.iter().flat_map(|one| &one.counters);
        let counters = self.past.iter().chain(draining).chain(now.counters());
        counters.cloned().collect()
    }

    /// Closes the idle connections of all draining generations.
    pub(super) fn stop(&self) {
        for one in &self.all {
            one.phase.send_replace(Phase::Stopping);
        }
    }
}

/// The maximum number of generations that drain concurrently. If there are more, the idle connections of the oldest are
/// closed immediately.
const MAX_DRAINING: usize = 4;
