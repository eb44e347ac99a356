//! The object cache of a site in `GET /status`: its counts, what costs most, and what works against it.

use galley_object_cache::{Figures, Reading};
use serde_json::{Value, json};

use super::AdminState;
use super::health_problem::{HealthProblem, ProblemKind};

/// What the object cache of the site `name` has done since the start.
pub(super) fn value(state: &AdminState, figures: &Figures, name: &str) -> Value {
    let (groups, flushed_by) = figures.costs(MAX_GROUPS);
    let reading = figures.read();
    let mut problems = problems(figures, name);
    let beginnings = &state.process_state.beginnings;
    beginnings.date(&mut problems, state.services.clock.tick());
    let problems: Vec<Value> = problems.iter().map(HealthProblem::value).collect();
    let groups = groups.iter().map(
        |(name, cost)| json!({ "group": name, "misses": cost.misses, "changes": cost.changes }),
    );
    json!({
        "requests": reading.requests, "round_trips": reading.round_trips, "hits": reading.hits,
        "misses": reading.misses, "sent_ahead": reading.sent_ahead, "queries": reading.queries,
        "saved_queries": reading.saved_queries, "hit_ratio": ratio(&reading),
        "changes": reading.changes, "conflicts": reading.conflicts, "flushes": reading.flushes,
        "flushed_by": flushed_by, "adopted": reading.adopted, "abandoned": reading.abandoned,
        "evictions": reading.evictions, "entries": reading.entries, "bytes": reading.bytes,
        "groups": groups.collect::<Vec<_>>(), "problems": problems,
    })
}

/// The part of the values that PHP read and that the object cache had. What was sent ahead counts as read: at least half of it is.
fn ratio(reading: &Reading) -> Option<f64> {
    let hits = reading.hits + reading.sent_ahead;
    let reads = hits + reading.misses;
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    (reads > 0).then(|| hits as f64 / reads as f64)
}

/// What works against the object cache of the site `name`, with what to do.
pub(super) fn problems(figures: &Figures, name: &str) -> Vec<HealthProblem> {
    let (groups, flushed_by) = figures.costs(1);
    let group = groups.first().map(|(name, _)| &**name);
    let mut problems = judge(&figures.read(), &flushed_by, group);
    for problem in &mut problems {
        problem.site = Some(name.to_owned());
    }
    problems
}

fn judge(reading: &Reading, flushed_by: &str, group: Option<&str>) -> Vec<HealthProblem> {
    let requests = reading.requests;
    let is_often = |count: u64| count > 20 && count * 20 > requests;
    let mut problems = Vec::new();
    let mut add = |subject: &str, seen: String, remedy: &str| {
        let problem = HealthProblem::degraded(ProblemKind::ObjectCache, seen, remedy);
        problems.push(problem.of(subject));
    };
    if is_often(reading.flushes) {
        let by = match flushed_by {
            "" => String::new(),
            by => format!(", last by {by}"),
        };
        add(
            "flushed",
            format!(
                "`wp_cache_flush()` emptied it {} times in {requests} requests{by}",
                reading.flushes
            ),
            "change the setting of that plugin, or replace it: `wp_cache_flush_group()` empties only its own values",
        );
    }
    if is_often(reading.adopted) {
        add(
            "adopted",
            format!(
                "it was emptied {} times in {requests} requests because a process had changed the database without it",
                reading.adopted
            ),
            "run `wp` and cron as the user of PHP, who can read `galley-connection.php` and reach `objects.sock`; PHP's log names other reasons",
        );
    }
    if is_often(reading.abandoned) {
        add(
            "abandoned",
            format!(
                "it was emptied {} times in {requests} requests because PHP ended with an error while it changed the database",
                reading.abandoned
            ),
            "find the fatal errors in PHP's log",
        );
    }
    if reading.evictions > requests {
        add(
            "evicted",
            format!(
                "{} values made room for others in {requests} requests",
                reading.evictions
            ),
            "raise `object_cache` of the site; all sites together have at most `cache.memory`",
        );
    }
    if requests > 1000 && ratio(reading).is_some_and(|ratio| ratio < 0.5) {
        add(
            "missing",
            format!(
                "less than half of the values that PHP asks for are there, and most are missing in the group `{}`",
                group.unwrap_or_default()
            ),
            "find the plugin that uses this group: its keys are new for each request, or it deletes them",
        );
    }
    problems
}

const MAX_GROUPS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn found(change: impl FnOnce(&mut Reading)) -> String {
        let mut reading = Reading {
            requests: 2000,
            hits: 50_000,
            misses: 100,
            flushes: 10,
            adopted: 10,
            abandoned: 10,
            evictions: 500,
            ..Reading::default()
        };
        change(&mut reading);
        let problems = judge(&reading, "wp-content/plugins/x/x.php:7", Some("posts"));
        let words = problems.iter().map(|one| &*one.text);
        words.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn each_problem_is_named_and_usual_figures_are_none() {
        assert_eq!(found(|_| {}), "");
        for (seen, word) in [
            (
                found(|of| of.flushes = 101),
                "101 times in 2000 requests, last by wp-content/plugins/x/x.php:7",
            ),
            (found(|of| of.adopted = 101), "without it"),
            (found(|of| of.abandoned = 101), "with an error"),
            (found(|of| of.evictions = 2001), "2001 values made room"),
            (found(|of| of.misses = 60_000), "`posts`"),
        ] {
            assert!(seen.contains(word) && !seen.contains(';'), "{seen}");
        }
        // A new server has few requests.
        assert_eq!(
            found(|of| (of.requests, of.flushes, of.evictions) = (30, 20, 0)),
            ""
        );
    }
}
