//! The report as Markdown that is readable as plain text, and as JSON.

use std::fmt::Write as _;

use galley_testkit::Quartiles;
use galley_testkit::exactness::{
    ExactnessReport, MASKS, PluginCost, PluginEditCost, PurgeCounts, PurgeMethod,
};
use serde_json::{Value, json};

use super::ms;

/// A table of the events for each purge method, the sums of all methods, and the cost of the plugin.
pub(super) fn markdown(methods: &[PurgeMethod], report: &ExactnessReport) -> String {
    let mut out = String::new();
    for (index, method) in methods.iter().enumerate() {
        let _ = writeln!(out, "## {}\n", method.name());
        events(index, *method == PurgeMethod::Galley, report, &mut out);
        out.push('\n');
    }
    sums(methods, report, &mut out);
    themes(methods, report, &mut out);
    if let Some(cost) = &report.cost {
        costs(cost, &mut out);
    }
    let _ = writeln!(out, "\nMasked before pages are compared:\n");
    for (description, pattern, _) in MASKS {
        let _ = writeln!(out, "- {description}: `{pattern}`");
    }
    out.push('\n');
    out
}

fn events(index: usize, timed: bool, report: &ExactnessReport, out: &mut String) {
    let (head, rule) = if timed {
        (" right after ms |", "--:|")
    } else {
        ("", "")
    };
    let _ = writeln!(
        out,
        "| # | event | interface | theme | hits before | changed | stale | purged | over | PHP requests |{head}\n\
         |--:|---|---|---|--:|--:|--:|--:|--:|--:|{rule}"
    );
    for (number, event) in report.events.iter().enumerate() {
        let Some(counts) = event.counts.get(index) else {
            continue;
        };
        let time = if timed {
            format!(" {} |", ms(counts.corrected_after))
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {}/{} | {} | {} | {} | {} | {} |{time}",
            number + 1,
            event.description,
            event.interface,
            event.theme,
            event.hits,
            event.pages,
            counts.changed,
            counts.stale,
            counts.purged,
            counts.overpurged,
            counts.php_requests
        );
    }
}

fn sums(methods: &[PurgeMethod], report: &ExactnessReport, out: &mut String) {
    let _ = writeln!(
        out,
        "## All {} events, each over up to {} pages\n\n\
         | purged by | changed | stale | purged | over | stale of changed | over of purged | PHP requests | of these without a changed page | last correct page after ms |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        report.events.len(),
        report.pages
    );
    for (index, method) in methods.iter().enumerate() {
        let PurgeCounts {
            changed,
            stale,
            purged,
            overpurged,
            php_requests,
            overpurge_requests,
            corrected_after,
            ..
        } = report.total(index);
        let time = if *method == PurgeMethod::Galley {
            ms(corrected_after)
        } else {
            "-".to_owned()
        };
        let _ = writeln!(
            out,
            "| {} | {changed} | {stale} | {purged} | {overpurged} | {} | {} | {php_requests} | {overpurge_requests} | {time} |",
            method.name(),
            percent(stale, changed),
            percent(overpurged, purged)
        );
    }
}

/// The sums of each theme.
fn themes(methods: &[PurgeMethod], report: &ExactnessReport, out: &mut String) {
    let _ = writeln!(
        out,
        "\n## By theme\n\n\
         | purged by | theme | changed | stale | purged | over | over of purged |\n\
         |---|---|--:|--:|--:|--:|--:|"
    );
    for (index, method) in methods.iter().enumerate() {
        for (theme, counts) in report.totals_by_theme(index) {
            let PurgeCounts {
                changed,
                stale,
                purged,
                overpurged,
                ..
            } = counts;
            let _ = writeln!(
                out,
                "| {} | {theme} | {changed} | {stale} | {purged} | {overpurged} | {} |",
                method.name(),
                percent(overpurged, purged)
            );
        }
    }
}

fn costs(cost: &PluginCost, out: &mut String) {
    let show = |Quartiles {
                    median,
                    lower,
                    upper,
                }: Quartiles| format!("{median:.2} | {lower:.2} to {upper:.2}");
    let _ = writeln!(
        out,
        "\n## Cost of the plugin\n\n| | median | middle half |\n|---|--:|--:|\n\
         | processor time of PHP for a page without it, ms ({} pages) | {} |\n\
         | added by the plugin, % | {} |\n\
         | an edit without it, ms ({} edits) | {} |\n\
         | added by the plugin, ms | {} |",
        cost.pages,
        show(cost.page_ms),
        show(cost.page_percent),
        cost.edits,
        show(cost.edit_ms),
        show(cost.edit_added_ms)
    );
    let _ = writeln!(
        out,
        "\n| the plugin's own time in an edit of | processor, ms | middle half | with the database, ms | middle half | queries |\n|---|--:|--:|--:|--:|--:|"
    );
    for PluginEditCost {
        name,
        ms,
        cpu_ms,
        queries,
    } in &cost.each
    {
        let _ = writeln!(
            out,
            "| {name} | {} | {} | {:.0} |",
            show(*cpu_ms),
            show(*ms),
            queries.median
        );
    }
}

/// The last line of stdout: the sums of the first purge method, and the sums of the others under their names.
pub(super) fn last_line(methods: &[PurgeMethod], report: &ExactnessReport) -> String {
    let mut line = json!({});
    for (index, method) in methods.iter().enumerate() {
        let mut sums = sums_json(&report.total(index));
        for (theme, counts) in report.totals_by_theme(index) {
            sums["themes"][theme] = sums_json(&counts);
        }
        if index == 0 {
            line = sums;
            line["events"] = json!(report.events.len());
            line["pages"] = json!(report.pages);
            line["with"] = json!(method.name());
        } else {
            line[method.name()] = sums;
        }
    }
    line.to_string()
}

/// All results, for `--json`.
pub(super) fn json(methods: &[PurgeMethod], report: &ExactnessReport) -> Value {
    let events: Vec<Value> = report
        .events
        .iter()
        .map(|event| {
            let counts: serde_json::Map<String, Value> = methods
                .iter()
                .zip(&event.counts)
                .map(|(method, counts)| (method.name().to_owned(), counts_and_findings(counts)))
                .collect();
            json!({
                "event": event.name, "what": event.description, "way": event.interface, "theme": event.theme,
                "pages": event.pages, "hits": event.hits, "with": counts,
            })
        })
        .collect();
    let spread = |spread: Quartiles| json!({"median": spread.median, "lower": spread.lower, "upper": spread.upper});
    let cost = report.cost.as_ref().map(|cost| {
        let each: Vec<Value> = cost
            .each
            .iter()
            .map(|edit| json!({"what": edit.name, "ms": spread(edit.ms), "cpu_ms": spread(edit.cpu_ms), "queries": edit.queries.median}))
            .collect();
        json!({
            "pages": cost.pages, "page_ms": spread(cost.page_ms), "page_percent": spread(cost.page_percent),
            "edits": cost.edits, "edit_ms": spread(cost.edit_ms), "edit_added_ms": spread(cost.edit_added_ms),
            "each": each,
        })
    });
    json!({"pages": report.pages, "events": events, "cost": cost})
}

fn sums_json(counts: &PurgeCounts) -> Value {
    json!({
        "changed": counts.changed, "stale": counts.stale, "purged": counts.purged, "over": counts.overpurged,
        "php_requests": counts.php_requests, "over_requests": counts.overpurge_requests,
    })
}

fn counts_and_findings(counts: &PurgeCounts) -> Value {
    let mut out = sums_json(counts);
    out["right_after_ms"] = json!(
        counts
            .corrected_after
            .map(|time| time.as_secs_f64() * 1000.0)
    );
    let findings: Vec<Value> = counts
        .findings
        .iter()
        .map(|finding| json!({"what": finding.kind.name(), "page": finding.page, "difference": finding.difference}))
        .collect();
    out["findings"] = json!(findings);
    out
}

pub(super) fn percent(part: usize, of: usize) -> String {
    let tenths = (part * 1000 + of / 2).checked_div(of).unwrap_or(0);
    format!("{}.{} %", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use galley_testkit::exactness::EventReport;

    use super::*;

    #[test]
    fn the_last_line_has_the_sums_of_the_first_method() {
        let counts = |stale| PurgeCounts {
            changed: 8,
            stale,
            purged: 9,
            overpurged: 1,
            php_requests: 11,
            overpurge_requests: 3,
            ..PurgeCounts::default()
        };
        let event = EventReport {
            name: "e".into(),
            description: "w".into(),
            interface: "REST",
            theme: "t",
            pages: 10,
            hits: 10,
            counts: vec![counts(0), counts(7)],
        };
        let report = ExactnessReport {
            pages: 10,
            events: vec![
                event.clone(),
                EventReport {
                    theme: "u",
                    ..event
                },
            ],
            cost: None,
        };
        let methods = [PurgeMethod::Galley, PurgeMethod::NginxHelper];
        let line: Value = serde_json::from_str(&last_line(&methods, &report)).unwrap();
        let expected = json!({
            "with": "galley", "pages": 10, "events": 2, "changed": 16, "stale": 0, "purged": 18, "over": 2, "php_requests": 22, "over_requests": 6,
            "themes": {
                "t": {"changed": 8, "stale": 0, "purged": 9, "over": 1, "php_requests": 11, "over_requests": 3},
                "u": {"changed": 8, "stale": 0, "purged": 9, "over": 1, "php_requests": 11, "over_requests": 3},
            },
            "nginx-helper": {
                "changed": 16, "stale": 14, "purged": 18, "over": 2, "php_requests": 22, "over_requests": 6,
                "themes": {
                    "t": {"changed": 8, "stale": 7, "purged": 9, "over": 1, "php_requests": 11, "over_requests": 3},
                    "u": {"changed": 8, "stale": 7, "purged": 9, "over": 1, "php_requests": 11, "over_requests": 3},
                },
            },
        });
        assert_eq!(line, expected);
        let text = markdown(&methods, &report);
        assert!(
            text.contains("| nginx-helper | 16 | 14 | 18 | 2 | 87.5 % | 11.1 % | 22 | 6 | - |"),
            "{text}"
        );
        assert!(
            text.contains("| galley | u | 8 | 0 | 9 | 1 | 11.1 % |"),
            "{text}"
        );
    }
}
