//! What the swarm was to show, and whether it did: a row for each kind of people and each load, and at the end one line for each goal.
//!
//! Goals are for crawls of filters and for tried passwords; of the other crawls the report only says what they get. Times are compared with those of the
//! same people without a crawl, in the same run.

use std::collections::BTreeMap;
use std::time::Duration;

use super::people::{Kind, Results};
use super::report::Goal;
use super::{PartReport, ResourceUsage, RunLength};
use crate::client::Response;

/// What was measured under one load.
pub(super) struct Measured {
    pub(super) title: String,
    /// Whether the goals are for this load.
    pub(super) is_judged: bool,
    /// Whether each of its pages tells when PHP worked for it.
    pub(super) tells_times: bool,
    pub(super) has_challenge: bool,
    pub(super) people: Results,
    pub(super) crawl: CrawlResults,
    /// Of the server, at the end.
    pub(super) usage: ResourceUsage,
}

/// What the crawl got.
#[derive(Debug, Default)]
pub(super) struct CrawlResults {
    /// The number of responses of each status; 0: none.
    statuses: BTreeMap<u16, u64>,
    /// When PHP worked for its pages, in seconds since the epoch.
    pages: Vec<(f64, f64)>,
    pub(super) elapsed: Duration,
}

impl CrawlResults {
    pub(super) fn add(&mut self, response: Option<&Response>) {
        let status = response.map_or(0, |response| response.status);
        *self.statuses.entry(status).or_insert(0) += 1;
        // A field and not the body, which is compressed.
        let times = response.and_then(|response| response.field("x-php-times"));
        self.pages.extend(times.and_then(php_times));
    }

    pub(super) fn merge(&mut self, other: Self) {
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_insert(0) += count;
        }
        self.pages.extend(other.pages);
    }

    /// How many of its pages began while PHP worked for another one, and its part of the time of all workers.
    fn workers(&self) -> (u64, f64) {
        let starts = self.pages.iter().map(|(start, _)| (*start, true));
        let ends = self.pages.iter().map(|(_, end)| (*end, false));
        let mut events: Vec<(f64, bool)> = starts.chain(ends).collect();
        // An end goes before a start at the same time.
        events.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        let (mut now, mut beside) = (0_u32, 0);
        for (_, is_start) in events {
            if is_start {
                beside += u64::from(now > 0);
                now += 1;
            } else {
                now = now.saturating_sub(1);
            }
        }
        let busy: f64 = self.pages.iter().map(|(start, end)| end - start).sum();
        let all = self.elapsed.as_secs_f64() * f64::from(WORKERS);
        (beside, busy / all.max(1e-9))
    }
}

/// When PHP began and ended a page of the shop.
fn php_times(text: &str) -> Option<(f64, f64)> {
    let (start, end) = text.split_once(' ')?;
    Some((start.parse().ok()?, end.parse().ok()?))
}

/// Adds all rows, and the lines that sum them up.
pub(super) fn add(
    report: &mut PartReport,
    length: RunLength,
    quiet: &Results,
    measured: &[Measured],
) {
    note_times(report, "no crawl", quiet);
    let mut rows = Vec::new();
    for load in measured {
        note_times(report, &load.title, &load.people);
        report.requests += load.people.requests();
        refusals(load, &mut rows);
        times(load, quiet, length, &mut rows);
        crawl(load, &mut rows);
    }
    memory(report, length, measured, &mut rows);
    report.notes.extend(summary(&rows));
    report.goals.extend(rows.into_iter().map(|row| row.goal));
}

/// Adds a note if times without a crawl differ between the start and the end of the run: then the machine had other work, and no time
/// of the run says much.
pub(super) fn note_drift(report: &mut PartReport, first: &Results, last: &Results) {
    for kind in [Kind::Stored, Kind::NotStored, Kind::Buyer, Kind::Editor] {
        let of = |results: &Results| results.time(kind, 50).unwrap_or_default().as_secs_f64();
        let (first, last) = (of(first), of(last));
        if first.max(last) > first.min(last) * DRIFT {
            report.notes.push(format!(
                "without a crawl, {} took {:.1} ms first and {:.1} ms last: the machine had other work, so no time is reliable",
                kind.word(),
                first * 1e3,
                last * 1e3
            ));
        }
    }
}

struct Row {
    goal: Goal,
    /// The result as a number: more is worse.
    value: f64,
}

impl Row {
    fn new(
        load: &str,
        what: &str,
        goal: &str,
        result: (String, f64),
        is_kept: Option<bool>,
    ) -> Self {
        let (result, value) = result;
        Self {
            goal: Goal {
                load: load.to_owned(),
                what: what.to_owned(),
                goal: goal.to_owned(),
                result,
                is_kept,
            },
            value,
        }
    }
}

/// Who was refused. A false Googlebot may be, and so may a person whose first page is a filter, without the challenge.
fn refusals(load: &Measured, rows: &mut Vec<Row>) {
    for (kind, served) in &load.people.0 {
        let (refused, all) = (served.refused, served.times.len() as u64 + served.refused);
        let is_goal = match kind {
            Kind::FalseBot => false,
            Kind::Filter => load.has_challenge,
            _ => true,
        };
        let goal = if is_goal { "none refused" } else { "" };
        let kept = (is_goal && load.is_judged).then_some(refused == 0);
        #[expect(clippy::cast_precision_loss, reason = "some thousands")]
        let value = refused as f64;
        let result = (format!("{refused} of {all} refused"), value);
        rows.push(Row::new(&load.title, kind.word(), goal, result, kept));
    }
}

fn times(load: &Measured, quiet: &Results, length: RunLength, rows: &mut Vec<Row>) {
    let is_timed = load.is_judged && length == RunLength::Long;
    let longest = load.people.time(Kind::Filter, 100);
    if let Some(longest) = longest.filter(|_| load.has_challenge) {
        let seconds = longest.as_secs_f64();
        let what = format!("{}, slowest", Kind::Filter.word());
        let result = (format!("{seconds:.1} s"), seconds);
        let kept = is_timed.then_some(longest <= PATIENCE);
        rows.push(Row::new(&load.title, &what, "6 s", result, kept));
    }
    for (kind, percent, most) in RATIOS {
        // Without a time, because all were refused, the goal is missed.
        let [before, loaded] = [quiet, &load.people].map(|results| {
            let time = results.time(kind, percent);
            time.map_or(f64::INFINITY, |time| time.as_secs_f64() * 1e3)
        });
        let ratio = if before.is_finite() {
            loaded / before.max(1e-3)
        } else {
            f64::INFINITY
        };
        let what = format!("{}, {percent} %", kind.word());
        let goal = format!("{most} times without a crawl");
        let result = format!("{ratio:.2} times: {before:.2} ms, {loaded:.2} ms");
        let kept = is_timed.then_some(ratio <= most);
        rows.push(Row::new(&load.title, &what, &goal, (result, ratio), kept));
    }
}

fn crawl(load: &Measured, rows: &mut Vec<Row>) {
    let statuses = format!("{:?}", load.crawl.statuses);
    rows.push(Row::new(
        &load.title,
        "the crawl, by status",
        "",
        (statuses, 0.0),
        None,
    ));
    let (beside, part) = load.crawl.workers();
    let result = format!(
        "{beside} beside another, {:.0} % of their time",
        part * 100.0
    );
    let is_judged = load.is_judged && load.tells_times;
    let goal = if is_judged { "one at once" } else { "" };
    // Every page of the crawl has told its times.
    let served = load.crawl.statuses.get(&200).copied().unwrap_or(0);
    let is_measured = load.crawl.pages.len() as u64 == served;
    let sent: u64 = load.crawl.statuses.values().sum();
    let kept = is_judged.then_some(is_measured && beside <= 1 + sent / MISTAKEN);
    let what = "PHP workers of the crawl";
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let result = (result, beside as f64);
    rows.push(Row::new(&load.title, what, goal, result, kept));
}

/// Memory is constant: with what the first heavy load needs for its connections, the later ones, with ever new addresses, need no more.
fn memory(report: &PartReport, length: RunLength, measured: &[Measured], rows: &mut Vec<Row>) {
    let sent = |load: &Measured| load.crawl.statuses.values().sum::<u64>();
    let most = measured.iter().map(sent).max().unwrap_or(0);
    let first = measured.iter().find(|load| sent(load) >= most / 2);
    // Entries take a little more memory than their bytes.
    let of = |usage: &ResourceUsage| usage.memory.saturating_sub(usage.stored + usage.stored / 6);
    let (Some(first), [_, last]) = (first, &report.usage) else {
        return;
    };
    let (first, last) = (of(&first.usage), of(last));
    let mb = |bytes: u64| bytes / 1_000_000;
    let result = format!(
        "{} MB after the first heavy load, {} MB last",
        mb(first),
        mb(last)
    );
    let kept = (length == RunLength::Long).then_some(last <= first + MEMORY_SLACK);
    let what = "memory without stored pages";
    #[expect(clippy::cast_precision_loss, reason = "some gigabytes")]
    let result = (result, last as f64);
    rows.push(Row::new("all", what, "16 MB more at most", result, kept));
}

/// A line for each goal: under how many loads it was kept, and the worst result.
fn summary(rows: &[Row]) -> Vec<String> {
    let mut lines = Vec::new();
    let judged: Vec<&Row> = rows
        .iter()
        .filter(|row| row.goal.is_kept.is_some())
        .collect();
    for (number, row) in judged.iter().enumerate() {
        let same =
            |other: &&&Row| other.goal.what == row.goal.what && other.goal.goal == row.goal.goal;
        if judged.iter().take(number).any(|other| same(&other)) {
            continue;
        }
        let all: Vec<_> = judged.iter().filter(same).collect();
        let kept = all
            .iter()
            .filter(|row| row.goal.is_kept == Some(true))
            .count();
        let worst = all
            .iter()
            .max_by(|one, other| one.value.total_cmp(&other.value));
        let word = if kept == all.len() { "PASS" } else { "FAIL" };
        lines.push(format!(
            "{word}: {}: {}: under {kept} of {} loads, at worst {}",
            row.goal.what,
            row.goal.goal,
            all.len(),
            worst.map_or("", |row| &row.goal.result)
        ));
    }
    lines
}

fn note_times(report: &mut PartReport, title: &str, results: &Results) {
    for (kind, served) in &results.0 {
        let ms = |percent| {
            results
                .time(*kind, percent)
                .unwrap_or_default()
                .as_secs_f64()
                * 1e3
        };
        report.notes.push(format!(
            "{title}: {}: {} served, {} refused, median {:.1} ms, 95 % {:.1} ms, 99 % {:.1} ms",
            kind.word(),
            served.times.len(),
            served.refused,
            ms(50),
            ms(95),
            ms(99)
        ));
    }
}

/// A percentile of each kind's times, and how often the time without a crawl it may take.
const RATIOS: [(Kind, usize, f64); 5] = [
    (Kind::Stored, 99, 1.5),
    (Kind::NotStored, 95, 2.0),
    (Kind::Buyer, 95, 1.3),
    (Kind::Editor, 95, 1.3),
    (Kind::Login, 95, 1.3),
];

/// How long a person waits for the page behind the challenge.
const PATIENCE: Duration = Duration::from_secs(6);

/// PHP's workers, of which unproven clients may have half.
const WORKERS: u32 = 2;

/// One client in so many is taken for a visitor by the filter of proofs (docs/internals/overload.md).
const MISTAKEN: u64 = 1_000;

/// What the allocator may keep of 300 connections.
const MEMORY_SLACK: u64 = 16_000_000;

/// A larger difference of medians is another load of the machine.
const DRIFT: f64 = 1.25;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_counted_from_the_times_of_pages() {
        let pages = vec![(1.0, 2.0), (2.0, 3.0), (2.5, 3.0), (7.0, 8.5)];
        let elapsed = Duration::from_secs(10);
        let crawl = CrawlResults {
            pages,
            elapsed,
            ..CrawlResults::default()
        };
        assert_eq!(crawl.workers(), (1, 0.2));
        let times = php_times("12.500000 13.250000");
        assert_eq!(times, Some((12.5, 13.25)));
        assert_eq!(php_times("12.5"), None);
    }

    #[test]
    fn a_goal_is_kept_if_it_is_under_every_load() {
        let row = |load, what, value, kept| {
            Row::new(load, what, "goal", (format!("{value}"), value), kept)
        };
        let rows = [
            row("a", "pages", 1.0, Some(true)),
            row("a", "saves", 1.0, Some(true)),
            row("b", "pages", 2.0, Some(true)),
            row("b", "saves", 3.0, Some(false)),
            row("c", "saves", 9.0, None),
        ];
        assert_eq!(
            summary(&rows),
            [
                "PASS: pages: goal: under 2 of 2 loads, at worst 2",
                "FAIL: saves: goal: under 1 of 2 loads, at worst 3",
            ]
        );
    }
}
