//! The targets of the plan held against a run: met, missed, or not measured.

use std::fmt::Write as _;

use galley_testkit::Spread;

use super::{figure::rounded, plan::Target, report::Report};

/// What became of one target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    Met(Spread),
    Missed(Spread),
    /// The run did not measure it.
    Open,
}

impl Verdict {
    pub(super) fn of(target: &Target, report: &Report) -> Self {
        let Some(spread) = report.ratio(&target.of, target.against.as_ref()) else {
            return Self::Open;
        };
        let is_low = target.at_most.is_none_or(|most| spread.median <= most);
        let is_high = target.at_least.is_none_or(|least| spread.median >= least);
        if is_low && is_high {
            Self::Met(spread)
        } else {
            Self::Missed(spread)
        }
    }
}

/// The list that ends a run.
pub(super) fn list(targets: &[Target], report: &Report) -> String {
    let mut out = String::from("| target | wanted | got | |\n|---|---:|---:|---|\n");
    for target in targets {
        let sign = if target.against.is_some() { "x" } else { "" };
        let wanted = match (target.at_most, target.at_least) {
            (Some(most), _) => format!("<= {}{sign}", rounded(most)),
            (None, Some(least)) => format!(">= {}{sign}", rounded(least)),
            (None, None) => String::new(),
        };
        let got = |spread: Spread| {
            let Spread {
                median,
                lower,
                upper,
            } = spread;
            let median = rounded(median);
            let (lower, upper) = (rounded(lower), rounded(upper));
            if lower == upper {
                format!("{median}{sign}")
            } else {
                format!("{median}{sign} ({lower} - {upper})")
            }
        };
        let (got, word) = match Verdict::of(target, report) {
            Verdict::Met(spread) => (got(spread), "met"),
            Verdict::Missed(spread) => (got(spread), "MISSED"),
            Verdict::Open => ("-".to_owned(), "not measured"),
        };
        let _ = writeln!(out, "| {} | {wanted} | {got} | {word} |", target.text);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{plan::Plan, report::tests::with};

    #[test]
    fn targets_are_met_missed_or_open() {
        let plan = Plan::shipped();
        let values: [(&str, &[f64]); 3] = [
            ("galley", &[11.0, 12.0]),
            ("floor", &[10.0, 10.0]),
            ("varnish", &[22.0, 24.0]),
        ];
        let report = with(&plan, "post-gzip", &values);
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
