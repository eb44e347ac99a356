//! How far the run is: a line for each measurement on stderr, with the time that is left by the pace so far.

use std::time::{Duration, Instant};

use super::{
    figure::{Figure, rounded},
    report::Section,
    stand::Match,
};

#[derive(Debug)]
pub(super) struct Progress {
    began: Instant,
    done: usize,
    all: usize,
}

impl Progress {
    pub(super) fn new(all: usize) -> Self {
        Self {
            began: Instant::now(),
            done: 0,
            all,
        }
    }

    /// Says who is measured now.
    pub(super) fn next(&mut self, one: &Match<'_>, round: u32, rounds: u32) {
        let left = left(self.began.elapsed(), self.done, self.all);
        self.done += 1;
        eprintln!(
            "[{} of {}{}] round {round} of {rounds}, {}: {}",
            self.done,
            self.all,
            left.map(|left| format!(", {} left", in_words(left)))
                .unwrap_or_default(),
            one.scenario.name,
            one.contender.title
        );
    }

    /// What came of a scenario so far.
    pub(super) fn got(section: &Section) {
        for row in &section.rows {
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

/// By the pace so far; `None` before there is one.
fn left(elapsed: Duration, done: usize, all: usize) -> Option<Duration> {
    let each = elapsed / u32::try_from(done).ok().filter(|done| *done > 0)?;
    Some(each * u32::try_from(all.saturating_sub(done)).ok()?)
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
    fn the_rest_takes_as_long_as_what_was() {
        let minute = Duration::from_secs(60);
        assert_eq!(left(minute, 0, 10), None);
        assert_eq!(left(minute, 6, 10), Some(Duration::from_secs(40)));
        assert_eq!(left(minute, 10, 10), Some(Duration::ZERO));
        assert_eq!(in_words(Duration::from_secs(40)), "about 40 s");
        assert_eq!(in_words(Duration::from_secs(100)), "about 2 min");
    }
}
