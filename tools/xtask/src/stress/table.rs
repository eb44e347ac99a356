//! The results as a Markdown table and as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use galley_testkit::stress::{PartReport, RunLength, StressPart, Times};
use serde_json::{Value, json};

/// A line for each part, followed by all exceeded limits and notes.
pub(super) fn markdown(reports: &[(StressPart, PartReport)], length: RunLength) -> String {
    let mut out = String::from(
        "| load | requests | failures | told to wait | worst wait of a stored page | p99 of a stored page: quiet, under load | \
         editor's save: quiet, under load | memory: first, last | descriptors: first, last |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for (_, report) in reports {
        let [first, last] = report.usage;
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} MB, {} MB | {}, {} |",
            report.title,
            report.requests,
            report.failures,
            report.rejected,
            ms(Some(report.longest_wait)),
            times(report.page),
            times(report.save),
            first.memory / 1_000_000,
            last.memory / 1_000_000,
            first.descriptors,
            last.descriptors,
        );
    }
    out.push('\n');
    for (_, report) in reports
        .iter()
        .filter(|(_, report)| !report.goals.is_empty())
    {
        out.push_str("| load | measured | goal | result | kept |\n|---|---|---|---|---|\n");
        for row in &report.goals {
            let kept = row
                .is_kept
                .map_or("", |is_kept| if is_kept { "yes" } else { "NO" });
            let (load, what, goal, result) = (&row.load, &row.what, &row.goal, &row.result);
            let _ = writeln!(out, "| {load} | {what} | {goal} | {result} | {kept} |");
        }
        out.push('\n');
    }
    for (part, report) in reports {
        for goal in report.missed_goals(length) {
            let _ = writeln!(out, "- {}, NOT KEPT: {goal}", part.name());
        }
        for note in &report.notes {
            let _ = writeln!(out, "- {}: {note}", part.name());
        }
    }
    out
}

/// The same as JSON.
pub(super) fn json(reports: &[(StressPart, PartReport)], length: RunLength) -> Value {
    let part = |(part, report): &(StressPart, PartReport)| {
        let [first, last] = report.usage;
        json!({
            "part": part.name(),
            "title": report.title,
            "requests": report.requests,
            "failures": report.failures,
            "refused": report.rejected,
            "worst_ms": report.longest_wait.as_secs_f64() * 1e3,
            "page_p99_ms": ms_pair(report.page),
            "save_ms": ms_pair(report.save),
            "memory_bytes": [first.memory, last.memory],
            "stored_bytes": [first.stored, last.stored],
            "descriptors": [first.descriptors, last.descriptors],
            "goals": report.goals.iter().map(|row| json!({
                "load": row.load, "what": row.what, "goal": row.goal, "result": row.result, "kept": row.is_kept,
            })).collect::<Vec<_>>(),
            "not_kept": report.missed_goals(length),
            "notes": report.notes,
        })
    };
    json!({ "parts": reports.iter().map(part).collect::<Vec<_>>() })
}

fn ms_pair(times: Times) -> Value {
    let ms = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
    json!([ms(times.quiet), ms(times.loaded)])
}

fn times(times: Times) -> String {
    let ratio = times
        .ratio()
        .map_or_else(String::new, |ratio| format!(" ({ratio:.1} times)"));
    format!("{}, {}{ratio}", ms(times.quiet), ms(times.loaded))
}

/// Milliseconds, with two decimal places below 10.
fn ms(time: Option<Duration>) -> String {
    time.map_or_else(
        || "-".to_owned(),
        |time| {
            let ms = time.as_secs_f64() * 1e3;
            if ms < 10.0 {
                format!("{ms:.2} ms")
            } else {
                format!("{ms:.0} ms")
            }
        },
    )
}
