//! The verdict on each test, by the rules of the suite's results page.
//!
//! A failed *required* test shows a violation, a failed *optimal* test a missed optimization; a *check* only shows how a cache behaves.
//! A test is blocked if one of its dependencies did not pass. A failure during the setup of a test is no result, nor is a cache that
//! retried a request.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One test with its result as reported by the suite.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct TestResult {
    pub(super) suite: String,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) kind: TestKind,
    pub(super) depends_on: Vec<String>,
    pub(super) passed: bool,
    /// The kind of failure, and a description.
    pub(super) failure: Option<(String, String)>,
    pub(super) ran: bool,
}

/// The importance of a test.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TestKind {
    Required,
    Optimal,
    Check,
}

/// The verdict on a test.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TestVerdict {
    /// Passed; for a check: yes.
    Pass,
    /// Failed; for a check: no.
    Fail,
    /// A dependency did not pass.
    Blocked,
    /// The setup of the test failed.
    Setup,
    /// The cache sent a request to the origin twice.
    Retry,
    /// Does not apply to this kind of cache.
    Untested,
}

/// The verdicts by test id.
pub(super) fn verdicts(tests: &[TestResult]) -> BTreeMap<&str, TestVerdict> {
    let by_id: BTreeMap<&str, &TestResult> =
        tests.iter().map(|test| (test.id.as_str(), test)).collect();
    by_id
        .keys()
        .map(|id| (*id, verdict(id, &by_id, MAX_DEPENDENCIES)))
        .collect()
}

fn verdict(id: &str, by_id: &BTreeMap<&str, &TestResult>, depth: usize) -> TestVerdict {
    let Some(test) = by_id.get(id).filter(|test| test.ran) else {
        return TestVerdict::Untested;
    };
    let is_met =
        |needed: &String| depth > 0 && verdict(needed, by_id, depth - 1) == TestVerdict::Pass;
    if !test.depends_on.iter().all(is_met) {
        return TestVerdict::Blocked;
    }
    match &test.failure {
        Some((kind, what)) if kind == "Setup" && what == "retry" => TestVerdict::Retry,
        Some((kind, _)) if kind == "Setup" => TestVerdict::Setup,
        _ if test.passed => TestVerdict::Pass,
        _ => TestVerdict::Fail,
    }
}

/// Chains of dependencies have two or three tests; this ends a cycle.
const MAX_DEPENDENCIES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn test(id: &str, depends_on: &[&str], failure: Option<(&str, &str)>) -> TestResult {
        TestResult {
            suite: "s".to_owned(),
            id: id.to_owned(),
            name: String::new(),
            kind: TestKind::Required,
            depends_on: depends_on.iter().map(|id| (*id).to_owned()).collect(),
            passed: failure.is_none(),
            failure: failure.map(|(kind, what)| (kind.to_owned(), what.to_owned())),
            ran: true,
        }
    }

    #[test]
    fn verdicts_follow_the_rules_of_the_results_page() {
        let mut untested = test("untested", &[], None);
        untested.ran = false;
        let tests = [
            test("good", &[], None),
            test("bad", &[], Some(("Assertion", "x"))),
            test("unprepared", &[], Some(("Setup", "x"))),
            test("twice", &[], Some(("Setup", "retry"))),
            test("after-good", &["good"], Some(("FetchError", "x"))),
            test("after-bad", &["good", "bad"], None),
            test("after-after", &["after-bad"], None),
            test("after-untested", &["untested"], None),
            test("circle", &["circle"], None),
            untested,
        ];
        let actual: Vec<(&str, TestVerdict)> = verdicts(&tests).into_iter().collect();
        assert_eq!(
            actual,
            [
                ("after-after", TestVerdict::Blocked),
                ("after-bad", TestVerdict::Blocked),
                ("after-good", TestVerdict::Fail),
                ("after-untested", TestVerdict::Blocked),
                ("bad", TestVerdict::Fail),
                ("circle", TestVerdict::Blocked),
                ("good", TestVerdict::Pass),
                ("twice", TestVerdict::Retry),
                ("unprepared", TestVerdict::Setup),
                ("untested", TestVerdict::Untested),
            ]
        );
    }
}
