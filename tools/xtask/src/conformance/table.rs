//! Results as tables: the sums of each server, each suite by server, and what failed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Run;
use super::verdict::{Kind, Verdict, judge};

/// All tables, as Markdown that is also readable as it is.
pub(super) fn all(runs: &[Run]) -> String {
    let mut out = String::new();
    sums(runs, &mut out);
    suites(runs, &mut out);
    for run in runs {
        failures(run, &mut out);
    }
    out
}

fn sums(runs: &[Run], out: &mut String) {
    out.push_str("| server | required: passed | failed | blocked | no result | optimal: passed | failed | blocked | no result | checks: yes | no | other |\n");
    out.push_str("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for run in runs {
        let count = counts(run, None);
        let of = |kind, verdicts: &[Verdict]| -> usize {
            verdicts
                .iter()
                .map(|v| count.get(&(kind, *v)).copied().unwrap_or(0))
                .sum()
        };
        let none = [Verdict::Setup, Verdict::Retry];
        let _ = write!(out, "| {} |", run.server);
        for kind in [Kind::Required, Kind::Optimal] {
            let _ = write!(
                out,
                " {} | {} | {} | {} |",
                of(kind, &[Verdict::Pass]),
                of(kind, &[Verdict::Fail]),
                of(kind, &[Verdict::Blocked]),
                of(kind, &none),
            );
        }
        let other = [Verdict::Blocked, Verdict::Setup, Verdict::Retry];
        let _ = writeln!(
            out,
            " {} | {} | {} |",
            of(Kind::Check, &[Verdict::Pass]),
            of(Kind::Check, &[Verdict::Fail]),
            of(Kind::Check, &other),
        );
    }
    out.push('\n');
}

/// Required and optimal tests passed, of how many, by suite.
fn suites(runs: &[Run], out: &mut String) {
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
            let mut sums = Vec::new();
            for kind in [Kind::Required, Kind::Optimal] {
                let all: usize = count
                    .iter()
                    .filter(|((k, v), _)| *k == kind && *v != Verdict::Untested)
                    .map(|(_, n)| n)
                    .sum();
                let passed = count.get(&(kind, Verdict::Pass)).copied().unwrap_or(0);
                sums.push(format!("{passed}/{all}"));
            }
            let _ = write!(out, " {} |", sums.join(" + "));
        }
        out.push('\n');
    }
    out.push('\n');
}

fn failures(run: &Run, out: &mut String) {
    let verdicts = judge(&run.tests);
    let _ = writeln!(
        out,
        "{}: required and optimal tests that did not pass",
        run.server
    );
    for kind in [Kind::Required, Kind::Optimal] {
        for test in run.tests.iter().filter(|test| test.kind == kind) {
            let verdict = verdicts.get(test.id.as_str()).copied();
            let Some(verdict) = verdict.filter(|v| !matches!(v, Verdict::Pass | Verdict::Untested))
            else {
                continue;
            };
            let what = test.complaint.as_ref().map_or("", |(_, what)| what);
            let _ = writeln!(out, "- {kind:?} {verdict:?}: `{}` {what}", test.id);
        }
    }
    out.push('\n');
}

fn counts(run: &Run, suite: Option<&str>) -> BTreeMap<(Kind, Verdict), usize> {
    let verdicts = judge(&run.tests);
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
