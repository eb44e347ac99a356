//! Charts of the machine during a run: processor time, how busy it was, and the requests at PHP. They show what limited the target.

use super::{
    cause::MachineSample,
    charts::{ChartColor, ChartLine, ChartPoint, lines},
    figures::LoadReport,
};

/// The charts of a run for which the samples have values, with the same scales for all `runs`.
pub(super) fn machine_charts(run: &LoadReport, runs: &[&LoadReport]) -> Vec<String> {
    let charts = CHARTS.iter();
    charts.filter_map(|chart| chart.draw(run, runs)).collect()
}

struct MachineChart {
    title: &'static str,
    unit: &'static str,
    lines: &'static [MachineLine],
}

struct MachineLine {
    name: &'static str,
    color: ChartColor,
    value: fn(&MachineSample) -> Option<f64>,
}

impl MachineChart {
    fn draw(&self, run: &LoadReport, runs: &[&LoadReport]) -> Option<String> {
        let drawn: Vec<ChartLine> = self
            .lines
            .iter()
            .map(|line| line.of(run))
            .filter(|line| !line.points.is_empty())
            .collect();
        if drawn.is_empty() {
            return None;
        }
        let samples = runs.iter().flat_map(|run| &run.machine);
        let values =
            samples.flat_map(|sample| self.lines.iter().filter_map(|line| (line.value)(sample)));
        let most = values.fold(0.0, f64::max);
        Some(lines(
            self.title,
            self.unit,
            &drawn,
            run.seconds.len(),
            most,
        ))
    }
}

impl MachineLine {
    fn of(&self, run: &LoadReport) -> ChartLine {
        let points = run.machine.iter().filter_map(|sample| {
            let value = (self.value)(sample)?;
            Some(ChartPoint {
                at_s: sample.at_s,
                value,
            })
        });
        ChartLine {
            name: self.name,
            color: self.color,
            points: points.collect(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "requests at PHP")]
fn count(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

fn percent(share: Option<f64>) -> Option<f64> {
    share.map(|share| share * 100.0)
}

const CHARTS: &[MachineChart] = &[
    MachineChart {
        title: "Processor time on this machine",
        unit: "cores",
        lines: &[
            MachineLine {
                name: "load test",
                color: ChartColor::Blue,
                value: |sample| Some(sample.client_cores),
            },
            MachineLine {
                name: "PHP",
                color: ChartColor::Amber,
                value: |sample| sample.php_cores,
            },
            MachineLine {
                name: "database",
                color: ChartColor::Green,
                value: |sample| sample.database_cores,
            },
        ],
    },
    MachineChart {
        title: "How busy this machine was",
        unit: "%",
        lines: &[
            MachineLine {
                name: "processors",
                color: ChartColor::Blue,
                value: |sample| percent(sample.busy),
            },
            MachineLine {
                name: "network",
                color: ChartColor::Amber,
                value: |sample| percent(sample.network),
            },
        ],
    },
    MachineChart {
        title: "Requests at PHP",
        unit: "requests",
        lines: &[
            MachineLine {
                name: "slots",
                color: ChartColor::Blue,
                value: |sample| count(sample.php_slots),
            },
            MachineLine {
                name: "in progress",
                color: ChartColor::Green,
                value: |sample| count(sample.php_in_flight),
            },
            MachineLine {
                name: "waiting",
                color: ChartColor::Red,
                value: |sample| count(sample.php_waiting),
            },
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::{super::second::ReportedSecond, *};

    fn run(samples: Vec<MachineSample>) -> LoadReport {
        LoadReport {
            seconds: vec![ReportedSecond::default(); 5],
            machine: samples,
            ..LoadReport::default()
        }
    }

    fn sample(at_s: f64) -> MachineSample {
        MachineSample {
            at_s,
            client_cores: 0.5,
            busy: Some(0.8),
            php_cores: Some(1.5),
            php_in_flight: Some(6),
            php_slots: Some(8),
            php_waiting: Some(40),
            ..MachineSample::default()
        }
    }

    #[test]
    fn samples_are_drawn_over_the_seconds_of_the_run() {
        let run = run(vec![sample(1.0), sample(3.0)]);
        let charts = machine_charts(&run, &[&run]);
        let titles = [
            "Processor time on this machine",
            "How busy this machine was",
            "Requests at PHP",
        ];
        assert_eq!(charts.len(), titles.len());
        for (chart, title) in charts.iter().zip(titles) {
            assert!(
                chart.contains(&format!("<title>{title}</title>")),
                "{chart}"
            );
            assert!(chart.contains(">4 s<"), "{chart}");
        }
        // The second and the fourth of five seconds, on a chart from 90 to 620.
        assert!(charts[0].contains("M222.5 "), "{}", charts[0]);
        assert!(charts[0].contains("L487.5 "), "{}", charts[0]);
        assert!(
            charts[0]
                .contains("<desc>load test: at most 0.50 cores; PHP: at most 1.50 cores</desc>"),
            "no database was seen: {}",
            charts[0]
        );
        assert!(charts[2].contains("waiting: at most 40.0 requests"));
    }

    #[test]
    fn charts_without_values_are_omitted_and_two_runs_have_one_scale() {
        let bare = MachineSample {
            client_cores: 3.0,
            ..MachineSample::default()
        };
        let (before, after) = (run(vec![sample(1.0)]), run(vec![bare]));
        let charts = machine_charts(&after, &[&before, &after]);
        assert_eq!(charts.len(), 1, "neither shares nor PHP were seen");
        assert_eq!(machine_charts(&run(Vec::new()), &[&before]).len(), 0);
        // The highest value of both runs.
        let top = ">3</text>";
        let of_before = machine_charts(&before, &[&before, &after]);
        assert!(of_before[0].contains(top) && charts[0].contains(top));
    }
}
