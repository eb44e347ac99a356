//! A cache stampede: a thousand clients request a page at the same time, and PHP has to generate it. Measures the number of
//! requests at PHP, and how much longer than PHP's time the slowest client waited.

use std::{
    collections::HashSet,
    thread,
    time::{Duration, Instant},
};

use galley_load::{Connections, Limit, LoadClient, Pace, Target};

use super::{
    check,
    context::{Measurement, RunContext, Sample, Server},
    figure::{Figure, Figures},
    idle::wait_until_idle,
    outcome::{add_client_figures, add_cpu_figures, count_wrong_responses},
    pin,
    requests::ScenarioRequests,
    settings::StampedeState,
};
use crate::error::CommandError;

/// Sends one request on each connection, all at the same time.
///
/// # Errors
/// When a response is not the expected page, or PHP did not generate the page.
pub(super) fn measure(
    context: &RunContext<'_>,
    server: &Server,
    measurement: &Measurement<'_>,
    state: StampedeState,
) -> Result<Sample, CommandError> {
    let scenario = measurement.scenario;
    let name = format!("s{}", measurement.batch);
    let requests =
        ScenarioRequests::new(context.plan, context.site, scenario, measurement.batch).named(&name);
    let roots = &server.roots;
    wait_until_idle(context.interrupt, roots)?;
    let fixed_delay = measurement.contender.holds_ms;
    let earlier_generations = match state {
        StampedeState::Missing => 0,
        StampedeState::Expired if fixed_delay.is_some() => 0,
        StampedeState::Expired => store_and_expire(context, server, &requests, &name)?,
    };
    let connections = scenario.connections;
    let load = requests.workload(connections, Pace::Closed)?;
    let target = Target {
        addr: server.addr,
        tls: None,
        connections: Connections::Kept,
        watch: None,
    };
    let mut figures = Figures::new();
    let outcome = pin::on_core(
        context.environment.cores.client,
        || -> Result<_, CommandError> {
            let mut client = LoadClient::connect(target, vec![load], context.interrupt.flag())?;
            let before = context.cpu_times(roots);
            let mut outcomes = client.run(Limit::Requests(connections as u64))?;
            let usage = context.cpu_times(roots).since(&before);
            add_cpu_figures(context, &usage, connections as u64, &mut figures);
            outcomes.pop().ok_or_else(|| "no request was sent".into())
        },
    )??;
    add_client_figures(&outcome, &mut figures);
    let failed = count_wrong_responses(context, &requests, &outcome, &mut HashSet::new())?;
    let generations = match fixed_delay {
        Some(ms) => vec![ms],
        None => context.site.generations(&name)?,
    };
    let generations = generations.get(earlier_generations..).unwrap_or_default();
    let first = generations.first().ok_or("PHP did not receive a request")?;
    let slowest = outcome.quantile(1.0).as_secs_f64() * 1e3;
    figures.insert(Figure::WorstMs, slowest);
    figures.insert(Figure::LateMs, slowest - first);
    figures.insert(Figure::UpstreamMs, *first);
    if fixed_delay.is_none() {
        #[expect(clippy::cast_precision_loss, reason = "at most some thousands")]
        figures.insert(Figure::UpstreamRequests, generations.len() as f64);
    }
    let sample = outcome.samples.first();
    Ok(Sample {
        slice: 0,
        coding: sample.map_or("", |sample| sample.coding.name()).to_owned(),
        body_bytes: sample.map_or(0, |sample| sample.body.len()),
        requests: outcome.responses,
        failed,
        first_failure: outcome.first_error,
        figures,
    })
}

/// Requests the page once and waits until the stored response has expired; returns how often PHP generated the page.
fn store_and_expire(
    context: &RunContext<'_>,
    server: &Server,
    requests: &ScenarioRequests<'_>,
    name: &str,
) -> Result<usize, CommandError> {
    let body = requests.expected_body(0)?;
    let expected = requests.expected_response(&body);
    check::request(server.addr, &requests.head(0), expected, context.dir)?;
    let end = Instant::now() + LIFETIME;
    while Instant::now() < end {
        context.interrupt.check()?;
        thread::sleep(PAUSE);
    }
    Ok(context.site.generations(name)?.len())
}

/// Longer than the page's lifetime of one second, because lifetimes are compared in whole seconds.
const LIFETIME: Duration = Duration::from_millis(2500);
const PAUSE: Duration = Duration::from_millis(50);
