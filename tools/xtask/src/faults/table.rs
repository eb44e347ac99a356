//! The results of the tests as a Markdown table.

use std::fmt::Write as _;

use galley_testkit::faults::FaultReport;

use super::TestRun;

/// The table, followed by the measurements, the skipped tests and the findings.
pub(super) fn markdown(runs: &[TestRun]) -> String {
    let mut out = String::from(
        "| test | rounds | purges acknowledged | responses compared | cache hits | stale | torn | failed | broken | s |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let mut all = FaultReport::default();
    for run in runs {
        row(run.test.title(), &run.report, run.time.as_secs(), &mut out);
        all += run.report.clone();
    }
    let seconds = runs.iter().map(|run| run.time.as_secs()).sum();
    row("all", &all, seconds, &mut out);
    out.push('\n');
    for run in runs {
        let FaultReport {
            measurements,
            skipped,
            findings,
            retried,
            ..
        } = &run.report;
        let name = run.test.name();
        for measurement in measurements {
            let _ = writeln!(out, "- {name}: {measurement}");
        }
        if *retried > 0 {
            let _ = writeln!(
                out,
                "- {name}: {retried} long responses were aborted where their file was damaged, and succeeded at the second attempt"
            );
        }
        for test in skipped {
            let _ = writeln!(out, "- {name}, skipped: {test}");
        }
        for finding in findings {
            let _ = writeln!(out, "- {name}, FOUND: {}", finding.trim());
        }
    }
    out
}

fn row(title: &str, report: &FaultReport, seconds: u64, out: &mut String) {
    let FaultReport {
        rounds,
        purges,
        pages,
        hits,
        stale,
        torn,
        failed,
        broken,
        ..
    } = report;
    let _ = writeln!(
        out,
        "| {title} | {rounds} | {purges} | {pages} | {hits} | {stale} | {torn} | {failed} | {broken} | {seconds} |"
    );
}
