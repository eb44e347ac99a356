//! `galley import`: the configuration of another web server as one of Galley's, and a comparison of both servers.

mod command;
mod compare;
mod mains;
mod report;

pub(super) use command::import;
