//! The results of a run, and the failures among them.

use serde::Serialize;

use super::article::{Published, Role};
use galley_testkit::Quartiles;

use crate::bench::Machine;

/// The results of a run.
#[derive(Debug, Serialize)]
pub(super) struct SeedsResults {
    pub(super) machine: Machine,
    pub(super) is_quick: bool,
    /// The largest share of the machine that other processes used during a slice.
    pub(super) others_share: f64,
    pub(super) articles: Vec<ArticleResults>,
}

/// The results for one article.
#[derive(Debug, Serialize)]
pub(super) struct ArticleResults {
    pub(super) number: usize,
    pub(super) name: &'static str,
    pub(super) lines: Vec<AbLineResult>,
    pub(super) problems: Vec<ProblemResult>,
}

/// The results of an `ab` command line for all stacks of its article.
#[derive(Debug, Serialize)]
pub(super) struct AbLineResult {
    pub(super) title: &'static str,
    /// The published command line without the URL.
    pub(super) command: String,
    pub(super) published: &'static [Published],
    pub(super) rows: Vec<StackFigures>,
    /// Galley's rate divided by that of each other stack in the same slice.
    pub(super) ahead: Vec<GalleyLead>,
}

/// The figures of one stack under one command line.
#[derive(Debug, Clone, Serialize)]
pub(super) struct StackFigures {
    pub(super) stack: &'static str,
    pub(super) role: Role,
    pub(super) slices: usize,
    pub(super) requests: u64,
    pub(super) failed: u64,
    /// Description of the first failure.
    pub(super) first_failure: Option<String>,
    pub(super) per_second: Option<Quartiles>,
    /// Processor time per request of the servers, with PHP and without the database, in microseconds.
    pub(super) cpu_us: Option<Quartiles>,
    /// Share of the servers' core that they used.
    pub(super) server_busy: Option<Quartiles>,
    /// Share of the client's core that `ab` used.
    pub(super) client_busy: Option<Quartiles>,
    /// The maximum after a slice, in megabytes.
    pub(super) memory_mb: f64,
}

/// Galley's rate divided by that of another stack.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct GalleyLead {
    pub(super) role: Role,
    pub(super) ratio: Quartiles,
}

/// The check of a problem for all stacks of its article.
#[derive(Debug, Serialize)]
pub(super) struct ProblemResult {
    pub(super) requirement: &'static str,
    pub(super) verdicts: Vec<StackVerdict>,
}

/// Whether a stack meets a requirement.
#[derive(Debug, Serialize)]
pub(super) struct StackVerdict {
    pub(super) stack: &'static str,
    pub(super) role: Role,
    pub(super) verdict: ProbeVerdict,
}

/// The result of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ProbeVerdict {
    /// The requirement is met.
    pub(super) passed: bool,
    /// What the probe observed.
    pub(super) detail: String,
}

/// Galley's rate in comparison with that of another stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RateComparison {
    /// Higher in three quarters of the slices.
    Ahead,
    /// Neither ahead nor behind in three quarters of the slices.
    Level,
    /// Lower in three quarters of the slices.
    Behind,
}

impl RateComparison {
    pub(super) fn of(ratio: Quartiles) -> Self {
        if ratio.lower > 1.0 {
            Self::Ahead
        } else if ratio.upper < 1.0 {
            Self::Behind
        } else {
            Self::Level
        }
    }
}

impl ProbeVerdict {
    pub(super) fn of(passed: bool, detail: impl Into<String>) -> Self {
        Self {
            passed,
            detail: detail.into(),
        }
    }
}

impl AbLineResult {
    pub(super) fn row(&self, role: Role) -> Option<&StackFigures> {
        self.rows.iter().find(|row| row.role == role)
    }

    /// The median rate of a stack divided by that of the author's original stack.
    pub(super) fn gain(&self, role: Role) -> Option<f64> {
        let rate = |role: Role| Some(self.row(role)?.per_second?.median);
        Some(rate(role)? / rate(Role::Original)?)
    }

    /// The published rate of the final stack divided by that of the original stack.
    pub(super) fn published_gain(&self) -> Option<f64> {
        let rate = |role: Role| self.published.iter().find(|one| one.role == role);
        Some(rate(Role::Final)?.per_second / rate(Role::Original)?.per_second)
    }

    /// Galley's median processor time per request divided by that of another stack.
    pub(super) fn cpu_ratio(&self, role: Role) -> Option<f64> {
        let cpu = |role: Role| Some(self.row(role)?.cpu_us?.median);
        Some(cpu(Role::Galley)? / cpu(role)?)
    }

    pub(super) fn ahead_of(&self, role: Role) -> Option<Quartiles> {
        let ahead = self.ahead.iter().find(|ahead| ahead.role == role);
        ahead.map(|ahead| ahead.ratio)
    }
}

impl SeedsResults {
    /// What fails the run: lines on which Galley is behind or has failed requests, and requirements that it does not meet.
    pub(super) fn failures(&self) -> Vec<String> {
        let mut all = Vec::new();
        for article in &self.articles {
            let name = format!("article {}", article.number);
            for line in &article.lines {
                all.extend(line.failures().map(|text| format!("{name}: {text}")));
            }
            for problem in &article.problems {
                let failed = problem
                    .verdicts
                    .iter()
                    .filter(|it| is_failure_of_galley(it));
                all.extend(failed.map(|it| {
                    format!(
                        "{name}: Galley: {}: {}",
                        problem.requirement, it.verdict.detail
                    )
                }));
            }
        }
        all
    }
}

fn is_failure_of_galley(verdict: &StackVerdict) -> bool {
    verdict.role == Role::Galley && !verdict.verdict.passed
}

impl AbLineResult {
    fn failures(&self) -> impl Iterator<Item = String> {
        let ours = self.row(Role::Galley);
        let failed = ours.filter(|row| row.failed > 0 || row.per_second.is_none());
        let failed = failed.map(|row| {
            let first = row.first_failure.as_deref().unwrap_or("no response");
            format!(
                "{}: Galley failed {} times: {first}",
                self.title, row.failed
            )
        });
        let behind = self
            .ahead
            .iter()
            .filter(|ahead| RateComparison::of(ahead.ratio) == RateComparison::Behind);
        let behind = behind.map(|ahead| {
            let stack = self
                .row(ahead.role)
                .map_or("another stack", |row| row.stack);
            format!(
                "{}: Galley is behind {stack}: {:.2} times its rate",
                self.title, ahead.ratio.median
            )
        });
        failed
            .into_iter()
            .chain(behind)
            .collect::<Vec<_>>()
            .into_iter()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::bench::Cores;

    /// Results of one article, with the rates of two slices for each stack, and the verdicts on one problem.
    pub(in super::super) fn sample_results(
        rates: [(Role, [f64; 2]); 3],
        passed: [bool; 3],
    ) -> SeedsResults {
        let spread = |values: [f64; 2]| Quartiles::of(values).unwrap();
        let name = |role: Role| match role {
            Role::Original => "Apache",
            Role::Intermediate => "Varnish + Apache",
            Role::Final => "nginx + Apache",
            Role::Galley => "Galley",
        };
        let rows = rates.map(|(role, values)| StackFigures {
            stack: name(role),
            role,
            slices: 2,
            requests: 100,
            failed: 0,
            first_failure: None,
            per_second: Some(spread(values)),
            cpu_us: Some(spread([20.0, 20.0])),
            server_busy: Some(spread([0.7, 0.7])),
            client_busy: Some(spread([0.95, 0.95])),
            memory_mb: 40.0,
        });
        let ours = rates[2].1;
        let ahead = rates.into_iter().take(2).map(|(role, values)| GalleyLead {
            role,
            ratio: spread([ours[0] / values[0], ours[1] / values[1]]),
        });
        let verdicts = rates
            .iter()
            .zip(passed)
            .map(|((role, _), passed)| StackVerdict {
                stack: name(*role),
                role: *role,
                verdict: ProbeVerdict::of(passed, "seen | here"),
            });
        SeedsResults {
            machine: Machine {
                began: "2026-01-02T03-04-05Z".to_owned(),
                cpu: "CPU".to_owned(),
                cores: 2,
                kernel: "6.1".to_owned(),
                pinned: Cores {
                    server: Some(0),
                    client: Some(1),
                },
                versions: BTreeMap::from([(
                    "nginx".to_owned(),
                    "nginx version: nginx/1.22.1".to_owned(),
                )]),
            },
            is_quick: true,
            others_share: 0.2,
            articles: vec![ArticleResults {
                number: 5,
                name: "centos",
                lines: vec![AbLineResult {
                    title: "The home page of WordPress",
                    command: "ab -c 1".to_owned(),
                    published: &[
                        Published {
                            role: Role::Original,
                            per_second: 0.5,
                        },
                        Published {
                            role: Role::Final,
                            per_second: 8000.0,
                        },
                    ],
                    rows: rows.to_vec(),
                    ahead: ahead.collect(),
                }],
                problems: vec![ProblemResult {
                    requirement: "The login works",
                    verdicts: verdicts.collect(),
                }],
            }],
        }
    }

    const ORIGINAL: (Role, [f64; 2]) = (Role::Original, [10.0, 10.0]);

    #[test]
    fn a_run_fails_if_galley_is_behind_or_does_not_meet_a_requirement() {
        let ours = (Role::Galley, [100.0, 110.0]);
        let rows = [
            ([80.0, 90.0], [false, false, true], 0),
            // Level: each is faster in one slice.
            ([90.0, 120.0], [true, true, true], 0),
            ([120.0, 130.0], [true, true, true], 1),
            ([120.0, 130.0], [true, true, false], 2),
        ];
        for (final_rate, passed, expected) in rows {
            let results = sample_results([ORIGINAL, (Role::Final, final_rate), ours], passed);
            let failures = results.failures();
            assert_eq!(failures.len(), expected, "{failures:?}");
        }
    }

    #[test]
    fn a_run_fails_if_requests_to_galley_fail() {
        let ours = (Role::Galley, [100.0, 110.0]);
        let mut results = sample_results([ORIGINAL, (Role::Final, [50.0, 50.0]), ours], [true; 3]);
        let row = &mut results.articles[0].lines[0].rows[2];
        (row.failed, row.first_failure) = (3, Some("Length: 3".to_owned()));
        let failures = results.failures();
        assert!(
            failures[0].contains("failed 3 times: Length: 3"),
            "{failures:?}"
        );
    }

    #[test]
    fn gains_are_ratios_of_medians() {
        let results = sample_results(
            [
                ORIGINAL,
                (Role::Final, [50.0, 70.0]),
                (Role::Galley, [100.0, 100.0]),
            ],
            [true; 3],
        );
        let line = &results.articles[0].lines[0];
        assert_eq!(line.gain(Role::Final), Some(6.0));
        assert_eq!(line.gain(Role::Galley), Some(10.0));
        assert_eq!(line.published_gain(), Some(16_000.0));
    }
}
