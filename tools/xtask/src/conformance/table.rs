//! The results as tables: totals by server, results by suite and server, and the failed tests.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::ServerResults;
use super::verdict::{TestKind, TestVerdict, verdicts};

/// All tables, in Markdown.
pub(super) fn all(runs: &[ServerResults]) -> String {
    let mut out = String::new();
    totals(runs, &mut out);
    suites(runs, &mut out);
    for run in runs {
        failures(run, &mut out);
    }
    out
}

fn totals(runs: &[ServerResults], out: &mut String) {
    out.push_str("| server | required: passed | failed | blocked | no result | optimal: passed | failed | blocked | no result | checks: yes | no | other |\n");
    out.push_str("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for run in runs {
        let count = counts(run, None);
        let of = |kind, verdicts: &[TestVerdict]| -> usize {
            verdicts
                .iter()
                .map(|v| count.get(&(kind, *v)).copied().unwrap_or(0))
                .sum()
        };
        let none = [TestVerdict::Setup, TestVerdict::Retry];
        let _ = write!(out, "| {} |", run.server);
        for kind in [TestKind::Required, TestKind::Optimal] {
            let _ = write!(
                out,
                " {} | {} | {} | {} |",
                of(kind, &[TestVerdict::Pass]),
                of(kind, &[TestVerdict::Fail]),
                of(kind, &[TestVerdict::Blocked]),
                of(kind, &none),
            );
        }
        let other = [TestVerdict::Blocked, TestVerdict::Setup, TestVerdict::Retry];
        let _ = writeln!(
            out,
            " {} | {} | {} |",
            of(TestKind::Check, &[TestVerdict::Pass]),
            of(TestKind::Check, &[TestVerdict::Fail]),
            of(TestKind::Check, &other),
        );
    }
    out.push('\n');
}

/// The passed and total numbers of required and optimal tests, by suite.
fn suites(runs: &[ServerResults], out: &mut String) {
    let Some(first) = runs.first() else { return };
    let mut names: Vec<&str> = Vec::new();
    for test in &first.tests {
        if !names.contains(&test.suite.as_str()) {
            names.push(&test.suite);
        }
    }
    let _ = write!(out, "| suite (required + optimal) |");
    for run in runs {
        let _ = write!(out, " {} |", run.server);
    }
    let _ = writeln!(out, "\n|---|{}", "--:|".repeat(runs.len()));
    for name in names {
        let _ = write!(out, "| {name} |");
        for run in runs {
            let count = counts(run, Some(name));
            let mut totals = Vec::new();
            for kind in [TestKind::Required, TestKind::Optimal] {
                let all: usize = count
                    .iter()
                    .filter(|((k, v), _)| *k == kind && *v != TestVerdict::Untested)
                    .map(|(_, n)| n)
                    .sum();
                let passed = count.get(&(kind, TestVerdict::Pass)).copied().unwrap_or(0);
                totals.push(format!("{passed}/{all}"));
            }
            let _ = write!(out, " {} |", totals.join(" + "));
        }
        out.push('\n');
    }
    out.push('\n');
}

fn failures(run: &ServerResults, out: &mut String) {
    let verdicts = verdicts(&run.tests);
    let _ = writeln!(
        out,
        "{}: required and optimal tests that did not pass",
        run.server
    );
    for kind in [TestKind::Required, TestKind::Optimal] {
        for test in run.tests.iter().filter(|test| test.kind == kind) {
            let verdict = verdicts.get(test.id.as_str()).copied();
            let Some(verdict) =
                verdict.filter(|v| !matches!(v, TestVerdict::Pass | TestVerdict::Untested))
            else {
                continue;
            };
            let detail = test.failure.as_ref().map_or("", |(_, detail)| detail);
            let _ = writeln!(out, "- {kind:?} {verdict:?}: `{}` {detail}", test.id);
        }
    }
    out.push('\n');
}

fn counts(run: &ServerResults, suite: Option<&str>) -> BTreeMap<(TestKind, TestVerdict), usize> {
    let verdicts = verdicts(&run.tests);
    let mut counts = BTreeMap::new();
    for test in &run.tests {
        if suite.is_none_or(|suite| test.suite == suite)
            && let Some(verdict) = verdicts.get(test.id.as_str())
        {
            *counts.entry((test.kind, *verdict)).or_insert(0) += 1;
        }
    }
    counts
}
