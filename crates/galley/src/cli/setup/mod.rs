//! `galley setup`: sets up Galley on a server with WordPress.
//!
//! It detects, plans, tests beside the present server, asks, and only then changes something; each change is written to the
//! journal before it is made. It never stops a service of somebody else that the user has not named.

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

pub(super) use command::setup;
