//! `galley setup`: from a server with WordPress to a Galley that serves it.
//!
//! It finds, decides, tests beside the server of today, asks, and only then changes something; each change is in the journal before it is made.
//! It stops no other service that the user has not named.

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
