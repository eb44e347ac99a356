//! The commands behind the Makefile: `xtask demo`, `demo-clean`, `bench`, `cluster`, `conformance`, `faults`, `exactness`, `fragments`,
//! `growth`, `load-compare`, `lossy`, `object-cache`, `php-table`, `seeds`, `soak` and `stress`. They build nothing.
//!
//! Results go to stdout, progress to stderr. Exit codes: 0 success, 1 failure, 2 invalid usage.

mod bench;
mod cluster;
mod conformance;
mod demo;
mod error;
mod exactness;
mod faults;
mod fragments;
mod growth;
mod interrupt;
mod load_compare;
mod lossy;
mod object_cache;
mod php_table;
mod program;
mod seeds;
mod stress;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "xtask", about = "Demo, benchmarks and test runs of Galley")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs Galley in front of a separate WordPress with a sample site
    Demo(demo::Arguments),
    /// Removes the files of the demo
    DemoClean(demo::CleanArguments),
    /// Measures the cost of a request at Galley and at other servers, in one run
    Bench(bench::Arguments),
    /// Sends prepared responses: the lower bound for the cost of a request
    #[command(hide = true)]
    Floor(bench::floor::Arguments),
    /// Runs a program and remains the parent of all its processes, for the benchmark
    #[command(hide = true)]
    Hold(bench::hold::Arguments),
    /// Runs the public cache test suite against Galley, nginx, Varnish, httpd and Traffic Server
    Conformance(conformance::Arguments),
    /// Injects faults into a running Galley and checks the responses
    Faults(faults::Arguments),
    /// Injects faults into a cluster while pages are edited and read, and compares the responses with the acknowledged purges
    Cluster(cluster::Arguments),
    /// Edits a real WordPress and counts missing and unnecessary purges
    Exactness(exactness::Arguments),
    /// Measures the cost of edits on a large site whose pages share fragments
    Fragments(fragments::Arguments),
    /// Measures the cost of a hit as the numbers of entries and connections grow
    Growth(growth::Arguments),
    /// Runs `galley load` and other load generators alternately on the same targets, and prints the ratios of their percentiles
    LoadCompare(load_compare::Arguments),
    /// Measures the time to a page over HTTP/2 and HTTP/3 on a path that loses packets
    Lossy(lossy::Arguments),
    /// Loads a page once, for the command above
    #[command(hide = true)]
    LossyPage(lossy::PageArguments),
    /// Measures what pages cost with and without object caches
    ObjectCache(object_cache::Arguments),
    /// Measures what pages cost with the managed PHP and with other settings of PHP
    PhpTable(php_table::Arguments),
    /// Rebuilds the stacks of five published articles, and compares them with Galley
    Seeds(seeds::Arguments),
    /// Sends millions of requests, a tenth of them uncached, and checks failures, memory and descriptors
    Soak(stress::SoakArguments),
    /// Measures hits and an editor's save under adverse conditions on a small machine
    Stress(stress::StressArguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
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
        Task::Lossy(arguments) => lossy::run(&arguments),
        Task::LossyPage(arguments) => lossy::load_page(&arguments),
        Task::ObjectCache(arguments) => object_cache::run(&arguments),
        Task::PhpTable(arguments) => php_table::run(&arguments),
        Task::Seeds(arguments) => seeds::run(&arguments),
        Task::Soak(arguments) => stress::soak(&arguments),
        Task::Stress(arguments) => stress::stress(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            if error.is::<bench::UsageError>() {
                ExitCode::from(2)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}
