//! A thousand visitors at once for one page that PHP has to generate: how often PHP was asked, and how much longer than PHP
//! the slowest waited.

use std::{
    collections::HashSet,
    thread,
    time::{Duration, Instant},
};

use galley_load::{Connections, Limit, LoadClient, Pace, Target};

use super::{
    check,
    clocks::Clocks,
    figure::{Figure, Figures},
    pin,
    plan::Stampede,
    question::Question,
    quiet::wait_for_quiet,
    seen::{client_figures, verified},
    stand::{Match, Sample, Server, Stand},
};
use crate::demo::CommandError;

/// Sends one request on each connection, all at once.
///
/// # Errors
/// When an answer is not the right page, or PHP noted nothing.
pub(super) fn measure(
    stand: &Stand<'_>,
    server: &Server,
    one: &Match<'_>,
    state: Stampede,
) -> Result<Sample, CommandError> {
    let scenario = one.scenario;
    let name = format!("s{}", one.batch);
    let question = Question::of(stand.plan, stand.site, scenario, one.batch).named(&name);
    let roots = &server.roots;
    wait_for_quiet(stand.interrupt, roots)?;
    let held = one.contender.holds_ms;
    let before = match state {
        Stampede::Missing => 0,
        Stampede::Expired if held.is_some() => 0,
        Stampede::Expired => expired(stand, server, &question, &name)?,
    };
    let connections = scenario.connections;
    let load = question.workload(connections, Pace::Closed)?;
    let target = Target {
        addr: server.addr,
        tls: None,
        connections: Connections::Kept,
        watch: None,
    };
    let mut figures = Figures::new();
    let seen = pin::on_core(stand.place.cores.client, || -> Result<_, CommandError> {
        let mut client = LoadClient::connect(target, vec![load], stand.interrupt.flag())?;
        let before = Clocks::read(stand, roots);
        let mut seen = client.run(Limit::Requests(connections as u64))?;
        before.figures(Clocks::read(stand, roots), connections as u64, &mut figures);
        seen.pop().ok_or_else(|| "nothing was asked".into())
    })??;
    client_figures(&seen, &mut figures);
    let failed = verified(stand, &question, &seen, &mut HashSet::new())?;
    let generated = match held {
        Some(ms) => vec![ms],
        None => stand.site.generations(&name)?,
    };
    let generated = generated.get(before..).unwrap_or_default();
    let first = generated.first().ok_or("PHP was not asked at all")?;
    let worst = seen.quantile(1.0).as_secs_f64() * 1e3;
    figures.insert(Figure::WorstMs, worst);
    figures.insert(Figure::LateMs, worst - first);
    figures.insert(Figure::UpstreamMs, *first);
    if held.is_none() {
        #[expect(clippy::cast_precision_loss, reason = "at most some thousands")]
        figures.insert(Figure::UpstreamRequests, generated.len() as f64);
    }
    let sample = seen.samples.first();
    Ok(Sample {
        slice: 0,
        coding: sample.map_or("", |sample| sample.coding.name()).to_owned(),
        body_bytes: sample.map_or(0, |sample| sample.body.len()),
        requests: seen.responses,
        failed,
        trouble: seen.first_error,
        figures,
    })
}

/// Has the page stored and waits until it is too old to be used; returns how often PHP was asked.
fn expired(
    stand: &Stand<'_>,
    server: &Server,
    question: &Question<'_>,
    name: &str,
) -> Result<usize, CommandError> {
    let expected = question.expected(0)?;
    let wanted = check::Wanted {
        method: question.method(),
        status: question.status(),
        expected: &expected,
    };
    check::ask(server.addr, &question.head(0), wanted, stand.dir)?;
    let end = Instant::now() + LIFETIME;
    while Instant::now() < end {
        stand.interrupt.check()?;
        thread::sleep(PAUSE);
    }
    Ok(stand.site.generations(name)?.len())
}

/// Longer than the page's second, whole seconds of clocks included.
const LIFETIME: Duration = Duration::from_millis(2500);
const PAUSE: Duration = Duration::from_millis(50);
