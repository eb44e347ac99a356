//! How many requests an upstream is given at once: what it can do, below what it is allowed.
//!
//! More requests than an upstream can work at make each of them slower and none of them sooner: they wait in PHP-FPM's own
//! line, for a lock of the database, for memory that is on the disk by then. The mark of it is that latency grows and
//! throughput does not (Kleinrock's knee, 1979). So:
//!
//! - *Trigger*: over a window of answers in which nearly always all places were taken, latency was above twice what it is when
//!   there is little to do: the gradient of Netflix's concurrency-limits (2018), of TCP Vegas before it.
//! - *Proof*: the limit then goes down by a third, as an experiment. If throughput keeps up, the places were useless, and it
//!   goes on; if throughput falls by a quarter of what the limit has fallen since the first of these steps, or more, the places
//!   are worth having: the limit goes back by one step, and the latency there is the usual one from now on. Growing, by half,
//!   is the same experiment the other way round (hill climbing on throughput, Hellerstein, Morrison and Eilebrecht, 2009, for
//!   .NET's thread pool); it stands also where latency stays as usual.
//!
//! Latency alone, as in Vegas and Gradient2, takes a run of slow exports for congestion and starves a pool that waits for
//! another server; throughput alone wanders about with noise. Here nothing happens at all while latency is as usual, and what
//! happens is undone unless it helps.
//!
//! After an outage the limit begins small and grows with each answer, as TCP's slow start does. Pure: `now` is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// The limit of one upstream.
#[derive(Debug)]
pub(super) struct Adaptive {
    /// Where it is below what is allowed.
    lowered: Option<usize>,
    most: usize,
    is_slow_start: bool,
    window: SampleWindow,
    /// Seconds that an answer usually takes when there is little to do.
    usual_s: Option<f64>,
    /// The window before, where the limit has changed since.
    before: Option<JudgedWindow>,
    /// The window before the first of several steps downward: small losses do not add up unseen.
    origin: Option<JudgedWindow>,
    /// Windows for which the limit stays as it is.
    rest: u32,
    /// What it rests next.
    next_rest: u32,
    responses_per_s: Option<f64>,
}

/// Answers since the last judgement.
#[derive(Debug)]
struct SampleWindow {
    began: Option<Instant>,
    answers: u32,
    latency_s: f64,
    /// Those of them that came while all places were taken.
    full: u32,
}

/// A full window that was judged.
#[derive(Clone, Copy, Debug)]
struct JudgedWindow {
    limit: usize,
    answers_per_s: f64,
    latency_s: f64,
}

impl Adaptive {
    /// `most`: what is allowed to begin with.
    pub(super) fn new(most: usize) -> Self {
        Self {
            lowered: None,
            most: most.max(1),
            is_slow_start: false,
            window: SampleWindow::new(),
            usual_s: None,
            before: None,
            origin: None,
            rest: 0,
            next_rest: SHORTEST_REST,
            responses_per_s: None,
        }
    }

    /// Places now.
    pub(super) fn limit(&self) -> usize {
        self.lowered.map_or(self.most, |limit| limit.min(self.most))
    }

    /// Takes note of what is allowed now.
    pub(super) fn allow(&mut self, most: usize) {
        let most = most.max(1);
        if most != self.most {
            self.most = most;
            self.before = None;
        }
    }

    /// Answers a second, as of the last window.
    pub(super) fn responses_per_s(&self) -> Option<f64> {
        self.responses_per_s
    }

    /// An outage has ended: begins small.
    pub(super) fn restart(&mut self) {
        self.set(FLOOR);
        self.is_slow_start = self.lowered.is_some();
        self.window = SampleWindow::new();
        self.before = None;
        self.rest = 0;
    }

    /// Notes an answer. `is_full`: all places were taken while it was composed.
    pub(super) fn record(&mut self, latency: Duration, is_full: bool, now: Instant) {
        let limit = self.limit();
        if self.is_slow_start {
            self.set(limit + 1);
            self.is_slow_start = self.lowered.is_some();
        }
        let Some(began) = self.window.began else {
            // The first answer only begins a window: when its own work began is not known to be in it.
            self.window.began = Some(now);
            return;
        };
        self.window.answers += 1;
        self.window.latency_s += latency.as_secs_f64();
        self.window.full += u32::from(is_full);
        let lasted = now.saturating_duration_since(began);
        let answers = usize::try_from(self.window.answers).unwrap_or(usize::MAX);
        let enough = answers >= (3 * limit).max(FEWEST);
        if enough && lasted >= SHORTEST {
            let answers = f64::from(self.window.answers);
            let judged = JudgedWindow {
                limit,
                answers_per_s: answers / lasted.as_secs_f64(),
                latency_s: self.window.latency_s / answers,
            };
            let is_full = f64::from(self.window.full) >= answers * FULL;
            self.window = SampleWindow::new();
            self.window.began = Some(now);
            self.judge(judged, is_full);
        }
    }

    fn judge(&mut self, now: JudgedWindow, is_full: bool) {
        self.responses_per_s = Some(now.answers_per_s);
        let usual = self.usual(now.latency_s, is_full);
        self.usual_s = Some(usual);
        let is_crowded = now.latency_s > usual * TOLERANCE;
        if is_crowded {
            self.is_slow_start = false;
        }
        if self.is_slow_start {
            return;
        }
        let before = self.before.take();
        if !is_full {
            if !is_crowded {
                self.raise(now.limit);
            }
            return;
        }
        match before.filter(|before| before.limit != now.limit) {
            Some(before) if now.limit > before.limit => {
                // With the usual latency they do no harm, whatever they bring.
                if is_crowded && elasticity(before, now) < PAYS {
                    self.go_back(before.limit);
                } else {
                    self.next_rest = SHORTEST_REST;
                    self.raise(now.limit);
                    self.before = Some(now);
                }
            }
            Some(before) => {
                if elasticity(self.origin.unwrap_or(before), now) >= PAYS {
                    // The work is slower, not crowded: places are what it needs.
                    self.usual_s = Some(before.latency_s.max(usual));
                    self.go_back(before.limit);
                } else if is_crowded {
                    self.lower(now);
                } else {
                    self.rest = SHORTEST_REST;
                }
            }
            None if self.rest > 0 => self.rest -= 1,
            None if is_crowded => {
                self.origin = Some(now);
                self.lower(now);
            }
            None if now.limit < self.most => {
                self.raise(now.limit);
                self.before = Some(now);
            }
            None => {}
        }
    }

    /// The usual latency with that of one more window. It becomes less by a part of the difference, since the least of many
    /// windows is an accident; and more only while places are free, a little at a time: with all of them taken it is what it
    /// is compared with.
    fn usual(&self, latency_s: f64, is_full: bool) -> f64 {
        match self.usual_s {
            None => latency_s,
            Some(usual) if latency_s <= usual => usual + (latency_s - usual) * SMOOTHING,
            Some(usual) if is_full => usual,
            Some(usual) => latency_s.min(usual * DRIFT),
        }
    }

    fn lower(&mut self, now: JudgedWindow) {
        self.set((now.limit * 2 / 3).max(FLOOR).max(self.most / LEAST_SHARE));
        self.before = Some(now);
    }

    fn raise(&mut self, limit: usize) {
        self.set((limit * 3 / 2).max(limit + 1));
    }

    fn go_back(&mut self, limit: usize) {
        self.set(limit);
        self.rest = self.next_rest;
        self.next_rest = (self.next_rest * 2).min(LONGEST_REST);
    }

    fn set(&mut self, limit: usize) {
        self.lowered = Some(limit.max(1)).filter(|limit| *limit < self.most);
    }
}

impl SampleWindow {
    fn new() -> Self {
        Self {
            began: None,
            answers: 0,
            latency_s: 0.0,
            full: 0,
        }
    }
}

/// By how much of the change of the limit the throughput changed with it: 1, all of it; 0, not at all.
fn elasticity(before: JudgedWindow, now: JudgedWindow) -> f64 {
    let relative = |before: f64, now: f64| now / before.max(f64::EPSILON) - 1.0;
    let limits = relative(places(before.limit), places(now.limit));
    relative(before.answers_per_s, now.answers_per_s) / limits
}

fn places(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

/// The least, where more are allowed: with one place alone nobody could be let in beside a request that hangs.
const FLOOR: usize = 2;

/// The part of the places that crowding alone never takes away: where other programs slow the machine down for a moment, the
/// way back takes seconds.
const LEAST_SHARE: usize = 4;

/// Answers that say something together, however few places there are.
const FEWEST: usize = 20;

/// Windows are not shorter, so that a burst of pages which PHP had ready is not the measure of it.
const SHORTEST: Duration = Duration::from_millis(250);

/// The part of a window's answers that make it a full one: places are free for a moment whenever one is handed on.
const FULL: f64 = 0.8;

/// Times the usual latency that are nothing unusual: pages differ by as much.
const TOLERANCE: f64 = 2.0;

/// What a change of the limit has to bring in throughput to be worth it.
const PAYS: f64 = 0.25;

/// What one window has to say about the usual latency, where it is less.
const SMOOTHING: f64 = 0.2;

/// By how much the usual latency may grow with a window: twofold in 35.
const DRIFT: f64 = 1.02;

/// Windows between two experiments of which the first came to nothing; twice as many with each more, so that an upstream
/// which collapses above its limit is seldom led there.
const SHORTEST_REST: u32 = 4;
const LONGEST_REST: u32 = 16;

#[cfg(test)]
mod tests;
