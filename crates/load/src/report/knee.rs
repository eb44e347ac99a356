//! The knee of a ramp: the highest rate that the target could process.

use serde::{Deserialize, Serialize};

use super::second::ReportedSecond;

/// The highest rate that the target could process: up to it no request failed, and 99 % took at most the limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// The rate in requests per second; `None` if the target failed at the first rate.
    pub rate: Option<f64>,
    /// The second of the run, from 0, in which the target failed to keep up; `None`: it did not fail.
    pub broke_at: Option<usize>,
    /// The limit of the 99th percentile, in milliseconds.
    pub limit_ms: f64,
}

/// Finds the knee; `rates` are the first and the last rate of the ramp, which takes `over_s` seconds. A single second above the
/// limit is not a knee unless requests failed, or the run ends with it.
pub fn find_knee(seconds: &[ReportedSecond], rates: [f64; 2], over_s: f64, limit_ms: f64) -> Knee {
    let over_limit = |second: &ReportedSecond| second.p99_ms > limit_ms;
    let breaks = |at: usize| {
        let next = seconds.get(at + 1).filter(|next| next.requests > 0);
        seconds.get(at).is_some_and(|second| {
            second.failures > 0 || (over_limit(second) && next.is_none_or(over_limit))
        })
    };
    let broke_at = (0..seconds.len()).find(|at| breaks(*at));
    #[expect(clippy::cast_precision_loss, reason = "seconds of a run")]
    let rate_after = |second: usize| {
        let share = (second as f64 / over_s.max(1e-9)).min(1.0);
        rates[0] + (rates[1] - rates[0]) * share
    };
    let held = broke_at.unwrap_or(seconds.len());
    Knee {
        rate: (held > 0).then(|| rate_after(held)),
        broke_at,
        limit_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(p99_ms: f64, failures: u64) -> ReportedSecond {
        ReportedSecond {
            requests: 100,
            failures,
            p99_ms,
            ..ReportedSecond::default()
        }
    }

    #[test]
    fn the_knee_is_where_the_limit_is_first_exceeded_for_good() {
        let (good, slow) = (second(20.0, 0), second(900.0, 0));
        let failed = second(20.0, 1);
        let empty = ReportedSecond::default();
        for (seconds, rate, broke_at) in [
            (vec![&good; 10], Some(1000.0), None),
            (
                vec![&good, &good, &slow, &slow, &slow],
                Some(280.0),
                Some(2),
            ),
            (
                vec![
                    &good, &slow, &good, &good, &good, &good, &good, &good, &good, &good,
                ],
                Some(1000.0),
                None,
            ),
            (
                vec![&good, &slow, &good, &failed, &good],
                Some(370.0),
                Some(3),
            ),
            (vec![&good, &slow], Some(190.0), Some(1)),
            (vec![&good, &slow, &empty], Some(190.0), Some(1)),
            (vec![&slow, &slow], None, Some(0)),
            (vec![], None, None),
        ] {
            let seconds: Vec<ReportedSecond> = seconds.into_iter().cloned().collect();
            let knee = find_knee(&seconds, [100.0, 1000.0], 10.0, 500.0);
            assert_eq!((knee.rate, knee.broke_at), (rate, broke_at), "{seconds:?}");
        }
    }
}
