//! The bench: what a request costs at Galley and at its peers, on one machine, in one run.
//!
//! Everybody is set up by the same hand, serves the same WordPress from the same core, and is asked by the same client
//! from another core, in turns, in several rounds. What is asked, of whom, and what it must show, is in the files of
//! `bench/`; this module only runs it. A contender that fails loses that measurement and is named at the end; the
//! others go on.

mod ab;
mod certificate;
mod chart;
mod check;
mod clocks;
mod contender;
mod figure;
pub(crate) mod floor;
pub(crate) mod hold;
mod interrupt;
mod machine;
mod measure;
mod pin;
mod plan;
mod processes;
mod program;
mod progress;
mod question;
mod quiet;
mod readme;
mod report;
mod seen;
mod site;
mod stampede;
mod stand;
mod table;
mod touch;
mod verdict;
mod words;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use clap::Args;
use galley_testkit::Scratch;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub(crate) use self::{
    ab::{Line, Seen, run as run_ab},
    chart::{Bar, Ground, bars},
    check::decode,
    figure::rounded,
    interrupt::Interrupt,
    machine::Machine,
    pin::{Cores, on_core},
    plan::Misuse,
    processes::{Tree, of_ended_children, of_machine, of_this_thread},
    program::Program,
    quiet::wait_for_quiet,
    table::number_in,
    words::Words,
};
use self::{
    certificate::Certificate,
    contender::Field,
    measure::Session,
    plan::{Page, Plan, Scenario, Wish},
    progress::Progress,
    report::Report,
    site::Site,
    stand::{Match, Place, Stand},
};
use crate::demo::CommandError;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The galley program
    #[arg(long, value_name = "PATH", default_value = "target/release/galley")]
    galley: PathBuf,
    /// One short round of the more important contenders, under five minutes
    #[arg(long)]
    quick: bool,
    /// The folder with scenarios.toml and contenders.toml
    #[arg(long, value_name = "FOLDER", default_value = "bench")]
    scenarios: PathBuf,
    /// Only these contenders, by name; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Only these scenarios, by name; may be given several times
    #[arg(long, value_name = "NAME")]
    scenario: Vec<String>,
    /// How many rounds [default: as the scenarios say]
    #[arg(long, value_name = "COUNT")]
    rounds: Option<u32>,
    /// Where tables, charts and all that was measured go
    #[arg(long, value_name = "FOLDER", default_value = "bench/out")]
    out: PathBuf,
    /// Measures nothing: shows an earlier run again, from its JSON file
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Also writes the README's block, its charts and bench/results.md
    #[arg(long)]
    readme: bool,
    /// Shows what there is to measure, and ends
    #[arg(long)]
    list: bool,
}

/// Measures and shows. Takes minutes; a signal ends it early.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let wish = Wish {
        quick: arguments.quick,
        contenders: &arguments.only,
        scenarios: &arguments.scenario,
    };
    let mut plan = Plan::load(&arguments.scenarios, wish)?;
    if let Some(rounds) = arguments.rounds {
        plan.length.rounds = rounds.max(1);
    }
    if arguments.list {
        list(&plan);
        return Ok(());
    }
    let report = match &arguments.from {
        Some(path) => Report::read(path)?,
        None => measured(arguments, &plan)?,
    };
    show(arguments, &plan, &report)
}

fn list(plan: &Plan) {
    for scenario in &plan.scenarios {
        println!("{}: {}", scenario.name, scenario.title);
        println!("    {}", scenario.contenders.join(" "));
    }
}

fn measured(arguments: &Arguments, plan: &Plan) -> Result<Report, CommandError> {
    let interrupt = Interrupt::listen()?;
    raise_limit();
    let place = Place {
        galley: found(&arguments.galley)?,
        xtask: std::env::current_exe()?,
        here: fs::canonicalize(&arguments.scenarios)?,
        cores: Cores::choose(),
        all_cores: f64::from(u32::try_from(std::thread::available_parallelism()?.get())?),
    };
    let scratch = Scratch::new()?;
    touch::memory();
    eprintln!("bench: starting MariaDB and WordPress");
    let site = Site::start(scratch.path(), &plan.host)?;
    let mut words = Words::new();
    words.set("galley", place.galley.display());
    let machine = Machine::look(&plan.versions, &words, &place.cores)?;
    let client = measure::client_dir(scratch.path())?;
    let certificate = Certificate::make(scratch.path(), &plan.host)?;
    let stand = Stand {
        plan,
        site: &site,
        place: &place,
        certificate: &certificate,
        interrupt: &interrupt,
        dir: &client,
    };
    let mut report = Report::new(plan, machine);
    let rounds = plan.length.rounds;
    let count = plan.cells() * usize::try_from(rounds)?;
    let mut progress = Progress::new(count);
    for number in 1..=rounds {
        let dir = scratch.join(format!("round-{number}"));
        round(&stand, &dir, number, &mut progress, &mut report)?;
        // Access logs of a round can be gigabytes.
        let _ = fs::remove_dir_all(&dir);
    }
    Ok(report)
}

/// Everybody once in everything, started anew.
fn round(
    stand: &Stand<'_>,
    dir: &Path,
    number: u32,
    progress: &mut Progress,
    report: &mut Report,
) -> Result<(), CommandError> {
    eprintln!("bench: starting the contenders");
    let (field, missing) = Field::start(stand, dir)?;
    for (name, complaint) in missing {
        report.trouble(&name, "start", &complaint.to_string());
    }
    if number == 1 {
        copy_post(stand, &field)?;
    }
    for scenario in &stand.plan.scenarios {
        in_turns(stand, &field, scenario, number, progress, report)?;
    }
    for (name, said) in field.complaints() {
        eprintln!("bench: {name} has said: {said}");
    }
    Ok(())
}

/// Prepares all contenders of a scenario, then measures them slice by slice, every other time in the other order: what disturbs the
/// machine for longer than a slice disturbs all of them.
fn in_turns(
    stand: &Stand<'_>,
    field: &Field,
    scenario: &Scenario,
    round: u32,
    progress: &mut Progress,
    report: &mut Report,
) -> Result<(), CommandError> {
    let mut sessions = Vec::new();
    for contender in scenario
        .contenders
        .iter()
        .filter_map(|name| stand.plan.contender(name))
    {
        stand.interrupt.check()?;
        let one = Match {
            scenario,
            contender,
            batch: BATCH.fetch_add(1, Ordering::Relaxed),
        };
        progress.next(&one, round, stand.plan.length.rounds);
        match Session::prepare(stand, field, one) {
            Ok(session) => sessions.push(session),
            Err(complaint) => {
                stand.interrupt.check()?;
                report.trouble(&contender.name, &scenario.name, &complaint.to_string());
            }
        }
    }
    let is_single = sessions.first().is_some_and(Session::is_single);
    let slices = if is_single {
        1
    } else {
        stand.plan.length.slices
    };
    for slice in 0..slices {
        let number = round * SLICES + slice;
        let mut lost = Vec::new();
        for session in &mut sessions {
            stand.interrupt.check()?;
            let one = &session.one;
            let (name, during) = (one.contender.name.clone(), &scenario.name);
            match session.slice(stand, number) {
                Ok(sample) => {
                    if sample.failed > 0 {
                        let first = sample.trouble.as_deref().unwrap_or("wrong answers");
                        let what = format!("{} failed, the first: {first}", sample.failed);
                        report.trouble(&name, during, &what);
                    }
                    report.add(&scenario.name, &name, sample);
                }
                Err(complaint) => {
                    stand.interrupt.check()?;
                    report.trouble(&name, during, &complaint.to_string());
                    lost.push(name);
                }
            }
        }
        sessions.retain(|session| !lost.contains(&session.one.contender.name));
        sessions.reverse();
    }
    if let Some(section) = report.section(&scenario.name) {
        Progress::got(section);
    }
    Ok(())
}

/// Gives the page to contenders that serve files only.
fn copy_post(stand: &Stand<'_>, field: &Field) -> Result<(), CommandError> {
    let subject = field
        .running(&stand.plan.subject)
        .ok_or("without it there is nothing to compare: see above")?;
    let expected = stand.site.expected(Page::Post, 0)?;
    let wanted = check::Wanted {
        method: "GET",
        status: 200,
        expected: &expected,
    };
    let (path, host) = (stand.site.target(Page::Post), &stand.plan.host);
    let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let answer = check::ask(subject.addr(), head.as_bytes(), wanted, stand.dir)?;
    stand.site.copy_post(&answer.body)
}

/// The targets on stdout, everything in files, whose names stand at the very end.
fn show(arguments: &Arguments, plan: &Plan, report: &Report) -> Result<(), CommandError> {
    let out = &arguments.out;
    fs::create_dir_all(out)?;
    let named = |ending: &str| out.join(format!("{}{ending}", report.name()));
    let (json, markdown) = (named(".json"), named(".md"));
    if arguments.from.is_none() {
        fs::write(&json, serde_json::to_vec_pretty(report)?)
            .map_err(|error| format!("cannot write `{}`: {error}", json.display()))?;
    }
    let table = table::markdown(plan, report);
    fs::write(&markdown, &table)?;
    let charts = named("-charts");
    fs::create_dir_all(&charts)?;
    for section in &report.scenarios {
        if let Some(svg) = chart::svg(section, report, &plan.subject) {
            fs::write(charts.join(format!("{}.svg", section.name)), svg)?;
        }
    }
    print!("{table}");
    println!(
        "\nwritten: {}, {}, {}",
        json.display(),
        markdown.display(),
        charts.display()
    );
    if arguments.readme {
        let root = arguments.scenarios.parent().unwrap_or(Path::new("."));
        readme::write(root, plan, report)?;
        println!("written: README.md, docs/images, bench/results.md");
    }
    match report.troubles.len() {
        // Those of an earlier run have been told by it.
        _ if arguments.from.is_some() => Ok(()),
        0 => Ok(()),
        count => Err(format!("{count} complaints during the run: see above").into()),
    }
}

/// Ten thousand connections need as many descriptors, here and at the servers, which inherit the limit.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
}

pub(crate) fn found(path: &Path) -> Result<PathBuf, CommandError> {
    fs::canonicalize(path).map_err(|_| {
        Misuse::new(format!(
            "`{}` is not there: run `make build`",
            path.display()
        ))
        .into()
    })
}

/// More than a round has.
const SLICES: u32 = 10_000;
static BATCH: AtomicU32 = AtomicU32::new(1);
