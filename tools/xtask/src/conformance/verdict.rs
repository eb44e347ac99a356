//! What a result means, judged as the suite's own results page does.
//!
//! Kinds: a *required* test that fails shows a fault, an *optimal* one a chance that was not taken, a *check* only tells how
//! a cache behaves. A test whose dependency did not pass was not really tested: it is blocked. A failure in what a test
//! prepares is no result, and neither is a cache that asked twice.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One test with the suite's own result.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Test {
    pub(super) suite: String,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) depends_on: Vec<String>,
    pub(super) passed: bool,
    /// The kind of failure and what was seen.
    pub(super) complaint: Option<(String, String)>,
    pub(super) ran: bool,
}

/// How much a test matters.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Required,
    Optimal,
    Check,
}

/// What a result means.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// Passed; of a check: yes.
    Pass,
    /// Failed; of a check: no.
    Fail,
    /// A dependency did not pass.
    Blocked,
    /// What the test prepares went wrong.
    Setup,
    /// The cache asked the origin twice.
    Retry,
    /// Not for caches like this.
    Untested,
}

/// Each test's verdict, by its id.
pub(super) fn judge(tests: &[Test]) -> BTreeMap<&str, Verdict> {
    let by_id: BTreeMap<&str, &Test> = tests.iter().map(|test| (test.id.as_str(), test)).collect();
    by_id
        .keys()
        .map(|id| (*id, verdict(id, &by_id, MOST_DEPENDENCIES)))
        .collect()
}

fn verdict(id: &str, by_id: &BTreeMap<&str, &Test>, depth: usize) -> Verdict {
    let Some(test) = by_id.get(id).filter(|test| test.ran) else {
        return Verdict::Untested;
    };
    let is_met = |needed: &String| depth > 0 && verdict(needed, by_id, depth - 1) == Verdict::Pass;
    if !test.depends_on.iter().all(is_met) {
        return Verdict::Blocked;
    }
    match &test.complaint {
        Some((kind, what)) if kind == "Setup" && what == "retry" => Verdict::Retry,
        Some((kind, _)) if kind == "Setup" => Verdict::Setup,
        _ if test.passed => Verdict::Pass,
        _ => Verdict::Fail,
    }
}

/// A chain of dependencies is two or three long; a circle ends here.
const MOST_DEPENDENCIES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn test(id: &str, depends_on: &[&str], complaint: Option<(&str, &str)>) -> Test {
        Test {
            suite: "s".to_owned(),
            id: id.to_owned(),
            name: String::new(),
            kind: Kind::Required,
            depends_on: depends_on.iter().map(|id| (*id).to_owned()).collect(),
            passed: complaint.is_none(),
            complaint: complaint.map(|(kind, what)| (kind.to_owned(), what.to_owned())),
            ran: true,
        }
    }

    #[test]
    fn verdicts_follow_the_results_page() {
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
        let found: Vec<(&str, Verdict)> = judge(&tests).into_iter().collect();
        assert_eq!(
            found,
            [
                ("after-after", Verdict::Blocked),
                ("after-bad", Verdict::Blocked),
                ("after-good", Verdict::Fail),
                ("after-untested", Verdict::Blocked),
                ("bad", Verdict::Fail),
                ("circle", Verdict::Blocked),
                ("good", Verdict::Pass),
                ("twice", Verdict::Retry),
                ("unprepared", Verdict::Setup),
                ("untested", Verdict::Untested),
            ]
        );
    }
}
