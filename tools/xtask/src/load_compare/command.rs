//! The command line, the rounds and the table.

use std::{fmt::Write as _, path::PathBuf};

use galley_testkit::Spread;

use super::{
    generator::{LoadGenerator, LoadLine, SeenLatency, oha},
    target::{BEHAVIOURS, LoadTarget},
};
use crate::{
    bench::{Cores, Interrupt, found, raise_limit},
    demo::CommandError,
};

/// What the command line says.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The galley program
    #[arg(long, value_name = "PATH", default_value = "target/release/galley")]
    galley: PathBuf,
    /// The oha program (cargo install oha); without it, the one in PATH, if there is one
    #[arg(long, value_name = "PATH")]
    oha: Option<PathBuf>,
    /// Requests per second
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// Of each run
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(3..))]
    seconds: u32,
    /// Connections of each generator
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// How often each generator runs on each target
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Runs all generators on all targets, and prints their percentiles.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let mut generators = vec![
        LoadGenerator::Galley(found(&arguments.galley)?),
        LoadGenerator::Reference,
    ];
    match oha(arguments.oha.as_deref()) {
        Some(program) => generators.push(LoadGenerator::Oha(program)),
        None => eprintln!("load-compare: SKIPPED: oha is not installed: cargo install oha"),
    }
    let line = LoadLine {
        rate: arguments.rate,
        seconds: arguments.seconds,
        connections: arguments.connections,
    };
    let interrupt = Interrupt::listen()?;
    raise_limit();
    let cores = Cores::choose();
    println!(
        "{} requests per second for {} s on {} connections, {} rounds: medians, and galley load divided by the other\n",
        line.rate, line.seconds, line.connections, arguments.rounds
    );
    for behaviour in BEHAVIOURS {
        let target = LoadTarget::start(behaviour, cores)?;
        let mut seen: Vec<Vec<SeenLatency>> = vec![Vec::new(); generators.len()];
        for round in 0..arguments.rounds {
            for number in order(generators.len(), round) {
                interrupt.check()?;
                let (Some(generator), Some(seen)) = (generators.get(number), seen.get_mut(number))
                else {
                    continue;
                };
                let stall = target.stall()?;
                let latency = generator.run(&line, target.addr, cores);
                if let Some(stall) = stall {
                    stall.join().map_err(|_| "the thread that stalls broke")?;
                }
                seen.push(latency?);
            }
        }
        print_table(behaviour.title, &generators, &seen);
    }
    Ok(())
}

/// Every second round goes backwards, so that what changes slowly is the same for all.
fn order(count: usize, round: u32) -> Vec<usize> {
    let mut all: Vec<usize> = (0..count).collect();
    if round % 2 == 1 {
        all.reverse();
    }
    all
}

fn print_table(title: &str, generators: &[LoadGenerator], seen: &[Vec<SeenLatency>]) {
    println!("The target {title}:\n");
    println!("| | requests | p50 ms | p90 ms | p99 ms | ratio of p50 | p90 | p99 |");
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    let ours = seen.first().map_or(&[][..], Vec::as_slice);
    for (generator, seen) in generators.iter().zip(seen) {
        let requests: u64 = seen.iter().map(|one| one.requests).sum();
        let mut row = format!("| {} | {requests} |", generator.title());
        for value in [0, 1, 2].map(|at| median(seen.iter().map(|one| ms(one, at)))) {
            let _ = write!(row, " {value:.3} |");
        }
        for at in [0, 1, 2] {
            let ratios = ours
                .iter()
                .zip(seen)
                .map(|(ours, other)| ms(ours, at) / ms(other, at));
            let _ = write!(row, " {:.3} |", median(ratios));
        }
        println!("{row}");
    }
    println!();
}

fn ms(seen: &SeenLatency, at: usize) -> f64 {
    seen.ms.get(at).copied().unwrap_or_default()
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    Spread::of(values).map_or(0.0, |spread| spread.median)
}
