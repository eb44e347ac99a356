//! What a run found, and what of it fails the run.

use serde::Serialize;

use super::article::{Published, Role};
use galley_testkit::Spread;

use crate::bench::Machine;

/// A run.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    pub(super) machine: Machine,
    pub(super) is_quick: bool,
    /// The largest share of the machine that other work had during a slice.
    pub(super) others: f64,
    pub(super) articles: Vec<ArticleOutcome>,
}

/// What was found for an article.
#[derive(Debug, Serialize)]
pub(super) struct ArticleOutcome {
    pub(super) number: usize,
    pub(super) name: &'static str,
    pub(super) lines: Vec<LineOutcome>,
    pub(super) troubles: Vec<TroubleOutcome>,
}

/// A line of ab, measured with all stacks of its article.
#[derive(Debug, Serialize)]
pub(super) struct LineOutcome {
    pub(super) title: &'static str,
    /// The line as published, without the address.
    pub(super) command: String,
    pub(super) published: &'static [Published],
    pub(super) rows: Vec<Row>,
    /// Galley's rate divided by that of each other stack in the same slice.
    pub(super) ahead: Vec<Ahead>,
}

/// One stack in one line.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) stack: &'static str,
    pub(super) role: Role,
    pub(super) slices: usize,
    pub(super) requests: u64,
    pub(super) failed: u64,
    /// What went wrong first.
    pub(super) trouble: Option<String>,
    pub(super) per_second: Option<Spread>,
    /// Of the server, PHP included and the database not, in microseconds for a request.
    pub(super) cpu_us: Option<Spread>,
    /// Share of its core that the server had, and ab of its own.
    pub(super) server_busy: Option<Spread>,
    pub(super) client_busy: Option<Spread>,
    /// The most after a slice, in megabytes.
    pub(super) memory_mb: f64,
}

/// How far Galley is ahead of a stack.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Ahead {
    pub(super) role: Role,
    pub(super) ratio: Spread,
}

/// A trouble, checked for all stacks of its article.
#[derive(Debug, Serialize)]
pub(super) struct TroubleOutcome {
    pub(super) words: &'static str,
    pub(super) verdicts: Vec<StackVerdict>,
}

/// Whether a stack has a trouble.
#[derive(Debug, Serialize)]
pub(super) struct StackVerdict {
    pub(super) stack: &'static str,
    pub(super) role: Role,
    pub(super) verdict: Verdict,
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Verdict {
    /// It is as it must be.
    pub(super) passed: bool,
    /// What was seen.
    pub(super) detail: String,
}

/// Where Galley stands beside another stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// In three quarters of the slices.
    Ahead,
    /// Neither ahead nor behind in three quarters of the slices.
    Level,
    Behind,
}

impl Standing {
    pub(super) fn of(ratio: Spread) -> Self {
        if ratio.lower > 1.0 {
            Self::Ahead
        } else if ratio.upper < 1.0 {
            Self::Behind
        } else {
            Self::Level
        }
    }
}

impl Verdict {
    pub(super) fn of(passed: bool, detail: impl Into<String>) -> Self {
        Self {
            passed,
            detail: detail.into(),
        }
    }
}

impl LineOutcome {
    pub(super) fn row(&self, role: Role) -> Option<&Row> {
        self.rows.iter().find(|row| row.role == role)
    }

    /// How much faster the stack of this role is than that of the author's begin, by medians.
    pub(super) fn gain(&self, role: Role) -> Option<f64> {
        let rate = |role: Role| Some(self.row(role)?.per_second?.median);
        Some(rate(role)? / rate(Role::Before)?)
    }

    /// The same as published.
    pub(super) fn published_gain(&self) -> Option<f64> {
        let rate = |role: Role| self.published.iter().find(|one| one.role == role);
        Some(rate(Role::Final)?.per_second / rate(Role::Before)?.per_second)
    }

    /// Galley's processor time for a request, divided by that of the stack of this role, by medians.
    pub(super) fn cpu_ratio(&self, role: Role) -> Option<f64> {
        let cpu = |role: Role| Some(self.row(role)?.cpu_us?.median);
        Some(cpu(Role::Galley)? / cpu(role)?)
    }

    pub(super) fn ahead_of(&self, role: Role) -> Option<Spread> {
        let ahead = self.ahead.iter().find(|ahead| ahead.role == role);
        ahead.map(|ahead| ahead.ratio)
    }
}

impl Outcome {
    /// What fails the run: Galley behind a stack, failures of Galley, and troubles that it has.
    pub(super) fn complaints(&self) -> Vec<String> {
        let mut all = Vec::new();
        for article in &self.articles {
            let name = format!("article {}", article.number);
            for line in &article.lines {
                all.extend(line.complaints().map(|what| format!("{name}: {what}")));
            }
            for trouble in &article.troubles {
                let ours = trouble.verdicts.iter().filter(|one| is_bad(one));
                all.extend(ours.map(|one| {
                    format!("{name}: Galley: {}: {}", trouble.words, one.verdict.detail)
                }));
            }
        }
        all
    }
}

fn is_bad(one: &StackVerdict) -> bool {
    one.role == Role::Galley && !one.verdict.passed
}

impl LineOutcome {
    fn complaints(&self) -> impl Iterator<Item = String> {
        let ours = self.row(Role::Galley);
        let failed = ours.filter(|row| row.failed > 0 || row.per_second.is_none());
        let failed = failed.map(|row| {
            let first = row.trouble.as_deref().unwrap_or("no response");
            format!(
                "{}: Galley failed {} times: {first}",
                self.title, row.failed
            )
        });
        let behind = self
            .ahead
            .iter()
            .filter(|ahead| Standing::of(ahead.ratio) == Standing::Behind);
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

    /// A run of one article with these rates, two slices each, and one trouble.
    pub(in super::super) fn run(rates: [(Role, [f64; 2]); 3], passed: [bool; 3]) -> Outcome {
        let spread = |values: [f64; 2]| Spread::of(values).unwrap();
        let name = |role: Role| match role {
            Role::Before => "Apache",
            Role::Between => "Varnish + Apache",
            Role::Final => "nginx + Apache",
            Role::Galley => "Galley",
        };
        let rows = rates.map(|(role, values)| Row {
            stack: name(role),
            role,
            slices: 2,
            requests: 100,
            failed: 0,
            trouble: None,
            per_second: Some(spread(values)),
            cpu_us: Some(spread([20.0, 20.0])),
            server_busy: Some(spread([0.7, 0.7])),
            client_busy: Some(spread([0.95, 0.95])),
            memory_mb: 40.0,
        });
        let ours = rates[2].1;
        let ahead = rates.into_iter().take(2).map(|(role, values)| Ahead {
            role,
            ratio: spread([ours[0] / values[0], ours[1] / values[1]]),
        });
        let verdicts = rates
            .iter()
            .zip(passed)
            .map(|((role, _), passed)| StackVerdict {
                stack: name(*role),
                role: *role,
                verdict: Verdict::of(passed, "seen | here"),
            });
        Outcome {
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
            others: 0.2,
            articles: vec![ArticleOutcome {
                number: 5,
                name: "centos",
                lines: vec![LineOutcome {
                    title: "The home page of WordPress",
                    command: "ab -c 1".to_owned(),
                    published: &[
                        Published {
                            role: Role::Before,
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
                troubles: vec![TroubleOutcome {
                    words: "The login works",
                    verdicts: verdicts.collect(),
                }],
            }],
        }
    }

    const BEFORE: (Role, [f64; 2]) = (Role::Before, [10.0, 10.0]);

    #[test]
    fn galley_behind_or_in_trouble_fails_the_run_and_others_do_not() {
        let ours = (Role::Galley, [100.0, 110.0]);
        let rows = [
            ([80.0, 90.0], [false, false, true], 0),
            // Level: one slice each.
            ([90.0, 120.0], [true, true, true], 0),
            ([120.0, 130.0], [true, true, true], 1),
            ([120.0, 130.0], [true, true, false], 2),
        ];
        for (final_rate, passed, wanted) in rows {
            let outcome = run([BEFORE, (Role::Final, final_rate), ours], passed);
            let complaints = outcome.complaints();
            assert_eq!(complaints.len(), wanted, "{complaints:?}");
        }
    }

    #[test]
    fn failures_of_galley_fail_the_run() {
        let ours = (Role::Galley, [100.0, 110.0]);
        let mut outcome = run([BEFORE, (Role::Final, [50.0, 50.0]), ours], [true; 3]);
        let row = &mut outcome.articles[0].lines[0].rows[2];
        (row.failed, row.trouble) = (3, Some("Length: 3".to_owned()));
        let complaints = outcome.complaints();
        assert!(
            complaints[0].contains("failed 3 times: Length: 3"),
            "{complaints:?}"
        );
    }

    #[test]
    fn gains_are_those_of_medians() {
        let outcome = run(
            [
                BEFORE,
                (Role::Final, [50.0, 70.0]),
                (Role::Galley, [100.0, 100.0]),
            ],
            [true; 3],
        );
        let line = &outcome.articles[0].lines[0];
        assert_eq!(line.gain(Role::Final), Some(6.0));
        assert_eq!(line.gain(Role::Galley), Some(10.0));
        assert_eq!(line.published_gain(), Some(16_000.0));
    }
}
