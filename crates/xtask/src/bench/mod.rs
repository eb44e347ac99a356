//! The bench: WordPress's pages from each contender in turn, on one machine, in one run.
//!
//! Every contender is started anew for each of its turns, gets the same core, the same WordPress and database, and is
//! asked by the same clients from another core. What is measured is in the files of `bench/`; this module only runs it.
//! A contender that fails loses that measurement and is named at the end; the others go on.

mod answer;
mod client;
mod contender;
mod cpu;
mod interrupt;
mod machine;
mod measure;
mod output;
mod pin;
mod plan;
mod program;
mod report;
mod site;
mod spread;
mod table;
mod words;

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Args;
use galley_testkit::Scratch;

use self::{
    client::Cell,
    contender::{Place, Running},
    interrupt::Interrupt,
    machine::Machine,
    measure::Stand,
    pin::Cores,
    plan::{Contender, Plan},
    report::Report,
    site::Site,
    words::Words,
};
use crate::demo::Complaint;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The galley program
    #[arg(long, value_name = "PATH", default_value = "target/release/galley")]
    galley: PathBuf,
    /// One short round, under five minutes
    #[arg(long)]
    quick: bool,
    /// What to measure
    #[arg(long, value_name = "FILE", default_value = "bench/scenarios.toml")]
    scenarios: PathBuf,
    /// Only these contenders, by name; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Where everything measured goes [default: a new file in bench/out]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Measures and prints the table. Takes minutes; a signal ends it early.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Complaint> {
    let interrupt = Interrupt::listen()?;
    let plan = Plan::load(&arguments.scenarios, arguments.quick, &arguments.only)?;
    let place = Place {
        galley: found(&arguments.galley)?,
        here: folder_of(&arguments.scenarios)?,
        cores: Cores::choose(),
    };
    let scratch = Scratch::new()?;
    eprintln!("bench: starting MariaDB and WordPress");
    let site = Site::start(scratch.path(), &plan.host)?;
    let mut words = Words::new();
    words.set("galley", place.galley.display());
    let machine = Machine::look(&plan, &words, &place.cores)?;
    let mut report = Report::new(&plan, machine);
    for round in 1..=plan.length.rounds {
        for contender in &plan.contenders {
            interrupt.check()?;
            let stand = Stand {
                plan: &plan,
                site: &site,
                place: &place,
                interrupt: &interrupt,
                dir: scratch.join(format!("{}-{round}", contender.name)),
            };
            eprintln!(
                "bench: round {round} of {}, {}",
                plan.length.rounds, contender.title
            );
            turn(&stand, contender, round, &mut report)?;
            // Access logs of a turn can be gigabytes.
            let _ = fs::remove_dir_all(&stand.dir);
        }
    }
    print(&report, arguments.json.as_deref())
}

/// One contender in one round: started, warmed up, asked in every way, ended.
fn turn(
    stand: &Stand<'_>,
    contender: &Contender,
    round: u32,
    report: &mut Report,
) -> Result<(), Complaint> {
    let running = match Running::start(stand, contender) {
        Ok(running) => running,
        Err(complaint) => {
            report.trouble(contender, "start", &complaint.to_string());
            return Ok(());
        }
    };
    let cells = Cell::all(stand.plan);
    for (at, cell) in cells.iter().enumerate() {
        if at == 0
            && let Err(complaint) = measure::warm_up(stand, &running, cell)
        {
            report.trouble(contender, "warming up", &complaint.to_string());
        }
        match measure::measure(stand, &running, cell, round) {
            Ok(sample) => {
                eprintln!("  {cell}: {}", sample.in_short());
                report.add(contender, cell, sample);
            }
            Err(complaint) => report.trouble(contender, &cell.to_string(), &complaint.to_string()),
        }
        stand.interrupt.check()?;
    }
    if let Some(said) = running.complaints() {
        report.trouble(contender, "its log", &said);
    }
    Ok(())
}

/// The table on stdout, everything in a file, and the names of both files at the very end.
fn print(report: &Report, json: Option<&Path>) -> Result<(), Complaint> {
    let table = table::markdown(report);
    print!("{table}");
    let json = match json {
        Some(path) => path.to_owned(),
        None => Path::new(OUT).join(format!("{}.json", report.name())),
    };
    if let Some(folder) = json.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&json, serde_json::to_vec_pretty(report)?)
        .map_err(|error| format!("cannot write `{}`: {error}", json.display()))?;
    let markdown = json.with_extension("md");
    fs::write(&markdown, table)?;
    println!("\nwritten: {} {}", json.display(), markdown.display());
    match report.troubles() {
        0 => Ok(()),
        count => Err(format!("{count} complaints during the run: see above").into()),
    }
}

fn found(path: &Path) -> Result<PathBuf, Complaint> {
    fs::canonicalize(path)
        .map_err(|_| format!("`{}` is not there: run `make build`", path.display()).into())
}

fn folder_of(file: &Path) -> Result<PathBuf, Complaint> {
    let file = fs::canonicalize(file)
        .map_err(|error| format!("cannot open `{}`: {error}", file.display()))?;
    Ok(file.parent().map_or_else(PathBuf::new, Path::to_path_buf))
}

const OUT: &str = "bench/out";
