//! The knee of a ramp: the highest rate that the target could process.

use serde::{Deserialize, Serialize};

use super::second::ReportedSecond;

/// The highest rate that the target could process: up to it no request failed, and 99 % took at most the limit, except in single
/// seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// The rate in requests per second; `None` if the target failed at the first rate.
    pub rate: Option<f64>,
    /// The second of the run, from 0, in which the target failed to keep up; `None`: it did not fail.
    pub broke_at: Option<usize>,
    /// The limit of the 99th percentile, in milliseconds.
    pub limit_ms: f64,
    /// The single seconds before that in which requests failed or took too long. Reports of earlier versions have none.
    #[serde(default)]
    pub excused: usize,
}

/// Finds the knee; `rates` are the first and the last rate of the ramp, which takes `over_s` seconds. A bad second is a knee only
/// if most of the next seconds are bad, too: a backup, a burst of the neighbor or a restart of a worker is not the limit.
pub fn find_knee(seconds: &[ReportedSecond], rates: [f64; 2], over_s: f64, limit_ms: f64) -> Knee {
    let is_bad = |second: &&ReportedSecond| second.is_bad(limit_ms);
    let breaks = |at: &usize| {
        let next = seconds.iter().skip(*at).take(SUSTAINED);
        let next = next.filter(|second| second.requests > 0);
        let (bad, all) = (next.clone().filter(is_bad).count(), next.count());
        seconds.get(*at).is_some_and(|second| is_bad(&second)) && bad * 2 > all
    };
    let broke_at = (0..seconds.len()).find(breaks);
    #[expect(clippy::cast_precision_loss, reason = "seconds of a run")]
    let rate_after = |second: usize| {
        let share = (second as f64 / over_s.max(1e-9)).min(1.0);
        rates[0] + (rates[1] - rates[0]) * share
    };
    let held = broke_at.unwrap_or(seconds.len());
    let excused = seconds.iter().take(held).filter(is_bad).count();
    Knee {
        rate: (held > 0).then(|| rate_after(held)),
        broke_at,
        limit_ms,
        excused,
    }
}

/// The number of seconds, from a bad one on, of which most have to be bad.
const SUSTAINED: usize = 3;

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
                Some(190.0),
                Some(1),
            ),
            // Every other second: the rate is not held.
            (
                vec![&good, &failed, &good, &slow, &good, &slow],
                Some(190.0),
                Some(1),
            ),
            (
                vec![&good, &good, &failed, &failed, &good],
                Some(280.0),
                Some(2),
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

    proptest::proptest! {
        /// A ramp of a minute that breaks at some second is found there, also if one second before it is bad.
        #[test]
        fn one_bad_second_does_not_move_the_knee(broke in 6_usize..60, bad in 0_usize..54, fails: bool) {
            let mut seconds: Vec<_> = (0..60).map(|at| second(if at < broke { 20.0 } else { 900.0 }, 0)).collect();
            let (rates, bad) = ([100.0, 1000.0], bad % (broke - 3));
            let clean = find_knee(&seconds, rates, 60.0, 500.0);
            proptest::prop_assert_eq!((clean.broke_at, clean.excused), (Some(broke), 0));
            seconds[bad] = if fails { second(20.0, 7) } else { second(2000.0, 0) };
            let knee = find_knee(&seconds, rates, 60.0, 500.0);
            proptest::prop_assert_eq!((knee.broke_at, knee.rate, knee.excused), (Some(broke), clean.rate, 1));
        }
    }
}
