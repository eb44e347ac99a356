//! Line charts and bar charts as SVG, without scripts and external resources.

use std::fmt::Write as _;

/// One line of a chart.
pub(super) struct ChartLine {
    pub(super) name: &'static str,
    pub(super) color: ChartColor,
    pub(super) points: Vec<ChartPoint>,
}

/// A color of the page's style, which has a different shade on a dark background.
#[derive(Clone, Copy)]
pub(super) enum ChartColor {
    Green,
    Amber,
    Red,
    Blue,
}

impl ChartColor {
    const fn class(self) -> &'static str {
        match self {
            Self::Green => "green",
            Self::Amber => "amber",
            Self::Red => "red",
            Self::Blue => "blue",
        }
    }
}

/// A value at one time of a run.
#[derive(Clone, Copy)]
pub(super) struct ChartPoint {
    /// The time in seconds since the start of the run.
    pub(super) at_s: f64,
    pub(super) value: f64,
}

/// Returns a point for each second.
#[expect(clippy::cast_precision_loss, reason = "seconds of a run")]
pub(super) fn per_second(values: impl Iterator<Item = f64>) -> Vec<ChartPoint> {
    let at = |(second, value): (usize, f64)| ChartPoint {
        at_s: second as f64,
        value,
    };
    values.enumerate().map(at).collect()
}

/// A chart over the `length` seconds of a run. `most` gives two charts the same scale.
pub(super) fn lines(
    title: &str,
    unit: &str,
    lines: &[ChartLine],
    length: usize,
    most: f64,
) -> String {
    let step = round_step(most);
    let top = step * (most / step).ceil().max(1.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\"><title>{0}</title>\
         <desc>{1}</desc><text class=\"title\" x=\"{LEFT}\" y=\"18\">{0}</text>",
        escaped(title),
        escaped(&description(unit, lines))
    );
    axes(&mut out, unit, length, [step, top]);
    for (number, line) in lines.iter().enumerate() {
        curve(&mut out, line, number, length, top);
    }
    out.push_str("</svg>");
    out
}

/// A text description of the lines, for screen readers.
fn description(unit: &str, lines: &[ChartLine]) -> String {
    let all = lines.iter().map(|line| {
        let values = line.points.iter().map(|point| point.value);
        let most = values.fold(0.0, f64::max);
        format!("{}: at most {} {unit}", line.name, rounded(most))
    });
    all.collect::<Vec<_>>().join("; ")
}

/// Draws the grid at multiples of a round number, its labels, and the seconds below it.
#[expect(clippy::cast_precision_loss, reason = "seconds of a run")]
fn axes(out: &mut String, unit: &str, length: usize, [step, top]: [f64; 2]) {
    let mut value = 0.0;
    while value <= top * 1.001 {
        let y = BASE - ROOM_Y * value / top;
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{}\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT + ROOM_X,
            LEFT - 6.0,
            y + 4.0,
            tick(value, step)
        );
        value += step;
    }
    let last = length.max(2) - 1;
    let seconds = TIME_STEPS.into_iter().find(|step| last / step < MAX_TICKS);
    for at in (0..=last).step_by(seconds.unwrap_or(last)) {
        let x = LEFT + ROOM_X * at as f64 / last as f64;
        let _ = write!(
            out,
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{at} s</text>",
            BASE + 18.0
        );
    }
    let _ = write!(out, "<text x=\"{LEFT}\" y=\"38\">{}</text>", escaped(unit));
}

/// The distance of about four grid lines up to `most`: 1, 2 or 5 times a power of ten.
fn round_step(most: f64) -> f64 {
    let wanted = (most / 4.0).clamp(0.01, 1e12);
    let decade = 10_f64.powf(wanted.log10().floor());
    let step = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|step| wanted <= decade * step * 1.0001);
    decade * step.unwrap_or(10.0)
}

/// The label of a grid line, with as many digits as the step has.
fn tick(value: f64, step: f64) -> String {
    match step {
        step if step >= 1.0 => format!("{value:.0}"),
        step if step >= 0.1 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Draws a line with its name.
fn curve(out: &mut String, line: &ChartLine, number: usize, length: usize, top: f64) {
    let _ = write!(
        out,
        "<path class=\"line {0}\"{4} d=\"{1}\"/><text class=\"{0}\" x=\"{2}\" y=\"38\">{3}</text>",
        line.color.class(),
        path(&line.points, length, top),
        LEFT + 110.0 + 130.0 * f64::from(u8::try_from(number).unwrap_or(u8::MAX)),
        line.name,
        DASHES.get(number).unwrap_or(&"")
    );
}

#[expect(clippy::cast_precision_loss, reason = "seconds of a run")]
fn path(points: &[ChartPoint], length: usize, top: f64) -> String {
    let last = (length.max(2) - 1) as f64;
    let mut out = String::new();
    for (number, point) in points.iter().enumerate() {
        let letter = if number == 0 { 'M' } else { 'L' };
        let x = LEFT + ROOM_X * (point.at_s / last).clamp(0.0, 1.0);
        let y = BASE - ROOM_Y * (point.value / top).clamp(0.0, 1.0);
        let _ = write!(out, "{letter}{x:.1} {y:.1}");
    }
    out
}

/// A bar chart of names and counts, the largest first.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
pub(super) fn bars(title: &str, counts: &[(String, u64)]) -> String {
    let mut counts = counts.to_vec();
    counts.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    counts.truncate(MAX_BARS);
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    let height = 34.0 + 24.0 * counts.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\"><title>{0}</title>\
         <text class=\"title\" x=\"{LEFT}\" y=\"18\">{0}</text>",
        escaped(title)
    );
    for (number, (name, count)) in counts.iter().enumerate() {
        let y = 30.0 + 24.0 * number as f64;
        let share = *count as f64 / all.max(1) as f64;
        let _ = write!(
            out,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect class=\"bar\" x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"18\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{count} ({:.1} %)</text>",
            LEFT - 6.0,
            y + 13.0,
            escaped(name),
            (share * BAR_ROOM).max(1.0),
            LEFT + share * BAR_ROOM + 8.0,
            y + 13.0,
            share * 100.0
        );
    }
    out.push_str("</svg>");
    out
}

/// Rounds to three significant digits.
pub(super) fn rounded(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Escapes text for HTML and XML.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            letter if letter.is_control() => {}
            letter => out.push(letter),
        }
    }
    out
}

/// The first line of a chart is solid, and the others have different dashes, so that they can be distinguished without color.
const DASHES: &[&str] = &["", " stroke-dasharray=\"7 3\"", " stroke-dasharray=\"2 3\""];

/// The steps of the seconds on the axis, and the maximum number of labels.
const TIME_STEPS: [usize; 12] = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800];
const MAX_TICKS: usize = 7;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 90.0;
const ROOM_X: f64 = 530.0;
const ROOM_Y: f64 = 180.0;
const BASE: f64 = 230.0;
const BAR_ROOM: f64 = 380.0;
const MAX_BARS: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn grid_lines_are_at_round_numbers() {
        for (most, step, first) in [
            (0.0, 0.01, "0.01"),
            (0.3, 0.1, "0.1"),
            (3.0, 1.0, "1"),
            (37.0, 10.0, "10"),
            (380.0, 100.0, "100"),
            (1_234.0, 500.0, "500"),
        ] {
            let seen = round_step(most);
            assert!((seen - step).abs() < step / 1000.0, "{most}: {seen}");
            assert_eq!(tick(seen, seen), first);
        }
    }

    proptest! {
        #[test]
        fn a_chart_has_a_few_labels_at_any_scale(most in 0.0_f64..1e9, length in 0_usize..3_600) {
            let chart = lines("t", "u", &[], length, most);
            let grid = chart.matches("class=\"grid\"").count();
            prop_assert!((2..=6).contains(&grid), "{}", grid);
            let times = chart.matches(" s</text>").count();
            prop_assert!((2..=MAX_TICKS).contains(&times), "{}", times);
        }
    }
}
