//! `xtask php-table`: what a WordPress page that is not stored costs with Galley's managed PHP, with PHP-FPM as Debian ships it, with a
//! PHP-FPM tuned by hand, and with further settings of each kind.
//!
//! All columns take turns within each round, on one WordPress and one database, so that other work on the machine favours none. Figures are
//! lower quartiles of processor time (user and system) of PHP and the database. Progress goes to stderr, the tables to stdout.

mod columns;
mod command;
mod site;

pub(crate) use command::{Arguments, run};
