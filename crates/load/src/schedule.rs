//! The intended starts of requests in an open loop: at a constant rate, on a ramp, or as recorded.
//!
//! A start is calculated from the number of its request, so rounding errors do not accumulate, and never from the time of earlier
//! responses.

use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::{LoadError, timer::StartTimer};

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Closed loop: each connection sends the next request when it has received its response.
    Closed,
    /// Open loop: this number of requests per second, independent of responses. If all connections are busy, a request is sent
    /// late, and its latency counts from its intended start.
    Constant(f64),
    /// Open loop: the rate changes linearly, and then stays constant.
    Ramp {
        /// Requests per second at the start.
        from: f64,
        /// Requests per second at the end of the change.
        to: f64,
        /// The duration of the change.
        over: Duration,
    },
    /// Open loop: [`Requests::due`](crate::Requests::due) returns the start of each request.
    Recorded,
}

/// The intended starts in one run.
pub(crate) struct RateSchedule {
    rate: Option<Rates>,
    pub(crate) timer: StartTimer,
    /// The number of the next request, from 0. The worker that holds the lock waits for its start; the others queue.
    pub(crate) next: Mutex<u64>,
}

/// A rate that changes linearly, and then stays constant.
#[derive(Debug, Clone, Copy)]
struct Rates {
    from: f64,
    to: f64,
    over_s: f64,
}

impl RateSchedule {
    /// Creates a schedule; `None` for a closed loop. Call within the runtime.
    pub(crate) fn new(pace: Pace) -> Result<Option<Self>, LoadError> {
        let rate = match pace {
            Pace::Closed => return Ok(None),
            Pace::Recorded => None,
            Pace::Constant(rate) => Some(Rates {
                from: rate,
                to: rate,
                over_s: 0.0,
            }),
            Pace::Ramp { from, to, over } => Some(Rates {
                from,
                to,
                over_s: over.as_secs_f64(),
            }),
        };
        for rate in rate.iter().flat_map(|rates| [rates.from, rates.to]) {
            if !(rate > 0.0 && rate <= MAX_RATE) {
                return Err(LoadError::Rate(rate));
            }
        }
        Ok(Some(Self {
            rate,
            timer: StartTimer::new()?,
            next: Mutex::new(0),
        }))
    }

    /// The intended start of a request; `None`: there is no such request. `recorded` returns the start if there is no rate.
    pub(crate) fn start(
        &self,
        began: Instant,
        number: u64,
        recorded: impl FnOnce(u64) -> Option<Duration>,
    ) -> Option<Instant> {
        let after = match &self.rate {
            None => recorded(number)?,
            Some(rates) => Duration::try_from_secs_f64(rates.due_s(number)).unwrap_or(FAR),
        };
        Some(began.checked_add(after).unwrap_or_else(|| began + FAR))
    }
}

impl Rates {
    /// Seconds from the start of the run to the intended start of a request.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn due_s(self, number: u64) -> f64 {
        let number = number as f64;
        let on_ramp = f64::midpoint(self.from, self.to) * self.over_s;
        if number >= on_ramp {
            return self.over_s + (number - on_ramp) / self.to;
        }
        // At time t, from*t + slope*t*t/2 requests have started. This form of the solution is numerically stable for small slopes.
        let slope = (self.to - self.from) / self.over_s;
        let root = (self.from * self.from + 2.0 * slope * number)
            .max(0.0)
            .sqrt();
        2.0 * number / (self.from + root)
    }
}

/// The maximum rate in requests per second, which no single thread can reach.
const MAX_RATE: f64 = 1_000_000.0;
/// Later than the end of any run.
const FAR: Duration = Duration::from_secs(1 << 32);

#[cfg(test)]
mod tests {
    use super::*;

    fn due(from: f64, to: f64, over_s: f64, number: u64) -> f64 {
        Rates { from, to, over_s }.due_s(number)
    }

    #[test]
    fn starts_follow_the_rate() {
        for (from, to, over_s, number, wanted) in [
            (100.0, 100.0, 0.0, 250, 2.5),
            (100.0, 100.0, 10.0, 250, 2.5),
            // From 0 to 100 within 10 s: 500 requests, of which the first quarter takes half of the time.
            (1e-9, 100.0, 10.0, 125, 5.0),
            (1e-9, 100.0, 10.0, 500, 10.0),
            (1e-9, 100.0, 10.0, 600, 11.0),
            // From 100 to 0.
            (100.0, 1e-9, 10.0, 375, 5.0),
        ] {
            let due = due(from, to, over_s, number);
            assert!((due - wanted).abs() < 1e-3, "{from} {to} {number}: {due}");
        }
    }

    #[test]
    fn starts_never_go_back() {
        for (from, to) in [(1.0, 1000.0), (1000.0, 1.0), (50.0, 50.0)] {
            let starts: Vec<f64> = (0..20_000).map(|n| due(from, to, 20.0, n)).collect();
            assert!(starts.is_sorted(), "{from} {to}");
        }
    }
}
