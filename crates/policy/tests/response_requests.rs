//! How a stored response serves a request: decisions and conditional requests.

mod response_support;

use std::time::{Duration, UNIX_EPOCH};

use galley_policy::conditional::ConditionalResult::{self, Failed, NotModified, Proceed};
use galley_policy::conditional::{Validators, evaluate, evaluate_stored};
use galley_policy::decide::{
    Backend, Decision, PathKind, PrivateParts, StoredResponse, Validity, decide,
};
use galley_policy::outcome::{MissWhy, PassWhy, RefusedWhy};
use galley_policy::site::Policy;
use galley_policy::storable::Lifetime;
use response_support::{Rows, info};

#[test]
fn decisions_with_the_wordpress_preset() {
    use Decision::{Hit, Pass, Refuse, StaleWhileRevalidate};
    let lifetime = Lifetime {
        fresh: Duration::from_secs(60),
        stale_while_revalidate: Duration::from_secs(10),
        stale_if_error: Duration::from_secs(100),
        initial_age: Duration::ZERO,
    };
    const FETCH: Decision = Decision::Fetch {
        why: MissWhy::Uri,
        stale_on_error: false,
    };
    const EXPIRED: Decision = Decision::Fetch {
        why: MissWhy::Stale,
        stale_on_error: false,
    };
    const FETCH_OR_STALE: Decision = Decision::Fetch {
        why: MissWhy::Stale,
        stale_on_error: true,
    };
    const ONLY: Rows<'_> = &[("cache-control", "only-if-cached")];
    const MEMBER: Rows<'_> = &[("cookie", "wordpress_logged_in_0123=x")];
    let table: &[(&str, Rows<'_>, Option<u64>, Decision)] = &[
        ("GET", &[], None, FETCH),
        ("HEAD", &[], None, FETCH),
        ("GET", &[("range", "bytes=0-1")], None, FETCH),
        ("GET", &[], Some(59), Hit),
        ("HEAD", &[], Some(59), Hit),
        ("GET", &[], Some(60), StaleWhileRevalidate),
        ("GET", &[], Some(70), FETCH_OR_STALE),
        ("GET", &[], Some(160), EXPIRED),
        ("GET", ONLY, None, Refuse(RefusedWhy::OnlyIfCached)),
        ("GET", ONLY, Some(59), Hit),
        ("GET", ONLY, Some(60), StaleWhileRevalidate),
        ("GET", ONLY, Some(70), Refuse(RefusedWhy::OnlyIfCached)),
        ("GET", MEMBER, Some(1), Pass(PassWhy::Cookie)),
        ("POST", &[], Some(1), Pass(PassWhy::Method)),
        // Clients cannot bypass the cache: a documented departure from request directives.
        (
            "GET",
            &[("cache-control", "no-cache, max-age=0")],
            Some(59),
            Hit,
        ),
    ];
    let no_fields = http::HeaderMap::new();
    let rules = Policy::default();
    for (method, rows, age, expected) in table {
        let info = info(method, "/", rows, &rules);
        let stored = age.map(|age| StoredResponse {
            is_hit_for_pass: false,
            age: Duration::from_secs(age),
            lifetime: &lifetime,
            validity: Validity::Valid,
            fields: &no_fields,
            ends_soon: false,
            private: PrivateParts::None,
        });
        let decision = decide(&info, &rules, stored.as_ref());
        assert_eq!(
            decision.below_root(&info, PathKind::Missing, Backend::Http),
            *expected,
            "{method} {rows:?} {age:?}"
        );
    }
}

const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const OLDER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const NEWER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

/// Method and conditions of a request, with the results for a file and for a stored response.
const CONDITIONS: &[(&str, Rows<'static>, ConditionalResult, ConditionalResult)] = &[
    ("GET", &[], Proceed, Proceed),
    (
        "GET",
        &[("if-none-match", "\"a\"")],
        NotModified,
        NotModified,
    ),
    (
        "HEAD",
        &[("if-none-match", "W/\"a\"")],
        NotModified,
        NotModified,
    ),
    (
        "GET",
        &[("if-none-match", "\"b\", \"a\"")],
        NotModified,
        NotModified,
    ),
    ("GET", &[("if-none-match", "*")], NotModified, NotModified),
    ("GET", &[("if-none-match", "\"b\"")], Proceed, Proceed),
    ("POST", &[("if-none-match", "\"a\"")], Failed, Failed),
    (
        "GET",
        &[("if-modified-since", SAME)],
        NotModified,
        NotModified,
    ),
    (
        "GET",
        &[("if-modified-since", NEWER)],
        NotModified,
        NotModified,
    ),
    ("GET", &[("if-modified-since", OLDER)], Proceed, Proceed),
    (
        "GET",
        &[("if-modified-since", "yesterday")],
        Proceed,
        Proceed,
    ),
    ("POST", &[("if-modified-since", SAME)], Proceed, Proceed),
    (
        "GET",
        &[("if-none-match", "\"b\""), ("if-modified-since", SAME)],
        Proceed,
        Proceed,
    ),
    (
        "GET",
        &[("if-none-match", "\"a\""), ("if-modified-since", OLDER)],
        NotModified,
        NotModified,
    ),
    ("GET", &[("if-match", "\"a\"")], Proceed, Proceed),
    ("GET", &[("if-match", "\"b\"")], Failed, Proceed),
    ("GET", &[("if-match", "W/\"a\"")], Failed, Proceed),
    ("GET", &[("if-match", "*")], Proceed, Proceed),
    ("GET", &[("if-unmodified-since", OLDER)], Failed, Proceed),
    ("GET", &[("if-unmodified-since", SAME)], Proceed, Proceed),
    (
        "GET",
        &[("if-unmodified-since", "yesterday")],
        Proceed,
        Proceed,
    ),
    (
        "GET",
        &[("if-match", "\"a\""), ("if-unmodified-since", OLDER)],
        Proceed,
        Proceed,
    ),
    (
        "GET",
        &[("if-match", "\"a\""), ("if-none-match", "\"a\"")],
        NotModified,
        NotModified,
    ),
];

#[test]
fn conditions_are_evaluated_in_the_order_of_rfc_9110() {
    let modified = UNIX_EPOCH + Duration::from_secs(784_111_777) + Duration::from_millis(900);
    let validators = Validators {
        etag: Some(b"\"a\""),
        last_modified: Some(modified),
    };
    for (method, rows, for_file, for_stored) in CONDITIONS {
        let info = info(method, "/", rows, &Policy::default());
        assert_eq!(evaluate(&info, &validators), *for_file, "{method} {rows:?}");
        assert_eq!(
            evaluate_stored(&info, &validators),
            *for_stored,
            "{method} {rows:?}"
        );
    }
}

#[test]
fn without_validators_only_the_asterisk_matches() {
    let no_validators = Validators::default();
    let condition = |rows| evaluate(&info("GET", "/", rows, &Policy::default()), &no_validators);
    assert_eq!(
        condition(&[("if-none-match", "\"a\"")]),
        ConditionalResult::Proceed
    );
    assert_eq!(
        condition(&[("if-none-match", "*")]),
        ConditionalResult::NotModified
    );
    assert_eq!(
        condition(&[("if-match", "\"a\"")]),
        ConditionalResult::Failed
    );
    assert_eq!(
        condition(&[("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")]),
        ConditionalResult::Proceed
    );
}
