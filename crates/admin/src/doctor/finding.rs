//! The result of one check, and the format of its numbers.

use galley_policy::outcome::words;
use serde_json::Value;

words! {
    /// The severity of a finding.
    #[derive(PartialOrd, Ord)]
    Severity {
        /// No problem.
        Fine = "fine",
        /// The check was not possible.
        Unknown = "unknown",
        /// Noteworthy, but no requests fail because of it now.
        Notice = "notice",
        /// Requests fail because of it, or soon will.
        Wrong = "wrong",
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoctorFinding {
    /// The subject, in one word: `conntrack`, `memory`, `opcache` ...
    pub check: &'static str,
    /// The severity.
    pub level: Severity,
    /// The measured values.
    pub seen: String,
    /// For how long the running server has observed the problem, in seconds; `None`: unknown.
    pub since_s: Option<u64>,
    /// Why it matters; empty for [`Severity::Fine`].
    pub why: String,
    /// The remedy, a command if possible; empty for [`Severity::Fine`].
    pub remedy: String,
}

impl DoctorFinding {
    pub(super) fn fine(check: &'static str, seen: impl Into<String>) -> Self {
        Self {
            check,
            level: Severity::Fine,
            seen: seen.into(),
            since_s: None,
            why: String::new(),
            remedy: String::new(),
        }
    }

    pub(super) fn unknown(check: &'static str, seen: impl Into<String>) -> Self {
        Self {
            level: Severity::Unknown,
            ..Self::fine(check, seen)
        }
    }

    pub(super) fn bad(
        level: Severity,
        check: &'static str,
        seen: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            level,
            why: why.into(),
            remedy: remedy.into(),
            ..Self::fine(check, seen)
        }
    }
}

/// Adds to each problem since when the running server observes it too, if it does. `status`: that of the running server.
pub fn date_findings(findings: &mut [DoctorFinding], status: &Result<Value, String>) {
    let problems = status.as_ref().ok();
    let problems = problems.and_then(|all| all["health"]["problems"].as_array());
    for problem in problems.into_iter().flatten() {
        let is_same = |finding: &DoctorFinding| {
            let is_of_site = |site| finding.seen.starts_with(&format!("{site}: "));
            OBSERVED.contains(&finding.check)
                && problem["kind"] == finding.check
                && problem["site"].as_str().is_none_or(is_of_site)
        };
        for finding in findings.iter_mut() {
            if finding.level > Severity::Unknown && is_same(finding) {
                finding.since_s = problem["since_s"].as_u64();
            }
        }
    }
}

/// The checks that the running server repeats, under the same word.
const OBSERVED: [&str; 3] = ["certificate", "privileged", "upstream"];

/// `part` as a percentage of `whole`; 0 if `whole` is 0.
pub(super) fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).checked_div(whole).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_problem_that_the_server_observes_has_its_age() {
        let status = json!({ "health": { "problems": [
            { "kind": "upstream", "site": "a.test", "since_s": 60 },
            { "kind": "privileged", "site": null, "since_s": 7 },
            { "kind": "cron", "site": "a.test", "since_s": 9 },
        ] } });
        let bad = |check, seen| DoctorFinding::bad(Severity::Wrong, check, seen, "", "");
        let mut findings = [
            bad("upstream", "a.test: cannot connect to unix:/a"),
            bad("upstream", "b.test: cannot connect to unix:/b"),
            bad("privileged", "Galley, process 7, has lost it"),
            bad("cron", "a.test: tasks are overdue"),
            DoctorFinding::fine("privileged", "process 9"),
        ];
        date_findings(&mut findings, &Ok(status));
        let ages = findings.map(|finding| finding.since_s);
        assert_eq!(ages, [Some(60), None, Some(7), None, None]);
    }
}
