//! `galley setup`: sets up Galley on a server with WordPress.
//!
//! It detects, plans, tests next to the current server, asks, and only then changes the machine. Each change is written to the
//! journal before it is made. It never stops another service that the user has not named.

mod apply;
mod command;
mod consent;
mod error;
mod ports;
mod report;
mod survey;
mod tools;
mod undo;
mod units;

pub use command::setup;
