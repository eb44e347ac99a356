//! The progress of a running test: one line that is updated, or a line every few seconds if stderr is not a terminal.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use galley_load::LoadOutcome;
use indicatif::{ProgressBar, ProgressStyle};

use crate::outcome::talk;

/// The progress display of one test.
pub(super) struct LiveView {
    /// The updated line; `None` if stderr is not a terminal.
    bar: Option<ProgressBar>,
    last: Duration,
}

impl LiveView {
    pub(super) fn new() -> Self {
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {msg}");
            ProgressBar::new_spinner()
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        });
        Self {
            bar,
            last: Duration::ZERO,
        }
    }

    /// Shows the figures so far.
    pub(super) fn show(&mut self, outcome: &LoadOutcome, elapsed: Duration) {
        let every = if self.bar.is_some() { REDRAW } else { LINE };
        if elapsed.saturating_sub(self.last) < every {
            return;
        }
        self.last = elapsed;
        let line = line(outcome, elapsed);
        match &self.bar {
            Some(bar) => {
                bar.set_message(line);
                bar.tick();
            }
            None => talk(&format!("load: {line}")),
        }
    }
}

impl Drop for LiveView {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The figures of the last complete second.
fn line(outcome: &LoadOutcome, elapsed: Duration) -> String {
    let whole = outcome
        .slices
        .len()
        .checked_sub(2)
        .and_then(|at| outcome.slices.get(at));
    let lately = whole.map_or_else(String::new, |slice| {
        format!(
            ", {} requests/s, p50 {:.1} ms, p99 {:.1} ms",
            slice.requests,
            slice.quantile_ms(0.5),
            slice.quantile_ms(0.99)
        )
    });
    let failures = outcome.unexpected_status + outcome.broken;
    format!(
        "{} s, {} responses, {failures} failures{lately}",
        elapsed.as_secs(),
        outcome.responses
    )
}

const REDRAW: Duration = Duration::from_millis(250);
const LINE: Duration = Duration::from_secs(5);
