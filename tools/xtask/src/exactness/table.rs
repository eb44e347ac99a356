//! What was counted, as Markdown that is also readable as it is, and as JSON.

use std::fmt::Write as _;

use galley_testkit::Spread;
use galley_testkit::exactness::{Cost, EditCost, MASKS, Outcome, Tally, With};
use serde_json::{Value, json};

use super::ms;

/// For each way of purging a table of the events, then the sums side by side, and what the plugin costs.
pub(super) fn markdown(with: &[With], outcome: &Outcome) -> String {
    let mut out = String::new();
    for (place, one) in with.iter().enumerate() {
        let _ = writeln!(out, "## {}\n", one.name());
        events(place, *one == With::Galley, outcome, &mut out);
        out.push('\n');
    }
    sums(with, outcome, &mut out);
    themes(with, outcome, &mut out);
    if let Some(cost) = &outcome.cost {
        costs(cost, &mut out);
    }
    let _ = writeln!(out, "\nMasked before pages are compared:\n");
    for (what, pattern, _) in MASKS {
        let _ = writeln!(out, "- {what}: `{pattern}`");
    }
    out.push('\n');
    out
}

fn events(place: usize, timed: bool, outcome: &Outcome, out: &mut String) {
    let (head, rule) = if timed {
        (" right after ms |", "--:|")
    } else {
        ("", "")
    };
    let _ = writeln!(
        out,
        "| # | event | door | theme | hits before | changed | stale | purged | over | PHP requests |{head}\n\
         |--:|---|---|---|--:|--:|--:|--:|--:|--:|{rule}"
    );
    for (number, event) in outcome.events.iter().enumerate() {
        let Some(tally) = event.tallies.get(place) else {
            continue;
        };
        let time = if timed {
            format!(" {} |", ms(tally.right_after))
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {}/{} | {} | {} | {} | {} | {} |{time}",
            number + 1,
            event.what,
            event.way,
            event.theme,
            event.hits,
            event.pages,
            tally.changed,
            tally.stale,
            tally.purged,
            tally.over,
            tally.php_requests
        );
    }
}

fn sums(with: &[With], outcome: &Outcome, out: &mut String) {
    let _ = writeln!(
        out,
        "## All {} events, each over up to {} pages\n\n\
         | purged by | changed | stale | purged | over | stale of changed | over of purged | PHP requests | of these without a changed page | last right page after ms |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        outcome.events.len(),
        outcome.pages
    );
    for (place, one) in with.iter().enumerate() {
        let Tally {
            changed,
            stale,
            purged,
            over,
            php_requests,
            over_requests,
            right_after,
            ..
        } = outcome.total(place);
        let time = if *one == With::Galley {
            ms(right_after)
        } else {
            "-".to_owned()
        };
        let _ = writeln!(
            out,
            "| {} | {changed} | {stale} | {purged} | {over} | {} | {} | {php_requests} | {over_requests} | {time} |",
            one.name(),
            percent(stale, changed),
            percent(over, purged)
        );
    }
}

/// The sums of each theme by itself.
fn themes(with: &[With], outcome: &Outcome, out: &mut String) {
    let _ = writeln!(
        out,
        "\n## Each theme by itself\n\n\
         | purged by | theme | changed | stale | purged | over | over of purged |\n\
         |---|---|--:|--:|--:|--:|--:|"
    );
    for (place, one) in with.iter().enumerate() {
        for (theme, tally) in outcome.totals_by_theme(place) {
            let Tally {
                changed,
                stale,
                purged,
                over,
                ..
            } = tally;
            let _ = writeln!(
                out,
                "| {} | {theme} | {changed} | {stale} | {purged} | {over} | {} |",
                one.name(),
                percent(over, purged)
            );
        }
    }
}

fn costs(cost: &Cost, out: &mut String) {
    let show = |Spread {
                    median,
                    lower,
                    upper,
                }: Spread| format!("{median:.2} | {lower:.2} to {upper:.2}");
    let _ = writeln!(
        out,
        "\n## What the plugin costs\n\n| | median | middle half |\n|---|--:|--:|\n\
         | processor time of PHP for a page without it, ms ({} pages) | {} |\n\
         | what it adds to that, % | {} |\n\
         | an edit without it, ms ({} edits) | {} |\n\
         | what it adds to that, ms | {} |",
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
    for EditCost {
        what,
        ms,
        cpu_ms,
        queries,
    } in &cost.each
    {
        let _ = writeln!(
            out,
            "| {what} | {} | {} | {:.0} |",
            show(*cpu_ms),
            show(*ms),
            queries.median
        );
    }
}

/// The last line of stdout: the sums of the first way of purging, and of the others under their names.
pub(super) fn last_line(with: &[With], outcome: &Outcome) -> String {
    let mut line = json!({});
    for (place, one) in with.iter().enumerate() {
        let mut sums = sum(&outcome.total(place));
        for (theme, tally) in outcome.totals_by_theme(place) {
            sums["themes"][theme] = sum(&tally);
        }
        if place == 0 {
            line = sums;
            line["events"] = json!(outcome.events.len());
            line["pages"] = json!(outcome.pages);
            line["with"] = json!(one.name());
        } else {
            line[one.name()] = sums;
        }
    }
    line.to_string()
}

/// Everything, for `--json`.
pub(super) fn everything(with: &[With], outcome: &Outcome) -> Value {
    let events: Vec<Value> = outcome
        .events
        .iter()
        .map(|event| {
            let tallies: serde_json::Map<String, Value> = with
                .iter()
                .zip(&event.tallies)
                .map(|(with, tally)| (with.name().to_owned(), full(tally)))
                .collect();
            json!({
                "event": event.name, "what": event.what, "way": event.way, "theme": event.theme,
                "pages": event.pages, "hits": event.hits, "with": tallies,
            })
        })
        .collect();
    let middle = |it: Spread| json!({"median": it.median, "lower": it.lower, "upper": it.upper});
    let cost = outcome.cost.as_ref().map(|cost| {
        let each: Vec<Value> = cost
            .each
            .iter()
            .map(|it| json!({"what": it.what, "ms": middle(it.ms), "cpu_ms": middle(it.cpu_ms), "queries": it.queries.median}))
            .collect();
        json!({
            "pages": cost.pages, "page_ms": middle(cost.page_ms), "page_percent": middle(cost.page_percent),
            "edits": cost.edits, "edit_ms": middle(cost.edit_ms), "edit_added_ms": middle(cost.edit_added_ms),
            "each": each,
        })
    });
    json!({"pages": outcome.pages, "events": events, "cost": cost})
}

fn sum(tally: &Tally) -> Value {
    json!({
        "changed": tally.changed, "stale": tally.stale, "purged": tally.purged, "over": tally.over,
        "php_requests": tally.php_requests, "over_requests": tally.over_requests,
    })
}

fn full(tally: &Tally) -> Value {
    let mut out = sum(tally);
    out["right_after_ms"] = json!(tally.right_after.map(|time| time.as_secs_f64() * 1000.0));
    let findings: Vec<Value> = tally
        .findings
        .iter()
        .map(|one| json!({"what": format!("{:?}", one.what).to_lowercase(), "page": one.page, "difference": one.difference}))
        .collect();
    out["findings"] = json!(findings);
    out
}

fn percent(part: usize, of: usize) -> String {
    let tenths = (part * 1000 + of / 2).checked_div(of).unwrap_or(0);
    format!("{}.{} %", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use galley_testkit::exactness::Event;

    use super::*;

    #[test]
    fn the_last_line_has_the_sums_of_the_first_way() {
        let tally = |stale| Tally {
            changed: 8,
            stale,
            purged: 9,
            over: 1,
            php_requests: 11,
            over_requests: 3,
            ..Tally::default()
        };
        let event = Event {
            name: "e",
            what: "w",
            way: "REST",
            theme: "t",
            pages: 10,
            hits: 10,
            tallies: vec![tally(0), tally(7)],
        };
        let outcome = Outcome {
            pages: 10,
            events: vec![
                event.clone(),
                Event {
                    theme: "u",
                    ..event
                },
            ],
            cost: None,
        };
        let with = [With::Galley, With::NginxHelper];
        let line: Value = serde_json::from_str(&last_line(&with, &outcome)).unwrap();
        let wanted = json!({
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
        assert_eq!(line, wanted);
        let text = markdown(&with, &outcome);
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
