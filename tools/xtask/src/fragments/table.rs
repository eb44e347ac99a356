//! The report as Markdown that is readable as plain text, and as JSON.

use std::fmt::Write as _;

use galley_testkit::exactness::fragments::{
    EditReport, MemberRates, PatchingCost, RandomEditsReport,
};
use serde_json::{Value, json};

use super::{FragmentsReport, STATED_BYTES, pages_per_second_and_core};

/// One line about an edit, for progress output.
pub(super) fn line(edit: &EditReport) -> String {
    format!(
        "{}: {} requests to PHP, {} pages patched, {} not patched, hit ratio {}, {} stale",
        edit.name,
        edit.php_requests,
        edit.patched,
        edit.not_patched,
        hit_ratio(edit),
        edit.stale
    )
}

/// The tables, as Markdown.
pub(super) fn markdown(report: &FragmentsReport) -> String {
    let mut out = String::new();
    if !report.edits.is_empty() {
        let _ = writeln!(
            out,
            "{} warm pages\n\n\
             | edit | requests to PHP | pages patched | not patched | hit ratio | patched for a visitor | p99, ms | stale |\n\
             |---|--:|--:|--:|--:|--:|--:|--:|",
            report.pages
        );
    }
    for edit in &report.edits {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {:.1} | {} |",
            edit.name,
            edit.php_requests,
            edit.patched,
            edit.not_patched,
            hit_ratio(edit),
            edit.visits.patched,
            edit.visits.p99.as_secs_f64() * 1000.0,
            edit.stale
        );
    }
    let PatchingCost {
        pages,
        bytes,
        elapsed,
        fetch_cpu,
        compress_cpu,
        cpu,
    } = report.patching;
    let each = |time: std::time::Duration| time.as_secs_f64() * 1e6 / count(pages).max(1.0);
    let _ = writeln!(
        out,
        "\nPatching {pages} pages of {bytes} bytes took {:.1} s. Processor time of a page, in microseconds: \
         fetch threads {:.0}, compression {:.0}, whole server {:.0}; {:.0} pages of {STATED_BYTES} bytes per second on one core.",
        elapsed.as_secs_f64(),
        each(fetch_cpu),
        each(compress_cpu),
        each(cpu),
        pages_per_second_and_core(&report.patching)
    );
    let MemberRates { php, assembled } = report.members;
    let _ = writeln!(
        out,
        "\nA member got the front page {assembled:.0} times per second from the stored page and {php:.1} times per second from PHP: {:.0} times as often.",
        assembled / php
    );
    if let Some(random_edits) = &report.random_edits {
        let RandomEditsReport {
            pages,
            edits,
            compared,
            patched,
            php_requests,
            findings,
        } = random_edits;
        let _ = writeln!(
            out,
            "\n{edits} random edits of a site with {pages} pages: {compared} comparisons with generated pages, {} differences; \
             {patched} pages patched, {php_requests} requests to PHP.",
            findings.len()
        );
    }
    out
}

/// All results, as JSON.
pub(super) fn json(report: &FragmentsReport) -> Value {
    let edits = report.edits.iter().map(|edit| {
        json!({
            "edit": edit.name,
            "php_requests": edit.php_requests,
            "patched": edit.patched,
            "not_patched": edit.not_patched,
            "responses": edit.visits.responses,
            "hits": edit.visits.hits,
            "patched_for_visitors": edit.visits.patched,
            "failed": edit.visits.failed,
            "p99_ms": edit.visits.p99.as_secs_f64() * 1000.0,
            "stale": edit.stale,
        })
    });
    let patching = &report.patching;
    json!({
        "pages": report.pages,
        "edits": edits.collect::<Vec<_>>(),
        "patching": {
            "pages": patching.pages,
            "bytes": patching.bytes,
            "seconds": patching.elapsed.as_secs_f64(),
            "fetch_cpu_seconds": patching.fetch_cpu.as_secs_f64(),
            "compress_cpu_seconds": patching.compress_cpu.as_secs_f64(),
            "cpu_seconds": patching.cpu.as_secs_f64(),
            "pages_per_second_and_core": pages_per_second_and_core(patching),
        },
        "member": {
            "php_per_second": report.members.php,
            "assembled_per_second": report.members.assembled,
        },
        "comparison": report.random_edits.as_ref().map(|random_edits| json!({
            "pages": random_edits.pages,
            "edits": random_edits.edits,
            "compared": random_edits.compared,
            "patched": random_edits.patched,
            "php_requests": random_edits.php_requests,
            "differences": random_edits.findings.len(),
        })),
    })
}

fn hit_ratio(edit: &EditReport) -> String {
    if edit.visits.responses == 0 {
        return "-".to_owned();
    }
    let percent = 100.0 * count(edit.visits.hits) / count(edit.visits.responses);
    format!("{percent:.2} %")
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn count(number: u64) -> f64 {
    number as f64
}
