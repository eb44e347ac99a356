//! `xtask seeds`: rebuilds the stacks of five published articles about fast WordPress sites from their own configurations, and compares them
//! with Galley, using each article's `ab` command line.
//!
//! [`articles`] has the facts of the articles. [`environment`] has one WordPress for all stacks; a [`stack`] is PHP with the servers that an
//! article put in front of it, or with Galley. [`ab_line`] measures, [`probe`] checks the problems that the articles describe. Progress goes to
//! stderr; the tables, or all results with `--json`, go to stdout. A run of all five articles also writes `docs/seeds.md` and its charts.

mod ab_line;
mod article;
mod articles;
mod clients;
mod command;
mod environment;
mod page;
mod probe;
mod results;
mod stack;

pub(crate) use command::{Arguments, run};
