//! Compares how the implementation uses a stored response with a slow model that follows the text of the standards.
//!
//! The model implements RFC 9111 sections 3, 4.2 and 5.1 to 5.3, RFC 5861 and RFC 9213 rule by rule on the *meaning* of a case; the
//! implementation gets the same case as header lines. The two share no parsing and no arithmetic. Intentional differences of the
//! implementation from the text are marked in the model with `Departs` and the section; there are no other differences.
//!
//! Not in the model: `Vary`, cookies, partial responses, `Surrogate-Control` (no RFC), and the rules of the WordPress preset.

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

use crate::cases::{Case, case, now, request_control, response};
use crate::model::{Use, model};
use crate::response_support::info;

/// The decision of the implementation for the case as header lines.
fn implementation(case: &Case) -> Use {
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
    let first_fields = if case.first_authorized {
        &credentials[..]
    } else {
        &[]
    };
    let first = info("GET", "/a", first_fields, &site);
    let fields = response(case);
    let head = ResponseHead {
        status: StatusCode::from_u16(case.status).unwrap(),
        fields: &fields,
        response_delay: Duration::from_secs(case.response_delay),
        now: now(),
    };
    let control = request_control(&case.second);
    let mut rows = vec![("cache-control", control.as_str())];
    if case.second.authorization {
        rows.extend(credentials);
    }
    let second = info("GET", "/a", &rows, &site);
    let storability = storable::judge(&first, &head, &site);
    let stored = match &storability {
        Storability::Store(lifetime) => Some(StoredResponse {
            is_hit_for_pass: false,
            age: lifetime.initial_age + Duration::from_secs(case.elapsed),
            lifetime,
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
        Decision::Fetch { stale_on_error, .. } => Use::Fetch { stale_on_error },
        Decision::Pass(_) => Use::Fetch {
            stale_on_error: false,
        },
        Decision::Refuse(RefusedWhy::OnlyIfCached) => Use::GatewayTimeout,
        decision => panic!("{decision:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_implementation_matches_the_model_of_the_rfcs(case in case()) {
        prop_assert_eq!(implementation(&case), model(&case), "{:?}", response(&case));
    }
}

/// The comparison is only meaningful for uses that occur often enough.
#[test]
fn the_cases_cover_each_use() {
    let mut runner = TestRunner::deterministic();
    let cases = case();
    let mut found: Vec<(Use, usize)> = Vec::new();
    for _ in 0..CASES {
        let expected = model(&cases.new_tree(&mut runner).unwrap().current());
        match found.iter_mut().find(|(seen, _)| *seen == expected) {
            Some((_, count)) => *count += 1,
            None => found.push((expected, 1)),
        }
    }
    assert_eq!(found.len(), 6, "{found:?}");
    let rarest = found.iter().map(|(_, count)| *count).min().unwrap();
    assert!(rarest > CASES / 200, "{found:?}");
}

const CASES: usize = 10_000;
