//! The field that determines the lifetime of a response, and its value.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use galley_policy::freshness::{
    FreshnessSource, default_lifetime, initial_age, statement, windows,
};
use galley_policy::site::{AddressedFields, IgnoredParts, Policy, Preset, TtlTable};
use galley_policy::storable::ResponseHead;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

/// Sun, 06 Nov 1994 08:49:37 GMT.
const NOW_S: u64 = 784_111_777;

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW_S)
}

type Rows<'a> = &'a [(&'static str, &'a str)];

fn fields(rows: Rows<'_>) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in rows {
        map.append(
            HeaderName::from_static(name),
            HeaderValue::from_str(value).unwrap(),
        );
    }
    map
}

fn seconds(lifetime: Option<Duration>) -> Option<u64> {
    lifetime.map(|lifetime| lifetime.as_secs())
}

const CC: (&str, &str) = ("cache-control", "max-age=1, private");
/// Fields of a response with the field that takes precedence, the lifetime in seconds, and whether it is private.
const PRECEDENCE: &[(Rows<'static>, FreshnessSource, Option<u64>, bool)] = &[
    (&[], FreshnessSource::Nobody, None, false),
    (&[CC], FreshnessSource::CacheControl, Some(1), true),
    (
        &[("cache-control", "s-maxage=5, max-age=1")],
        FreshnessSource::CacheControl,
        Some(5),
        false,
    ),
    (
        &[("cache-control", " ")],
        FreshnessSource::Nobody,
        None,
        false,
    ),
    (
        &[CC, ("x-accel-expires", "7")],
        FreshnessSource::Accel,
        Some(7),
        false,
    ),
    (
        &[CC, ("x-accel-expires", "@784111787")],
        FreshnessSource::Accel,
        Some(10),
        false,
    ),
    (
        &[CC, ("x-accel-expires", "@1")],
        FreshnessSource::Accel,
        Some(0),
        false,
    ),
    (
        &[CC, ("x-vc-ttl", "8"), ("x-vc-enabled", "true")],
        FreshnessSource::Vcaching,
        Some(8),
        false,
    ),
    (
        &[CC, ("x-vc-ttl", "a while"), ("x-accel-expires", "7")],
        FreshnessSource::Vcaching,
        Some(0),
        false,
    ),
    (
        &[CC, ("x-vc-cacheable", "YES"), ("x-accel-expires", "7")],
        FreshnessSource::Accel,
        Some(7),
        false,
    ),
    (
        &[CC, ("x-accel-expires", "off")],
        FreshnessSource::Accel,
        Some(0),
        false,
    ),
    (
        &[CC, ("x-litespeed-cache-control", "public,max-age=9")],
        FreshnessSource::LiteSpeed,
        Some(9),
        false,
    ),
    (
        &[
            CC,
            ("x-litespeed-cache-control", "shared,private,max-age=9"),
        ],
        FreshnessSource::LiteSpeed,
        Some(9),
        true,
    ),
    (
        &[
            CC,
            ("surrogate-control", "max-age=11+5"),
            ("x-accel-expires", "7"),
        ],
        FreshnessSource::Surrogate,
        Some(11),
        false,
    ),
    (
        &[
            CC,
            ("cdn-cache-control", "max-age=13"),
            ("surrogate-control", "max-age=11"),
        ],
        FreshnessSource::Cdn,
        Some(13),
        false,
    ),
    (
        &[
            CC,
            ("galley-cache-control", "max-age=15"),
            ("cdn-cache-control", "max-age=13"),
        ],
        FreshnessSource::Galley,
        Some(15),
        false,
    ),
    // A malformed or empty targeted field is ignored (RFC 9213 §2.1).
    (
        &[CC, ("galley-cache-control", "max-age=15,")],
        FreshnessSource::CacheControl,
        Some(1),
        true,
    ),
    (
        &[CC, ("cdn-cache-control", "")],
        FreshnessSource::CacheControl,
        Some(1),
        true,
    ),
    // A targeted field without a lifetime still replaces Cache-Control and Expires.
    (
        &[CC, ("cdn-cache-control", "public")],
        FreshnessSource::Cdn,
        None,
        false,
    ),
];

#[test]
fn only_the_field_with_the_highest_precedence_counts() {
    for (rows, freshness_source, lifetime, private) in PRECEDENCE {
        let found = statement(
            &fields(rows),
            AddressedFields::OfPlugins,
            IgnoredParts::default(),
            now(),
        );
        assert_eq!(
            (
                found.freshness_source,
                seconds(found.lifetime),
                found.control.private
            ),
            (*freshness_source, *lifetime, *private),
            "{rows:?}"
        );
    }
}

#[test]
fn without_a_preset_only_standard_fields_count() {
    let lifetime = |surrogate: &str| {
        let rows = fields(&[
            ("surrogate-control", surrogate),
            ("x-litespeed-cache-control", "max-age=9"),
            ("x-accel-expires", "7"),
            ("cache-control", "max-age=1"),
        ]);
        seconds(
            statement(
                &rows,
                AddressedFields::Standard,
                IgnoredParts::default(),
                now(),
            )
            .lifetime,
        )
    };
    let table = [
        ("", Some(1)),
        ("max-age=11", Some(11)),
        ("no-store", None),
        ("max-age=11;galley", Some(11)),
        ("max-age=11;other", Some(1)),
        ("max-age=11;other, max-age=12", Some(12)),
        ("max-age=11, max-age=12;galley", Some(12)),
    ];
    for (surrogate, expected) in table {
        assert_eq!(lifetime(surrogate), expected, "{surrogate}");
    }
}

#[test]
fn fields_ignored_by_a_rule_do_not_count() {
    let rows = fields(&[
        ("galley-cache-control", "max-age=3"),
        ("cache-control", "max-age=1"),
        ("expires", "Sun, 06 Nov 1994 08:50:37 GMT"),
    ]);
    let freshness_source = |cache_control, expires| {
        let ignore = IgnoredParts {
            cache_control,
            expires,
            ..IgnoredParts::default()
        };
        let found = statement(&rows, AddressedFields::OfPlugins, ignore, now());
        (found.freshness_source, seconds(found.lifetime))
    };
    assert_eq!(
        freshness_source(false, true),
        (FreshnessSource::Galley, Some(3))
    );
    assert_eq!(
        freshness_source(true, false),
        (FreshnessSource::Expires, Some(60))
    );
    assert_eq!(
        freshness_source(true, true),
        (FreshnessSource::Nobody, None)
    );
}

#[test]
fn expires_is_relative_to_date() {
    let table: &[(Rows<'_>, u64)] = &[
        (&[("expires", "Sun, 06 Nov 1994 08:50:37 GMT")], 60),
        (
            &[
                ("expires", "Sun, 06 Nov 1994 08:50:37 GMT"),
                ("date", "Sun, 06 Nov 1994 08:50:07 GMT"),
            ],
            30,
        ),
        (
            &[
                ("expires", "Sun, 06 Nov 1994 08:50:37 GMT"),
                ("cache-control", "public"),
            ],
            60,
        ),
        (
            &[
                ("expires", "Sun, 06 Nov 1994 08:50:37 GMT"),
                ("cache-control", "max-age=x"),
            ],
            0,
        ),
        (
            &[
                ("expires", "Sun, 06 Nov 1994 08:50:37 GMT"),
                ("expires", "Sun, 06 Nov 1994 08:50:37 GMT"),
            ],
            0,
        ),
        (&[("expires", "Wed, 11 Jan 1984 05:00:00 GMT")], 0),
        (&[("expires", "Sun, 06 Nov 1994 08:50:37 UTC")], 0),
        (&[("expires", "0")], 0),
        (&[("expires", "-1")], 0),
        (&[("expires", "")], 0),
    ];
    for (rows, expected) in table {
        let found = statement(
            &fields(rows),
            AddressedFields::Standard,
            IgnoredParts::default(),
            now(),
        );
        assert_eq!(seconds(found.lifetime), Some(*expected), "{rows:?}");
    }
}

#[test]
fn initial_age_is_the_maximum_of_age_and_date() {
    // Fields, response delay, expected age.
    let table: &[(Rows<'_>, u64, u64)] = &[
        (&[], 0, 0),
        (&[], 2, 2),
        (&[("age", "10")], 2, 12),
        (&[("age", "10, 20")], 0, 10),
        (&[("age", "10"), ("age", "20")], 0, 10),
        (&[("age", "10"), ("age", "x")], 0, 10),
        (&[("age", "10, x")], 0, 10),
        (&[("age", ", 10")], 0, 10),
        (&[("age", ""), ("age", "10")], 0, 10),
        (&[("age", "x, 10")], 0, 0),
        (&[("age", "x"), ("age", "10")], 0, 0),
        (&[("age", "x")], 0, 0),
        (&[("age", "-1")], 0, 0),
        (&[("age", "10.5")], 0, 0),
        (&[("age", "\"10\"")], 0, 0),
        (&[("age", "99999999999999999999")], 0, 1 << 31),
        (&[("date", "Sun, 06 Nov 1994 08:49:07 GMT")], 0, 30),
        (
            &[("date", "Sun, 06 Nov 1994 08:49:07 GMT"), ("age", "10")],
            2,
            30,
        ),
        (
            &[("date", "Sun, 06 Nov 1994 08:49:07 GMT"), ("age", "50")],
            2,
            52,
        ),
        (&[("date", "Sun, 06 Nov 1994 08:59:07 GMT")], 0, 0),
        (&[("date", "yesterday")], 0, 0),
    ];
    for (rows, delay, expected) in table {
        let found = initial_age(&fields(rows), Duration::from_secs(*delay), now());
        assert_eq!(found.as_secs(), *expected, "{rows:?}");
    }
}

#[test]
fn stale_windows_follow_the_response_and_the_site() {
    let ttl = TtlTable {
        stale_while_revalidate: Duration::from_secs(10),
        stale_if_error: Duration::from_secs(20),
        ..TtlTable::default()
    };
    let table: &[(&str, u16, u64, u64)] = &[
        ("", 200, 10, 20),
        ("max-age=5", 200, 10, 20),
        ("max-age=5, stale-while-revalidate=1", 200, 1, 20),
        ("max-age=5, stale-if-error=0", 200, 10, 0),
        ("max-age=5, must-revalidate", 200, 0, 0),
        ("max-age=5, proxy-revalidate, stale-if-error=9", 200, 0, 0),
        ("s-maxage=5", 200, 0, 0),
        (
            "s-maxage=5, stale-while-revalidate=1, stale-if-error=2",
            200,
            1,
            2,
        ),
        ("", 404, 0, 0),
        ("max-age=5, stale-if-error=2", 404, 0, 2),
    ];
    for (text, status, swr, sie) in table {
        let lifetime_statement = statement(
            &fields(&[("cache-control", text)]),
            AddressedFields::OfPlugins,
            IgnoredParts::default(),
            now(),
        );
        let found = windows(
            &lifetime_statement,
            StatusCode::from_u16(*status).unwrap(),
            &ttl,
        );
        assert_eq!(
            (found.while_revalidate.as_secs(), found.if_error.as_secs()),
            (*swr, *sie),
            "{text} {status}"
        );
    }
}

#[test]
fn without_a_lifetime_the_ttl_table_or_heuristics_apply() {
    let ttl = TtlTable {
        by_status: vec![(404, Duration::from_secs(4)), (403, Duration::from_secs(3))],
        default: Duration::from_secs(60),
        ..TtlTable::default()
    };
    let old = ("last-modified", "Sun, 06 Nov 1994 08:48:37 GMT");
    let ancient = ("last-modified", "Sat, 06 Nov 1993 08:49:37 GMT");
    let table: &[(u16, Rows<'_>, Preset, Option<u64>)] = &[
        (200, &[], Preset::WordPress, Some(60)),
        (404, &[], Preset::WordPress, Some(4)),
        (403, &[], Preset::WordPress, Some(3)),
        (302, &[], Preset::WordPress, None),
        (500, &[], Preset::WordPress, None),
        (200, &[old], Preset::WordPress, Some(60)),
        (200, &[old], Preset::None, Some(6)),
        (200, &[ancient], Preset::None, Some(3600)),
        (200, &[], Preset::None, Some(60)),
        (404, &[old], Preset::None, Some(4)),
        (302, &[old], Preset::None, None),
        (
            302,
            &[old, ("cache-control", "public")],
            Preset::None,
            Some(6),
        ),
    ];
    for (status, rows, preset, expected) in table {
        let fields = fields(rows);
        let policy = Policy::of(*preset);
        let lifetime_statement = statement(
            &fields,
            policy.storage.fields,
            IgnoredParts::default(),
            now(),
        );
        let status = StatusCode::from_u16(*status).unwrap();
        let response = ResponseHead {
            status,
            fields: &fields,
            response_delay: Duration::ZERO,
            now: now(),
        };
        let site = Policy {
            ttl: ttl.clone(),
            ..policy
        };
        let found = default_lifetime(&response, &lifetime_statement.control, &site);
        assert_eq!(seconds(found), *expected, "{status} {rows:?}");
    }
}
