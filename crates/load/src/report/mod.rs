//! The results of a load test: numbers, the knee and its cause, and their formats.

mod ab;
mod cause;
mod charts;
mod csv;
mod figures;
mod knee;
mod machine_charts;
mod page;
mod second;
mod verdict;

pub use self::{
    ab::ab_lines,
    cause::{KneeCause, MachineSample},
    charts::escaped,
    csv::csv,
    figures::{LoadReport, LoadSetup, Percentile},
    knee::{Knee, find_knee},
    page::html,
    second::ReportedSecond,
    verdict::{LoadVerdict, change},
};
