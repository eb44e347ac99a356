//! The results of a run by second, for spreadsheets.

use std::fmt::Write as _;

use super::figures::LoadReport;

/// Formats the seconds of a run as comma-separated values with a header line.
pub fn csv(report: &LoadReport) -> String {
    let mut out = "second,requests,failures,p50_ms,p95_ms,p99_ms\n".to_owned();
    for (number, second) in report.seconds.iter().enumerate() {
        let _ = writeln!(
            out,
            "{number},{},{},{:.3},{:.3},{:.3}",
            second.requests, second.failures, second.p50_ms, second.p95_ms, second.p99_ms
        );
    }
    out
}
