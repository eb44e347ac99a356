//! What a stored response may be used for, against a slow model that follows the text of the standards.
//!
//! The model is written from RFC 9111 sections 3, 4.2 and 5.1 to 5.3, RFC 5861 and RFC 9213, rule by rule, on what a case
//! *means*; the code gets the same case as header lines. It shares no reading and no arithmetic with the code. Where the
//! code departs from the text on purpose, the model says so with the word `Departs` and the section; nothing else differs.
//!
//! Not in it: `Vary`, cookies, parts, `Surrogate-Control` (no RFC), and what the WordPress preset bends.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod cases;
mod model;
#[path = "../response_support/mod.rs"]
mod response_support;

use std::time::Duration;

use galley_policy::decide::{
    Backend, Decision, PathKind, PrivateParts, StoredResponse, Validity, decide,
};
use galley_policy::outcome::RefusedWhy;
use galley_policy::site::{Policy, TtlTable};
use galley_policy::storable::{self, ResponseHead, Storability};
use http::StatusCode;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::cases::{Case, case, now, response, wishes};
use crate::model::{Use, model};
use crate::response_support::info;

/// The code, given the same case as header lines.
fn code(case: &Case) -> Use {
    let site = Policy {
        ttl: TtlTable {
            by_status: Vec::new(),
            default: Duration::ZERO,
            stale_while_revalidate: Duration::from_secs(case.site_windows.0),
            stale_if_error: Duration::from_secs(case.site_windows.1),
        },
        ..Policy::rfc9111()
    };
    let credentials = [("authorization", "Basic x")];
    let first = if case.first_authorized {
        &credentials[..]
    } else {
        &[]
    };
    let first = info("GET", "/a", first, &site);
    let fields = response(case);
    let answered = ResponseHead {
        status: StatusCode::from_u16(case.status).unwrap(),
        fields: &fields,
        response_delay: Duration::from_secs(case.response_delay),
        now: now(),
    };
    let wishes = wishes(&case.second);
    let mut rows = vec![("cache-control", wishes.as_str())];
    if case.second.authorization {
        rows.extend(credentials);
    }
    let second = info("GET", "/a", &rows, &site);
    let verdict = storable::judge(&first, &answered, &site);
    let stored = match &verdict {
        Storability::Store(life) => Some(StoredResponse {
            is_hit_for_pass: false,
            age: life.initial_age + Duration::from_secs(case.elapsed),
            life,
            validity: Validity::Valid,
            fields: &fields,
            ends_soon: false,
            private: PrivateParts::None,
        }),
        Storability::Skip(_) => None,
    };
    let decision = decide(&second, &site, stored.as_ref());
    match decision.below_root(&second, PathKind::Missing, Backend::Http) {
        Decision::Hit => Use::Fresh,
        Decision::StaleAccepted => Use::MaxStale,
        Decision::StaleWhileRevalidate => Use::WhileRevalidating,
        Decision::Fetch { stale_on_error, .. } => Use::Ask { stale_on_error },
        Decision::Pass(_) => Use::Ask {
            stale_on_error: false,
        },
        Decision::Refuse(RefusedWhy::OnlyIfCached) => Use::GatewayTimeout,
        decision => panic!("{decision:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_code_does_what_the_text_says(case in case()) {
        prop_assert_eq!(code(&case), model(&case), "{:?}", response(&case));
    }
}

/// The property says little about what the cases seldom come to.
#[test]
fn the_cases_come_to_each_use() {
    let mut runner = TestRunner::deterministic();
    let cases = case();
    let mut found: Vec<(Use, usize)> = Vec::new();
    for _ in 0..CASES {
        let came_to = model(&cases.new_tree(&mut runner).unwrap().current());
        match found.iter_mut().find(|(known, _)| *known == came_to) {
            Some((_, count)) => *count += 1,
            None => found.push((came_to, 1)),
        }
    }
    assert_eq!(found.len(), 6, "{found:?}");
    let rarest = found.iter().map(|(_, count)| *count).min().unwrap();
    assert!(rarest > CASES / 200, "{found:?}");
}

const CASES: usize = 10_000;
