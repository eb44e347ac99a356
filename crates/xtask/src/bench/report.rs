//! Everything that a run has found: what the JSON file holds and the table shows.

use serde::Serialize;

use super::{
    client::Cell,
    machine::Machine,
    measure::Sample,
    plan::{Contender, Plan},
    spread::Spread,
};

/// A run. Rows stand in the order of the table.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) machine: Machine,
    pub(super) connections: u32,
    pub(super) php_workers: u32,
    pub(super) rounds: u32,
    /// Of each measurement.
    pub(super) seconds: u32,
    quick: bool,
    pub(super) baseline: String,
    pub(super) rows: Vec<Row>,
    troubles: Vec<Trouble>,
}

/// One contender asked in one way.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) page: String,
    pub(super) client: String,
    /// Accept-Encoding; empty when it is not sent.
    pub(super) accept_encoding: String,
    pub(super) contender: String,
    pub(super) title: String,
    pub(super) median: Option<Figures>,
    pub(super) rounds: Vec<Sample>,
}

/// The rounds of one row together.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Figures {
    pub(super) per_second: Spread,
    pub(super) p50_ms: Spread,
    pub(super) p99_ms: Spread,
    pub(super) cpu_us: Spread,
    pub(super) server_busy: Spread,
    pub(super) others_busy: Spread,
    /// Of all rounds.
    pub(super) failed: u64,
}

/// Something that did not work.
#[derive(Debug, Serialize)]
struct Trouble {
    contender: String,
    during: String,
    what: String,
}

impl Report {
    /// A report with a row for everything that the plan asks, and no figures yet.
    pub(super) fn new(plan: &Plan, machine: Machine) -> Self {
        let mut rows = Vec::new();
        for cell in Cell::all(plan) {
            for contender in &plan.contenders {
                rows.push(Row {
                    page: cell.page.to_string(),
                    client: cell.client.name.clone(),
                    accept_encoding: cell.accept_encoding.to_owned(),
                    contender: contender.name.clone(),
                    title: contender.title.clone(),
                    median: None,
                    rounds: Vec::new(),
                });
            }
        }
        Self {
            machine,
            connections: plan.connections,
            php_workers: plan.php_workers,
            rounds: plan.length.rounds,
            seconds: plan.length.seconds,
            quick: plan.is_quick,
            baseline: plan.baseline.clone(),
            rows,
            troubles: Vec::new(),
        }
    }

    /// Adds a round to its row.
    pub(super) fn add(&mut self, contender: &Contender, cell: &Cell<'_>, sample: Sample) {
        let page = cell.page.to_string();
        let row = self.rows.iter_mut().find(|row| {
            row.contender == contender.name
                && row.page == page
                && row.client == cell.client.name
                && row.accept_encoding == cell.accept_encoding
        });
        if let Some(row) = row {
            row.rounds.push(sample);
            row.median = Figures::of(&row.rounds);
        }
    }

    /// Says on stderr what did not work, and keeps it.
    pub(super) fn trouble(&mut self, contender: &Contender, during: &str, what: &str) {
        eprintln!("bench: {}: {during}: {what}", contender.name);
        self.troubles.push(Trouble {
            contender: contender.name.clone(),
            during: during.to_owned(),
            what: what.to_owned(),
        });
    }

    pub(super) fn troubles(&self) -> usize {
        self.troubles.len()
    }

    /// A name for its files.
    pub(super) fn name(&self) -> String {
        let kind = if self.quick { "-quick" } else { "" };
        format!("{}{kind}", self.machine.began)
    }

    /// The same way of asking, answered by the contender that others are compared with.
    pub(super) fn baseline_of(&self, row: &Row) -> Option<Figures> {
        let same = |other: &&Row| {
            other.contender == self.baseline
                && other.page == row.page
                && other.client == row.client
                && other.accept_encoding == row.accept_encoding
        };
        self.rows.iter().find(same)?.median
    }

    /// The largest share of the machine that others had during a measurement.
    pub(super) fn most_others_busy(&self) -> f64 {
        let samples = self.rows.iter().flat_map(|row| &row.rounds);
        samples.map(|sample| sample.others_busy).fold(0.0, f64::max)
    }
}

impl Figures {
    fn of(samples: &[Sample]) -> Option<Self> {
        let spread = |figure: fn(&Sample) -> f64| Spread::of(samples.iter().map(figure));
        Some(Self {
            per_second: spread(|sample| sample.per_second)?,
            p50_ms: spread(|sample| sample.p50_ms)?,
            p99_ms: spread(|sample| sample.p99_ms)?,
            cpu_us: spread(|sample| sample.cpu_us)?,
            server_busy: spread(|sample| sample.server_busy)?,
            others_busy: spread(|sample| sample.others_busy)?,
            failed: samples.iter().map(|sample| sample.failed).sum(),
        })
    }
}
