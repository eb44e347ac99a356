//! The command line of `xtask load-compare`, its rounds and its table.

use std::{fmt::Write as _, path::PathBuf};

use galley_testkit::Quartiles;

use super::{
    generator::{LoadGenerator, oha},
    settings::{LatencyPercentiles, LoadSettings},
    target::{BEHAVIORS, LoadTarget},
};
use crate::{
    bench::{Cores, existing_program, raise_descriptor_limit},
    error::CommandError,
    interrupt::Interrupt,
};

/// The options of `xtask load-compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The galley program
    #[arg(long, value_name = "PATH", default_value = "target/release/galley")]
    galley: PathBuf,
    /// The oha program (cargo install oha) [default: the one in PATH, if any]
    #[arg(long, value_name = "PATH")]
    oha: Option<PathBuf>,
    /// Requests per second
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// Duration of each run
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(3..))]
    seconds: u32,
    /// Connections of each generator
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Number of runs of each generator on each target
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Runs all generators on all targets and prints their percentiles.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let mut generators = vec![
        LoadGenerator::Galley(existing_program(&arguments.galley)?),
        LoadGenerator::Reference,
    ];
    match oha(arguments.oha.as_deref()) {
        Some(program) => generators.push(LoadGenerator::Oha(program)),
        None => eprintln!("load-compare: SKIPPED: oha is not installed: cargo install oha"),
    }
    let settings = LoadSettings {
        rate: arguments.rate,
        seconds: arguments.seconds,
        connections: arguments.connections,
    };
    let interrupt = Interrupt::listen()?;
    raise_descriptor_limit();
    let cores = Cores::choose();
    println!(
        "{} requests per second for {} s on {} connections, {} rounds: medians, and galley load divided by the other\n",
        settings.rate, settings.seconds, settings.connections, arguments.rounds
    );
    for behavior in BEHAVIORS {
        let target = LoadTarget::start(behavior, cores)?;
        let mut latencies: Vec<Vec<LatencyPercentiles>> = vec![Vec::new(); generators.len()];
        for round in 0..arguments.rounds {
            for number in order(generators.len(), round) {
                interrupt.check()?;
                let (Some(generator), Some(latencies)) =
                    (generators.get(number), latencies.get_mut(number))
                else {
                    continue;
                };
                let stall = target.stall()?;
                let latency = generator.run(&settings, target.addr, cores);
                if let Some(stall) = stall {
                    stall
                        .join()
                        .map_err(|_| "the thread that stops the target panicked")?;
                }
                latencies.push(latency?);
            }
        }
        print_table(behavior.title, &generators, &latencies);
    }
    Ok(())
}

/// The order is reversed every second round, so that slow changes of the machine affect all generators alike.
fn order(count: usize, round: u32) -> Vec<usize> {
    let mut all: Vec<usize> = (0..count).collect();
    if round % 2 == 1 {
        all.reverse();
    }
    all
}

fn print_table(title: &str, generators: &[LoadGenerator], latencies: &[Vec<LatencyPercentiles>]) {
    println!("The target {title}:\n");
    println!("| | requests | p50 ms | p90 ms | p99 ms | ratio of p50 | p90 | p99 |");
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    let ours = latencies.first().map_or(&[][..], Vec::as_slice);
    for (generator, latencies) in generators.iter().zip(latencies) {
        let requests: u64 = latencies.iter().map(|run| run.requests).sum();
        let mut row = format!("| {} | {requests} |", generator.title());
        for value in [0, 1, 2].map(|at| median(latencies.iter().map(|run| ms(run, at)))) {
            let _ = write!(row, " {value:.3} |");
        }
        for at in [0, 1, 2] {
            let ratios = ours
                .iter()
                .zip(latencies)
                .map(|(ours, other)| ms(ours, at) / ms(other, at));
            let _ = write!(row, " {:.3} |", median(ratios));
        }
        println!("{row}");
    }
    println!();
}

fn ms(latencies: &LatencyPercentiles, at: usize) -> f64 {
    latencies.ms.get(at).copied().unwrap_or_default()
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    Quartiles::of(values).map_or(0.0, |spread| spread.median)
}
