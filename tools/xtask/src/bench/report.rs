//! The results of a run, as in its JSON file. Tables and charts are made from them.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize};

use galley_testkit::Quartiles;

use super::{
    context::Sample,
    figure::Figure,
    machine::Machine,
    plan::BenchPlan,
    settings::{FigureSelector, RequestHeads},
};
use crate::error::CommandError;

/// The results of a run. Earlier runs have the key `troubles` in their JSON files.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BenchReport {
    pub(super) machine: Machine,
    pub(super) rounds: u32,
    /// Slices per round.
    pub(super) slices: u32,
    /// Duration of a slice.
    pub(super) slice_s: f64,
    quick: bool,
    pub(super) scenarios: Vec<ScenarioReport>,
    #[serde(rename = "troubles")]
    pub(super) failures: Vec<Failure>,
}

/// One scenario with all its contenders.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ScenarioReport {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) note: String,
    /// How the heads of its requests differ.
    pub(super) heads: RequestHeads,
    /// The figure that is compared.
    pub(super) figure: Figure,
    pub(super) rows: Vec<ContenderReport>,
}

/// One contender in one scenario.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ContenderReport {
    pub(super) contender: String,
    pub(super) title: String,
    /// Median and quartiles over the slices.
    pub(super) median: BTreeMap<Figure, Quartiles>,
    pub(super) slices: Vec<Sample>,
    /// The compared figure divided by the floor's, slice by slice.
    pub(super) of_floor: Option<Quartiles>,
}

/// A contender that failed to start or to be measured.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) contender: String,
    pub(super) during: String,
    pub(super) what: String,
}

impl BenchReport {
    /// A report with a row for each measurement of the plan, without figures.
    pub(super) fn new(plan: &BenchPlan, machine: Machine) -> Self {
        let scenarios = plan.scenarios.iter().map(|scenario| ScenarioReport {
            name: scenario.name.clone(),
            title: scenario.title.clone(),
            note: scenario.note.clone(),
            heads: scenario.heads,
            figure: scenario.figure,
            rows: scenario
                .contenders
                .iter()
                .filter_map(|name| plan.contender(name))
                .map(|contender| ContenderReport {
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
            failures: Vec::new(),
        }
    }

    /// Reads the JSON file of an earlier run.
    pub(super) fn read(path: &Path) -> Result<Self, CommandError> {
        let bytes =
            fs::read(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
        serde_json::from_slice(&bytes).map_err(|error| {
            format!(
                "`{}` is not a result of this benchmark: {error}",
                path.display()
            )
            .into()
        })
    }

    /// Adds the figures of a slice.
    pub(super) fn add(&mut self, scenario: &str, contender: &str, sample: Sample) {
        let mut scenarios = self.scenarios.iter_mut();
        let Some(scenario) = scenarios.find(|it| it.name == scenario) else {
            return;
        };
        if let Some(row) = scenario
            .rows
            .iter_mut()
            .find(|row| row.contender == contender)
        {
            row.slices.push(sample);
            row.summarise();
        }
        let figure = scenario.figure;
        let floor = scenario.row("floor").map(|floor| floor.values(figure));
        for row in &mut scenario.rows {
            row.of_floor = floor
                .as_ref()
                .and_then(|floor| ratio_of_slices(&row.values(figure), floor));
        }
    }

    /// Prints a failure to stderr and records it.
    pub(super) fn add_failure(&mut self, contender: &str, during: &str, what: &str) {
        eprintln!("bench: {contender}: {during}: {what}");
        self.failures.push(Failure {
            contender: contender.to_owned(),
            during: during.to_owned(),
            what: what.to_owned(),
        });
    }

    /// The base name of the result files.
    pub(super) fn file_name(&self) -> String {
        let kind = if self.quick { "-quick" } else { "" };
        format!("{}{kind}", self.machine.began)
    }

    pub(super) fn scenario(&self, name: &str) -> Option<&ScenarioReport> {
        self.scenarios.iter().find(|it| it.name == name)
    }

    /// `of` divided by `against`, slice by slice; without `against`, `of` itself.
    pub(super) fn ratio(
        &self,
        of: &FigureSelector,
        against: Option<&FigureSelector>,
    ) -> Option<Quartiles> {
        let values = |selector: &FigureSelector| -> Option<BTreeMap<u32, f64>> {
            let row = self
                .scenario(&selector.scenario)?
                .row(&selector.contender)?;
            Some(row.values(selector.figure))
        };
        let of = values(of)?;
        match against {
            None => Quartiles::of(of.into_values()),
            Some(against) => ratio_of_slices(&of, &values(against)?),
        }
    }

    /// The largest share of the machine that other processes used during a slice.
    pub(super) fn most_others_busy(&self) -> f64 {
        let rows = self.scenarios.iter().flat_map(|scenario| &scenario.rows);
        rows.flat_map(|row| &row.slices)
            .filter_map(|sample| sample.figures.get(&Figure::OthersBusy))
            .copied()
            .fold(0.0, f64::max)
    }
}

impl ScenarioReport {
    pub(super) fn row(&self, contender: &str) -> Option<&ContenderReport> {
        self.rows.iter().find(|row| row.contender == contender)
    }

    /// The median of the compared figure of a contender.
    pub(super) fn value(&self, contender: &str) -> Option<f64> {
        let spread = self.row(contender)?.median.get(&self.figure)?;
        Some(spread.median)
    }
}

/// The ratios of the values with the same slice number.
fn ratio_of_slices(of: &BTreeMap<u32, f64>, against: &BTreeMap<u32, f64>) -> Option<Quartiles> {
    let pairs = of.iter().filter_map(|(slice, value)| {
        let other = *against.get(slice)?;
        (other > 0.0).then_some(value / other)
    });
    Quartiles::of(pairs)
}

impl ContenderReport {
    /// The values of a figure by slice number.
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
            if let Some(spread) = Quartiles::of(values.copied()) {
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

    /// A report with values of one scenario's figure: for each contender one value per slice.
    pub(in super::super) fn sample_report(
        plan: &BenchPlan,
        scenario: &str,
        values: &[(&str, &[f64])],
    ) -> BenchReport {
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
        let mut report = BenchReport::new(plan, machine);
        let scenario = plan
            .scenarios
            .iter()
            .find(|it| it.name == scenario)
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
                    first_failure: None,
                    figures,
                };
                report.add(&scenario.name, name, sample);
            }
        }
        report
    }

    #[test]
    fn ratios_are_taken_slice_by_slice() {
        let plan = BenchPlan::shipped();
        let values: [(&str, &[f64]); 2] = [
            ("galley", &[10.0, 30.0, 22.0]),
            ("floor", &[10.0, 20.0, 20.0]),
        ];
        let report = sample_report(&plan, "post-gzip", &values);
        let selector = |contender: &str| FigureSelector {
            scenario: "post-gzip".to_owned(),
            contender: contender.to_owned(),
            figure: Figure::CpuUs,
        };
        let ratio = report
            .ratio(&selector("galley"), Some(&selector("floor")))
            .unwrap();
        assert_eq!((ratio.median, ratio.lower, ratio.upper), (1.1, 1.05, 1.3));
        let alone = report.ratio(&selector("galley"), None).unwrap();
        assert_eq!((alone.median, alone.lower), (22.0, 16.0));
        assert!(
            report
                .ratio(&selector("varnish"), Some(&selector("floor")))
                .is_none()
        );
    }

    #[test]
    fn a_written_report_can_be_read() {
        let plan = BenchPlan::shipped();
        let report = sample_report(&plan, "post-gzip", &[("galley", &[10.0])]);
        let text = serde_json::to_string(&report).unwrap();
        let again: BenchReport = serde_json::from_str(&text).unwrap();
        assert_eq!(
            again.scenario("post-gzip").unwrap().value("galley"),
            Some(10.0)
        );
    }
}
