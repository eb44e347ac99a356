//! What was measured, as Markdown that is also readable as it is, and as JSON.

use std::fmt::Write as _;

use galley_testkit::exactness::fragments::{Comparison, EditCost, MemberRates, Patching};
use serde_json::{Value, json};

use super::{Outcome, STATED_BYTES, patched_in_a_second};

/// One edit, while the run goes on.
pub(super) fn line(cost: &EditCost) -> String {
    format!(
        "{}: {} requests to PHP, {} pages patched, {} not patched, hit ratio {}, {} stale",
        cost.edit,
        cost.php_requests,
        cost.patched,
        cost.not_patched,
        ratio(cost),
        cost.stale
    )
}

/// The tables.
pub(super) fn markdown(outcome: &Outcome) -> String {
    let mut out = String::new();
    if !outcome.costs.is_empty() {
        let _ = writeln!(
            out,
            "{} warm pages\n\n\
             | edit | requests to PHP | pages patched | not patched | hit ratio | patched for a visitor | p99, ms | stale |\n\
             |---|--:|--:|--:|--:|--:|--:|--:|",
            outcome.pages
        );
    }
    for cost in &outcome.costs {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {:.1} | {} |",
            cost.edit,
            cost.php_requests,
            cost.patched,
            cost.not_patched,
            ratio(cost),
            cost.visits.patched,
            cost.visits.p99.as_secs_f64() * 1000.0,
            cost.stale
        );
    }
    let Patching {
        pages,
        bytes,
        elapsed,
        fetch_cpu,
        compress_cpu,
        cpu,
    } = outcome.patching;
    let each = |time: std::time::Duration| time.as_secs_f64() * 1e6 / count(pages).max(1.0);
    let _ = writeln!(
        out,
        "\nPatching {pages} pages of {bytes} bytes took {:.1} s. Processor time of a page, in microseconds: \
         fetch threads {:.0}, compression {:.0}, whole server {:.0}; {:.0} pages of {STATED_BYTES} bytes per second on one core.",
        elapsed.as_secs_f64(),
        each(fetch_cpu),
        each(compress_cpu),
        each(cpu),
        patched_in_a_second(&outcome.patching)
    );
    let MemberRates { php, assembled } = outcome.members;
    let _ = writeln!(
        out,
        "\nA member got the front page {assembled:.0} times in a second from its stored form and {php:.1} times from PHP: {:.0} times as often.",
        assembled / php
    );
    if let Some(compared) = &outcome.comparison {
        let Comparison {
            pages,
            edits,
            compared,
            patched,
            php_requests,
            findings,
        } = compared;
        let _ = writeln!(
            out,
            "\n{edits} random edits of a site with {pages} pages: {compared} comparisons with generated pages, {} differences; \
             {patched} pages patched, {php_requests} requests to PHP.",
            findings.len()
        );
    }
    out
}

/// Everything for programs.
pub(super) fn json(outcome: &Outcome) -> Value {
    let costs = outcome.costs.iter().map(|cost| {
        json!({
            "edit": cost.edit,
            "php_requests": cost.php_requests,
            "patched": cost.patched,
            "not_patched": cost.not_patched,
            "responses": cost.visits.responses,
            "hits": cost.visits.hits,
            "patched_for_visitors": cost.visits.patched,
            "failed": cost.visits.failed,
            "p99_ms": cost.visits.p99.as_secs_f64() * 1000.0,
            "stale": cost.stale,
        })
    });
    let patching = &outcome.patching;
    json!({
        "pages": outcome.pages,
        "edits": costs.collect::<Vec<_>>(),
        "patching": {
            "pages": patching.pages,
            "bytes": patching.bytes,
            "seconds": patching.elapsed.as_secs_f64(),
            "fetch_cpu_seconds": patching.fetch_cpu.as_secs_f64(),
            "compress_cpu_seconds": patching.compress_cpu.as_secs_f64(),
            "cpu_seconds": patching.cpu.as_secs_f64(),
            "pages_per_second_and_core": patched_in_a_second(patching),
        },
        "member": {
            "php_per_second": outcome.members.php,
            "assembled_per_second": outcome.members.assembled,
        },
        "comparison": outcome.comparison.as_ref().map(|compared| json!({
            "pages": compared.pages,
            "edits": compared.edits,
            "compared": compared.compared,
            "patched": compared.patched,
            "php_requests": compared.php_requests,
            "differences": compared.findings.len(),
        })),
    })
}

fn ratio(cost: &EditCost) -> String {
    if cost.visits.responses == 0 {
        return "-".to_owned();
    }
    let percent = 100.0 * count(cost.visits.hits) / count(cost.visits.responses);
    format!("{percent:.2} %")
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn count(number: u64) -> f64 {
    number as f64
}
