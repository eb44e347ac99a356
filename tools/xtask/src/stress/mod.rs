//! `xtask soak` and `xtask stress`: run the server under long and adverse load and print a table of the results.
//!
//! The tests are in [`galley_testkit::stress`]; `make test` runs their short version. Progress goes to stderr, the table and,
//! with `--json`, one line of JSON to stdout. The command fails if a limit is exceeded.

mod command;
mod table;

pub(crate) use command::{SoakArguments, StressArguments, soak, stress};
