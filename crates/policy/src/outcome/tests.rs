//! Tests of the words, and of `Cache-Status`.

use super::*;
use proptest::prelude::*;

fn status(outcome: Outcome, ttl_s: Option<i64>) -> String {
    let mut out = Vec::new();
    outcome.write_cache_status(ttl_s, &mut out);
    String::from_utf8(out).unwrap()
}

fn every_outcome() -> Vec<Outcome> {
    let mut all = vec![
        Outcome::Hit,
        Outcome::HitOfIncludes,
        Outcome::HitByDictionary,
        Outcome::Shared,
        Outcome::File,
        Outcome::Redirect,
        Outcome::Purge,
        Outcome::Dashboard,
    ];
    all.extend(StaleWhy::ALL.iter().copied().map(Outcome::Stale));
    all.extend(PassWhy::ALL.iter().copied().map(Outcome::Pass));
    all.extend(RefusedWhy::ALL.iter().copied().map(Outcome::Refused));
    for &why in MissWhy::ALL {
        for collapsed in [false, true] {
            for outcome in [StoreOutcome::Stored, StoreOutcome::Undecided] {
                all.push(Outcome::Miss {
                    why,
                    outcome,
                    collapsed,
                });
            }
            for &not in NotStored::ALL {
                all.push(Outcome::Miss {
                    why,
                    outcome: StoreOutcome::NotStored(not),
                    collapsed,
                });
            }
        }
    }
    all
}

#[test]
fn a_page_of_another_node_is_a_hit_with_detail_cluster() {
    let shown = status(Outcome::Shared, Some(9));
    assert_eq!(shown, "galley; hit; ttl=9; detail=cluster");
}

#[test]
fn a_hit_by_dictionary_has_its_cache_status() {
    let mut shown = Vec::new();
    Outcome::HitByDictionary.write_cache_status(None, &mut shown);
    assert_eq!(shown, b"galley; hit; detail=dictionary");
}

#[test]
fn each_outcome_has_its_cache_status() {
    let miss = |why, kept, collapsed| Outcome::Miss {
        why,
        outcome: kept,
        collapsed,
    };
    let table = [
        (Outcome::Hit, None, "galley; hit"),
        (Outcome::Hit, Some(31), "galley; hit; ttl=31"),
        (Outcome::HitOfIncludes, None, "galley; hit; detail=esi"),
        (Outcome::Hit, Some(0), "galley; hit; ttl=0"),
        (
            Outcome::Stale(StaleWhy::UpstreamError),
            Some(-12),
            "galley; hit; ttl=-12; detail=upstream-error",
        ),
        (
            Outcome::Stale(StaleWhy::Revalidating),
            None,
            "galley; hit; detail=revalidating",
        ),
        (
            miss(MissWhy::Uri, StoreOutcome::Stored, false),
            None,
            "galley; fwd=uri-miss; stored",
        ),
        (
            miss(MissWhy::Uri, StoreOutcome::Stored, true),
            Some(60),
            "galley; fwd=uri-miss; collapsed; stored; ttl=60",
        ),
        (
            miss(MissWhy::Stale, StoreOutcome::Stored, false),
            None,
            "galley; fwd=stale; stored",
        ),
        (
            miss(MissWhy::Purged, StoreOutcome::Stored, false),
            None,
            "galley; fwd=stale; stored; detail=purged",
        ),
        (
            miss(
                MissWhy::Uri,
                StoreOutcome::NotStored(NotStored::SetCookie),
                false,
            ),
            Some(9),
            "galley; fwd=uri-miss; detail=set-cookie",
        ),
        (
            Outcome::Pass(PassWhy::Cookie),
            Some(1),
            "galley; fwd=bypass; detail=cookie",
        ),
        (
            Outcome::Pass(PassWhy::Method),
            None,
            "galley; fwd=method; detail=method",
        ),
        (
            Outcome::Pass(PassWhy::NoStore),
            None,
            "galley; fwd=request; detail=no-store",
        ),
        (Outcome::File, Some(3), "galley; detail=file"),
        (Outcome::Redirect, None, "galley; detail=redirect"),
        (Outcome::Purge, None, "galley; detail=purge"),
        (
            Outcome::Refused(RefusedWhy::Overload),
            None,
            "galley; detail=overload",
        ),
    ];
    for (outcome, ttl_s, wanted) in table {
        assert_eq!(status(outcome, ttl_s), wanted, "{outcome:?}");
    }
}

#[test]
fn an_undecided_response_is_not_reported_as_stored() {
    for (why, collapsed, wanted) in [
        (MissWhy::Uri, true, "galley; fwd=uri-miss; collapsed"),
        (MissWhy::Purged, false, "galley; fwd=stale; detail=purged"),
    ] {
        let miss = Outcome::Miss {
            why,
            outcome: StoreOutcome::Undecided,
            collapsed,
        };
        assert_eq!(status(miss, Some(60)), wanted);
    }
}

#[test]
fn pages_with_includes_have_detail_esi_unless_a_purge_caused_the_miss() {
    let put_together = |why| {
        let miss = Outcome::Miss {
            why,
            outcome: StoreOutcome::StoredIncludes,
            collapsed: false,
        };
        status(miss, Some(9))
    };
    for (why, wanted) in [
        (
            MissWhy::Uri,
            "galley; fwd=uri-miss; stored; ttl=9; detail=esi",
        ),
        (
            MissWhy::Stale,
            "galley; fwd=stale; stored; ttl=9; detail=esi",
        ),
        (
            MissWhy::Purged,
            "galley; fwd=stale; stored; ttl=9; detail=purged",
        ),
    ] {
        assert_eq!(put_together(why), wanted, "{why:?}");
    }
}

#[test]
fn hit_and_forward_exclude_one_another() {
    for outcome in every_outcome() {
        let text = status(outcome, Some(5));
        assert!(
            !(text.contains("; hit") && text.contains("; fwd=")),
            "{text}"
        );
        assert_eq!(
            text.contains("; ttl="),
            text.contains("; hit") || text.contains("; stored"),
            "{text}"
        );
    }
}

#[test]
fn words_are_unique_tokens() {
    fn check<T>(all: &[T], word: impl Fn(&T) -> &'static str) {
        let mut seen = std::collections::BTreeSet::new();
        for word in all.iter().map(word) {
            assert!(word.starts_with(|c: char| c.is_ascii_lowercase()), "{word}");
            assert!(
                word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'),
                "{word}"
            );
            assert!(seen.insert(word), "`{word}` twice");
        }
    }
    check(PassWhy::ALL, |w| w.word());
    check(NotStored::ALL, |w| w.word());
    check(StaleWhy::ALL, |w| w.word());
    check(MissWhy::ALL, |w| w.word());
    check(RefusedWhy::ALL, |w| w.word());
}

proptest! {
    #[test]
    fn ttl_is_parsed_to_the_same_number(ttl_s in -999_999_999_999_999_i64..=999_999_999_999_999) {
        let text = status(Outcome::Hit, Some(ttl_s));
        prop_assert_eq!(text.strip_prefix("galley; hit; ttl=").unwrap().parse::<i64>().unwrap(), ttl_s);
    }

    #[test]
    fn ttl_has_at_most_fifteen_digits(ttl_s in any::<i64>()) {
        let text = status(Outcome::Hit, Some(ttl_s));
        prop_assert!(text.rsplit(['=', '-']).next().unwrap().len() <= 15);
    }
}
