//! Observes the running workers, sets the number of slots by their memory, and replaces workers that use too much or have
//! served their number of requests.
//!
//! SIGQUIT ends a worker after its current request, and PHP-FPM starts another in its place. A replacement therefore
//! fails no request, and the pool is never reloaded, which would empty its opcode cache.

use std::collections::HashSet;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::budget::{MemoryDivision, TYPICAL_WORKER_BYTES};
use super::counted::{self, is_worn};
use super::estimate::{ReplaceReason, WorkerSizeEstimate, surplus};
use super::meter::{Worker, WorkerMeter};
use super::numbers::{PoolNumbers, count};
use super::privileged::KeeperChannel;

/// The source of the number of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolSizing {
    /// The number is configured.
    Named(usize),
    /// The number depends on the measured memory of workers.
    Measured,
}

/// The parameters for watching a pool.
#[derive(Debug)]
pub(super) struct WatchSettings {
    pub(super) site: String,
    pub(super) socket: PathBuf,
    /// The path of the status page.
    pub(super) page: String,
    pub(super) size: PoolSizing,
    pub(super) budget: MemoryDivision,
    /// The memory limit of a script, in bytes.
    pub(super) memory_limit: u64,
}

/// Watches one pool, whichever master it has.
#[derive(Debug)]
pub(super) struct PoolWatch {
    settings: WatchSettings,
    line: Option<(KeeperChannel, u32)>,
    numbers: Arc<PoolNumbers>,
    meter: WorkerMeter,
    estimate: WorkerSizeEstimate,
    /// Workers that have the signal to end and still run.
    leaving: HashSet<u32>,
    measured_at: Instant,
    /// The time of the last query for the request counts; `None`: never, or another worker may have to be replaced.
    checked_at: Option<Instant>,
    /// The CPU time of the workers at the last query.
    ticks: u64,
    has_warned: bool,
    /// The time of the last log line about a replacement.
    warned_at: Option<Instant>,
}

impl PoolWatch {
    /// `line`: the channel by which workers are ended, with the number of the pool, if Galley cannot signal them itself.
    pub(super) fn new(
        settings: WatchSettings,
        numbers: Arc<PoolNumbers>,
        line: Option<(KeeperChannel, u32)>,
    ) -> Self {
        Self {
            settings,
            line,
            numbers,
            meter: WorkerMeter::new(),
            estimate: WorkerSizeEstimate::new(TYPICAL_WORKER_BYTES),
            leaving: HashSet::new(),
            measured_at: Instant::now(),
            checked_at: None,
            ticks: 0,
            has_warned: false,
            warned_at: None,
        }
    }

    /// Watches the workers of `master` without end. Cancel-safe.
    pub(super) async fn run(&mut self, master: u32) -> Infallible {
        let mut tick = tokio::time::interval(MEASURE_INTERVAL);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let workers = self.measure(master);
            if self.may_query(&workers)
                && let Some(counts) =
                    counted::requests(&self.settings.socket, &self.settings.page).await
            {
                self.replace_worn(master, &counts);
            }
        }
    }

    /// Must be called when the master and its workers have ended.
    pub(super) fn forget(&mut self) {
        self.leaving.clear();
        self.numbers.workers.store(0, Ordering::Relaxed);
        self.numbers.bytes.store(0, Ordering::Relaxed);
    }

    fn measure(&mut self, master: u32) -> Vec<Worker> {
        let workers = self.meter.workers(master);
        self.leaving
            .retain(|pid| workers.iter().any(|worker| worker.pid == *pid));
        self.estimate.observe(&workers, self.measured_at.elapsed());
        self.measured_at = Instant::now();
        match self.settings.size {
            PoolSizing::Measured => self.set_slots(),
            PoolSizing::Named(workers) => self.check_named(workers),
        }
        let all = workers.iter().map(|worker| worker.now).sum();
        let numbers = &self.numbers;
        numbers.workers.store(workers.len(), Ordering::Relaxed);
        numbers.bytes.store(all, Ordering::Relaxed);
        let (usual, largest) = (self.estimate.usual, self.estimate.largest);
        numbers.worker_bytes.store(usual, Ordering::Relaxed);
        numbers.largest_bytes.store(largest, Ordering::Relaxed);
        self.relieve(master, &workers);
        workers
    }

    fn set_slots(&mut self) {
        let WorkerSizeEstimate { usual, largest, .. } = self.estimate;
        let fitting = self.settings.budget.slots(usual, largest);
        let available = self.meter.available();
        let places = self.settings.budget.slots_when_short(fitting, available);
        let before = self.numbers.set_slots(places);
        if places != before {
            tracing::info!(
                site = self.settings.site,
                places,
                before,
                worker_mib = usual >> 20,
                largest_mib = largest >> 20,
                share_mib = self.settings.budget.share >> 20,
                machine_is_short = places < fitting,
                "adjusted the number of concurrent requests to the memory of PHP's workers"
            );
        }
    }

    /// Warns once if the workers do not fit into their share of the memory.
    fn check_named(&mut self, workers: usize) {
        let usual = self.estimate.usual;
        let wanted = usual.saturating_mul(workers as u64);
        if wanted > self.settings.budget.share && !self.has_warned {
            self.has_warned = true;
            tracing::warn!(
                site = self.settings.site,
                "`php_workers = {workers}` with {} MiB each need more than the {} MiB available to them; remove the option, and Galley adjusts the number to the memory",
                usual >> 20,
                self.settings.budget.share >> 20
            );
        }
    }

    /// Replaces a worker that uses too much memory.
    fn relieve(&mut self, master: u32, workers: &[Worker]) {
        let budget = &self.settings.budget;
        let grown = budget.grown(self.settings.memory_limit);
        let share = match self.settings.size {
            PoolSizing::Measured => budget.share,
            // The number of workers is configured: replacing them repeatedly would not make them fit.
            PoolSizing::Named(_) => u64::MAX,
        };
        let leaving = |pid| self.leaving.contains(&pid);
        let Some((worker, why)) = surplus(workers, leaving, share, grown) else {
            return;
        };
        let why = match why {
            ReplaceReason::Grown => "it has exceeded the memory limit of a worker",
            ReplaceReason::Share => "all workers together exceed their memory limit",
        };
        // A site whose pages are all large has a worker replaced every second in busy hours.
        let is_long_ago = |last: Instant| last.elapsed() > LOG_INTERVAL;
        if self.warned_at.is_none_or(is_long_ago) {
            self.warned_at = Some(Instant::now());
            tracing::info!(
                site = self.settings.site,
                worker = worker.pid,
                holds_mib = worker.now >> 20,
                "replacing a worker of php-fpm: {why}"
            );
        }
        self.replace(master, worker.pid);
    }

    fn replace(&mut self, master: u32, pid: u32) {
        // The id may have been reused by now.
        if !self.meter.children(master).contains(&pid) {
            return;
        }
        let sent = match &self.line {
            Some((line, pool)) => line.replace(*pool, pid),
            None => match i32::try_from(pid).ok().and_then(Pid::from_raw) {
                Some(process) => {
                    rustix::process::kill_process(process, Signal::QUIT).map_err(Into::into)
                }
                None => return,
            },
        };
        // On failure the worker has just ended.
        if sent.is_ok() {
            self.leaving.insert(pid);
            count(&self.numbers.replaced);
        }
    }

    /// Whether to query the request counts. An idle pool is not queried, because that would keep its last workers from ending.
    fn may_query(&mut self, workers: &[Worker]) -> bool {
        let is_too_soon = |last: Instant| last.elapsed() < QUERY_INTERVAL;
        if workers.is_empty() || self.checked_at.is_some_and(is_too_soon) {
            return false;
        }
        let before = self.ticks;
        self.ticks = self.meter.ticks(workers);
        self.checked_at = Some(Instant::now());
        self.ticks > before + IDLE_TICKS || self.ticks < before
    }

    fn replace_worn(&mut self, master: u32, counts: &[(u32, u64)]) {
        let worn = counts
            .iter()
            .find(|(pid, requests)| is_worn(*pid, *requests) && !self.leaving.contains(pid));
        if let Some((pid, requests)) = worn {
            tracing::debug!(
                site = self.settings.site,
                worker = pid,
                requests,
                "a worker of php-fpm has reached its number of requests"
            );
            self.replace(master, *pid);
            // One at a time: the next one is searched at the next measurement, when the count of CPU time starts again.
            (self.checked_at, self.ticks) = (None, 0);
        }
    }
}

/// The interval between two measurements. Memory can run out within seconds.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);

/// The interval between two queries. A busy worker with plain WordPress serves about 300 requests in this time.
const QUERY_INTERVAL: Duration = Duration::from_secs(10);

/// The minimum interval between two log lines about large workers.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The CPU time of a query itself, in clock ticks of 10 ms.
const IDLE_TICKS: u64 = 2;
