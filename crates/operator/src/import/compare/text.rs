//! The result of a comparison as text for people.

use std::fmt::Write as _;

use super::findings::{DifferenceGroup, TryReport};

pub(super) fn text(report: &TryReport) -> String {
    let findings = &report.findings;
    let mut text = format!(
        "{} requests to {} and to Galley\n",
        findings.requests, report.server
    );
    list(&mut text, "\nFor the test", &report.changes);
    list(&mut text, "\nNot compared", &report.skipped);
    let mut kind = None;
    for group in &findings.groups {
        if kind != Some(&group.kind) {
            kind = Some(&group.kind);
            let _ = writeln!(text, "\n{}", group.kind.title());
        }
        write_group(&mut text, group);
    }
    if !findings.harmless.is_empty() {
        let counts: Vec<String> = findings
            .harmless
            .iter()
            .map(|(what, count)| format!("{what} ({count})"))
            .collect();
        let _ = writeln!(
            text,
            "\nDifferent, and nobody notices: {}",
            counts.join("; ")
        );
    }
    let differences: usize = findings.groups.iter().map(|group| group.count).sum();
    let _ = match findings.groups.len() {
        0 => writeln!(text, "\nVisitors will notice no difference."),
        groups => writeln!(
            text,
            "\n{differences} responses differ, for {groups} reasons."
        ),
    };
    text
}

fn list(text: &mut String, title: &str, lines: &[String]) {
    if !lines.is_empty() {
        let _ = writeln!(text, "{title}: {}", lines.join("; "));
    }
}

fn write_group(text: &mut String, group: &DifferenceGroup) {
    let more = match group.count {
        1 => String::new(),
        count => format!("  ({count} requests)"),
    };
    let _ = writeln!(text, "  {} is {} at Galley{more}", group.old, group.galley);
    if let Some(visit) = group.visits.first() {
        let _ = writeln!(text, "    try:  {}", visit.curl());
    }
    if let (Some(origin), Some(statement)) = (&group.origin, &group.statement) {
        let _ = writeln!(text, "    from: {origin}  {statement}");
    }
    let _ = writeln!(text, "    do:   {}", group.remedy);
}
