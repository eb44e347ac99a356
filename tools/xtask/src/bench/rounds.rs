//! Runs the plan in rounds: each round starts all contenders again and measures every scenario once.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use galley_testkit::Scratch;

use super::{
    certificate::Certificate,
    check,
    contender::RunningContenders,
    context::{Environment, Measurement, RunContext},
    machine::Machine,
    measure::{self, ContenderSession},
    pin::Cores,
    placeholders::Placeholders,
    plan::BenchPlan,
    prefault,
    progress::Progress,
    raise_descriptor_limit,
    report::BenchReport,
    settings::{Page, Scenario},
    site::Site,
};
use crate::{error::CommandError, interrupt::Interrupt};

/// Runs all rounds of the plan. `bench_dir` is the folder with the scenarios.
pub(super) fn run_plan(
    galley: PathBuf,
    bench_dir: &Path,
    plan: &BenchPlan,
) -> Result<BenchReport, CommandError> {
    let interrupt = Interrupt::listen()?;
    raise_descriptor_limit();
    let bench_dir = fs::canonicalize(bench_dir)?;
    let environment = Environment {
        galley,
        xtask: std::env::current_exe()?,
        quic: bench_dir.join("../target/quic"),
        bench_dir,
        cores: Cores::choose(),
        core_count: f64::from(u32::try_from(std::thread::available_parallelism()?.get())?),
    };
    let scratch = Scratch::new()?;
    prefault::prefault_memory();
    eprintln!("bench: starting MariaDB and WordPress");
    let site = Site::start(scratch.path(), &plan.host)?;
    let mut placeholders = Placeholders::new();
    placeholders.set("galley", environment.galley.display());
    placeholders.set("quic", environment.quic.display());
    let machine = Machine::read(&plan.versions, &placeholders, &environment.cores)?;
    let client_dir = measure::client_dir(scratch.path())?;
    let certificate = Certificate::create(scratch.path(), &[&plan.host])?;
    let context = RunContext {
        plan,
        site: &site,
        environment: &environment,
        certificate: &certificate,
        interrupt: &interrupt,
        dir: &client_dir,
    };
    let mut report = BenchReport::new(plan, machine);
    let rounds = plan.length.rounds;
    let count = plan.measurement_count() * usize::try_from(rounds)?;
    let mut progress = Progress::new(count);
    for number in 1..=rounds {
        let dir = scratch.join(format!("round-{number}"));
        run_round(&context, &dir, number, &mut progress, &mut report)?;
        // The access logs of a round can be gigabytes.
        let _ = fs::remove_dir_all(&dir);
    }
    Ok(report)
}

/// Starts all contenders and measures all scenarios.
fn run_round(
    context: &RunContext<'_>,
    dir: &Path,
    number: u32,
    progress: &mut Progress,
    report: &mut BenchReport,
) -> Result<(), CommandError> {
    eprintln!("bench: starting the contenders");
    let (contenders, failed_starts) = RunningContenders::start(context, dir)?;
    for (name, error) in failed_starts {
        report.add_failure(&name, "start", &error.to_string());
    }
    if number == 1 {
        copy_post(context, &contenders)?;
    }
    for scenario in &context.plan.scenarios {
        measure_alternately(context, &contenders, scenario, number, progress, report)?;
    }
    for (name, lines) in contenders.logged_errors() {
        eprintln!("bench: {name} logged errors: {lines}");
    }
    Ok(())
}

/// Prepares all contenders of a scenario, then measures them alternately in slices, in reversed order every second time, so that a
/// disturbance that is longer than a slice affects all of them.
fn measure_alternately(
    context: &RunContext<'_>,
    contenders: &RunningContenders,
    scenario: &Scenario,
    round: u32,
    progress: &mut Progress,
    report: &mut BenchReport,
) -> Result<(), CommandError> {
    let mut sessions = prepare_sessions(context, contenders, scenario, round, progress, report)?;
    let is_single = sessions.first().is_some_and(ContenderSession::is_single);
    let slices = if is_single {
        1
    } else {
        context.plan.length.slices
    };
    for slice in 0..slices {
        let number = round * MAX_SLICES + slice;
        let mut failed = Vec::new();
        for session in &mut sessions {
            context.interrupt.check()?;
            let name = session.measurement.contender.name.clone();
            match session.slice(context, number) {
                Ok(sample) => {
                    if sample.failed > 0 {
                        let first = sample.first_failure.as_deref();
                        let first = first.unwrap_or("wrong responses");
                        let what = format!("{} failed, the first: {first}", sample.failed);
                        report.add_failure(&name, &scenario.name, &what);
                    }
                    report.add(&scenario.name, &name, sample);
                }
                Err(error) => {
                    context.interrupt.check()?;
                    report.add_failure(&name, &scenario.name, &error.to_string());
                    failed.push(name);
                }
            }
        }
        sessions.retain(|session| !failed.contains(&session.measurement.contender.name));
        sessions.reverse();
    }
    if let Some(results) = report.scenario(&scenario.name) {
        Progress::print_results(results);
    }
    Ok(())
}

/// Prepares the contenders of a scenario; those that fail are added to the report's failures.
fn prepare_sessions<'a>(
    context: &RunContext<'a>,
    contenders: &RunningContenders,
    scenario: &'a Scenario,
    round: u32,
    progress: &mut Progress,
    report: &mut BenchReport,
) -> Result<Vec<ContenderSession<'a>>, CommandError> {
    let mut sessions = Vec::new();
    for contender in scenario
        .contenders
        .iter()
        .filter_map(|name| context.plan.contender(name))
    {
        context.interrupt.check()?;
        let measurement = Measurement {
            scenario,
            contender,
            batch: NEXT_BATCH.fetch_add(1, Ordering::Relaxed),
        };
        progress.next(&measurement, round, context.plan.length.rounds);
        match ContenderSession::prepare(context, contenders, measurement) {
            Ok(session) => sessions.push(session),
            Err(error) => {
                context.interrupt.check()?;
                report.add_failure(&contender.name, &scenario.name, &error.to_string());
            }
        }
    }
    Ok(sessions)
}

/// Copies the subject's page to the folder of the contenders without a page cache.
fn copy_post(context: &RunContext<'_>, contenders: &RunningContenders) -> Result<(), CommandError> {
    let subject = contenders
        .running(&context.plan.subject)
        .ok_or("the subject of the benchmark did not start: see above")?;
    let body = context.site.expected_body(Page::Post, 0)?;
    let expected = check::ExpectedResponse {
        method: "GET",
        status: 200,
        body: &body,
    };
    let (path, host) = (context.site.target(Page::Post), &context.plan.host);
    let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let response = check::request(subject.addr(), head.as_bytes(), expected, context.dir)?;
    context.site.copy_post(&response.body)
}

/// More than the slices of a round, so that slice numbers are unique in a run.
const MAX_SLICES: u32 = 10_000;
static NEXT_BATCH: AtomicU32 = AtomicU32::new(1);
