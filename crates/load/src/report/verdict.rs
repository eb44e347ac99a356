//! The result of a run in one sentence, and its change since an earlier run.

use super::{cause::KneeCause, charts::rounded, figures::LoadReport, knee::Knee};

/// A sentence without its end, and whether the target did what the run asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadVerdict {
    /// The sentence.
    pub sentence: String,
    /// Whether requests failed, or for a ramp, whether not even its first rate was held.
    pub has_failed: bool,
}

impl LoadVerdict {
    /// The verdict on a run.
    pub fn of(report: &LoadReport) -> Self {
        let (mut sentence, has_failed) = match &report.knee {
            Some(knee) => (of_ramp(report, knee), knee.rate.is_none()),
            None => of_rate(report),
        };
        if report.stopped {
            sentence.push_str("; the test was stopped early");
        }
        Self {
            sentence,
            has_failed,
        }
    }
}

fn of_ramp(report: &LoadReport, knee: &Knee) -> String {
    let Some(rate) = knee.rate else {
        let first = report.setup.rates.map(|rates| rates[0]);
        return format!(
            "Does not hold even {} requests a second: requests fail, or 1 % of them take longer than {} ms",
            whole(first.unwrap_or_default()),
            whole(knee.limit_ms)
        );
    };
    let held = report
        .seconds
        .iter()
        .take(knee.broke_at.unwrap_or(usize::MAX));
    let good = held.filter(|second| !second.is_bad(knee.limit_ms));
    let p95 = good.map(|second| second.p95_ms).fold(0.0, f64::max);
    let least = if knee.broke_at.is_some() {
        ""
    } else {
        "at least "
    };
    let limit = match (knee.broke_at, report.cause) {
        (None, _) => "the ramp ended there".to_owned(),
        (Some(_), Some(cause)) => cause.limit().to_owned(),
        (Some(_), None) => KneeCause::Unknown.limit().to_owned(),
    };
    let excused = match knee.excused {
        0 => String::new(),
        1 => "; one second was worse".to_owned(),
        count => format!("; {count} single seconds were worse"),
    };
    let rate = whole(rate);
    let p95 = bound(p95);
    format!("Holds {least}{rate} requests a second with p95 below {p95} ms; {limit}{excused}")
}

fn of_rate(report: &LoadReport) -> (String, bool) {
    let failure = report.first_failure.as_deref();
    if report.responses == 0 {
        let why = failure.map(|why| format!(": {why}")).unwrap_or_default();
        return (format!("No response{why}"), true);
    }
    let p95 = bound(report.ms(95.0).unwrap_or_default());
    let speed = format!(
        "{} responses a second with p95 below {p95} ms",
        whole(report.per_second)
    );
    if report.failures == 0 {
        return (format!("{speed}; no request failed"), false);
    }
    let why = failure
        .map(|why| format!(", the first one with: {why}"))
        .unwrap_or_default();
    (
        format!("{} requests failed{why}; {speed}", report.failures),
        true,
    )
}

/// The change from an earlier run of the same mode.
pub fn change(before: &LoadReport, after: &LoadReport) -> Option<String> {
    if before.setup.mode != after.setup.mode {
        return None;
    }
    let rate = |run: &LoadReport| match &run.knee {
        Some(knee) => knee.rate,
        None => (run.setup.rates.is_none()).then_some(run.per_second),
    };
    let mut parts = Vec::new();
    if let (Some(was), Some(is)) = (rate(before), rate(after)) {
        let more = (is / was.max(1e-9) - 1.0) * 100.0;
        let change = match more {
            more if more.abs() < 1.0 => "the same".to_owned(),
            more if more > 0.0 => format!("{more:.0} % more"),
            less => format!("{:.0} % less", -less),
        };
        parts.push(format!(
            "{} instead of {} requests a second ({change})",
            whole(is),
            whole(was)
        ));
    }
    if let (Some(was), Some(is)) = (before.ms(95.0), after.ms(95.0)) {
        parts.push(format!(
            "p95 {} instead of {} ms",
            rounded(is),
            rounded(was)
        ));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The next of 1, 2, 5, 10, 20 ... that is above a time in milliseconds.
fn bound(ms: f64) -> String {
    let mut decade = 0.1;
    loop {
        for step in [1.0, 2.0, 5.0] {
            if ms < decade * step || decade > 1e9 {
                return whole(decade * step);
            }
        }
        decade *= 10.0;
    }
}

/// A number without digits that nobody needs in a sentence.
fn whole(value: f64) -> String {
    if value < 10.0 && value.fract() > 0.01 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            figures::{LoadSetup, Percentile},
            second::ReportedSecond,
        },
        *,
    };

    fn ramp(rate: Option<f64>, broke_at: Option<usize>) -> LoadReport {
        let second = |p95_ms: f64| ReportedSecond {
            requests: 100,
            p95_ms,
            p99_ms: p95_ms * 1.5,
            ..ReportedSecond::default()
        };
        LoadReport {
            setup: LoadSetup {
                mode: "ramp".to_owned(),
                rates: Some([50.0, 500.0]),
                ..LoadSetup::default()
            },
            responses: 1000,
            // The second one is excused: `p95` below speaks of the others.
            seconds: [120.0, 900.0, 150.0, 2000.0, 3000.0].map(second).to_vec(),
            latency: vec![Percentile {
                percent: 95.0,
                ms: 140.0,
            }],
            knee: Some(Knee {
                rate,
                broke_at,
                limit_ms: 500.0,
                excused: 1,
            }),
            cause: Some(KneeCause::PhpSlots),
            ..LoadReport::default()
        }
    }

    #[test]
    fn a_ramp_says_what_it_holds_and_what_limits_it() {
        for (report, sentence, has_failed) in [
            (
                ramp(Some(380.0), Some(3)),
                "Holds 380 requests a second with p95 below 200 ms; the limit is PHP; one second was worse",
                false,
            ),
            (
                ramp(None, Some(0)),
                "Does not hold even 50 requests a second: requests fail, or 1 % of them take longer than 500 ms",
                true,
            ),
        ] {
            let verdict = LoadVerdict::of(&report);
            assert_eq!(
                (verdict.sentence.as_str(), verdict.has_failed),
                (sentence, has_failed)
            );
        }
        let mut whole = ramp(Some(500.0), None);
        whole.seconds.truncate(3);
        let sentence = LoadVerdict::of(&whole).sentence;
        assert!(
            sentence.starts_with(
                "Holds at least 500 requests a second with p95 below 200 ms; the ramp ended there"
            ),
            "{sentence}"
        );
    }

    #[test]
    fn a_constant_rate_says_whether_requests_failed() {
        let mut report = LoadReport {
            responses: 6000,
            per_second: 200.0,
            latency: vec![Percentile {
                percent: 95.0,
                ms: 20.0,
            }],
            ..LoadReport::default()
        };
        let sentence = |report: &LoadReport| LoadVerdict::of(report).sentence;
        assert_eq!(
            sentence(&report),
            "200 responses a second with p95 below 50 ms; no request failed"
        );
        report.failures = 3;
        report.first_failure = Some("status 503".to_owned());
        report.stopped = true;
        assert_eq!(
            sentence(&report),
            "3 requests failed, the first one with: status 503; 200 responses a second with p95 below 50 ms; the test was stopped early"
        );
        report.responses = 0;
        assert!(sentence(&report).starts_with("No response: status 503"));
        assert!(LoadVerdict::of(&report).has_failed);
    }

    #[test]
    fn two_runs_are_compared_only_in_the_same_mode() {
        let (before, after) = (ramp(Some(300.0), Some(3)), ramp(Some(381.0), Some(3)));
        assert_eq!(
            change(&before, &after).as_deref(),
            Some("381 instead of 300 requests a second (27 % more), p95 140 instead of 140 ms")
        );
        assert!(change(&after, &before).is_some_and(|text| text.contains("(21 % less)")));
        assert_eq!(change(&LoadReport::default(), &after), None);
    }

    #[test]
    fn bounds_are_round_and_above() {
        for (ms, wanted) in [
            (0.0, "0.1"),
            (0.3, "0.5"),
            (1.0, "2"),
            (199.0, "200"),
            (200.0, "500"),
            (1200.0, "2000"),
        ] {
            assert_eq!(bound(ms), wanted);
        }
    }
}
