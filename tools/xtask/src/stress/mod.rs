//! `xtask soak` and `xtask stress`: the server under long and adverse load, and a table of the results.
//!
//! The test itself is [`galley_testkit::stress`], which `make test` runs in a short form. Progress goes to stderr, the table and,
//! with `--json`, one line of JSON to stdout. A broken promise fails the run.

mod command;
mod table;

pub(crate) use command::{SoakArguments, StressArguments, soak, stress};
