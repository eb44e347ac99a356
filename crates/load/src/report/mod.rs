//! What a load test found: figures, the knee and its cause, and how they are written down.

mod ab;
mod cause;
mod charts;
mod csv;
mod figures;
mod knee;
mod page;
mod second;

pub use self::{
    ab::ab_lines,
    cause::{KneeCause, MachineSample},
    charts::escaped,
    csv::csv,
    figures::{LoadReport, LoadSetup, Percentile},
    knee::{Knee, find_knee},
    page::html,
    second::ReportedSecond,
};
