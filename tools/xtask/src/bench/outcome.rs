//! Evaluates what the load client received: wrong responses, and the figures.

use std::{collections::HashSet, time::Duration};

use galley_load::LoadOutcome;

use super::{
    check,
    context::RunContext,
    cpu::CpuUsage,
    figure::{Figure, Figures},
    requests::ScenarioRequests,
};
use crate::error::CommandError;

/// Checks the sampled bodies whose hash is not in `checked`, and returns the number of wrong responses.
///
/// # Errors
/// When a body is not the expected page, because the measurement is then worthless.
pub(super) fn count_wrong_responses(
    context: &RunContext<'_>,
    requests: &ScenarioRequests<'_>,
    outcome: &LoadOutcome,
    checked: &mut HashSet<u64>,
) -> Result<u64, CommandError> {
    for sample in &outcome.samples {
        if checked.insert(sample.hash) {
            let expected = requests.expected_body(sample.page)?;
            check::body(sample.coding, &sample.body, &expected, context.dir)
                .map_err(|error| format!("wrong response under load: {error}"))?;
        }
    }
    let mut wrong = outcome.unexpected_status + outcome.broken;
    if requests.count() == 1 {
        let has_sample = |length: u64| {
            let mut samples = outcome.samples.iter();
            samples.any(|sample| sample.body.len() as u64 == length)
        };
        let lengths = outcome.lengths.iter();
        let unknown = lengths.filter(|(length, _)| !has_sample(**length));
        wrong += outcome.other_lengths + unknown.map(|(_, count)| count).sum::<u64>();
    }
    Ok(wrong)
}

/// Adds the rates and latencies that the client measured.
pub(super) fn add_client_figures(outcome: &LoadOutcome, figures: &mut Figures) {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let megabytes = outcome.bytes as f64 / outcome.elapsed.as_secs_f64().max(1e-6) / 1e6;
    figures.insert(Figure::PerSecond, outcome.per_second());
    figures.insert(Figure::MegabytesPerSecond, megabytes);
    figures.insert(Figure::P50Us, microseconds(outcome.quantile(0.5)));
    figures.insert(Figure::P99Us, microseconds(outcome.quantile(0.99)));
    figures.insert(Figure::MaxUs, microseconds(outcome.quantile(1.0)));
}

/// Adds the processor time per request and the load of the cores.
pub(super) fn add_cpu_figures(
    context: &RunContext<'_>,
    usage: &CpuUsage,
    requests: u64,
    figures: &mut Figures,
) {
    let others = usage.others_share(context.environment.core_count);
    figures.insert(Figure::CpuUs, usage.us_per_request(requests));
    figures.insert(Figure::ServerBusy, usage.server_share());
    figures.insert(Figure::ClientBusy, usage.client_share());
    figures.insert(Figure::OthersBusy, others);
}

pub(super) fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
