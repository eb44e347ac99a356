//! What the Makefile calls: `xtask demo`, `xtask demo-clean` and `xtask bench`. Builds nothing itself.
//!
//! Results go to stdout, talk to stderr. Exit codes: 0 fine, 1 failed, 2 wrong usage.

mod bench;
mod demo;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "xtask", about = "Tasks around Galley")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs Galley in front of a WordPress of its own, filled with a sample site
    Demo(demo::Arguments),
    /// Removes what the demo has made
    DemoClean(demo::CleanArguments),
    /// Measures WordPress's pages from Galley, nginx and Apache in one run
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Demo(arguments) => demo::run(&arguments),
        Task::DemoClean(arguments) => demo::clean(&arguments),
        Task::Bench(arguments) => bench::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            eprintln!("xtask: {complaint}");
            ExitCode::FAILURE
        }
    }
}
