//! Compares a run with the performance targets: met, missed, or not measured.

use std::fmt::Write as _;

use galley_testkit::Quartiles;

use super::{figure::rounded, report::BenchReport, settings::PerformanceTarget};

/// The result of one target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TargetResult {
    Met(Quartiles),
    Missed(Quartiles),
    NotMeasured,
}

impl TargetResult {
    pub(super) fn of(target: &PerformanceTarget, report: &BenchReport) -> Self {
        let Some(spread) = report.ratio(&target.of, target.against.as_ref()) else {
            return Self::NotMeasured;
        };
        let is_low_enough = target.at_most.is_none_or(|most| spread.median <= most);
        let is_high_enough = target.at_least.is_none_or(|least| spread.median >= least);
        if is_low_enough && is_high_enough {
            Self::Met(spread)
        } else {
            Self::Missed(spread)
        }
    }
}

/// The table of all targets, in Markdown.
pub(super) fn list(targets: &[PerformanceTarget], report: &BenchReport) -> String {
    let mut out = String::from("| target | wanted | got | |\n|---|---:|---:|---|\n");
    for target in targets {
        let unit = if target.against.is_some() { "x" } else { "" };
        let limit = match (target.at_most, target.at_least) {
            (Some(most), _) => format!("<= {}{unit}", rounded(most)),
            (None, Some(least)) => format!(">= {}{unit}", rounded(least)),
            (None, None) => String::new(),
        };
        let formatted = |spread: Quartiles| {
            let Quartiles {
                median,
                lower,
                upper,
            } = spread;
            let median = rounded(median);
            let (lower, upper) = (rounded(lower), rounded(upper));
            if lower == upper {
                format!("{median}{unit}")
            } else {
                format!("{median}{unit} ({lower} - {upper})")
            }
        };
        let (measured, word) = match TargetResult::of(target, report) {
            TargetResult::Met(spread) => (formatted(spread), "met"),
            TargetResult::Missed(spread) => (formatted(spread), "MISSED"),
            TargetResult::NotMeasured => ("-".to_owned(), "not measured"),
        };
        let _ = writeln!(out, "| {} | {limit} | {measured} | {word} |", target.text);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{plan::BenchPlan, report::tests::sample_report};

    #[test]
    fn targets_are_met_missed_or_not_measured() {
        let plan = BenchPlan::shipped();
        let values: [(&str, &[f64]); 3] = [
            ("galley", &[11.0, 12.0]),
            ("floor", &[10.0, 10.0]),
            ("varnish", &[22.0, 24.0]),
        ];
        let report = sample_report(&plan, "post-gzip", &values);
        let text = list(&plan.targets, &report);
        let line = |part: &str| text.lines().find(|line| line.contains(part)).unwrap();
        assert!(
            line("gzip: CPU per request against the floor")
                .ends_with("| <= 1.25x | 1.15x (1.12 - 1.18) | met |"),
            "{text}"
        );
        assert!(
            line("CPU of Varnish").ends_with("| >= 3.00x | 2.00x | MISSED |"),
            "{text}"
        );
        assert!(line("as br").ends_with("| - | not measured |"), "{text}");
        assert_eq!(text.lines().count(), plan.targets.len() + 2);
    }
}
