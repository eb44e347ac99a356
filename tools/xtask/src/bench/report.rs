//! Everything that a run has found: what the JSON file holds, and what tables and charts show.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize};

use galley_testkit::Spread;

use super::{
    figure::Figure,
    machine::Machine,
    plan::{Cell, Heads, Plan},
    stand::Sample,
};
use crate::demo::CommandError;

/// A run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) machine: Machine,
    pub(super) rounds: u32,
    /// Of each round.
    pub(super) slices: u32,
    /// Of each slice.
    pub(super) slice_s: f64,
    quick: bool,
    pub(super) scenarios: Vec<Section>,
    pub(super) troubles: Vec<Trouble>,
}

/// One scenario with all who were asked.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) note: String,
    /// How the heads of its requests differ.
    pub(super) heads: Heads,
    /// What is compared.
    pub(super) figure: Figure,
    pub(super) rows: Vec<Row>,
}

/// One contender in one scenario.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) contender: String,
    pub(super) title: String,
    /// Over the slices.
    pub(super) median: BTreeMap<Figure, Spread>,
    pub(super) slices: Vec<Sample>,
    /// The figure that is compared as a multiple of the floor's, slice by slice.
    pub(super) of_floor: Option<Spread>,
}

/// Something that did not work.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Trouble {
    pub(super) contender: String,
    pub(super) during: String,
    pub(super) what: String,
}

impl Report {
    /// A report with a row for everything that the plan asks, and no figures yet.
    pub(super) fn new(plan: &Plan, machine: Machine) -> Self {
        let scenarios = plan.scenarios.iter().map(|scenario| Section {
            name: scenario.name.clone(),
            title: scenario.title.clone(),
            note: scenario.note.clone(),
            heads: scenario.heads,
            figure: scenario.figure,
            rows: scenario
                .contenders
                .iter()
                .filter_map(|name| plan.contender(name))
                .map(|contender| Row {
                    contender: contender.name.clone(),
                    title: contender.title.clone(),
                    median: BTreeMap::new(),
                    slices: Vec::new(),
                    of_floor: None,
                })
                .collect(),
        });
        Self {
            machine,
            rounds: plan.length.rounds,
            slices: plan.length.slices,
            slice_s: plan.length.slice_s,
            quick: plan.is_quick,
            scenarios: scenarios.collect(),
            troubles: Vec::new(),
        }
    }

    /// Reads what an earlier run has written.
    pub(super) fn read(path: &Path) -> Result<Self, CommandError> {
        let bytes =
            fs::read(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
        serde_json::from_slice(&bytes).map_err(|error| {
            format!("`{}` is no result of this bench: {error}", path.display()).into()
        })
    }

    /// Adds a slice to its row.
    pub(super) fn add(&mut self, scenario: &str, contender: &str, sample: Sample) {
        let mut sections = self.scenarios.iter_mut();
        let Some(section) = sections.find(|section| section.name == scenario) else {
            return;
        };
        if let Some(row) = section
            .rows
            .iter_mut()
            .find(|row| row.contender == contender)
        {
            row.slices.push(sample);
            row.summarise();
        }
        let figure = section.figure;
        let floor = section.row("floor").map(|floor| floor.values(figure));
        for row in &mut section.rows {
            row.of_floor = floor
                .as_ref()
                .and_then(|floor| paired(&row.values(figure), floor));
        }
    }

    /// Says on stderr what did not work, and keeps it.
    pub(super) fn trouble(&mut self, contender: &str, during: &str, what: &str) {
        eprintln!("bench: {contender}: {during}: {what}");
        self.troubles.push(Trouble {
            contender: contender.to_owned(),
            during: during.to_owned(),
            what: what.to_owned(),
        });
    }

    /// A name for its files.
    pub(super) fn name(&self) -> String {
        let kind = if self.quick { "-quick" } else { "" };
        format!("{}{kind}", self.machine.began)
    }

    pub(super) fn section(&self, name: &str) -> Option<&Section> {
        self.scenarios.iter().find(|section| section.name == name)
    }

    /// `of` divided by `against`, slice by slice; without `against`, `of` itself.
    pub(super) fn ratio(&self, of: &Cell, against: Option<&Cell>) -> Option<Spread> {
        let values = |cell: &Cell| -> Option<BTreeMap<u32, f64>> {
            let row = self.section(&cell.scenario)?.row(&cell.contender)?;
            Some(row.values(cell.figure))
        };
        let of = values(of)?;
        match against {
            None => Spread::of(of.into_values()),
            Some(against) => paired(&of, &values(against)?),
        }
    }

    /// The largest share of the machine that others had during a measurement.
    pub(super) fn most_others_busy(&self) -> f64 {
        let rows = self.scenarios.iter().flat_map(|section| &section.rows);
        rows.flat_map(|row| &row.slices)
            .filter_map(|sample| sample.figures.get(&Figure::OthersBusy))
            .copied()
            .fold(0.0, f64::max)
    }
}

impl Section {
    pub(super) fn row(&self, contender: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.contender == contender)
    }

    /// The value that is compared, of one contender.
    pub(super) fn value(&self, contender: &str) -> Option<f64> {
        let spread = self.row(contender)?.median.get(&self.figure)?;
        Some(spread.median)
    }
}

/// The ratios of values that have the same slice's number.
fn paired(of: &BTreeMap<u32, f64>, against: &BTreeMap<u32, f64>) -> Option<Spread> {
    let pairs = of.iter().filter_map(|(slice, value)| {
        let other = *against.get(slice)?;
        (other > 0.0).then_some(value / other)
    });
    Spread::of(pairs)
}

impl Row {
    /// A figure by the number of its slice.
    fn values(&self, figure: Figure) -> BTreeMap<u32, f64> {
        let slices = self.slices.iter();
        let values = slices.filter_map(|it| Some((it.slice, *it.figures.get(&figure)?)));
        values.collect()
    }

    fn summarise(&mut self) {
        let kinds: Vec<Figure> = self
            .slices
            .iter()
            .flat_map(|sample| sample.figures.keys().copied())
            .collect();
        for figure in kinds {
            let values = self.slices.iter().filter_map(|s| s.figures.get(&figure));
            if let Some(spread) = Spread::of(values.copied()) {
                self.median.insert(figure, spread);
            }
        }
    }

    pub(super) fn failed(&self) -> u64 {
        self.slices.iter().map(|sample| sample.failed).sum()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::bench::{figure::Figures, pin::Cores};

    /// A run with CPU figures for one scenario: contender and its rounds.
    pub(in super::super) fn with(plan: &Plan, scenario: &str, values: &[(&str, &[f64])]) -> Report {
        let machine = Machine {
            began: "now".to_owned(),
            cpu: "Abacus".to_owned(),
            cores: 2,
            kernel: "6.1".to_owned(),
            pinned: Cores {
                server: Some(0),
                client: Some(1),
            },
            versions: BTreeMap::from([("nginx".to_owned(), "nginx/1.22".to_owned())]),
        };
        let mut report = Report::new(plan, machine);
        let scenario = plan
            .scenarios
            .iter()
            .find(|one| one.name == scenario)
            .unwrap();
        for (name, values) in values {
            for (slice, value) in (1..).zip(*values) {
                let figures =
                    Figures::from([(scenario.figure, *value), (Figure::PerSecond, 1e6 / value)]);
                let sample = Sample {
                    slice,
                    coding: "gzip".to_owned(),
                    body_bytes: 9000,
                    requests: 1000,
                    failed: 0,
                    trouble: None,
                    figures,
                };
                report.add(&scenario.name, name, sample);
            }
        }
        report
    }

    #[test]
    fn ratios_are_taken_slice_by_slice() {
        let plan = Plan::shipped();
        let values: [(&str, &[f64]); 2] = [
            ("galley", &[10.0, 30.0, 22.0]),
            ("floor", &[10.0, 20.0, 20.0]),
        ];
        let report = with(&plan, "post-gzip", &values);
        let cell = |contender: &str| Cell {
            scenario: "post-gzip".to_owned(),
            contender: contender.to_owned(),
            figure: Figure::CpuUs,
        };
        let ratio = report.ratio(&cell("galley"), Some(&cell("floor"))).unwrap();
        assert_eq!((ratio.median, ratio.lower, ratio.upper), (1.1, 1.05, 1.3));
        let alone = report.ratio(&cell("galley"), None).unwrap();
        assert_eq!((alone.median, alone.lower), (22.0, 16.0));
        assert!(
            report
                .ratio(&cell("varnish"), Some(&cell("floor")))
                .is_none()
        );
    }

    #[test]
    fn what_is_written_is_read_again() {
        let plan = Plan::shipped();
        let report = with(&plan, "post-gzip", &[("galley", &[10.0])]);
        let text = serde_json::to_string(&report).unwrap();
        let again: Report = serde_json::from_str(&text).unwrap();
        assert_eq!(
            again.section("post-gzip").unwrap().value("galley"),
            Some(10.0)
        );
    }
}
