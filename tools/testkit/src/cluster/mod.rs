//! A cluster that is harmed in every way while its pages are edited and read: what was read is compared with what was acknowledged.
//!
//! Three Galleys share an engine, each on a machine of its own (`network.rs`). A round edits a post of a real WordPress before,
//! during and after one [`Scenario`]. Visitors read all the time at each node. A read that began after WordPress knew that the
//! purges of a version were final must show this version or a later one: anything else is stale. In the style of Jepsen.

mod network;
mod purge_rate;
mod reader;
mod slowness;
mod stage;

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

pub use self::{
    network::may_make_networks,
    purge_rate::{PurgeRates, purge_rates},
};
use self::{
    reader::{Read, ReadOutcome, Readers},
    slowness::Slowness,
    stage::{NODES, Stage},
};
use crate::{
    Signal, TestkitError,
    faults::{Tally, dice::Dice},
    wait::poll_until,
};

/// What is run, and how often.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The server.
    pub galley: PathBuf,
    /// The folder of the plugin.
    pub plugin: PathBuf,
    /// Of everything that is drawn.
    pub seed: u64,
    /// Rounds; the scenarios take turns.
    pub rounds: usize,
    /// What is done.
    pub scenarios: Vec<Scenario>,
    /// How nodes find the engine.
    pub finding: Finding,
}

/// How nodes find the primary of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// By an address, which moves to the replica that takes over.
    Address,
    /// By three sentinels, which promote the replica.
    Sentinels,
}

/// One kind of harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// None.
    Calm,
    /// The engine is killed and restarted with its data.
    EngineKilled,
    /// The engine is restarted without data.
    EngineEmpty,
    /// All data of the running engine are removed.
    EngineFlushed,
    /// The stream of purges is deleted, twice within a moment.
    StreamDeleted,
    /// The replica takes over without the newest entries.
    FailOver,
    /// A node, the primary and one sentinel are separated from all others.
    SplitBrain,
    /// The engine is paused for 1, 5 or 60 seconds.
    EnginePaused,
    /// The engine refuses writes, because its memory is full.
    EngineFull,
    /// The engine takes 50 ms for each reply.
    EngineSlow,
    /// The engine gets another password.
    Password,
    /// A node is cut off from the engine.
    Partition,
    /// A node is killed.
    NodeKilled,
    /// A node is paused.
    NodePaused,
    /// The clock of a node jumps by an hour.
    Clock,
}

impl Scenario {
    /// Those of nodes that find the engine by sentinels, in the order in which they take turns.
    pub const WITH_SENTINELS: [Self; 4] = [
        Self::SplitBrain,
        Self::FailOver,
        Self::Partition,
        Self::NodeKilled,
    ];

    /// Those of nodes that know its address.
    pub const WITH_ADDRESS: [Self; 14] = [
        Self::Calm,
        Self::EngineKilled,
        Self::Partition,
        Self::NodeKilled,
        Self::EngineEmpty,
        Self::FailOver,
        Self::EnginePaused,
        Self::NodePaused,
        Self::EngineFull,
        Self::Clock,
        Self::EngineSlow,
        Self::EngineFlushed,
        Self::StreamDeleted,
        Self::Password,
    ];

    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::EngineKilled => "engine-killed",
            Self::EngineEmpty => "engine-empty",
            Self::EngineFlushed => "engine-flushed",
            Self::StreamDeleted => "stream-deleted",
            Self::FailOver => "failover",
            Self::SplitBrain => "split-brain",
            Self::EnginePaused => "engine-paused",
            Self::EngineFull => "engine-full",
            Self::EngineSlow => "engine-slow",
            Self::Password => "password",
            Self::Partition => "partition",
            Self::NodeKilled => "node-killed",
            Self::NodePaused => "node-paused",
            Self::Clock => "clock",
        }
    }
}

/// What one scenario came to.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Counts.
    pub tally: Tally,
    /// How long edits took to be acknowledged, each.
    pub acknowledged_after: Vec<Duration>,
}

/// Runs the rounds; `progress` gets each as it ends.
///
/// # Errors
/// When the tools of the test fail, not the server. A server that does not start is an error too.
pub fn run(
    setting: &Setting,
    mut progress: impl FnMut(usize, Scenario, &Outcome),
) -> Result<Vec<(Scenario, Outcome)>, TestkitError> {
    // The names of the networks belong to the process.
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut outcomes: Vec<(Scenario, Outcome)> = setting
        .scenarios
        .iter()
        .map(|scenario| (*scenario, Outcome::default()))
        .collect();
    let stage = Stage::start(setting)?;
    let nodes = (0..NODES).map(|number| (stage.addr(number), stage.state(number)));
    let readers = Readers::start(nodes, &stage.targets);
    let mut run = Run {
        stage,
        readers,
        dice: Dice::new(setting.seed),
        version: 1,
        acknowledged: Vec::new(),
        slowness: None,
    };
    run.settle(&mut Outcome::default());
    let count = outcomes.len().max(1);
    for round in 0..setting.rounds {
        let Some((scenario, outcome)) = outcomes.get_mut(round % count) else {
            break;
        };
        let mut one = Outcome::default();
        run.round(*scenario, &mut one)?;
        progress(round + 1, *scenario, &one);
        outcome.tally += one.tally;
        outcome.acknowledged_after.extend(one.acknowledged_after);
    }
    Ok(outcomes)
}

struct Run {
    stage: Stage,
    readers: Readers,
    dice: Dice,
    /// The newest that was written.
    version: u64,
    /// Versions whose purges were final at that moment.
    acknowledged: Vec<(Instant, u64)>,
    slowness: Option<Slowness>,
}

impl Run {
    fn round(&mut self, scenario: Scenario, outcome: &mut Outcome) -> Result<(), TestkitError> {
        outcome.tally.rounds += 1;
        self.edit(outcome, ACKNOWLEDGED_WITHIN);
        let node = self.dice.below(NODES);
        if self.dice.once_in(2) {
            // Into the middle of an edit.
            let delay = self.dice.time(Duration::from_millis(120));
            self.begin(scenario, node, delay)?;
        } else {
            self.begin(scenario, node, Duration::ZERO)?;
        }
        if scenario == Scenario::SplitBrain {
            self.edit_while_split(node, outcome);
        }
        for _ in 0..2 {
            thread::sleep(self.dice.time(Duration::from_millis(1_500)));
            self.edit(outcome, Duration::from_secs(4));
        }
        if scenario == Scenario::EnginePaused {
            let seconds = [1, 1, 5, 5, 60][self.dice.below(5)];
            thread::sleep(Duration::from_secs(seconds));
        }
        self.end(scenario, node)?;
        self.edit(outcome, ACKNOWLEDGED_WITHIN);
        self.settle(outcome);
        self.judge(outcome);
        Ok(())
    }

    /// Edits over a node that is up, and waits for a while until that is acknowledged.
    fn edit(&mut self, outcome: &mut Outcome, timeout: Duration) {
        let up: Vec<usize> = (0..NODES).filter(|node| self.stage.is_up(*node)).collect();
        let Some(node) = up.get(self.dice.below(up.len())) else {
            return;
        };
        self.edit_over(*node, outcome, timeout);
    }

    fn edit_over(&mut self, node: usize, outcome: &mut Outcome, timeout: Duration) {
        self.version += 1;
        let began = Instant::now();
        self.stage.edit(node, self.version);
        self.note_acknowledged(outcome, began, timeout);
    }

    /// Edits on one side only, for long enough that the absence of the other side's nodes is believed.
    fn edit_while_split(&mut self, minority: usize, outcome: &mut Outcome) {
        let node = if self.dice.once_in(2) {
            minority
        } else {
            (minority + 1) % NODES
        };
        for _ in 0..2 {
            self.edit_over(node, outcome, Duration::from_secs(20));
        }
    }

    fn note_acknowledged(&mut self, outcome: &mut Outcome, began: Instant, timeout: Duration) {
        if let Some((version, at)) = self.stage.wait_until_acknowledged(timeout) {
            self.acknowledged.push((at, version));
            outcome.tally.purges += 1;
            outcome.acknowledged_after.push(at - began);
        }
    }

    /// Waits until everything is acknowledged, and every node sends stored pages of the newest version again.
    fn settle(&mut self, outcome: &mut Outcome) {
        let is_final = self.stage.wait_until_acknowledged(ACKNOWLEDGED_WITHIN);
        if let Some((version, at)) = is_final {
            self.acknowledged.push((at, version));
        } else {
            let pending = self.stage.pending();
            outcome
                .tally
                .broken(&format!("a purge is lost: {pending:?} are pending"));
        }
        self.judge(outcome);
        let mut has_hit = [false; NODES];
        let all_hit = poll_until(SETTLED_WITHIN, || {
            let reads = self.readers.take();
            for read in &reads {
                if let ReadOutcome::Page { is_hit: true, .. } = read.outcome
                    && let Some(node) = has_hit.get_mut(read.node)
                {
                    *node = true;
                }
            }
            self.judge_reads(reads, outcome);
            has_hit.iter().all(|has_hit| *has_hit)
        });
        if !all_hit {
            let logs: String = (0..NODES).map(|node| self.stage.log(node)).collect();
            outcome.tally.broken(&format!(
                "not every node sends stored pages again: {has_hit:?}\n{logs}"
            ));
        }
    }

    fn judge(&self, outcome: &mut Outcome) {
        self.judge_reads(self.readers.take(), outcome);
    }

    fn judge_reads(&self, reads: Vec<Read>, outcome: &mut Outcome) {
        let tally = &mut outcome.tally;
        for read in reads {
            tally.pages += 1;
            let before = self.acknowledged.iter().rev();
            let wanted = before
                .filter(|(at, _)| *at <= read.began)
                .map(|(_, version)| *version)
                .max()
                .unwrap_or(1);
            let place = format!("node {} {}", read.node, read.target);
            match read.outcome {
                ReadOutcome::Page {
                    oldest,
                    is_hit,
                    status,
                } => {
                    tally.hits += u64::from(is_hit);
                    if oldest < wanted {
                        tally.stale(&format!(
                            "{place}: version {oldest} after {wanted} was acknowledged ({status})"
                        ));
                    }
                }
                ReadOutcome::Torn(what) => tally.torn(&format!("{place}: {what}")),
                ReadOutcome::Failed(what) => tally.failed(&format!("{place}: {what}")),
            }
        }
    }

    /// Does the harm, `delay` after an edit has begun where that is not zero.
    fn begin(
        &mut self,
        scenario: Scenario,
        node: usize,
        delay: Duration,
    ) -> Result<(), TestkitError> {
        if delay > Duration::ZERO {
            // Of the node that is harmed, too: its purges are in its queue then, or in the stream and not acknowledged.
            let editor = (node + self.dice.below(2)) % NODES;
            self.version += 1;
            let version = self.version;
            let addr = self.stage.addr(editor);
            // Nobody waits for its response.
            thread::spawn(move || stage::edit_at(addr, version));
            thread::sleep(delay);
        }
        match scenario {
            Scenario::Calm => {}
            Scenario::EngineKilled | Scenario::EngineEmpty => self.stage.engine().kill(),
            Scenario::EngineFlushed => {
                self.stage.engine().run(&["flushall"])?;
            }
            Scenario::StreamDeleted => self.delete_stream()?,
            Scenario::FailOver => self.stage.cut_replica()?,
            Scenario::SplitBrain => self.stage.split(node)?,
            Scenario::EnginePaused => self.stage.engine().signal(Signal::STOP),
            Scenario::EngineFull => {
                let engine = self.stage.engine();
                engine.run(&["config", "set", "maxmemory-policy", "noeviction"])?;
                engine.run(&["config", "set", "maxmemory", "1"])?;
            }
            Scenario::EngineSlow => {
                self.slowness = Some(Slowness::begin(self.stage.engine().asker()));
            }
            Scenario::Password => self.stage.set_password()?,
            Scenario::Partition => self.stage.set_reaches_engine(node, false)?,
            Scenario::NodeKilled => self.stage.kill_node(node),
            Scenario::NodePaused => self.stage.pause_node(node, true),
            Scenario::Clock => {
                let seconds = if self.dice.once_in(2) { 3_600 } else { -3_600 };
                self.stage.set_clock(node, seconds)?;
            }
        }
        Ok(())
    }

    /// Nodes may have begun it anew between the two, or not have noticed anything yet.
    fn delete_stream(&mut self) -> Result<(), TestkitError> {
        for _ in 0..2 {
            self.stage.engine().run(&["del", "galley:galley:purges"])?;
            thread::sleep(self.dice.time(Duration::from_millis(60)));
        }
        Ok(())
    }

    /// Ends the harm.
    fn end(&mut self, scenario: Scenario, node: usize) -> Result<(), TestkitError> {
        match scenario {
            Scenario::Calm
            | Scenario::EngineFlushed
            | Scenario::StreamDeleted
            | Scenario::Password => {}
            Scenario::EngineSlow => {
                let slowness = self.slowness.take().map(Slowness::end);
                let pauses = slowness.transpose()?.unwrap_or(0);
                if pauses == 0 {
                    return Err(TestkitError::Refused("the engine was not slow".to_owned()));
                }
            }
            Scenario::EngineKilled => {
                self.stage.engine().restart()?;
                self.stage.set_password_again()?;
                self.stage.follow()?;
            }
            Scenario::EngineEmpty => {
                self.stage.engine().restart_empty()?;
                self.stage.set_password_again()?;
                self.stage.follow()?;
            }
            Scenario::FailOver => {
                self.stage.fail_over()?;
                self.stage.restart_replica()?;
            }
            Scenario::SplitBrain => self.stage.unite(node)?,
            Scenario::EnginePaused => self.stage.engine().signal(Signal::CONT),
            Scenario::EngineFull => {
                self.stage
                    .engine()
                    .run(&["config", "set", "maxmemory", "0"])?;
            }
            Scenario::Partition => self.stage.set_reaches_engine(node, true)?,
            Scenario::NodeKilled => self.stage.restart_node(node)?,
            Scenario::NodePaused => self.stage.pause_node(node, false),
            Scenario::Clock => self.stage.set_clock(node, 0)?,
        }
        Ok(())
    }
}

static ALONE: Mutex<()> = Mutex::new(());

/// An edit that is repeated by the plugin counts as lost after this.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(150);

/// A node uses its stored pages again within this.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
