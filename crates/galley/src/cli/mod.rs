//! The command line: `run`, `check`, `reload`, `upgrade`, `purge`, `status`, `dashboard`, `why`, `crawlers`, `doctor`, `setup`, `import`, `load`,
//! `plugin`.
//!
//! Data is printed to stdout, messages to stderr. Exit codes: 0 success, 1 failure, 2 wrong usage or configuration.

mod audit;
mod check;
mod commands;
mod crawlers;
mod dashboard;
mod doctor;
mod examples;
mod options;
mod purge;
mod reload;
mod upgrade;
mod verdict;
mod why;

pub use commands::{command, main};
