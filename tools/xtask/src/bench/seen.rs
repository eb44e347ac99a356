//! What the client saw of a contender: whether its responses were right, and the figures of them.

use std::{collections::HashSet, time::Duration};

use galley_load::LoadOutcome;

use super::{
    check,
    figure::{Figure, Figures},
    question::Question,
    stand::Stand,
};
use crate::demo::CommandError;

/// Looks at the bodies that were kept, unless they were looked at before; returns how many responses were wrong.
///
/// # Errors
/// When a body is not the right page: then the measurement says nothing.
pub(super) fn verified(
    stand: &Stand<'_>,
    question: &Question<'_>,
    seen: &LoadOutcome,
    known: &mut HashSet<u64>,
) -> Result<u64, CommandError> {
    for sample in &seen.samples {
        if known.insert(sample.hash) {
            let expected = question.expected(sample.page)?;
            check::body(sample.coding, &sample.body, &expected, stand.dir)
                .map_err(|complaint| format!("a wrong answer among many: {complaint}"))?;
        }
    }
    let mut wrong = seen.unexpected_status + seen.broken;
    if question.count() == 1 {
        let has_sample = |length: u64| {
            let mut samples = seen.samples.iter();
            samples.any(|sample| sample.body.len() as u64 == length)
        };
        let lengths = seen.lengths.iter();
        let unknown = lengths.filter(|(length, _)| !has_sample(**length));
        wrong += seen.other_lengths + unknown.map(|(_, count)| count).sum::<u64>();
    }
    Ok(wrong)
}

/// Rates and times of responses.
pub(super) fn client_figures(seen: &LoadOutcome, figures: &mut Figures) {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let megabytes = seen.bytes as f64 / seen.elapsed.as_secs_f64().max(1e-6) / 1e6;
    figures.insert(Figure::PerSecond, seen.per_second());
    figures.insert(Figure::MegabytesPerSecond, megabytes);
    figures.insert(Figure::P50Us, us(seen.quantile(0.5)));
    figures.insert(Figure::P99Us, us(seen.quantile(0.99)));
    figures.insert(Figure::MaxUs, us(seen.quantile(1.0)));
}

/// Microseconds.
pub(super) fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
