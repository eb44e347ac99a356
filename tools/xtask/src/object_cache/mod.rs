//! `xtask object-cache`: what pages that PHP must generate cost with different object caches: processor time of PHP, database and cache,
//! queries, round trips.
//!
//! All columns take turns within each round, on one WordPress and one database, so that other work on the machine favours none. Figures are
//! medians. Progress goes to stderr, the table and the goals to stdout. Fails if a goal is missed.

mod command;
mod site;
mod table;

pub(crate) use command::{Arguments, run};
