//! What was seen, as Markdown that is also readable as it is, and as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use galley_testkit::stress::{Form, Part, Row, Times};
use serde_json::{Value, json};

/// A line for each part; below it every promise that was not kept, and what there is to know besides.
pub(super) fn markdown(rows: &[(Part, Row)], form: Form) -> String {
    let mut out = String::from(
        "| load | requests | failures | told to wait | worst wait of a stored page | p99 of a stored page: quiet, under load | \
         editor's save: quiet, under load | memory: first, last | descriptors: first, last |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for (_, row) in rows {
        let [first, last] = row.held;
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} MB, {} MB | {}, {} |",
            row.title,
            row.requests,
            row.failures,
            row.refused,
            ms(Some(row.worst)),
            times(row.page),
            times(row.save),
            first.memory / 1_000_000,
            last.memory / 1_000_000,
            first.descriptors,
            last.descriptors,
        );
    }
    out.push('\n');
    for (part, row) in rows {
        for complaint in row.complaints(form) {
            let _ = writeln!(out, "- {}, NOT KEPT: {complaint}", part.name());
        }
        for note in &row.notes {
            let _ = writeln!(out, "- {}: {note}", part.name());
        }
    }
    out
}

/// The same for programs.
pub(super) fn json(rows: &[(Part, Row)], form: Form) -> Value {
    let of = |(part, row): &(Part, Row)| {
        let [first, last] = row.held;
        json!({
            "part": part.name(),
            "title": row.title,
            "requests": row.requests,
            "failures": row.failures,
            "refused": row.refused,
            "worst_ms": row.worst.as_secs_f64() * 1e3,
            "page_p99_ms": pair(row.page),
            "save_ms": pair(row.save),
            "memory_bytes": [first.memory, last.memory],
            "stored_bytes": [first.stored, last.stored],
            "descriptors": [first.descriptors, last.descriptors],
            "not_kept": row.complaints(form),
            "notes": row.notes,
        })
    };
    json!({ "parts": rows.iter().map(of).collect::<Vec<_>>() })
}

fn pair(times: Times) -> Value {
    let ms = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
    json!([ms(times.quiet), ms(times.loaded)])
}

fn times(times: Times) -> String {
    let ratio = times
        .ratio()
        .map_or_else(String::new, |ratio| format!(" ({ratio:.1} times)"));
    format!("{}, {}{ratio}", ms(times.quiet), ms(times.loaded))
}

/// Milliseconds with as many places as they need.
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
