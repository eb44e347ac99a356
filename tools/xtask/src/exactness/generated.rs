//! `xtask exactness generated`: random plugins and random edits. The tables count stale parts of pages by kind.
//!
//! Fails if a part of a page is stale.

use std::{collections::BTreeMap, fmt::Write as _, fs, time::Instant};

use galley_testkit::exactness::{
    ExactnessSettings, PurgeMethod,
    generated::{
        self, GeneratedReport, GeneratedSettings, Kind, KindCounts, StaleCase, WriteCounts,
    },
};
use serde_json::{Value, json};

use super::{Common, table::percent};
use crate::error::CommandError;

/// The options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct GeneratedArguments {
    /// Number of edits
    #[arg(long, default_value_t = 2000)]
    edits: usize,
    /// All random decisions follow from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run only the plugin with this number
    #[arg(long, value_name = "NUMBER")]
    plugin: Option<usize>,
    /// Run only the edit with this number
    #[arg(long, value_name = "NUMBER", requires = "plugin")]
    edit: Option<usize>,
}

/// Runs the edits and prints the tables.
pub(super) fn run(
    arguments: &GeneratedArguments,
    common: &Common<'_>,
    settings: &ExactnessSettings,
) -> Result<(), CommandError> {
    let settings = GeneratedSettings {
        galley: settings.galley.clone(),
        plugin: settings.plugin.clone(),
        methods: common.methods.clone(),
        seed: arguments.seed,
        edits: arguments.edits,
        only_plugin: arguments.plugin,
        only_edit: arguments.edit,
    };
    let start = Instant::now();
    let report = generated::run(&settings, &mut |text| {
        eprintln!("{:>5} s  {text}", start.elapsed().as_secs());
    })?;
    for case in &report.cases {
        eprint!("{}", description(case, &report));
    }
    if common.explain {
        eprintln!("         not stored: {}", report.not_stored.join(" "));
    }
    print!("{}", markdown(&settings.methods, &report));
    let json = json(&report);
    if let Some(path) = common.json {
        let text = serde_json::to_string_pretty(&json)?;
        fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    }
    println!("{}", json["sums"]);
    check(&settings.methods, &report)
}

/// Fails if a part of a page is stale.
fn check(methods: &[PurgeMethod], report: &GeneratedReport) -> Result<(), CommandError> {
    match (methods.first(), report.cases.first()) {
        (Some(PurgeMethod::Galley), Some(first)) => Err(format!(
            "{} parts of pages were stale; the first again: {}",
            report.cases.len(),
            command_line(first, report)
        )
        .into()),
        _ => Ok(()),
    }
}

/// A command that repeats the case.
fn command_line(case: &StaleCase, report: &GeneratedReport) -> String {
    let (seed, plugin) = (report.seed, case.plugin);
    let edit = if case.occurs_alone == Some(false) {
        // Only after the edits before it.
        String::new()
    } else {
        format!(" EDIT={}", case.edit)
    };
    let edits = report.edits.max(2000);
    format!("make exactness GENERATED={edits} SEED={seed} PLUGIN={plugin}{edit} EXPLAIN=1")
}

/// A stale page in some lines.
fn description(case: &StaleCase, report: &GeneratedReport) -> String {
    let mut out = format!(
        "         stale {}: {} in a {}, after {}\n           seed {}, plugin {} ({}), edit {}\n           {}\n",
        case.page,
        case.kind.read,
        case.kind.place,
        case.edit_shape,
        report.seed,
        case.plugin,
        case.plugin_shape,
        case.edit,
        command_line(case, report)
    );
    for line in case.difference.lines() {
        let _ = writeln!(out, "           {line}");
    }
    out
}

fn markdown(methods: &[PurgeMethod], report: &GeneratedReport) -> String {
    let mut out = format!(
        "## {} edits of {} plugins, seed {}\n\nUp to {} pages; {} edits changed none; {} pages are not stored; before {} edits a page had changed by itself.\n\n\
         | purged by | changed | stale | purged | over | stale of changed | over of purged |\n|---|--:|--:|--:|--:|--:|--:|\n",
        report.edits,
        report.plugins,
        report.seed,
        report.pages,
        report.edits_without_effect,
        report.not_stored.len(),
        report.drifts
    );
    for (method, total) in methods.iter().zip(&report.totals) {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} |",
            method.name(),
            total.changed,
            total.stale,
            total.purged,
            total.overpurged,
            percent(total.stale, total.changed),
            percent(total.overpurged, total.purged)
        );
    }
    parts_table("read", &report.by(|kind| kind.read), &mut out);
    parts_table("shown in a", &report.by(|kind| kind.place), &mut out);
    parts_table("when", &report.by(|kind| kind.when), &mut out);
    writes_table(&report.writes, &mut out);
    kinds_table(&report.kinds, &mut out);
    out
}

fn parts_table(head: &str, rows: &BTreeMap<&str, KindCounts>, out: &mut String) {
    let _ = writeln!(
        out,
        "\n| {head} | parts changed | stale | stale of changed |\n|---|--:|--:|--:|"
    );
    for (name, counts) in rows {
        let KindCounts { changed, stale, .. } = *counts;
        let _ = writeln!(
            out,
            "| {name} | {changed} | {stale} | {} |",
            percent(stale, changed)
        );
    }
}

fn writes_table(rows: &BTreeMap<&str, WriteCounts>, out: &mut String) {
    let _ = writeln!(
        out,
        "\n| write | edits | pages changed | stale | purged | over |\n|---|--:|--:|--:|--:|--:|"
    );
    for (name, counts) in rows {
        let _ = writeln!(
            out,
            "| {name} | {} | {} | {} | {} | {} |",
            counts.edits, counts.changed, counts.stale, counts.purged, counts.overpurged
        );
    }
}

/// The stale kinds: what was read by what was written, with the places and circumstances.
fn kinds_table(kinds: &BTreeMap<Kind, KindCounts>, out: &mut String) {
    let _ = writeln!(
        out,
        "\n| read | write | shown in a | when | parts changed | stale |\n|---|---|---|---|--:|--:|"
    );
    for (kind, counts) in kinds {
        if counts.stale == 0 {
            continue;
        }
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            kind.read, kind.write, kind.place, kind.when, counts.changed, counts.stale
        );
    }
    out.push('\n');
}

fn json(report: &GeneratedReport) -> Value {
    let sums: Vec<Value> = report.totals.iter().map(write_json).collect();
    let kinds: Vec<Value> = report
        .kinds
        .iter()
        .map(|(kind, counts)| {
            json!({
                "read": kind.read, "place": kind.place, "write": kind.write, "when": kind.when, "edits": counts.edits,
                "changed": counts.changed, "stale": counts.stale,
            })
        })
        .collect();
    let cases: Vec<Value> = report
        .cases
        .iter()
        .map(|case| {
            json!({
                "plugin": case.plugin, "edit": case.edit, "page": case.page, "read": case.kind.read, "place": case.kind.place,
                "write": case.kind.write, "when": case.kind.when, "difference": case.difference,
            })
        })
        .collect();
    let writes: serde_json::Map<String, Value> = report
        .writes
        .iter()
        .map(|(name, counts)| ((*name).to_owned(), write_json(counts)))
        .collect();
    json!({
        "sums": {
            "seed": report.seed, "plugins": report.plugins, "edits": report.edits, "without_effect": report.edits_without_effect,
            "pages": report.pages, "not_stored": report.not_stored.len(), "drifts": report.drifts, "with": sums,
        },
        "kinds": kinds, "writes": writes, "cases": cases, "not_stored": report.not_stored,
    })
}

fn write_json(counts: &WriteCounts) -> Value {
    json!({
        "edits": counts.edits, "changed": counts.changed, "stale": counts.stale, "purged": counts.purged, "over": counts.overpurged,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(kind: Kind) -> GeneratedReport {
        let counts = KindCounts {
            edits: 1,
            changed: 3,
            stale: 1,
        };
        GeneratedReport {
            seed: 5,
            edits: 60,
            kinds: BTreeMap::from([(kind, counts)]),
            cases: vec![StaleCase {
                kind,
                plugin: 2,
                edit: 7,
                page: "/x/".into(),
                plugin_shape: String::new(),
                edit_shape: String::new(),
                difference: String::new(),
                occurs_alone: Some(true),
            }],
            ..GeneratedReport::default()
        }
    }

    #[test]
    fn a_stale_part_fails_the_run() {
        let stale = report(Kind {
            read: "get_the_title",
            place: "shortcode",
            write: "wp_update_post",
            when: "plain",
        });
        let error = check(&[PurgeMethod::Galley], &stale)
            .unwrap_err()
            .to_string();
        assert!(error.contains("SEED=5 PLUGIN=2 EDIT=7"), "{error}");
        assert!(check(&[PurgeMethod::None], &stale).is_ok());
        let text = markdown(&[], &stale);
        let row = "| get_the_title | wp_update_post | shortcode | plain | 3 | 1 |";
        assert!(text.contains(row), "{text}");
    }
}
