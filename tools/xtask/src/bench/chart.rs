//! One scenario as a bar chart in SVG: sorted bars, each with its value, its spread and its multiple of the best or the
//! floor. Forty lines of text need no library; a white ground makes it readable on dark pages as well.

use std::fmt::Write as _;

use galley_load::escaped;

use super::{
    figure::rounded,
    report::{Report, Row, Section},
    table::sorted,
};

/// The chart; `None` where nothing was measured.
pub(super) fn svg(section: &Section, report: &Report, subject: &str) -> Option<String> {
    let rows: Vec<&Row> = sorted(section)
        .into_iter()
        .filter(|row| section.value(&row.contender).is_some())
        .collect();
    let longest = rows
        .iter()
        .filter_map(|row| Some(row.median.get(&section.figure)?.upper))
        .fold(0.0, f64::max);
    if rows.is_empty() || longest <= 0.0 {
        return None;
    }
    let floor = section.value("floor");
    let height = TOP + rows.len() * STEP + BOTTOM;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"14\" role=\"img\">\n\
         <title>{title}: {words}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"16\" y=\"30\" font-size=\"18\" font-weight=\"600\" fill=\"#1a1a1a\">{title}</text>\n\
         <text x=\"16\" y=\"52\" fill=\"#555555\">{words}; less is better</text>\n",
        title = escaped(&section.title),
        words = escaped(section.figure.words()),
    );
    for (at, row) in rows.iter().enumerate() {
        let y = TOP + at * STEP;
        bar(
            &mut out,
            section,
            row,
            &Scale {
                y,
                longest,
                floor,
                is_subject: row.contender == subject,
            },
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"16\" y=\"{}\" font-size=\"12\" fill=\"#777777\">{}</text>\n</svg>",
        height - 14,
        escaped(&foot(report, floor))
    );
    Some(out)
}

/// Where one bar stands, and what it is measured by.
struct Scale {
    y: usize,
    longest: f64,
    floor: Option<f64>,
    is_subject: bool,
}

fn bar(out: &mut String, section: &Section, row: &Row, scale: &Scale) {
    let Some(spread) = row.median.get(&section.figure) else {
        return;
    };
    let length = |value: f64| (value.max(0.0) / scale.longest * ROOM).max(1.0);
    let colour = match (scale.is_subject, row.contender.as_str()) {
        (true, _) => "#c2410c",
        (false, "floor") => "#9ca3af",
        _ => "#4b7bab",
    };
    let weight = if scale.is_subject { "600" } else { "400" };
    let (y, middle) = (scale.y, scale.y + 17);
    let ratio = match scale.floor {
        Some(floor) if row.contender != "floor" => {
            format!(
                "  =  {}x the floor",
                rounded(row.of_floor.map_or(spread.median / floor, |it| it.median))
            )
        }
        _ => String::new(),
    };
    let _ = writeln!(
        out,
        "<text x=\"{x}\" y=\"{middle}\" text-anchor=\"end\" font-weight=\"{weight}\" fill=\"#1a1a1a\">{title}</text>\n\
         <rect x=\"{LEFT}\" y=\"{y}\" width=\"{length:.1}\" height=\"{BAR}\" rx=\"2\" fill=\"{colour}\"/>",
        x = LEFT - 10,
        title = escaped(&row.title),
        length = length(spread.median),
    );
    let left = f64::from(u16::try_from(LEFT).unwrap_or(u16::MAX));
    // The quartiles, as a thin line over the bar's end.
    if row.slices.len() > 1 {
        let (from, to) = (left + length(spread.lower), left + length(spread.upper));
        let _ = writeln!(
            out,
            "<path d=\"M{from:.1} {line}H{to:.1}\" stroke=\"#1a1a1a\" stroke-width=\"1.5\"/>",
            line = y + BAR / 2,
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{middle}\" font-weight=\"{weight}\" fill=\"#1a1a1a\">{value}{ratio}</text>",
        x = left + length(spread.upper.max(spread.median)) + 8.0,
        value = rounded(spread.median),
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
