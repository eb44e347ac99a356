//! Estimates how much memory a worker of this site needs, and decides which worker must be replaced. Pure decisions on the
//! meter's values.
//!
//! The usual size is the upper quartile of the peaks of the last workers, running ones and some that have ended. It rises
//! immediately, because memory can run out immediately, and falls slowly. For a single request that needs far more memory
//! than all others, such as resizing a photograph, extra memory is reserved once, not for every worker.

use std::time::Duration;

use super::meter::Worker;

/// Sizes of workers in bytes: high-water marks that fall slowly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WorkerSizeEstimate {
    /// The size of most workers.
    pub(super) usual: u64,
    /// The size of the largest worker.
    pub(super) largest: u64,
    /// Process ids and peaks, the oldest first. At most [`REMEMBERED`], or more if there are more workers.
    last: Vec<(u32, u64)>,
}

impl WorkerSizeEstimate {
    /// Starts with an assumed size.
    pub(super) fn new(assumed: u64) -> Self {
        Self {
            usual: assumed,
            largest: assumed,
            last: Vec::new(),
        }
    }

    /// Adds a measurement, `elapsed` after the previous one. Without workers nothing changes.
    pub(super) fn observe(&mut self, workers: &[Worker], elapsed: Duration) {
        let Some(largest) = workers.iter().map(|worker| worker.peak).max() else {
            return;
        };
        self.remember(workers);
        let mut peaks: Vec<u64> = self.last.iter().map(|(_, peak)| *peak).collect();
        peaks.sort_unstable();
        let quartile = (peaks.len() * 3).div_ceil(4).saturating_sub(1);
        let usual = peaks.get(quartile).copied().unwrap_or(largest);
        self.usual = follow(self.usual, usual.max(MIN_SIZE), elapsed);
        self.largest = follow(self.largest, largest, elapsed).max(self.usual);
    }

    fn remember(&mut self, workers: &[Worker]) {
        for worker in workers {
            match self.last.iter_mut().find(|(pid, _)| *pid == worker.pid) {
                Some((_, peak)) => *peak = worker.peak,
                None => self.last.push((worker.pid, worker.peak)),
            }
        }
        let lives = |pid: u32| workers.iter().any(|worker| worker.pid == pid);
        let mut surplus = self.last.len().saturating_sub(REMEMBERED);
        self.last.retain(|(pid, _)| {
            let stays = surplus == 0 || lives(*pid);
            surplus -= usize::from(!stays);
            stays
        });
    }
}

/// The new high-water mark: rises immediately, and falls by the fraction `elapsed` / [`SINKING`] of the difference.
fn follow(mark: u64, seen: u64, elapsed: Duration) -> u64 {
    if seen >= mark {
        return seen;
    }
    let part = (elapsed.as_secs_f64() / SINKING.as_secs_f64()).min(1.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a part of a difference of sizes: not negative, and no larger than it"
    )]
    let step = ((mark - seen) as f64 * part) as u64;
    mark - step
}

/// The reason why a worker is replaced early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplaceReason {
    /// The worker uses more memory than a worker may.
    Grown,
    /// All workers together use more than their share, and this one the most.
    Share,
}

/// The worker to replace, if any: one at a time, so that the others continue to serve. `leaving`: workers that have the
/// signal to end and finish their request; their memory counts as free.
pub(super) fn surplus(
    workers: &[Worker],
    leaving: impl Fn(u32) -> bool,
    share: u64,
    grown: u64,
) -> Option<(Worker, ReplaceReason)> {
    let staying = || workers.iter().filter(|worker| !leaving(worker.pid));
    let largest = *staying().max_by_key(|worker| worker.now)?;
    if largest.now > grown {
        return Some((largest, ReplaceReason::Grown));
    }
    // The replacement of a single worker that is larger than the share would soon be as large.
    let all: u64 = staying().map(|worker| worker.now).sum();
    (all > share && staying().nth(1).is_some()).then_some((largest, ReplaceReason::Share))
}

/// The minimum estimate for a worker: PHP itself, before a script is read.
const MIN_SIZE: u64 = 8 << 20;

/// The number of workers whose peaks count, including ended ones: the last worker of an idle pool may be untypical.
const REMEMBERED: usize = 16;

/// The time in which a mark falls to the measured value.
const SINKING: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn workers(peaks: &[u64]) -> Vec<Worker> {
        (1..)
            .zip(peaks)
            .map(|(pid, mib)| Worker {
                pid,
                now: mib * MIB,
                peak: mib * MIB,
            })
            .collect()
    }

    #[test]
    fn estimates_rise_immediately_and_fall_slowly() {
        let second = Duration::from_secs(1);
        for (peaks, usual, largest) in [
            (&[][..], 24, 24),
            (&[40], 40, 40),
            (&[40, 30], 40, 40),
            (&[30, 30, 300], 300, 300),
            (&[30, 30, 30, 300], 30, 300),
            (&[30, 31, 32, 33, 34, 35, 36, 37], 35, 37),
        ] {
            let mut estimate = WorkerSizeEstimate::new(24 * MIB);
            estimate.observe(&workers(peaks), second);
            assert_eq!(
                (estimate.usual / MIB, estimate.largest / MIB),
                (usual, largest),
                "{peaks:?}"
            );
        }
        let mut estimate = WorkerSizeEstimate::new(100 * MIB);
        estimate.observe(&workers(&[40, 40]), SINKING / 2);
        assert_eq!((estimate.usual / MIB, estimate.largest / MIB), (70, 70));
        for _ in 0..200 {
            estimate.observe(&workers(&[1, 1]), SINKING / 10);
        }
        assert_eq!(estimate.usual / MIB, 8, "PHP takes something even then");
    }

    #[test]
    fn the_last_worker_of_an_idle_pool_does_not_determine_the_estimate() {
        let mut estimate = WorkerSizeEstimate::new(24 * MIB);
        let mut all = workers(&[30, 30, 30, 30, 30, 300]);
        estimate.observe(&all, Duration::ZERO);
        estimate.observe(&all.split_off(5), Duration::ZERO);
        assert_eq!((estimate.usual / MIB, estimate.largest / MIB), (30, 300));
        // Old values are forgotten after enough new ones.
        for pid in 100..200 {
            let worker = Worker {
                pid,
                now: MIB,
                peak: 50 * MIB,
            };
            estimate.observe(&[worker], Duration::ZERO);
        }
        assert_eq!(
            (estimate.usual / MIB, estimate.last.len()),
            (50, REMEMBERED)
        );
        estimate.observe(&workers(&[60; 40]), Duration::ZERO);
        assert_eq!(estimate.last.len(), 40, "all that live count");
    }

    #[test]
    fn only_the_largest_worker_is_replaced_at_a_time() {
        for (held, leaving, share, grown, expected) in [
            (&[10, 20][..], 0, 100, 64, None),
            (&[10, 70, 80], 0, 1000, 64, Some((3, ReplaceReason::Grown))),
            (&[10, 70, 80], 3, 1000, 64, Some((2, ReplaceReason::Grown))),
            (&[40, 50, 30], 0, 100, 64, Some((2, ReplaceReason::Share))),
            (&[40, 50, 30], 2, 100, 64, None),
            (&[60], 0, 50, 64, None),
            (&[], 0, 0, 0, None),
        ] {
            let chosen = surplus(
                &workers(held),
                |pid| pid == leaving,
                share * MIB,
                grown * MIB,
            );
            assert_eq!(
                chosen.map(|(worker, why)| (worker.pid, why)),
                expected,
                "{held:?}, {leaving} leaves"
            );
        }
    }
}
