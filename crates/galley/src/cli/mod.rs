//! The command line: `run`, `check`, `reload`, `upgrade`, `purge`, `status`, `dashboard`, `why`, `doctor`, `setup`, `import`, `load`,
//! `plugin`.
//!
//! Data is printed to stdout, messages to stderr. Exit codes: 0 success, 1 failure, 2 wrong usage or configuration.

mod admin_options;
mod ask;
mod audit;
mod check;
mod commands;
mod dashboard;
mod doctor;
mod import;
mod load;
mod option_change;
mod options;
mod outcome;
mod plugin;
mod reload;
mod setup;
mod show;
mod upgrade;
mod upstreams;
mod why;

pub use commands::{command, main};
