//! What the Makefile calls: `xtask demo`, `demo-clean`, `bench`, `cluster`, `conformance`, `faults`, `exactness`, `fragments`,
//! `growth`, `load-compare`, `seeds`, `soak` and `stress`. Builds nothing itself.
//!
//! Results go to stdout, talk to stderr. Exit codes: 0 fine, 1 failed, 2 wrong usage.

mod bench;
mod cluster;
mod conformance;
mod demo;
mod exactness;
mod faults;
mod fragments;
mod growth;
mod load_compare;
mod seeds;
mod stress;

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
    /// Measures what a request costs at Galley and at its peers, in one run
    Bench(bench::Arguments),
    /// Serves answers made before: the least that a server can do, for the bench
    #[command(hide = true)]
    Floor(bench::floor::Arguments),
    /// Runs a program and stays the parent of all that it starts, for the bench
    #[command(hide = true)]
    Hold(bench::hold::Arguments),
    /// Runs the public cache suite against Galley, nginx, Varnish, httpd and Traffic Server
    Conformance(conformance::Arguments),
    /// Does to a running Galley what must not harm it, and counts
    Faults(faults::Arguments),
    /// Harms a cluster in every way while its pages are edited and read, and compares what was read with what was acknowledged
    Cluster(cluster::Arguments),
    /// Edits a real WordPress and counts what is purged, too little and too much
    Exactness(exactness::Arguments),
    /// Measures what edits cost on a large site whose pages share fragments
    Fragments(fragments::Arguments),
    /// Measures what a hit costs while entries and connections grow
    Growth(growth::Arguments),
    /// Runs `galley load` and other load generators in turns on the same targets, and prints the ratios of their percentiles
    LoadCompare(load_compare::Arguments),
    /// Rebuilds the stacks of five published articles, and measures them beside Galley
    Seeds(seeds::Arguments),
    /// Asks millions of times, a tenth of it uncached, and looks at failures, memory and descriptors
    Soak(stress::SoakArguments),
    /// Times stored pages and an editor's save in a small machine while everything around them is bad
    Stress(stress::StressArguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Demo(arguments) => demo::run(&arguments),
        Task::DemoClean(arguments) => demo::clean(&arguments),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Floor(arguments) => bench::floor::run(&arguments),
        Task::Hold(arguments) => bench::hold::run(&arguments),
        Task::Conformance(arguments) => conformance::run(&arguments),
        Task::Cluster(arguments) => cluster::run(&arguments),
        Task::Faults(arguments) => faults::run(&arguments),
        Task::Exactness(arguments) => exactness::run(&arguments),
        Task::Fragments(arguments) => fragments::run(&arguments),
        Task::Growth(arguments) => growth::run(&arguments),
        Task::LoadCompare(arguments) => load_compare::run(&arguments),
        Task::Seeds(arguments) => seeds::run(&arguments),
        Task::Soak(arguments) => stress::soak(&arguments),
        Task::Stress(arguments) => stress::stress(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            eprintln!("xtask: {complaint}");
            if complaint.is::<bench::Misuse>() {
                ExitCode::from(2)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}
