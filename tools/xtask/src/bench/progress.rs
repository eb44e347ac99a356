//! Prints the progress of a run to stderr: a line for each measurement, with an estimate of the remaining time.

use std::time::{Duration, Instant};

use super::{
    context::Measurement,
    figure::{Figure, rounded},
    report::ScenarioReport,
};

#[derive(Debug)]
pub(super) struct Progress {
    started: Instant,
    done: usize,
    total: usize,
}

impl Progress {
    pub(super) fn new(total: usize) -> Self {
        Self {
            started: Instant::now(),
            done: 0,
            total,
        }
    }

    /// Announces the next measurement.
    pub(super) fn next(&mut self, measurement: &Measurement<'_>, round: u32, rounds: u32) {
        let remaining = remaining(self.started.elapsed(), self.done, self.total);
        self.done += 1;
        eprintln!(
            "[{} of {}{}] round {round} of {rounds}, {}: {}",
            self.done,
            self.total,
            remaining
                .map(|time| format!(", {} left", in_words(time)))
                .unwrap_or_default(),
            measurement.scenario.name,
            measurement.contender.title
        );
    }

    /// Prints the results of a scenario so far.
    pub(super) fn print_results(scenario: &ScenarioReport) {
        for row in &scenario.rows {
            let figure = |figure: Figure| {
                let spread = row.median.get(&figure);
                spread.map_or("-".to_owned(), |spread| rounded(spread.median))
            };
            eprintln!(
                "    {}: {} requests/s, {} us CPU each, p99 {} us, {} failed",
                row.title,
                figure(Figure::PerSecond),
                figure(Figure::CpuUs),
                figure(Figure::P99Us),
                row.failed()
            );
        }
    }
}

/// The remaining time, if the rest takes as long per measurement; `None` before the first one is done.
fn remaining(elapsed: Duration, done: usize, total: usize) -> Option<Duration> {
    let each = elapsed / u32::try_from(done).ok().filter(|done| *done > 0)?;
    Some(each * u32::try_from(total.saturating_sub(done)).ok()?)
}

fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..90 => format!("about {seconds} s"),
        seconds => format!("about {} min", (seconds + 30) / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_follows_from_the_elapsed_time() {
        let minute = Duration::from_secs(60);
        assert_eq!(remaining(minute, 0, 10), None);
        assert_eq!(remaining(minute, 6, 10), Some(Duration::from_secs(40)));
        assert_eq!(remaining(minute, 10, 10), Some(Duration::ZERO));
        assert_eq!(in_words(Duration::from_secs(40)), "about 40 s");
        assert_eq!(in_words(Duration::from_secs(100)), "about 2 min");
    }
}
