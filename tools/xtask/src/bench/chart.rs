//! Bar charts in SVG: one bar for each server with its value, its quartiles and a note. Forty lines of text need no library; a
//! white ground makes them readable on dark pages as well. [`svg`] is the chart of a scenario: sorted bars, each with its
//! multiple of the floor.

use std::fmt::Write as _;

use galley_load::escaped;

use galley_testkit::Spread;

use super::{
    figure::rounded,
    report::{Report, Row, Section},
    table::sorted,
};

/// One bar.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    pub(crate) title: String,
    pub(crate) value: Spread,
    /// Stands behind the value.
    pub(crate) note: String,
    pub(crate) ground: Ground,
    /// The value is a median: its quartiles are drawn over the end of the bar.
    pub(crate) has_quartiles: bool,
}

/// How a bar is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ground {
    /// What the page is about.
    Subject,
    /// What it is compared with.
    Other,
    /// What nobody can do better than, or what everybody does better than.
    Reference,
}

/// The chart of a scenario; `None` where nothing was measured.
pub(super) fn svg(section: &Section, report: &Report, subject: &str) -> Option<String> {
    let floor = section.value("floor");
    let all: Vec<Bar> = sorted(section)
        .into_iter()
        .filter_map(|row| scenario_bar(section, row, floor, subject))
        .collect();
    let words = format!("{}; less is better", section.figure.words());
    bars([&section.title, &words], &all, &foot(report, floor))
}

fn scenario_bar(section: &Section, row: &Row, floor: Option<f64>, subject: &str) -> Option<Bar> {
    let spread = *row.median.get(&section.figure)?;
    let is_floor = row.contender == "floor";
    let note = floor.filter(|_| !is_floor).map(|floor| {
        let ratio = row.of_floor.map_or(spread.median / floor, |it| it.median);
        format!("  =  {}x the floor", rounded(ratio))
    });
    let ground = match (row.contender == subject, is_floor) {
        (true, _) => Ground::Subject,
        (false, true) => Ground::Reference,
        (false, false) => Ground::Other,
    };
    Some(Bar {
        title: row.title.clone(),
        value: spread,
        note: note.unwrap_or_default(),
        ground,
        has_quartiles: row.slices.len() > 1,
    })
}

/// A chart with a title, a line of words below it, and one at its foot; `None` without a bar that is longer than nothing.
pub(crate) fn bars([title, words]: [&str; 2], all: &[Bar], foot: &str) -> Option<String> {
    let longest = all.iter().map(|bar| bar.value.upper).fold(0.0, f64::max);
    if longest <= 0.0 {
        return None;
    }
    let height = TOP + all.len() * STEP + BOTTOM;
    let (title, words, foot) = (escaped(title), escaped(words), escaped(foot));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"14\" role=\"img\">\n\
         <title>{title}: {words}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"16\" y=\"30\" font-size=\"18\" font-weight=\"600\" fill=\"#1a1a1a\">{title}</text>\n\
         <text x=\"16\" y=\"52\" fill=\"#555555\">{words}</text>\n",
    );
    for (at, bar) in all.iter().enumerate() {
        draw(&mut out, bar, TOP + at * STEP, longest);
    }
    let _ = writeln!(
        out,
        "<text x=\"16\" y=\"{}\" font-size=\"12\" fill=\"#777777\">{foot}</text>\n</svg>",
        height - 14,
    );
    Some(out)
}

fn draw(out: &mut String, bar: &Bar, y: usize, longest: f64) {
    let spread = bar.value;
    let length = |value: f64| (value.max(0.0) / longest * ROOM).max(1.0);
    let (colour, weight) = match bar.ground {
        Ground::Subject => ("#c2410c", "600"),
        Ground::Other => ("#4b7bab", "400"),
        Ground::Reference => ("#9ca3af", "400"),
    };
    let middle = y + 17;
    let _ = writeln!(
        out,
        "<text x=\"{x}\" y=\"{middle}\" text-anchor=\"end\" font-weight=\"{weight}\" fill=\"#1a1a1a\">{title}</text>\n\
         <rect x=\"{LEFT}\" y=\"{y}\" width=\"{length:.1}\" height=\"{BAR}\" rx=\"2\" fill=\"{colour}\"/>",
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

fn foot(report: &Report, floor: Option<f64>) -> String {
    let slices = report.rounds * report.slices;
    let rounds = format!("medians of {slices} slices in turns, thin lines between the quartiles");
    let floor = if floor.is_some() {
        "; floor: a bare epoll loop sending the same bytes"
    } else {
        ""
    };
    format!(
        "{}, one core for the server, one for the client; {rounds}{floor}",
        report.machine.cpu
    )
}

const WIDTH: usize = 860;
/// Where bars begin.
const LEFT: usize = 210;
/// For the longest bar; what is written behind it needs the rest.
const ROOM: f64 = 430.0;
const TOP: usize = 70;
const STEP: usize = 32;
const BAR: usize = 24;
const BOTTOM: usize = 36;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{plan::Plan, report::tests::with};

    #[test]
    fn bars_are_sorted_and_tell_their_ratio() {
        let plan = Plan::shipped();
        let values: [(&str, &[f64]); 3] = [
            ("nginx-recipe5", &[400.0, 420.0]),
            ("galley", &[11.0, 12.0]),
            ("floor", &[10.0, 10.0]),
        ];
        let report = with(&plan, "post-gzip-one-head", &values);
        let text = svg(
            report.section("post-gzip-one-head").unwrap(),
            &report,
            "galley",
        )
        .unwrap();
        let place = |part: &str| {
            text.find(part)
                .unwrap_or_else(|| panic!("`{part}` is not in {text}"))
        };
        assert!(place(">floor: a bare epoll loop<") < place(">Galley<"));
        assert!(place(">Galley<") < place(">nginx (recipe 5)<"));
        place(">11.5  =  1.15x the floor<");
        place("The same page, one request repeated");
        assert_eq!(text.matches("<rect x=").count(), 3);
        assert_eq!(text.matches('<').count(), text.matches('>').count());
        assert!(svg(report.section("file-13").unwrap(), &report, "galley").is_none());
    }

    #[test]
    fn text_cannot_break_out() {
        assert_eq!(escaped("a<b>&\"c\"\u{1}"), "a&lt;b&gt;&amp;&quot;c&quot;");
    }
}
