//! `make load-compare`: `galley load` next to other load generators, in turns, on the same targets at the same constant rate.
//!
//! The target is the bench's floor: it answers at once, after a fixed time, or stands still for a second of each run. Every generator
//! counts latencies from the intended start of a request, so the ratios of their percentiles should be 1.

mod browser;
mod command;
mod generator;
mod reference;
mod target;

pub(crate) use command::{Arguments, run};
