//! The adaptive concurrency limit: how many concurrent requests an upstream can process, up to the configured maximum.
//!
//! With more requests than an upstream can process, each gets slower and none gets faster: they wait in the backlog of PHP-FPM, for
//! a database lock, or for swapped-out memory. The symptom is that latency grows and throughput does not (Kleinrock's knee, 1979).
//! Therefore:
//!
//! - *Trigger*: over a window of responses during which nearly all slots were always taken, latency was above twice the
//!   uncongested baseline. This is the gradient of Netflix's concurrency-limits (2018), and of TCP Vegas before it.
//! - *Verification*: the limit is then lowered by a third, as an experiment. If throughput stays the same, the slots were useless
//!   and lowering continues. If throughput falls by a quarter of the relative decrease of the limit since the first step, or more,
//!   the slots were useful: the limit returns by one step, and the latency there becomes the baseline. Raising the limit, by half,
//!   is the same experiment in the other direction (hill climbing on throughput, Hellerstein, Morrison and Eilebrecht, 2009, for
//!   .NET's thread pool); it also stays if latency remains at the baseline.
//!
//! Latency alone, as in Vegas and Gradient2, mistakes a series of slow exports for congestion and starves a pool that waits for
//! another server. Throughput alone follows noise. Here the limit does not change while latency is at the baseline, and each change
//! that does not help is reverted.
//!
//! After an outage the limit starts low and grows with each response, like TCP's slow start. Pure: `now` is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// The limit of one upstream.
#[derive(Debug)]
pub(super) struct AdaptiveLimit {
    /// The limit, if it is below the maximum.
    lowered: Option<usize>,
    maximum: usize,
    is_slow_start: bool,
    window: SampleWindow,
    /// Uncongested latency of a response, in seconds.
    baseline_s: Option<f64>,
    /// The previous window, if the limit has changed since.
    previous: Option<CompletedWindow>,
    /// The window before the first of several decreases, so that small losses do not add up unnoticed.
    origin: Option<CompletedWindow>,
    /// Windows for which the limit stays unchanged.
    cooldown: u32,
    /// The next cooldown.
    next_cooldown: u32,
    responses_per_s: Option<f64>,
}

/// The responses since the last evaluation.
#[derive(Debug)]
struct SampleWindow {
    started_at: Option<Instant>,
    responses: u32,
    latency_s: f64,
    /// Responses that arrived while all slots were taken.
    full: u32,
}

/// A complete window.
#[derive(Clone, Copy, Debug)]
struct CompletedWindow {
    limit: usize,
    responses_per_s: f64,
    latency_s: f64,
}

impl AdaptiveLimit {
    /// `maximum`: the initial maximum.
    pub(super) fn new(maximum: usize) -> Self {
        Self {
            lowered: None,
            maximum: maximum.max(1),
            is_slow_start: false,
            window: SampleWindow::new(),
            baseline_s: None,
            previous: None,
            origin: None,
            cooldown: 0,
            next_cooldown: MIN_COOLDOWN,
            responses_per_s: None,
        }
    }

    /// The current limit.
    pub(super) fn limit(&self) -> usize {
        self.lowered
            .map_or(self.maximum, |limit| limit.min(self.maximum))
    }

    /// Sets the maximum.
    pub(super) fn set_maximum(&mut self, maximum: usize) {
        let maximum = maximum.max(1);
        if maximum != self.maximum {
            self.maximum = maximum;
            self.previous = None;
        }
    }

    /// Responses per second in the last window.
    pub(super) fn responses_per_s(&self) -> Option<f64> {
        self.responses_per_s
    }

    /// Starts with a low limit after an outage.
    pub(super) fn restart(&mut self) {
        self.set(MIN_LIMIT);
        self.is_slow_start = self.lowered.is_some();
        self.window = SampleWindow::new();
        self.previous = None;
        self.cooldown = 0;
    }

    /// Records a response. `is_full`: all slots were taken while it was generated.
    pub(super) fn record(&mut self, latency: Duration, is_full: bool, now: Instant) {
        let limit = self.limit();
        if self.is_slow_start {
            self.set(limit + 1);
            self.is_slow_start = self.lowered.is_some();
        }
        let Some(started_at) = self.window.started_at else {
            // The first response only starts a window: its own work may have begun long before.
            self.window.started_at = Some(now);
            return;
        };
        self.window.responses += 1;
        self.window.latency_s += latency.as_secs_f64();
        self.window.full += u32::from(is_full);
        let duration = now.saturating_duration_since(started_at);
        let responses = usize::try_from(self.window.responses).unwrap_or(usize::MAX);
        let is_complete = responses >= (3 * limit).max(MIN_RESPONSES);
        if is_complete && duration >= MIN_WINDOW {
            let responses = f64::from(self.window.responses);
            let window = CompletedWindow {
                limit,
                responses_per_s: responses / duration.as_secs_f64(),
                latency_s: self.window.latency_s / responses,
            };
            let is_full = f64::from(self.window.full) >= responses * FULL_SHARE;
            self.window = SampleWindow::new();
            self.window.started_at = Some(now);
            self.judge(window, is_full);
        }
    }

    fn judge(&mut self, now: CompletedWindow, is_full: bool) {
        self.responses_per_s = Some(now.responses_per_s);
        let baseline = self.baseline(now.latency_s, is_full);
        self.baseline_s = Some(baseline);
        let is_congested = now.latency_s > baseline * TOLERANCE;
        if is_congested {
            self.is_slow_start = false;
        }
        if self.is_slow_start {
            return;
        }
        let previous = self.previous.take();
        if !is_full {
            if !is_congested {
                self.raise(now.limit);
            }
            return;
        }
        match previous.filter(|previous| previous.limit != now.limit) {
            Some(previous) if now.limit > previous.limit => {
                // At the baseline latency, added slots are harmless even if they gain nothing.
                if is_congested && elasticity(previous, now) < MIN_ELASTICITY {
                    self.revert(previous.limit);
                } else {
                    self.next_cooldown = MIN_COOLDOWN;
                    self.raise(now.limit);
                    self.previous = Some(now);
                }
            }
            Some(previous) => {
                if elasticity(self.origin.unwrap_or(previous), now) >= MIN_ELASTICITY {
                    // The requests are slower, not congested: they need the slots.
                    self.baseline_s = Some(previous.latency_s.max(baseline));
                    self.revert(previous.limit);
                } else if is_congested {
                    self.lower(now);
                } else {
                    self.cooldown = MIN_COOLDOWN;
                }
            }
            None if self.cooldown > 0 => self.cooldown -= 1,
            None if is_congested => {
                self.origin = Some(now);
                self.lower(now);
            }
            None if now.limit < self.maximum => {
                self.raise(now.limit);
                self.previous = Some(now);
            }
            None => {}
        }
    }

    /// The baseline, updated with the latency of one more window. It follows a decrease partly, because the minimum of many
    /// windows is an outlier. It follows an increase slowly, and only while slots are free, because with all slots in use, the
    /// latency is compared with the baseline.
    fn baseline(&self, latency_s: f64, is_full: bool) -> f64 {
        match self.baseline_s {
            None => latency_s,
            Some(baseline) if latency_s <= baseline => {
                baseline + (latency_s - baseline) * SMOOTHING
            }
            Some(baseline) if is_full => baseline,
            Some(baseline) => latency_s.min(baseline * DRIFT),
        }
    }

    fn lower(&mut self, now: CompletedWindow) {
        self.set(
            (now.limit * 2 / 3)
                .max(MIN_LIMIT)
                .max(self.maximum / MAX_DECREASE),
        );
        self.previous = Some(now);
    }

    fn raise(&mut self, limit: usize) {
        self.set((limit * 3 / 2).max(limit + 1));
    }

    fn revert(&mut self, limit: usize) {
        self.set(limit);
        self.cooldown = self.next_cooldown;
        self.next_cooldown = (self.next_cooldown * 2).min(MAX_COOLDOWN);
    }

    fn set(&mut self, limit: usize) {
        self.lowered = Some(limit.max(1)).filter(|limit| *limit < self.maximum);
    }
}

impl SampleWindow {
    fn new() -> Self {
        Self {
            started_at: None,
            responses: 0,
            latency_s: 0.0,
            full: 0,
        }
    }
}

/// Relative change of throughput per relative change of the limit: 1, proportional; 0, none.
fn elasticity(previous: CompletedWindow, now: CompletedWindow) -> f64 {
    let relative = |previous: f64, now: f64| now / previous.max(f64::EPSILON) - 1.0;
    let limits = relative(slots(previous.limit), slots(now.limit));
    relative(previous.responses_per_s, now.responses_per_s) / limits
}

fn slots(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

/// The minimum, if the maximum permits it: with one slot, a request that hangs would block all others.
const MIN_LIMIT: usize = 2;

/// Congestion never lowers the limit below this part of the maximum: after a short slowdown of the machine by other programs,
/// raising it again takes seconds.
const MAX_DECREASE: usize = 4;

/// The minimum number of responses in a window, for any number of slots.
const MIN_RESPONSES: usize = 20;

/// Minimum duration of a window, so that a burst of fast pages does not determine it.
const MIN_WINDOW: Duration = Duration::from_millis(250);

/// The share of a window's responses with all slots in use that makes it full: slots are free briefly whenever one is handed over.
const FULL_SHARE: f64 = 0.8;

/// Latency up to this multiple of the baseline is normal, because pages differ by as much.
const TOLERANCE: f64 = 2.0;

/// Elasticity that makes a change of the limit worthwhile.
const MIN_ELASTICITY: f64 = 0.25;

/// Weight of one window with a lower latency in the baseline.
const SMOOTHING: f64 = 0.2;

/// Maximum growth of the baseline per window: twofold in 35.
const DRIFT: f64 = 1.02;

/// The number of windows between two experiments after a failed one. It doubles with each further failure, so that an upstream
/// that collapses above its limit is rarely overloaded.
const MIN_COOLDOWN: u32 = 4;
const MAX_COOLDOWN: u32 = 16;

#[cfg(test)]
mod tests;
