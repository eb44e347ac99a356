//! Bar charts in SVG: one bar for each server, with its value, quartiles and a note. The white background keeps them readable on dark
//! pages. [`svg`] draws the chart of a scenario: sorted bars, each with its multiple of the floor.

use std::fmt::Write as _;

use galley_load::escaped;

use galley_testkit::Quartiles;

use super::{
    figure::rounded,
    report::{BenchReport, ContenderReport, ScenarioReport},
    table::sorted,
};

/// One bar.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    pub(crate) title: String,
    pub(crate) value: Quartiles,
    /// Text after the value.
    pub(crate) note: String,
    pub(crate) role: BarRole,
    /// The value is a median, and its quartiles are drawn over the end of the bar.
    pub(crate) has_quartiles: bool,
}

/// What a bar shows; determines its color.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BarRole {
    /// The subject of the page.
    Subject,
    /// A server that the subject is compared with.
    Other,
    /// The lower or upper bound of all others.
    Reference,
}

/// The chart of a scenario; `None` if nothing was measured.
pub(super) fn svg(
    scenario: &ScenarioReport,
    report: &BenchReport,
    subject: &str,
) -> Option<String> {
    let floor = scenario.value("floor");
    let bars: Vec<Bar> = sorted(scenario)
        .into_iter()
        .filter_map(|row| scenario_bar(scenario, row, floor, subject))
        .collect();
    let subtitle = format!("{}; less is better", scenario.figure.description());
    bar_chart([&scenario.title, &subtitle], &bars, &footer(report, floor))
}

fn scenario_bar(
    scenario: &ScenarioReport,
    row: &ContenderReport,
    floor: Option<f64>,
    subject: &str,
) -> Option<Bar> {
    let spread = *row.median.get(&scenario.figure)?;
    let is_floor = row.contender == "floor";
    let note = floor.filter(|_| !is_floor).map(|floor| {
        let ratio = row.of_floor.map_or(spread.median / floor, |it| it.median);
        format!("  =  {}x the floor", rounded(ratio))
    });
    let role = match (row.contender == subject, is_floor) {
        (true, _) => BarRole::Subject,
        (false, true) => BarRole::Reference,
        (false, false) => BarRole::Other,
    };
    Some(Bar {
        title: row.title.clone(),
        value: spread,
        note: note.unwrap_or_default(),
        role,
        has_quartiles: row.slices.len() > 1,
    })
}

/// A chart with a title, a subtitle and a footer; `None` if all values are zero.
pub(crate) fn bar_chart(
    [title, subtitle]: [&str; 2],
    bars: &[Bar],
    footer: &str,
) -> Option<String> {
    let longest = bars.iter().map(|bar| bar.value.upper).fold(0.0, f64::max);
    if longest <= 0.0 {
        return None;
    }
    let height = TOP + bars.len() * STEP + BOTTOM;
    let (title, subtitle, footer) = (escaped(title), escaped(subtitle), escaped(footer));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"14\" role=\"img\">\n\
         <title>{title}: {subtitle}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"16\" y=\"30\" font-size=\"18\" font-weight=\"600\" fill=\"#1a1a1a\">{title}</text>\n\
         <text x=\"16\" y=\"52\" fill=\"#555555\">{subtitle}</text>\n",
    );
    for (at, bar) in bars.iter().enumerate() {
        draw(&mut out, bar, TOP + at * STEP, longest);
    }
    let _ = writeln!(
        out,
        "<text x=\"16\" y=\"{}\" font-size=\"12\" fill=\"#777777\">{footer}</text>\n</svg>",
        height - 14,
    );
    Some(out)
}

fn draw(out: &mut String, bar: &Bar, y: usize, longest: f64) {
    let spread = bar.value;
    let length = |value: f64| (value.max(0.0) / longest * BAR_WIDTH).max(1.0);
    let (color, weight) = match bar.role {
        BarRole::Subject => ("#c2410c", "600"),
        BarRole::Other => ("#4b7bab", "400"),
        BarRole::Reference => ("#9ca3af", "400"),
    };
    let middle = y + 17;
    let _ = writeln!(
        out,
        "<text x=\"{x}\" y=\"{middle}\" text-anchor=\"end\" font-weight=\"{weight}\" fill=\"#1a1a1a\">{title}</text>\n\
         <rect x=\"{LEFT}\" y=\"{y}\" width=\"{length:.1}\" height=\"{BAR}\" rx=\"2\" fill=\"{color}\"/>",
        x = LEFT - 10,
        title = escaped(&bar.title),
        length = length(spread.median),
    );
    let left = f64::from(u16::try_from(LEFT).unwrap_or(u16::MAX));
    if bar.has_quartiles {
        let (from, to) = (left + length(spread.lower), left + length(spread.upper));
        let _ = writeln!(
            out,
            "<path d=\"M{from:.1} {line}H{to:.1}\" stroke=\"#1a1a1a\" stroke-width=\"1.5\"/>",
            line = y + BAR / 2,
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{middle}\" font-weight=\"{weight}\" fill=\"#1a1a1a\">{value}{note}</text>",
        x = left + length(spread.upper.max(spread.median)) + 8.0,
        value = rounded(spread.median),
        note = escaped(&bar.note),
    );
}

fn footer(report: &BenchReport, floor: Option<f64>) -> String {
    let slices = report.rounds * report.slices;
    let method = format!(
        "medians of {slices} slices, measured alternately, thin lines between the quartiles"
    );
    let floor = if floor.is_some() {
        "; floor: a bare epoll loop sending the same bytes"
    } else {
        ""
    };
    format!(
        "{}, one core for the server, one for the client; {method}{floor}",
        report.machine.cpu
    )
}

const WIDTH: usize = 860;
/// The left end of the bars.
const LEFT: usize = 210;
/// Width of the longest bar. The text after it needs the rest.
const BAR_WIDTH: f64 = 430.0;
const TOP: usize = 70;
const STEP: usize = 32;
const BAR: usize = 24;
const BOTTOM: usize = 36;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{plan::BenchPlan, report::tests::sample_report};

    #[test]
    fn bars_are_sorted_and_labeled_with_their_ratio() {
        let plan = BenchPlan::shipped();
        let values: [(&str, &[f64]); 3] = [
            ("nginx-recipe5", &[400.0, 420.0]),
            ("galley", &[11.0, 12.0]),
            ("floor", &[10.0, 10.0]),
        ];
        let report = sample_report(&plan, "post-gzip-one-head", &values);
        let text = svg(
            report.scenario("post-gzip-one-head").unwrap(),
            &report,
            "galley",
        )
        .unwrap();
        let position = |part: &str| {
            text.find(part)
                .unwrap_or_else(|| panic!("`{part}` is not in {text}"))
        };
        assert!(position(">floor: a bare epoll loop<") < position(">Galley<"));
        assert!(position(">Galley<") < position(">nginx (recipe 5)<"));
        position(">11.5  =  1.15x the floor<");
        position("The same page, one request repeated");
        assert_eq!(text.matches("<rect x=").count(), 3);
        assert_eq!(text.matches('<').count(), text.matches('>').count());
        assert!(svg(report.scenario("file-13").unwrap(), &report, "galley").is_none());
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escaped("a<b>&\"c\"\u{1}"), "a&lt;b&gt;&amp;&quot;c&quot;");
    }
}
