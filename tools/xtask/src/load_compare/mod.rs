//! `make load-compare`: compares `galley load` with other load generators, alternately, on the same targets at the same constant rate.
//!
//! The target is the floor of the benchmark: it responds immediately, after a fixed delay, or stops for a second of each run. All
//! generators count latencies from the intended start of a request, so the ratios of their percentiles should be 1.

mod browser;
mod command;
mod generator;
mod reference;
mod settings;
mod target;

pub(crate) use command::{Arguments, run};
