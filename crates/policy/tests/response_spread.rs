//! Galley varies the lifetimes that it chooses itself, but not those that the response states.

#![expect(clippy::unwrap_used, reason = "tests")]

mod response_support;

use std::collections::BTreeSet;
use std::time::{Duration, UNIX_EPOCH};

use galley_policy::site::{IgnoredParts, Policy, Rule, TtlTable};
use galley_policy::storable::{Lifetime, ResponseHead, Storability, judge, judge_spread};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;
use response_support::{Rows, info};

/// The lifetime without and with variation.
fn lifetimes(policy: &Policy, status: u16, rows: Rows<'_>, seed: u64) -> (Lifetime, Lifetime) {
    let mut fields = HeaderMap::new();
    for (name, value) in rows {
        let name = HeaderName::from_static(name);
        fields.append(name, HeaderValue::from_str(value).unwrap());
    }
    let info = info("GET", "/rule", &[], policy);
    let response = ResponseHead {
        status: StatusCode::from_u16(status).unwrap(),
        fields: &fields,
        response_delay: Duration::ZERO,
        // Sun, 06 Nov 1994 08:49:37 GMT.
        now: UNIX_EPOCH + Duration::from_secs(784_111_777),
    };
    let judgments = (
        judge(&info, &response, policy),
        judge_spread(&info, &response, policy, seed),
    );
    let (Storability::Store(lifetime), Storability::Store(spread)) = judgments else {
        panic!("{rows:?} is not stored");
    };
    (lifetime, spread)
}

fn fresh_seconds(policy: &Policy, status: u16, rows: Rows<'_>) -> BTreeSet<u64> {
    (0..1000)
        .map(|seed| lifetimes(policy, status, rows, seed).1.fresh.as_secs())
        .collect()
}

fn rfc9111() -> Policy {
    Policy {
        ttl: TtlTable::default(),
        ..Policy::rfc9111()
    }
}

#[test]
fn chosen_lifetimes_are_reduced_by_at_most_a_tenth() {
    const EXPIRES: (&str, &str) = ("expires", "Wed, 11 Jan 1984 05:00:00 GMT");
    const MISSING: (&str, &str) = ("cache-control", "no-cache, must-revalidate, max-age=0");
    // Fresh for a tenth of 1000 s.
    const MODIFIED: (&str, &str) = ("last-modified", "Sun, 06 Nov 1994 08:32:57 GMT");
    let (wordpress, none) = (Policy::wordpress(), rfc9111());
    let of_rule = Policy {
        rules: vec![Rule {
            path: "/rule".to_owned(),
            ttl: Some(Duration::from_secs(3600)),
            ignore: IgnoredParts {
                cache_control: true,
                ..IgnoredParts::default()
            },
            ..Rule::default()
        }],
        ..Policy::wordpress()
    };
    let table: [(&Policy, u16, Rows<'_>, std::ops::RangeInclusive<u64>); 8] = [
        (&wordpress, 200, &[], 54..=60),
        (&wordpress, 404, &[EXPIRES, MISSING], 54..=60),
        // The initial age does not count: 40 of 60 seconds remain.
        (&wordpress, 200, &[("age", "20")], 56..=60),
        (&none, 200, &[MODIFIED], 90..=100),
        (
            &of_rule,
            200,
            &[("cache-control", "max-age=5")],
            3240..=3600,
        ),
        // Stated lifetimes are exact.
        (
            &wordpress,
            200,
            &[("cache-control", "max-age=600")],
            600..=600,
        ),
        (
            &wordpress,
            200,
            &[("galley-cache-control", "max-age=600")],
            600..=600,
        ),
        (
            &none,
            200,
            &[("cache-control", "max-age=600"), MODIFIED],
            600..=600,
        ),
    ];
    for (site, status, rows, expected) in table {
        let found = fresh_seconds(site, status, rows);
        assert_eq!(found, expected.collect(), "{rows:?}");
    }
    let brief = Policy {
        ttl: galley_policy::site::TtlTable {
            default: Duration::from_secs(9),
            ..wordpress.ttl.clone()
        },
        ..wordpress
    };
    assert_eq!(fresh_seconds(&brief, 200, &[]), BTreeSet::from([9]));
}

proptest! {
    #[test]
    fn variation_never_extends_or_ends_a_lifetime(seed: u64, age in 0_u64..59) {
        let age = age.to_string();
        let (before, after) = lifetimes(&Policy::wordpress(), 200, &[("age", &age)], seed);
        let again = lifetimes(&Policy::wordpress(), 200, &[("age", &age)], seed).1;
        prop_assert_eq!(after, again);
        prop_assert!(after.fresh <= before.fresh && after.fresh > after.initial_age);
        let remaining = before.fresh.abs_diff(before.initial_age).as_secs();
        prop_assert!(before.fresh.abs_diff(after.fresh).as_secs() <= remaining / 10);
    }
}
