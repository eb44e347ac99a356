//! `galley load`: a load test of the user's own site, with a report.
//!
//! It sends requests only to a target that is loopback, in the configuration, or proved to be the user's. Its options
//! become a [`galley_load::Workload`], and its result is a [`galley_load::LoadReport`].

mod command;
mod fetcher;
mod live;
mod login;
mod machine;
mod options;
mod ownership;
mod pages;
mod processes;
mod site;
mod workload;
mod write;

pub use self::{command::load, options::LoadOptions};
