//! What the parts counted, as Markdown that is also readable as it is.

use std::fmt::Write as _;

use galley_testkit::faults::Tally;

use super::Run;

/// The table, the figures, what was left out, and every complaint.
pub(super) fn markdown(runs: &[Run]) -> String {
    let mut out = String::from(
        "| part | rounds | purges acknowledged | pages compared | of them from cache | stale | torn | failed | broken | s |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let mut all = Tally::default();
    for run in runs {
        row(run.part.title(), &run.tally, run.took.as_secs(), &mut out);
        all += run.tally.clone();
    }
    let took = runs.iter().map(|run| run.took.as_secs()).sum();
    row("all", &all, took, &mut out);
    out.push('\n');
    for run in runs {
        let Tally {
            figures,
            left_out,
            complaints,
            broken_off,
            ..
        } = &run.tally;
        let name = run.part.name();
        for figure in figures {
            let _ = writeln!(out, "- {name}: {figure}");
        }
        if *broken_off > 0 {
            let _ = writeln!(
                out,
                "- {name}: {broken_off} long answers broke off where their file was damaged, and came whole at the second try"
            );
        }
        for what in left_out {
            let _ = writeln!(out, "- {name}, left out: {what}");
        }
        for complaint in complaints {
            let _ = writeln!(out, "- {name}, FOUND: {}", complaint.trim());
        }
    }
    out
}

fn row(title: &str, tally: &Tally, seconds: u64, out: &mut String) {
    let Tally {
        rounds,
        purges,
        pages,
        hits,
        stale,
        torn,
        failed,
        broken,
        ..
    } = tally;
    let _ = writeln!(
        out,
        "| {title} | {rounds} | {purges} | {pages} | {hits} | {stale} | {torn} | {failed} | {broken} | {seconds} |"
    );
}
