//! The output format of Apache's `ab`, so that results can be compared with published ones.

use std::fmt::Write as _;

use super::figures::{LoadReport, Percentile};

/// Formats a run with this number of connections.
pub fn ab_lines(report: &LoadReport, connections: usize, keeps: bool) -> String {
    let mut out = String::new();
    counts(&mut out, report, connections, keeps);
    speeds(&mut out, report, connections);
    percentiles(&mut out, report);
    out
}

fn line(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "{:<24}{value}", format!("{name}:"));
}

fn counts(out: &mut String, report: &LoadReport, connections: usize, keeps: bool) {
    let is_other = |status: u16| status != 0 && !(200..300).contains(&status);
    let others = report
        .statuses
        .iter()
        .filter(|(status, _)| is_other(**status));
    let others: u64 = others.map(|(_, count)| count).sum();
    let broken = report.statuses.get(&0).copied().unwrap_or_default();
    line(out, "Concurrency Level", &connections.to_string());
    line(
        out,
        "Time taken for tests",
        &format!("{:.3} seconds", report.elapsed_s),
    );
    line(out, "Complete requests", &report.responses.to_string());
    line(out, "Failed requests", &broken.to_string());
    if others > 0 {
        line(out, "Non-2xx responses", &others.to_string());
    }
    if keeps {
        line(out, "Keep-Alive requests", &report.responses.to_string());
    }
    line(out, "Total transferred", &format!("{} bytes", report.bytes));
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn speeds(out: &mut String, report: &LoadReport, connections: usize) {
    let per_request_ms = report.elapsed_s * 1000.0 / report.responses.max(1) as f64;
    let per_connection_ms = per_request_ms * connections as f64;
    let kbytes = report.bytes as f64 / 1024.0 / report.elapsed_s.max(1e-6);
    for (name, value) in [
        (
            "Requests per second",
            format!("{:.2} [#/sec] (mean)", report.per_second),
        ),
        (
            "Time per request",
            format!("{per_connection_ms:.3} [ms] (mean)"),
        ),
        (
            "Time per request",
            format!("{per_request_ms:.3} [ms] (mean, across all concurrent requests)"),
        ),
        (
            "Transfer rate",
            format!("{kbytes:.2} [Kbytes/sec] received"),
        ),
    ] {
        line(out, name, &value);
    }
}

/// Writes whole percentiles only.
fn percentiles(out: &mut String, report: &LoadReport) {
    out.push_str("\nPercentage of the requests served within a certain time (ms)\n");
    let whole = report
        .latency
        .iter()
        .filter(|one| one.percent.fract() == 0.0);
    for Percentile { percent, ms } in whole {
        let suffix = if *percent >= 100.0 {
            " (longest request)"
        } else {
            ""
        };
        let _ = writeln!(out, "{percent:>5.0}% {ms:>6.0}{suffix}");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn lines_are_those_of_ab() {
        let report = LoadReport {
            elapsed_s: 2.0,
            responses: 1000,
            per_second: 500.0,
            bytes: 2_048_000,
            statuses: BTreeMap::from([(0, 2), (200, 990), (404, 10)]),
            latency: [(50.0, 3.6), (99.9, 9.0), (100.0, 12.0)]
                .map(|(percent, ms)| Percentile { percent, ms })
                .to_vec(),
            ..LoadReport::default()
        };
        let text = ab_lines(&report, 10, true);
        for line in [
            "Concurrency Level:      10\n",
            "Time taken for tests:   2.000 seconds\n",
            "Complete requests:      1000\n",
            "Failed requests:        2\n",
            "Non-2xx responses:      10\n",
            "Keep-Alive requests:    1000\n",
            "Requests per second:    500.00 [#/sec] (mean)\n",
            "Time per request:       20.000 [ms] (mean)\n",
            "Time per request:       2.000 [ms] (mean, across all concurrent requests)\n",
            "Transfer rate:          1000.00 [Kbytes/sec] received\n",
            "   50%      4\n",
            "  100%     12 (longest request)\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(!text.contains("99.9"));
    }
}
