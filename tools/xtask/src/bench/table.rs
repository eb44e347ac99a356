//! A run as Markdown: a table for each scenario, and the short table for the README.

use std::fmt::Write as _;

use super::{
    figure::{Figure, rounded},
    plan::BenchPlan,
    report::{BenchReport, ContenderReport, ScenarioReport},
    settings::RequestHeads,
    verdict,
};

/// All tables of a run.
pub(super) fn markdown(plan: &BenchPlan, report: &BenchReport) -> String {
    let mut out = String::from("# Results\n\n");
    out.push_str(&environment(report));
    for scenario in &report.scenarios {
        out.push_str(&scenario_table(scenario));
    }
    out.push_str("\n## What it must show\n\nMedians over the slices, quartiles in brackets. Ratios are taken slice by slice, then their median.\n\n");
    out.push_str(&verdict::list(&plan.targets, report));
    if !report.failures.is_empty() {
        out.push_str("\n## What did not work\n\n");
        for failure in &report.failures {
            let first = failure.what.lines().next().unwrap_or_default();
            let _ = writeln!(out, "- {}, {}: {first}", failure.contender, failure.during);
        }
    }
    out
}

/// Date, machine and program versions.
fn environment(report: &BenchReport) -> String {
    let machine = &report.machine;
    let mut out = format!(
        "{} UTC, {} ({} cores), Linux {}. {} x {} slices of {} s each, in turns.\n\n",
        machine.began.replace('T', " "),
        machine.cpu,
        machine.cores,
        machine.kernel,
        report.rounds,
        report.slices,
        report.slice_s
    );
    let versions: Vec<String> = machine
        .versions
        .iter()
        .map(|(name, text)| format!("{name} {}", version_number(text)))
        .collect();
    let _ = writeln!(out, "{}.", versions.join(", "));
    let others = report.most_others_busy();
    if others > MAX_OTHERS {
        let _ = writeln!(
            out,
            "\nThe machine was not idle: other processes, or other machines of its host, used up to {:.0} % of it. Compare ratios only.",
            others * 100.0
        );
    }
    out
}

fn scenario_table(scenario: &ScenarioReport) -> String {
    let heads = match scenario.heads {
        RequestHeads::Different => "Each request has a different head.",
        RequestHeads::OneAddress => "Each request has a different head, for the same address.",
        RequestHeads::One => "All requests have the same head.",
    };
    let mut out = format!("\n## {}\n\n{} {heads}\n\n", scenario.title, scenario.note);
    let columns: Vec<Figure> = COLUMNS
        .into_iter()
        .filter(|figure| {
            *figure == scenario.figure
                || scenario
                    .rows
                    .iter()
                    .any(|row| row.median.contains_key(figure))
        })
        .collect();
    let floor = scenario.value("floor");
    let _ = write!(out, "| | came as |");
    for figure in &columns {
        let _ = write!(out, " {} |", figure.column());
    }
    let last = if floor.is_some() { " x floor |" } else { "" };
    let _ = writeln!(out, "{last} failed |");
    let _ = write!(out, "|---|---|");
    out.push_str(&"---:|".repeat(columns.len() + 1 + usize::from(floor.is_some())));
    out.push('\n');
    for row in sorted(scenario) {
        let _ = write!(out, "| {} | {} |", row.title, received_as(row));
        for figure in &columns {
            let _ = write!(out, " {} |", value(row, *figure));
        }
        if floor.is_some() {
            let ratio = row.of_floor.map_or("-".to_owned(), |it| {
                let [median, lower, upper] = [it.median, it.lower, it.upper].map(rounded);
                format!("{median} ({lower} - {upper})")
            });
            let _ = write!(out, " {ratio} |");
        }
        let failed = if row.slices.is_empty() {
            "-".to_owned()
        } else {
            row.failed().to_string()
        };
        let _ = writeln!(out, " {failed} |");
    }
    out
}

/// Sorts the contenders by the compared figure, best first; those without a value are last.
pub(super) fn sorted(scenario: &ScenarioReport) -> Vec<&ContenderReport> {
    let mut rows: Vec<&ContenderReport> = scenario.rows.iter().collect();
    let value = |row: &ContenderReport| scenario.value(&row.contender).unwrap_or(f64::INFINITY);
    rows.sort_by(|a, b| value(a).total_cmp(&value(b)));
    rows
}

/// Content coding and length of the responses.
fn received_as(row: &ContenderReport) -> String {
    match row.slices.last() {
        Some(sample) if sample.body_bytes > 0 => {
            format!("{}, {} B", sample.coding, sample.body_bytes)
        }
        Some(_) => "no body".to_owned(),
        None => "-".to_owned(),
    }
}

/// The median; for CPU time also the quartiles if there were several slices.
fn value(row: &ContenderReport, figure: Figure) -> String {
    let Some(spread) = row.median.get(&figure) else {
        return "-".to_owned();
    };
    let share = |value: f64| match figure {
        Figure::ServerBusy | Figure::ClientBusy | Figure::OthersBusy => {
            format!("{:.0} %", value * 100.0)
        }
        _ => rounded(value),
    };
    if row.slices.len() > 1 && figure == Figure::CpuUs {
        let (median, lower, upper) = (spread.median, spread.lower, spread.upper);
        return format!("{} ({} - {})", share(median), share(lower), share(upper));
    }
    share(spread.median)
}

/// The table of the README: server CPU per request of a few contenders, as multiples of the floor, and charts.
pub(super) fn readme(plan: &BenchPlan, report: &BenchReport) -> String {
    let mut out = String::from(
        "Server CPU time per request, all processes counted, in microseconds; in brackets the multiple of the *floor*, a bare\n\
         epoll loop that sends the same bytes and does nothing else. The second column says which request heads a row sends:\n\
         *different*: each request has its own tracking parameters, cookies, `Referer` and `User-Agent`, as visitors' browsers\n\
         send them; *different, one address*: the same without tracking parameters, for caches that store a page for each query;\n\
         *one, repeated*: the same head again and again, as load tests send it.\n\n| | heads |",
    );
    let columns: Vec<_> = plan
        .readme
        .columns
        .iter()
        .filter_map(|name| plan.contender(name))
        .collect();
    for contender in &columns {
        let title = contender.title.split(':').next().unwrap_or_default();
        let _ = write!(out, " {title} |");
    }
    let _ = write!(out, "\n|---|---|{}", "---:|".repeat(columns.len()));
    for name in &plan.readme.rows {
        let Some(scenario) = report.scenario(name) else {
            continue;
        };
        let heads = match scenario.heads {
            RequestHeads::Different => "different",
            RequestHeads::OneAddress => "different, one address",
            RequestHeads::One => "one, repeated",
        };
        let _ = write!(out, "\n| {} | {heads} |", scenario.title);
        let floor = scenario.value("floor");
        for contender in &columns {
            let text = match (scenario.value(&contender.name), floor) {
                (Some(value), Some(floor)) if contender.name != "floor" => {
                    let of_floor = scenario.row(&contender.name).and_then(|row| row.of_floor);
                    let ratio = of_floor.map_or(value / floor, |it| it.median);
                    format!("{} ({}x)", rounded(value), rounded(ratio))
                }
                (Some(value), _) => rounded(value),
                (None, _) => "-".to_owned(),
            };
            let _ = write!(out, " {text} |");
        }
    }
    out.push_str("\n\n");
    for name in &plan.readme.charts {
        if let Some(scenario) = report.scenario(name) {
            let _ = writeln!(out, "![{}](docs/images/bench-{name}.svg)", scenario.title);
        }
    }
    let _ = write!(
        out,
        "\n{}All results, with latencies, memory and a dozen further scenarios: [bench/results.md](bench/results.md).\n",
        environment(report)
    );
    out
}

/// The version number in the version output of a program: 1.22.1 for `nginx version: nginx/1.22.1`.
pub(crate) fn version_number(text: &str) -> &str {
    let mut words = text.split(|letter: char| letter.is_whitespace() || "/,()".contains(letter));
    let number = words.find(|word| {
        let word = word.trim_start_matches('v');
        word.contains('.') && word.starts_with(|letter: char| letter.is_ascii_digit())
    });
    let after_dash = |word: &'static str| text.split_once(word).map(|(_, rest)| rest);
    match number {
        Some(number) => number.trim_start_matches('v'),
        // `varnishd (varnish-7.1.1 revision ...)`.
        None => after_dash("varnish-")
            .and_then(|rest| rest.split_whitespace().next())
            .unwrap_or(text),
    }
}

/// The columns of scenario tables. Figures that were not measured are left out.
const COLUMNS: [Figure; 15] = [
    Figure::CpuUs,
    Figure::PerSecond,
    Figure::MegabytesPerSecond,
    Figure::P50Us,
    Figure::P99Us,
    Figure::P999Us,
    Figure::MaxUs,
    Figure::UpstreamRequests,
    Figure::UpstreamMs,
    Figure::LateMs,
    Figure::BackgroundPerSecond,
    Figure::BackgroundP99Us,
    Figure::MemoryMb,
    Figure::ServerBusy,
    Figure::ClientBusy,
];
/// The share of the machine above which the table mentions other work.
const MAX_OTHERS: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::sample_report;

    #[test]
    fn the_version_number_is_found_in_version_outputs() {
        for (text, expected) in [
            ("nginx version: nginx/1.22.1", "1.22.1"),
            ("This is ApacheBench, Version 2.3 <$Revision$>", "2.3"),
            ("varnishd (varnish-7.1.1 revision 7cee1c58)", "7.1.1"),
            ("v2.6.2 h1:abc", "2.6.2"),
            (
                "mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian",
                "10.11.19-MariaDB-0+deb12u1",
            ),
            ("not found: No such file", "not found: No such file"),
            ("", ""),
        ] {
            assert_eq!(version_number(text), expected);
        }
    }

    #[test]
    fn contenders_are_sorted_and_those_without_values_are_last() {
        let plan = BenchPlan::shipped();
        let values: [(&str, &[f64]); 3] = [
            ("galley", &[11.0, 13.0, 12.0]),
            ("floor", &[10.0, 10.0, 10.0]),
            ("nginx-recipe5", &[400.0, 410.0, 420.0]),
        ];
        let report = sample_report(&plan, "post-gzip-one-head", &values);
        let text = scenario_table(report.scenario("post-gzip-one-head").unwrap());
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).collect();
        assert!(rows[1].contains("floor"), "{text}");
        assert!(
            rows[2].contains("| Galley | gzip, 9000 B | 12.0 (11.5 - 12.5) |"),
            "{text}"
        );
        assert!(rows[2].ends_with("| 1.20 (1.15 - 1.25) | 0 |"), "{text}");
        assert!(
            rows[3].contains("nginx (recipe 5)") && rows[3].ends_with("| 41.0 (40.5 - 41.5) | 0 |"),
            "{text}"
        );
        assert!(rows.last().unwrap().contains("| - |"), "{text}");
        let columns = |line: &&str| line.matches('|').count();
        assert!(
            rows.iter().all(|row| columns(row) == columns(&rows[0])),
            "{text}"
        );
        let page = markdown(&plan, &report);
        assert!(
            page.contains("nginx 1.22.") && page.contains("## What it must show"),
            "{page}"
        );
    }

    #[test]
    fn the_readme_table_has_heads_ratios_and_charts() {
        let plan = BenchPlan::shipped();
        let values: [(&str, &[f64]); 2] = [("galley", &[11.0]), ("floor", &[10.0])];
        for (scenario, start) in [
            ("post-gzip", "| A stored WordPress page, gzip | different |"),
            (
                "post-identity",
                "| A stored WordPress page, uncompressed | different, one address |",
            ),
            ("image", "| An image of 1 MB | one, repeated |"),
        ] {
            let text = readme(&plan, &sample_report(&plan, scenario, &values));
            let row = format!("{start} 10.0 | 11.0 (1.10x) | - | - | - |");
            assert!(text.contains(&row), "{text}");
        }
        let text = readme(&plan, &sample_report(&plan, "post-gzip", &values));
        assert!(
            text.contains("](docs/images/bench-post-gzip.svg)"),
            "{text}"
        );
    }
}
