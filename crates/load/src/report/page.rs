//! One HTML page with all charts, without network access or scripts. Two runs are shown side by side, with the same scales.

use std::fmt::Write as _;

use super::{
    charts::{ChartColor, ChartLine, bars, escaped, lines, per_second, rounded},
    figures::LoadReport,
    machine_charts::machine_charts,
    second::ReportedSecond,
    verdict::{LoadVerdict, change},
};

/// The page of a run, and of an earlier one to compare with, which is shown first.
pub fn html(report: &LoadReport, before: Option<&LoadReport>) -> String {
    let runs: Vec<&LoadReport> = before.into_iter().chain([report]).collect();
    let mut out = beginning(&report.setup.target);
    verdicts(&mut out, &runs);
    figures(&mut out, &runs);
    let of_all = |value: fn(&ReportedSecond) -> f64| {
        let seconds = runs.iter().flat_map(|run| &run.seconds);
        seconds.map(value).fold(0.0, f64::max)
    };
    let (slowest, most) = (of_all(|second| second.p99_ms), of_all(requests));
    let longest = runs
        .iter()
        .filter_map(|run| run.ms(99.9))
        .fold(0.0, f64::max);
    out.push_str("<div class=\"runs\">\n");
    for (number, run) in runs.iter().enumerate() {
        let mut charts = vec![
            latency_chart(run, slowest),
            throughput_chart(run, most),
            percentiles_chart(run, longest),
            bars("Statuses (0: no response)", &named(&run.statuses)),
            bars("Cache-Status", &named(&run.cache)),
        ];
        charts.extend(machine_charts(run, &runs));
        section(&mut out, name(number, runs.len()), &charts);
    }
    out.push_str("</div>\n</main></body></html>\n");
    out
}

fn beginning(target: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Load test of {}</title>\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><style>{STYLE}</style></head><body><main>\n\
         <h1>Load test of {}</h1>\n",
        escaped(target),
        escaped(target)
    )
}

/// The verdict on each run, and the change.
fn verdicts(out: &mut String, runs: &[&LoadReport]) {
    for (number, run) in runs.iter().enumerate() {
        let verdict = LoadVerdict::of(run);
        let (class, mark) = if verdict.has_failed {
            ("red", "✗")
        } else {
            ("green", "✓")
        };
        let name = match runs.len() {
            1 => String::new(),
            _ => format!("<strong>{}:</strong> ", name(number, runs.len())),
        };
        let _ = writeln!(
            out,
            "<p class=\"verdict {class}\"><span aria-hidden=\"true\">{mark}</span> {name}{}.</p>",
            escaped(&verdict.sentence)
        );
    }
    if let [before, after] = runs
        && let Some(change) = change(before, after)
    {
        let _ = writeln!(out, "<p><strong>Change:</strong> {}.</p>", escaped(&change));
    }
}

fn section(out: &mut String, name: &str, charts: &[String]) {
    let _ = writeln!(
        out,
        "<section><h2>{name}</h2>\n{}\n</section>",
        charts.join("\n")
    );
}

fn name(number: usize, runs: usize) -> &'static str {
    match (number, runs) {
        (_, 1) => "This run",
        (0, _) => "Before",
        _ => "After",
    }
}

/// The table of results: one column for each run.
fn figures(out: &mut String, runs: &[&LoadReport]) {
    out.push_str("<table><tr><td></td>");
    for number in 0..runs.len() {
        let _ = write!(out, "<th scope=\"col\">{}</th>", name(number, runs.len()));
    }
    out.push_str("</tr>\n");
    for (title, value) in ROWS {
        let values: Vec<String> = runs.iter().map(|run| value(run)).collect();
        if values.iter().all(String::is_empty) {
            continue;
        }
        let _ = write!(out, "<tr><th scope=\"row\">{title}</th>");
        for value in values {
            let _ = write!(out, "<td>{}</td>", escaped(&value));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n");
}

type FigureRow = (&'static str, fn(&LoadReport) -> String);

const ROWS: &[FigureRow] = &[
    ("target", |run| run.setup.target.clone()),
    ("mode", |run| run.setup.mode.clone()),
    ("client", |run| run.setup.client.clone()),
    ("responses per second", |run| rounded(run.per_second)),
    ("responses", |run| run.responses.to_string()),
    ("failures", |run| run.failures.to_string()),
    ("median, ms", |run| percentile(run, 50.0)),
    ("p95, ms", |run| percentile(run, 95.0)),
    ("p99, ms", |run| percentile(run, 99.0)),
    ("p99.9, ms", |run| percentile(run, 99.9)),
    ("slowest, ms", |run| percentile(run, 100.0)),
    ("highest rate held", |run| {
        let rate = run
            .knee
            .as_ref()
            .map(|knee| knee.rate.map_or_else(|| "none".to_owned(), rounded));
        rate.unwrap_or_default()
    }),
    ("limited by", |run| {
        run.cause
            .map(|cause| cause.words().to_owned())
            .unwrap_or_default()
    }),
];

fn percentile(run: &LoadReport, percent: f64) -> String {
    run.ms(percent).map(rounded).unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn requests(second: &ReportedSecond) -> f64 {
    second.requests as f64
}

fn latency_chart(run: &LoadReport, most: f64) -> String {
    let line = |name, color, value: fn(&ReportedSecond) -> f64| ChartLine {
        name,
        color,
        points: per_second(run.seconds.iter().map(value)),
    };
    let all = [
        line("p50", ChartColor::Green, |second| second.p50_ms),
        line("p95", ChartColor::Amber, |second| second.p95_ms),
        line("p99", ChartColor::Red, |second| second.p99_ms),
    ];
    let title = "Latency from the intended start";
    lines(title, "ms", &all, run.seconds.len(), most)
}

fn throughput_chart(run: &LoadReport, most: f64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let failures = run.seconds.iter().map(|second| second.failures as f64);
    let all = [
        ChartLine {
            name: "requests",
            color: ChartColor::Blue,
            points: per_second(run.seconds.iter().map(requests)),
        },
        ChartLine {
            name: "failures",
            color: ChartColor::Red,
            points: per_second(failures),
        },
    ];
    let title = "Requests that were due";
    lines(title, "per second", &all, run.seconds.len(), most)
}

/// The percentiles as bars with the same scale.
fn percentiles_chart(run: &LoadReport, most: f64) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 {}\" role=\"img\"><title>Percentiles</title>\
         <text class=\"title\" x=\"90\" y=\"18\">Percentiles of the latency, ms</text>",
        34 + 24 * run.latency.len()
    );
    for (number, one) in run.latency.iter().enumerate() {
        let y = 30 + 24 * number;
        let width = (one.ms / most.max(1e-9)).clamp(0.0, 1.0) * 380.0;
        let _ = write!(
            out,
            "<text x=\"84\" y=\"{0}\" text-anchor=\"end\">{1} %</text><rect class=\"bar\" x=\"90\" y=\"{y}\" width=\"{width:.1}\" \
             height=\"18\"/><text x=\"{2:.1}\" y=\"{0}\">{3}</text>",
            y + 13,
            one.percent,
            width + 98.0,
            rounded(one.ms)
        );
    }
    out.push_str("</svg>");
    out
}

fn named<T: ToString>(counts: &std::collections::BTreeMap<T, u64>) -> Vec<(String, u64)> {
    counts
        .iter()
        .map(|(name, count)| (name.to_string(), *count))
        .collect()
}

const STYLE: &str = ":root{color-scheme:light dark;--text:#1a1a1a;--page:#fff;--grid:#ddd;--bar:#4b7bab;--green:#2f855a;--amber:#975a16;\
    --red:#c53030;--blue:#2b6cb0}\
    @media(prefers-color-scheme:dark){:root{--text:#e8e8e8;--page:#16181d;--grid:#3a3f4a;--bar:#5d93c8;--green:#68d391;--amber:#f6c453;\
    --red:#fc8181;--blue:#63b3ed}}\
    body{font:15px/1.4 system-ui,sans-serif;margin:2em;overflow-wrap:anywhere;color:var(--text);background:var(--page)}\
    table{border-collapse:collapse;margin-bottom:1em}td,th{padding:.2em 1em .2em 0;text-align:left}\
    th[scope=row]{font-weight:400;overflow-wrap:normal}.runs{display:flex;flex-wrap:wrap;gap:2em}section{flex:1 1 420px;min-width:0;max-width:720px}\
    .verdict{font-size:1.25em;border-left:.25em solid;padding-left:.6em}.verdict.green{border-color:var(--green)}.verdict.red{border-color:var(--red)}\
    @media(max-width:600px){body{margin:1em}.runs{display:block}svg text{font-size:17px}svg .title{font-size:19px}td,th{padding-right:.6em}}\
    svg{width:100%;font-size:12px;font-family:inherit;margin-bottom:1em}.title{font-size:15px;font-weight:600}\
    text{fill:var(--text)}.grid{stroke:var(--grid);fill:none}.bar{fill:var(--bar)}path.line{fill:none;stroke-width:1.5}\
    path.green{stroke:var(--green)}path.amber{stroke:var(--amber)}path.red{stroke:var(--red)}path.blue{stroke:var(--blue)}\
    text.green{fill:var(--green)}text.amber{fill:var(--amber)}text.red{fill:var(--red)}text.blue{fill:var(--blue)}";

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{
        super::figures::{LoadSetup, Percentile},
        *,
    };

    fn report(target: &str) -> LoadReport {
        LoadReport {
            setup: LoadSetup {
                target: target.to_owned(),
                ..LoadSetup::default()
            },
            latency: vec![Percentile {
                percent: 99.0,
                ms: 12.5,
            }],
            statuses: BTreeMap::from([(200, 9), (503, 1)]),
            cache: BTreeMap::from([("hit".to_owned(), 10)]),
            seconds: vec![
                ReportedSecond {
                    requests: 10,
                    p99_ms: 12.5,
                    ..ReportedSecond::default()
                };
                3
            ],
            ..LoadReport::default()
        }
    }

    #[test]
    fn the_page_is_complete_and_loads_nothing() {
        let text = html(&report("http://a.test/<script>"), None);
        assert!(!text.contains("<script") && !text.contains("src=") && !text.contains("href="));
        assert_eq!(text.matches("<svg").count(), 5);
        assert_eq!(text.matches("<svg").count(), text.matches("</svg>").count());
        for part in [
            "12.5",
            "9 (90.0 %)",
            "hit",
            "This run",
            "http://a.test/&lt;script&gt;",
            "<p class=\"verdict red\"><span aria-hidden=\"true\">✗</span> No response.</p>",
        ] {
            assert!(text.contains(part), "{part}");
        }
        // Only the URLs of XML namespaces, which are not requested.
        assert_eq!(
            text.matches("http").count(),
            5 + text.matches("http://a.test").count()
        );
    }

    #[test]
    fn two_runs_are_shown_side_by_side() {
        let text = html(
            &report("http://after.test"),
            Some(&report("http://before.test")),
        );
        let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part}"));
        assert!(place("<th scope=\"col\">Before</th>") < place("<th scope=\"col\">After</th>"));
        assert!(place("<td>http://before.test</td>") < place("<td>http://after.test</td>"));
        assert_eq!(text.matches("<svg").count(), 10);
    }
}
