//! `galley import`: converts the configuration of another web server, and compares both servers.

mod command;
mod compare;
mod mains;
mod report;

pub use command::import;
