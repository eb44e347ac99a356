//! Writes the results of a test: the report to stdout, and files.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use galley_load::{LoadReport, LoadVerdict, ab_lines, change, csv, html};
use serde_json::to_value;

use super::options::LoadOptions;
use crate::show;

/// The report of an earlier run, if the options name one.
pub(super) fn earlier(options: &LoadOptions) -> Result<Option<LoadReport>, String> {
    let Some(path) = &options.compare else {
        return Ok(None);
    };
    let wrong =
        |why: &dyn std::fmt::Display| format!("cannot compare with `{}`: {why}", path.display());
    let mut text = String::new();
    let file = File::open(path).map_err(|error| wrong(&error))?;
    file.take(MAX_REPORT)
        .read_to_string(&mut text)
        .map_err(|error| wrong(&error))?;
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| wrong(&error))
}

/// Prints the report, and writes the files that the options name.
pub(super) fn write(
    options: &LoadOptions,
    report: &LoadReport,
    before: Option<&LoadReport>,
) -> Result<(), String> {
    if options.json {
        let value = to_value(report).map_err(|error| error.to_string())?;
        show::data(&value);
    } else if options.requests.is_some() {
        show::verbatim(&ab_lines(report, options.concurrency, options.keep_alive));
    } else {
        show::verbatim(&text(report, before));
    }
    let save = |path: &Path, text: String| {
        fs::write(path, text).map_err(|error| format!("cannot write `{}`: {error}", path.display()))
    };
    if let Some(path) = &options.csv {
        save(path, csv(report))?;
    }
    if let Some(path) = &options.html {
        save(path, html(report, before))?;
    }
    Ok(())
}

/// The figures for people, with those of an earlier run in a column before them.
fn text(report: &LoadReport, before: Option<&LoadReport>) -> String {
    let ms =
        |report: &LoadReport, percent| format!("{:.2}", report.ms(percent).unwrap_or_default());
    let figures = |report: &LoadReport| {
        vec![
            report.responses.to_string(),
            format!("{:.1}", report.per_second),
            report.failures.to_string(),
            ms(report, 50.0),
            ms(report, 95.0),
            ms(report, 99.0),
            ms(report, 99.9),
            ms(report, 100.0),
        ]
    };
    let mut out = format!("{}\n", LoadVerdict::of(report).sentence);
    if let Some(change) = before.and_then(|before| change(before, report)) {
        let _ = writeln!(out, "change: {change}");
    }
    out.push('\n');
    let before = before.map(figures);
    for (number, (title, value)) in TITLES.iter().zip(figures(report)).enumerate() {
        let earlier = before.as_ref().and_then(|figures| figures.get(number));
        let earlier = earlier.map_or_else(String::new, |value| format!("{value:>12}  ->"));
        let _ = writeln!(out, "{title:<22}{earlier}{value:>12}");
    }
    for (title, counts) in [
        ("status", named(&report.statuses)),
        ("cache", named(&report.cache)),
    ] {
        let _ = writeln!(out, "{title:<22}{counts}");
    }
    if let Some(failure) = &report.first_failure {
        let _ = writeln!(out, "{:<22}{failure}", "first failure");
    }
    out.push_str(&knee(report));
    out
}

fn knee(report: &LoadReport) -> String {
    let Some(knee) = &report.knee else {
        return String::new();
    };
    let limit = format!("no failure, p99 up to {} ms", knee.limit_ms);
    let capacity = match (knee.rate, knee.broke_at) {
        (None, _) => format!("none: not even the first second held ({limit})"),
        (Some(rate), None) => {
            format!("at least {rate:.0} requests/s, the end of the ramp ({limit})")
        }
        (Some(rate), Some(second)) => {
            format!("{rate:.0} requests/s, up to second {second} ({limit})")
        }
    };
    let mut out = format!("{:<22}{capacity}\n", "highest rate held");
    if let Some(cause) = report.cause {
        let _ = writeln!(out, "{:<22}{}", "limited by", cause.words());
    }
    out
}

fn named<T: ToString>(counts: &std::collections::BTreeMap<T, u64>) -> String {
    let words = counts
        .iter()
        .map(|(name, count)| format!("{} {count}", name.to_string()));
    words.collect::<Vec<_>>().join(", ")
}

const TITLES: [&str; 8] = [
    "responses",
    "responses/s",
    "failures",
    "p50 ms",
    "p95 ms",
    "p99 ms",
    "p99.9 ms",
    "slowest ms",
];
/// The maximum size of an earlier report in bytes: an hour in rows.
const MAX_REPORT: u64 = 64 * 1024 * 1024;
