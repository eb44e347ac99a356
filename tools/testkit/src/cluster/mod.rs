//! Checks a cluster for stale reads under faults, in the style of Jepsen.
//!
//! Three Galley nodes share an engine; each runs on a simulated machine (`network.rs`). A round edits a post of a real WordPress
//! before, during and after one [`Scenario`], while clients continuously read the pages from every node. A read that started after
//! WordPress knew that the purges of a version were final must return this version or a later one. Any other read is stale. PHP
//! uses the object cache of the node that sends it a request: what it reads there must have every version that was written before.

mod edited_post;
mod engine_delay;
mod network;
mod purge_rate;
mod readers;
mod test_cluster;

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use self::{
    edited_post::OBJECTS,
    engine_delay::EngineDelay,
    readers::{Read, ReadOutcome, Readers},
    test_cluster::{NODES, TestCluster},
};
pub use self::{
    network::may_make_networks,
    purge_rate::{PurgeRates, purge_rates},
};
use crate::{
    Signal, TestkitError,
    faults::{FaultReport, random::Random},
    wait::poll_until,
};

/// Settings of a cluster test.
#[derive(Debug, Clone)]
pub struct ClusterTestSettings {
    /// The server binary.
    pub galley: PathBuf,
    /// The directory of the plugin.
    pub plugin: PathBuf,
    /// Seed of all random numbers.
    pub seed: u64,
    /// The number of rounds, distributed over the scenarios in turn.
    pub rounds: usize,
    /// The scenarios to run.
    pub scenarios: Vec<Scenario>,
    /// How nodes find the engine.
    pub discovery: EngineDiscovery,
}

/// How nodes find the primary of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineDiscovery {
    /// By an address, which moves to the replica at a failover.
    Address,
    /// By three Sentinels, which promote the replica.
    Sentinels,
}

/// A fault in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// No fault.
    Calm,
    /// The engine is killed and restarted with its data.
    EngineKilled,
    /// The engine is restarted without data.
    EngineEmpty,
    /// All data of the running engine is removed.
    EngineFlushed,
    /// The purge stream is deleted twice in quick succession.
    StreamDeleted,
    /// The replica takes over without the newest entries.
    FailOver,
    /// A node, the primary and one Sentinel are partitioned from all others.
    SplitBrain,
    /// The engine is paused for 1, 5 or 60 seconds.
    EnginePaused,
    /// The engine rejects writes because its memory is full.
    EngineFull,
    /// The engine takes 50 ms for each reply.
    EngineSlow,
    /// The password of the engine changes.
    Password,
    /// A node is partitioned from the engine.
    Partition,
    /// A node is killed.
    NodeKilled,
    /// A node is paused.
    NodePaused,
    /// The clock of a node jumps by an hour.
    Clock,
}

impl Scenario {
    /// The scenarios for [`EngineDiscovery::Sentinels`], in the order in which they run.
    pub const WITH_SENTINELS: [Self; 4] = [
        Self::SplitBrain,
        Self::FailOver,
        Self::Partition,
        Self::NodeKilled,
    ];

    /// The scenarios for [`EngineDiscovery::Address`], in the order in which they run.
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

    /// The name on the command line.
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

/// The results of one scenario.
#[derive(Debug, Clone, Default)]
pub struct ScenarioReport {
    /// The counts and findings.
    pub counts: FaultReport,
    /// The time from each edit to its acknowledgement.
    pub acknowledged_after: Vec<Duration>,
}

/// Runs the rounds and calls `progress` after each.
///
/// # Errors
/// When the test's tools fail or the server does not start. All other failures of the server are in the reports.
pub fn run(
    settings: &ClusterTestSettings,
    mut progress: impl FnMut(usize, Scenario, &ScenarioReport),
) -> Result<Vec<(Scenario, ScenarioReport)>, TestkitError> {
    // Namespaces are named after the process, so only one cluster can run at a time.
    let _lock = NETWORK_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let mut reports: Vec<(Scenario, ScenarioReport)> = settings
        .scenarios
        .iter()
        .map(|scenario| (*scenario, ScenarioReport::default()))
        .collect();
    let cluster = TestCluster::start(settings)?;
    let nodes = (0..NODES).map(|number| (cluster.addr(number), cluster.state(number)));
    let readers = Readers::start(nodes, &cluster.targets);
    let mut test = ClusterTest {
        cluster,
        readers,
        random: Random::new(settings.seed),
        version: 1,
        acknowledged: Vec::new(),
        written: Vec::new(),
        engine_delay: None,
    };
    test.settle(&mut ScenarioReport::default());
    let count = reports.len().max(1);
    for round in 0..settings.rounds {
        let Some((scenario, report)) = reports.get_mut(round % count) else {
            break;
        };
        let mut round_report = ScenarioReport::default();
        test.round(*scenario, &mut round_report)?;
        progress(round + 1, *scenario, &round_report);
        report.counts += round_report.counts;
        (report.acknowledged_after).extend(round_report.acknowledged_after);
    }
    Ok(reports)
}

struct ClusterTest {
    cluster: TestCluster,
    readers: Readers,
    random: Random,
    /// The newest written version.
    version: u64,
    /// Versions and the times at which their purges were known to be final.
    acknowledged: Vec<(Instant, u64)>,
    /// Versions and the times at which PHP had written them: the object cache of no node is older.
    written: Vec<(Instant, u64)>,
    engine_delay: Option<EngineDelay>,
}

impl ClusterTest {
    fn round(
        &mut self,
        scenario: Scenario,
        report: &mut ScenarioReport,
    ) -> Result<(), TestkitError> {
        report.counts.rounds += 1;
        self.edit(report, ACKNOWLEDGED_WITHIN);
        let node = self.random.below(NODES);
        if self.random.once_in(2) {
            // Start the fault during an edit.
            let delay = self.random.time(Duration::from_millis(120));
            self.begin(scenario, node, delay)?;
        } else {
            self.begin(scenario, node, Duration::ZERO)?;
        }
        if scenario == Scenario::SplitBrain {
            self.edit_while_split(node, report);
        }
        for _ in 0..2 {
            thread::sleep(self.random.time(Duration::from_millis(1_500)));
            self.edit(report, Duration::from_secs(4));
        }
        if scenario == Scenario::EnginePaused {
            let seconds = [1, 1, 5, 5, 60][self.random.below(5)];
            thread::sleep(Duration::from_secs(seconds));
        }
        self.end(scenario, node)?;
        self.edit(report, ACKNOWLEDGED_WITHIN);
        self.settle(report);
        self.check_reads(report);
        Ok(())
    }

    /// Edits through a random node that is up, and waits until the edit is acknowledged or the timeout.
    fn edit(&mut self, report: &mut ScenarioReport, timeout: Duration) {
        let up: Vec<usize> = (0..NODES)
            .filter(|node| self.cluster.is_up(*node))
            .collect();
        let Some(node) = up.get(self.random.below(up.len())) else {
            return;
        };
        self.edit_through(*node, report, timeout);
    }

    fn edit_through(&mut self, node: usize, report: &mut ScenarioReport, timeout: Duration) {
        self.version += 1;
        let started = Instant::now();
        if self.cluster.edit(node, self.version) {
            self.written.push((Instant::now(), self.version));
        }
        self.record_acknowledged(report, started, timeout);
    }

    /// Edits on one side of the partition, for long enough that it treats the nodes of the other side as absent.
    fn edit_while_split(&mut self, minority: usize, report: &mut ScenarioReport) {
        let node = if self.random.once_in(2) {
            minority
        } else {
            (minority + 1) % NODES
        };
        for _ in 0..2 {
            self.edit_through(node, report, Duration::from_secs(20));
        }
    }

    fn record_acknowledged(
        &mut self,
        report: &mut ScenarioReport,
        started: Instant,
        timeout: Duration,
    ) {
        if let Some((version, at)) = self.cluster.wait_until_acknowledged(timeout) {
            self.acknowledged.push((at, version));
            report.counts.purges += 1;
            report.acknowledged_after.push(at - started);
        }
    }

    /// Waits until all purges are acknowledged and every node serves cache hits again.
    fn settle(&mut self, report: &mut ScenarioReport) {
        let is_final = self.cluster.wait_until_acknowledged(ACKNOWLEDGED_WITHIN);
        if let Some((version, at)) = is_final {
            self.acknowledged.push((at, version));
        } else {
            let pending = self.cluster.pending();
            report
                .counts
                .broken(&format!("a purge is lost: {pending:?} are pending"));
        }
        self.check_reads(report);
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
            self.check(reads, report);
            has_hit.iter().all(|has_hit| *has_hit)
        });
        if !all_hit {
            let logs: String = (0..NODES).map(|node| self.cluster.log(node)).collect();
            report.counts.broken(&format!(
                "not every node serves cache hits again: {has_hit:?}\n{logs}"
            ));
        }
    }

    fn check_reads(&self, report: &mut ScenarioReport) {
        self.check(self.readers.take(), report);
    }

    fn check(&self, reads: Vec<Read>, report: &mut ScenarioReport) {
        let counts = &mut report.counts;
        for read in reads {
            counts.pages += 1;
            let complete = match read.target.as_str() {
                OBJECTS => &self.written,
                _ => &self.acknowledged,
            };
            let expected = complete
                .iter()
                .filter(|(at, _)| *at <= read.started)
                .map(|(_, version)| *version)
                .max()
                .unwrap_or(1);
            let source = format!("node {} {}", read.node, read.target);
            match read.outcome {
                ReadOutcome::Page {
                    oldest,
                    is_hit,
                    status,
                } => {
                    counts.hits += u64::from(is_hit);
                    if oldest < expected {
                        counts.stale(&format!(
                            "{source}: version {oldest} after {expected} was acknowledged ({status})"
                        ));
                    }
                }
                ReadOutcome::Torn(what) => counts.torn(&format!("{source}: {what}")),
                ReadOutcome::Failed(what) => counts.failed(&format!("{source}: {what}")),
            }
        }
    }

    /// Starts the fault; with a non-zero `delay`, this long after the start of an edit.
    fn begin(
        &mut self,
        scenario: Scenario,
        node: usize,
        delay: Duration,
    ) -> Result<(), TestkitError> {
        if delay > Duration::ZERO {
            // Half of the time through the affected node, whose purges are then in its queue, or in the stream and unacknowledged.
            let editor = (node + self.random.below(2)) % NODES;
            self.version += 1;
            let version = self.version;
            let addr = self.cluster.addr(editor);
            // The test does not wait for the response.
            thread::spawn(move || edited_post::edit_at(addr, version));
            thread::sleep(delay);
        }
        match scenario {
            Scenario::Calm => {}
            Scenario::EngineKilled | Scenario::EngineEmpty => self.cluster.engine().kill(),
            Scenario::EngineFlushed => {
                self.cluster.engine().run(&["flushall"])?;
            }
            Scenario::StreamDeleted => self.delete_stream()?,
            Scenario::FailOver => self.cluster.disconnect_replica()?,
            Scenario::SplitBrain => self.cluster.partition(node)?,
            Scenario::EnginePaused => self.cluster.engine().signal(Signal::STOP),
            Scenario::EngineFull => {
                let engine = self.cluster.engine();
                engine.run(&["config", "set", "maxmemory-policy", "noeviction"])?;
                engine.run(&["config", "set", "maxmemory", "1"])?;
            }
            Scenario::EngineSlow => {
                self.engine_delay = Some(EngineDelay::start(self.cluster.engine().client()));
            }
            Scenario::Password => self.cluster.set_password()?,
            Scenario::Partition => self.cluster.set_reaches_engine(node, false)?,
            Scenario::NodeKilled => self.cluster.kill_node(node),
            Scenario::NodePaused => self.cluster.pause_node(node, true),
            Scenario::Clock => {
                let seconds = if self.random.once_in(2) {
                    3_600
                } else {
                    -3_600
                };
                self.cluster.set_clock(node, seconds)?;
            }
        }
        Ok(())
    }

    /// Deletes the purge stream twice. Nodes may or may not have recreated it in between.
    fn delete_stream(&mut self) -> Result<(), TestkitError> {
        for _ in 0..2 {
            self.cluster
                .engine()
                .run(&["del", "galley:galley:purges"])?;
            thread::sleep(self.random.time(Duration::from_millis(60)));
        }
        Ok(())
    }

    /// Ends the fault.
    fn end(&mut self, scenario: Scenario, node: usize) -> Result<(), TestkitError> {
        match scenario {
            Scenario::Calm
            | Scenario::EngineFlushed
            | Scenario::StreamDeleted
            | Scenario::Password => {}
            Scenario::EngineSlow => {
                let engine_delay = self.engine_delay.take().map(EngineDelay::stop);
                let pauses = engine_delay.transpose()?.unwrap_or(0);
                if pauses == 0 {
                    return Err(TestkitError::Refused(
                        "the engine was never paused".to_owned(),
                    ));
                }
            }
            Scenario::EngineKilled => {
                self.cluster.engine().restart()?;
                self.cluster.set_password_again()?;
                self.cluster.attach_replica()?;
            }
            Scenario::EngineEmpty => {
                self.cluster.engine().restart_empty()?;
                self.cluster.set_password_again()?;
                self.cluster.attach_replica()?;
            }
            Scenario::FailOver => {
                self.cluster.fail_over()?;
                self.cluster.restart_replica()?;
            }
            Scenario::SplitBrain => self.cluster.heal(node)?,
            Scenario::EnginePaused => self.cluster.engine().signal(Signal::CONT),
            Scenario::EngineFull => {
                self.cluster
                    .engine()
                    .run(&["config", "set", "maxmemory", "0"])?;
            }
            Scenario::Partition => self.cluster.set_reaches_engine(node, true)?,
            Scenario::NodeKilled => self.cluster.restart_node(node)?,
            Scenario::NodePaused => self.cluster.pause_node(node, false),
            Scenario::Clock => self.cluster.set_clock(node, 0)?,
        }
        Ok(())
    }
}

static NETWORK_LOCK: Mutex<()> = Mutex::new(());

/// The plugin repeats unacknowledged purges; after this time a purge counts as lost.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(150);

/// Limit for a node to serve cache hits again.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
