//! One test for each line of the protocol; then random purges, compared with a model that stores every purge.

use std::sync::atomic::AtomicU64;

use galley_policy::purge::{Purge, PurgePattern, Scope, Strength};
use proptest::prelude::*;

use super::*;
use crate::entry::{EntryKind, EntryParts};
use crate::testing::{entry, parts, scopes};

mod fragments;

fn hard(scope: Scope) -> Purge {
    Purge {
        scope,
        strength: Strength::Hard,
    }
}

fn soft(scope: Scope) -> Purge {
    Purge {
        scope,
        strength: Strength::Soft,
    }
}

fn tag(name: &str) -> Scope {
    Scope::Tag(name.to_owned())
}

fn url(host: Option<&str>, path: &str, query: Option<&str>) -> Scope {
    Scope::Url {
        host: host.map(str::to_owned),
        path: path.as_bytes().to_vec(),
        query: query.map(|query| query.as_bytes().to_vec()),
    }
}

fn prefix(path: &str) -> Scope {
    Scope::Prefix(path.as_bytes().to_vec())
}

fn pattern(text: &str) -> Scope {
    Scope::Pattern(PurgePattern::parse(text).unwrap())
}

/// Every kind of purge against one entry, with the ring and with the tables.
#[test]
fn each_scope_reaches_its_entries_and_no_others() {
    let table = [
        (Scope::Site, true),
        (tag("*"), true),
        (Scope::Host("a.test".into()), true),
        (Scope::Host("b.test".into()), false),
        (url(Some("a.test"), "/shop/cart", Some("x=1")), true),
        (url(Some("a.test"), "/shop/cart", None), false),
        (url(Some("b.test"), "/shop/cart", Some("x=1")), false),
        (url(None, "/shop/cart", Some("x=1")), true),
        (url(None, "/shop/cart", None), false),
        (prefix("/shop"), true),
        (prefix("/shop/"), true),
        (prefix("/shop/cart"), true),
        (prefix("/sho"), false),
        (prefix("/"), true),
        (tag("post-7"), true),
        (tag("post-8"), false),
        (pattern("^/shop/.*x=[0-9]$"), true),
        (pattern("^/cart"), false),
    ];
    for ring in [0, 64] {
        for (scope, touches) in &table {
            let purge_table = PurgeTable::with_limits(PurgeTableLimits {
                ring,
                ..PurgeTableLimits::default()
            });
            let page = |born| entry("a.test", "/shop/cart?x=1", &["home", "post-7"], born);
            let (old, softened) = (page(0), page(0));
            let young = page(purge_table.publish(&hard(scope.clone())));
            let expected = if *touches {
                Validity::Purged
            } else {
                Validity::Valid
            };
            assert_eq!(
                purge_table.validity(&old),
                expected,
                "{scope:?} ring {ring}"
            );
            assert_eq!(
                purge_table.validity(&young),
                Validity::Valid,
                "{scope:?} ring {ring}"
            );
            let purge_table = PurgeTable::with_limits(PurgeTableLimits {
                ring,
                ..PurgeTableLimits::default()
            });
            purge_table.publish(&soft(scope.clone()));
            let expected = if *touches {
                Validity::SoftPurged
            } else {
                Validity::Valid
            };
            assert_eq!(
                purge_table.validity(&softened),
                expected,
                "{scope:?} ring {ring}"
            );
            assert_eq!(
                purge_table.validity(&softened),
                expected,
                "again: {scope:?} ring {ring}"
            );
        }
    }
}

#[test]
fn a_site_purge_covers_every_host() {
    let purge_table = PurgeTable::new();
    let pages = ["a.test", "b.test", "xn--c.test"].map(|host| entry(host, "/", &[], 0));
    purge_table.publish(&hard(Scope::Site));
    assert!(
        pages
            .iter()
            .all(|page| purge_table.validity(page) == Validity::Purged)
    );
}

#[test]
fn hard_stays_hard_when_a_soft_purge_follows() {
    for ring in [0, 1, 64] {
        for scope in [
            Scope::Site,
            tag("t"),
            prefix("/p"),
            pattern("^/p"),
            url(None, "/p", None),
        ] {
            let purge_table = PurgeTable::with_limits(PurgeTableLimits {
                ring,
                ..PurgeTableLimits::default()
            });
            let page = entry("a.test", "/p", &["t"], 0);
            purge_table.publish(&hard(scope.clone()));
            purge_table.publish(&soft(scope.clone()));
            assert_eq!(
                purge_table.validity(&page),
                Validity::Purged,
                "{scope:?} ring {ring}"
            );
        }
    }
}

#[test]
fn soft_stays_soft_and_hard_stays_hard() {
    let purge_table = PurgeTable::new();
    let page = entry("a.test", "/p", &["t"], 0);
    purge_table.publish(&soft(tag("t")));
    assert_eq!(purge_table.validity(&page), Validity::SoftPurged);
    purge_table.publish(&hard(tag("other")));
    assert_eq!(
        purge_table.validity(&page),
        Validity::SoftPurged,
        "a purge that does not touch it changes nothing"
    );
    purge_table.publish(&hard(tag("t")));
    purge_table.publish(&soft(tag("t")));
    assert_eq!(purge_table.validity(&page), Validity::Purged);
    purge_table.publish(&soft(tag("t")));
    assert_eq!(purge_table.validity(&page), Validity::Purged);
}

/// A fill that overlaps with a purge: it begins before the purge and is stored after it.
#[test]
fn a_purge_between_birth_and_storing_is_seen_at_the_first_hit() {
    let purge_table = PurgeTable::new();
    purge_table.publish(&hard(tag("early")));
    let born = purge_table.current();
    purge_table.publish(&hard(tag("t")));
    let page = entry("a.test", "/p", &["t", "early"], born);
    assert_eq!(purge_table.validity(&page), Validity::Purged);
}

#[test]
fn the_loaded_counter_is_recorded_and_never_a_later_one() {
    let purge_table = PurgeTable::new();
    let page = entry("a.test", "/p", &["t"], 0);
    purge_table.publish(&hard(tag("other")));
    let loaded = purge_table.current();
    purge_table.publish(&hard(tag("another")));
    assert_eq!(
        purge_table.check_at(&page, loaded, OnContention::None),
        Validity::Valid
    );
    assert_eq!(
        page.checked.load().number,
        loaded,
        "the next hit looks at what came since"
    );
}

#[test]
fn a_hit_takes_no_lock_when_nothing_is_newer_and_never_waits_for_a_writer() {
    let purge_table = PurgeTable::new();
    let (checked, unchecked) = (entry("a.test", "/p", &[], 0), entry("a.test", "/q", &[], 0));
    purge_table.publish(&hard(tag("t")));
    assert_eq!(purge_table.validity(&checked), Validity::Valid);
    let writer = purge_table.tables.write().unwrap();
    assert_eq!(
        purge_table.validity(&checked),
        Validity::Valid,
        "while a writer holds the lock"
    );
    assert_eq!(purge_table.validity(&unchecked), Validity::Unknown);
    drop(writer);
    assert_eq!(unchecked.checked.load().number, 0, "nothing was noted");
    assert_eq!(purge_table.validity_waiting(&unchecked), Validity::Valid);
}

/// While the tables cannot be written, the counter does not change: a thread that reads the counter finds matching tables.
#[test]
fn the_counter_is_stored_after_the_tables() {
    let purge_table = PurgeTable::new();
    let started = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        let reading = purge_table.tables.read().unwrap();
        let publisher = scope.spawn(|| {
            started.wait();
            purge_table.publish(&hard(tag("t")))
        });
        started.wait();
        for _ in 0..2_000 {
            assert_eq!(purge_table.current(), 0);
            std::thread::yield_now();
        }
        drop(reading);
        assert_eq!(publisher.join().unwrap(), 1);
    });
    assert_eq!(purge_table.current(), 1);
}

#[test]
fn a_pattern_is_tested_once_per_entry_and_purge() {
    for ring in [0, 64] {
        let purge_table = PurgeTable::with_limits(PurgeTableLimits {
            ring,
            ..PurgeTableLimits::default()
        });
        let page = entry("a.test", "/p", &["t"], 0);
        purge_table.publish(&hard(pattern("^/x")));
        let tested = || purge_table.tables.read().unwrap().tested();
        for _ in 0..5 {
            assert_eq!(purge_table.validity(&page), Validity::Valid);
            purge_table.publish(&hard(tag("other")));
        }
        assert_eq!(tested(), 1, "ring {ring}");
        purge_table.publish(&hard(pattern("^/p")));
        for _ in 0..5 {
            assert_eq!(purge_table.validity(&page), Validity::Purged);
            purge_table.publish(&hard(tag("other")));
        }
        assert_eq!(tested(), 2, "ring {ring}");
    }
}

/// Each of these takes 25 KB, and 29 ms for an address of 8,000 bytes.
#[test]
fn large_patterns_purge_more_rather_than_take_more_memory_or_time() {
    let large = |number: usize| pattern(&format!("{}{number}", "a".repeat(1_000)));
    let purge_table = PurgeTable::new();
    for number in 0..100 {
        purge_table.publish(&hard(large(number)));
        let tables = purge_table.tables.read().unwrap();
        let bytes: usize = tables.patterns.iter().map(|(one, _)| one.bytes()).sum();
        assert!(bytes < 512 * 1024, "{bytes}");
    }
    let validity = |path: &str, born| purge_table.validity(&entry("a.test", path, &[], born));
    assert_eq!(validity("/b", 0), Validity::Purged, "below the floor");
    assert_eq!(validity("/b", 95), Validity::Valid);
    let long = format!("/{}", "a".repeat(8_000));
    let began = std::time::Instant::now();
    assert_eq!(validity(&long, 95), Validity::Purged, "it was not compared");
    assert!(began.elapsed() < std::time::Duration::from_millis(500));
}

#[test]
fn patterns_of_an_earlier_run_are_compiled_only_if_they_are_kept() {
    let purge_table = PurgeTable::new();
    for number in 1..=1_000 {
        purge_table.replay(number, &hard(pattern(&format!("^/{number}$"))));
    }
    let compiled = || {
        let tables = purge_table.tables.read().unwrap();
        let compiled = tables.patterns.iter().filter(|(one, _)| one.bytes() > 500);
        (compiled.count(), tables.patterns.len())
    };
    assert_eq!(compiled().0, 0);
    purge_table.lift(2_000);
    let (compiled, kept) = compiled();
    assert!(compiled == kept && (50..=100).contains(&kept), "{kept}");
    assert_eq!(
        purge_table.validity(&entry("a.test", "/1000", &[], 999)),
        Validity::Purged
    );
    assert_eq!(
        purge_table.validity(&entry("a.test", "/1000", &[], 1_000)),
        Validity::Valid
    );
}

/// The purges of an earlier run, with their numbers and the gaps between them, with the ring and with the tables.
#[test]
fn replayed_purges_touch_the_same_entries() {
    for ring in [0, 2, 64] {
        let purge_table = PurgeTable::with_limits(PurgeTableLimits {
            ring,
            ..PurgeTableLimits::default()
        });
        purge_table.replay(10, &hard(tag("t")));
        purge_table.replay(1_000, &soft(tag("u")));
        purge_table.lift(5_000);
        purge_table.lift(20);
        assert_eq!(purge_table.current(), 5_000);
        let validity = |name, born| purge_table.validity(&entry("a.test", "/p", &[name], born));
        assert_eq!(validity("t", 9), Validity::Purged, "ring {ring}");
        assert_eq!(validity("t", 10), Validity::Valid, "ring {ring}");
        assert_eq!(validity("u", 999), Validity::SoftPurged, "ring {ring}");
        assert_eq!(validity("u", 1_000), Validity::Valid, "ring {ring}");
        assert_eq!(purge_table.publish(&hard(tag("t"))), 5_001);
        assert_eq!(validity("t", 5_000), Validity::Purged, "ring {ring}");
        assert_eq!(validity("t", 5_001), Validity::Valid, "ring {ring}");
    }
}

#[test]
fn a_purge_with_a_number_that_does_not_rise_purges_more() {
    let purge_table = PurgeTable::new();
    purge_table.replay(7, &hard(tag("t")));
    purge_table.replay(3, &hard(tag("u")));
    let validity = |name, born| purge_table.validity(&entry("a.test", "/p", &[name], born));
    assert_eq!(validity("u", 7), Validity::Purged, "it got the next number");
    assert_eq!(validity("t", 7), Validity::Valid);
}

#[test]
fn site_url_and_prefix_purges_touch_hit_for_pass_entries() {
    let marker = |purge_table: &PurgeTable| {
        Entry::new(EntryParts {
            kind: EntryKind::HitForPass,
            ..parts("/form/a", purge_table.current())
        })
    };
    for scope in [
        Scope::Site,
        url(Some("a.test"), "/form/a", None),
        url(None, "/form/a", None),
        prefix("/form"),
    ] {
        let purge_table = PurgeTable::new();
        let marker = marker(&purge_table);
        purge_table.publish(&hard(tag("t")));
        assert_eq!(
            purge_table.validity(&marker),
            Validity::Valid,
            "it has no tags"
        );
        purge_table.publish(&hard(scope.clone()));
        assert_eq!(purge_table.validity(&marker), Validity::Purged, "{scope:?}");
    }
}

#[test]
fn every_purge_touches_the_tag_for_everything() {
    for ring in [0, 64] {
        for scope in [
            tag("t"),
            Scope::Host("b.test".into()),
            url(None, "/q", None),
            prefix("/q"),
            pattern("q"),
        ] {
            let purge_table = PurgeTable::with_limits(PurgeTableLimits {
                ring,
                ..PurgeTableLimits::default()
            });
            let page = entry("a.test", "/p", &["*"], 0);
            purge_table.publish(&soft(scope.clone()));
            assert_eq!(
                purge_table.validity(&page),
                Validity::SoftPurged,
                "{scope:?}"
            );
            purge_table.publish(&hard(scope.clone()));
            assert_eq!(purge_table.validity(&page), Validity::Purged, "{scope:?}");
        }
    }
}

#[test]
fn requests_join_only_fills_that_no_newer_purge_touches() {
    let purge_table = PurgeTable::new();
    let own = scopes("a.test", "/p", &["t"]);
    let before_head = PurgeSubject {
        tags: None,
        ..own.touch()
    };
    assert_eq!(purge_table.newer_than(0, before_head), FillPurgeState::No);
    purge_table.publish(&hard(tag("other")));
    assert_eq!(
        purge_table.newer_than(0, before_head),
        FillPurgeState::OnlyTags
    );
    assert_eq!(purge_table.newer_than(0, own.touch()), FillPurgeState::No);
    let for_all = scopes("a.test", "/p", &["*"]);
    assert_eq!(
        purge_table.newer_than(0, for_all.touch()),
        FillPurgeState::Yes
    );
    purge_table.publish(&hard(tag("t")));
    assert_eq!(
        purge_table.newer_than(0, before_head),
        FillPurgeState::OnlyTags
    );
    assert_eq!(purge_table.newer_than(0, own.touch()), FillPurgeState::Yes);
    for scope in [
        Scope::Site,
        Scope::Host("a.test".into()),
        url(None, "/p", None),
        prefix("/"),
        pattern("p$"),
    ] {
        let born = purge_table.current();
        purge_table.publish(&soft(scope.clone()));
        assert_eq!(
            purge_table.newer_than(born, before_head),
            FillPurgeState::Yes,
            "{scope:?}"
        );
        assert_eq!(
            purge_table.newer_than(purge_table.current(), before_head),
            FillPurgeState::No
        );
    }
}

#[test]
fn full_tables_raise_a_floor_and_lose_no_purge() {
    let purge_table = PurgeTable::with_limits(PurgeTableLimits {
        scopes: 100,
        patterns: 10,
        pattern_bytes: 64 * 1024,
        ring: 4,
    });
    let names: Vec<String> = (0..1_000).map(|n| format!("tag-{n}")).collect();
    let old: Vec<Entry> = names
        .iter()
        .map(|name| entry("a.test", "/p", &[name], 0))
        .collect();
    for name in &names {
        purge_table.publish(&hard(tag(name)));
        let (named, _, _) = purge_table.tables.read().unwrap().sizes();
        assert!(named <= 100, "{named}");
    }
    assert!(
        old.iter()
            .all(|page| purge_table.validity(page) == Validity::Purged)
    );
    let (_, _, floor) = purge_table.tables.read().unwrap().sizes();
    assert!(
        floor > 0 && floor < purge_table.current(),
        "the newer part is still known exactly"
    );
    let recent = entry("a.test", "/p", &["tag-1"], floor);
    assert_eq!(purge_table.validity(&recent), Validity::Valid);
    for n in 0..50 {
        purge_table.publish(&soft(pattern(&format!("^/x{n}$"))));
        let (_, patterns, _) = purge_table.tables.read().unwrap().sizes();
        assert!(patterns <= 10, "{patterns}");
    }
    let untouched = entry("a.test", "/y", &[], 0);
    assert_eq!(
        purge_table.validity(&untouched),
        Validity::Purged,
        "what is not known exactly counts as hard"
    );
}

#[test]
fn an_entry_compared_at_the_floor_stays_valid() {
    let purge_table = PurgeTable::with_limits(PurgeTableLimits {
        scopes: 10,
        ..PurgeTableLimits::default()
    });
    let hot = entry("a.test", "/p", &["mine"], 0);
    for n in 0..100 {
        purge_table.publish(&hard(tag(&format!("tag-{n}"))));
        assert_eq!(purge_table.validity(&hot), Validity::Valid);
    }
}

/// After `publish` has returned, no later comparison reports an older entry as valid.
#[test]
fn threads_never_see_an_acknowledged_purge_undone() {
    const PURGES: u64 = 200;
    let purge_table = PurgeTable::with_limits(PurgeTableLimits {
        ring: 8,
        ..PurgeTableLimits::default()
    });
    let (acknowledged, checks) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Bounded, so that the failure of one thread is reported.
            let mut attempts = 1_000_000;
            for n in 0..PURGES {
                let mine = [tag("t"), prefix("/p"), pattern("^/p"), Scope::Site];
                let number =
                    purge_table.publish(&hard(mine[usize::try_from(n % 4).unwrap()].clone()));
                acknowledged.store(number, Ordering::Release);
                let seen = checks.load(Ordering::Relaxed);
                while attempts > 0 && checks.load(Ordering::Relaxed) < seen + 3 {
                    attempts -= 1;
                    std::thread::yield_now();
                }
            }
        });
        scope.spawn(|| {
            for n in 0..PURGES {
                purge_table.publish(&hard(tag(&format!("other-{n}"))));
            }
        });
        for _ in 0..2 {
            scope.spawn(|| check_until(&purge_table, &acknowledged, &checks, 2 * PURGES));
        }
    });
}

fn check_until(purge_table: &PurgeTable, acknowledged: &AtomicU64, checks: &AtomicU64, last: u64) {
    let mut page = entry("a.test", "/p", &["t"], 0);
    loop {
        let now = purge_table.current();
        let purged = acknowledged.load(Ordering::Acquire);
        let validity = purge_table.validity(&page);
        checks.fetch_add(1, Ordering::Relaxed);
        if page.born < purged {
            assert!(
                matches!(validity, Validity::Purged | Validity::Unknown),
                "{page:?} {validity:?} {purged}"
            );
        }
        if validity == Validity::Purged {
            page = entry("a.test", "/p", &["t"], now);
        }
        if now == last {
            assert!(matches!(
                purge_table.validity_waiting(&page),
                Validity::Valid | Validity::Purged
            ));
            return;
        }
    }
}

/// A page of a world that is small enough for purges and pages to collide.
#[derive(Clone, Debug)]
struct Page {
    host: &'static str,
    path: &'static str,
    query: Option<&'static str>,
    tags: Vec<&'static str>,
}

#[derive(Clone, Debug)]
enum Step {
    Publish(Purge),
    /// Generates the page now, and stores it after this number of steps.
    Compose(Page),
    /// Compares the entry at this index.
    Prove(prop::sample::Index),
}

fn a_page() -> impl Strategy<Value = Page> {
    let host = prop::sample::select(vec!["a.test", "b.test"]);
    let path = prop::sample::select(vec!["/", "/a", "/a/", "/a/b", "/ab", "/a//b"]);
    let query = prop::sample::select(vec![None, Some("x=1"), Some("x=1&y")]);
    let tags = prop::sample::subsequence(vec!["t", "u", "v", "*"], 0..4);
    (host, path, query, tags).prop_map(|(host, path, query, tags)| Page {
        host,
        path,
        query,
        tags,
    })
}

fn any_purge() -> impl Strategy<Value = Purge> {
    let named = prop::sample::select(vec!["t", "u", "v", "w", "*"]).prop_map(tag);
    let below = prop::sample::select(vec!["/", "/a", "/a/", "/a/b", "/a//"]).prop_map(prefix);
    let matching = prop::sample::select(vec!["^/a", "x=1$", "b", "^/$"]).prop_map(pattern);
    let exact = (a_page(), any::<bool>())
        .prop_map(|(page, on_host)| url(on_host.then_some(page.host), page.path, page.query));
    let host =
        prop::sample::select(vec!["a.test", "b.test"]).prop_map(|host| Scope::Host(host.into()));
    let scope = prop_oneof![4 => named, 2 => below, 2 => matching, 3 => exact, 1 => host, 1 => Just(Scope::Site)];
    (scope, any::<bool>())
        .prop_map(|(scope, is_hard)| if is_hard { hard(scope) } else { soft(scope) })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => any_purge().prop_map(Step::Publish),
        2 => a_page().prop_map(Step::Compose),
        4 => any::<prop::sample::Index>().prop_map(Step::Prove),
    ];
    prop::collection::vec(step, 1..120)
}

/// Implemented from the documentation, not from the tables.
fn model_touches(page: &Page, scope: &Scope) -> bool {
    let whole = page.query.map_or(page.path.to_owned(), |query| {
        format!("{}?{query}", page.path)
    });
    if page.tags.contains(&"*") {
        return true;
    }
    match scope {
        Scope::Site => true,
        Scope::Host(host) => host == page.host,
        Scope::Tag(tag) => tag == "*" || page.tags.contains(&tag.as_str()),
        Scope::Url { host, path, query } => {
            host.as_deref().is_none_or(|host| host == page.host)
                && path == page.path.as_bytes()
                && query.as_deref() == page.query.map(str::as_bytes)
        }
        Scope::Prefix(prefix) => {
            let prefix = std::str::from_utf8(prefix).unwrap().trim_end_matches('/');
            page.path == prefix || page.path.starts_with(&format!("{prefix}/"))
        }
        Scope::Pattern(text) => text.compile().matches(whole.as_ref()),
    }
}

fn model(page: &Page, born: u64, purges: &[Purge]) -> PurgeEffect {
    let newer = purges.iter().skip(usize::try_from(born).unwrap());
    let matching_purge = newer.filter(|purge| model_touches(page, &purge.scope));
    let verdicts = matching_purge.map(|purge| match purge.strength {
        Strength::Hard => PurgeEffect::Hard,
        Strength::Soft => PurgeEffect::Soft,
    });
    verdicts.max().unwrap_or_default()
}

/// Runs `steps` and passes each result to `check`, with that of the model.
fn play(purge_table: &PurgeTable, steps: &[Step], mut check: impl FnMut(Validity, PurgeEffect)) {
    let (mut purges, mut pages) = (Vec::new(), Vec::new());
    for step in steps {
        match step {
            Step::Publish(purge) => {
                purge_table.publish(purge);
                purges.push(purge.clone());
            }
            Step::Compose(page) => {
                let whole = page.query.map_or(page.path.to_owned(), |query| {
                    format!("{}?{query}", page.path)
                });
                pages.push((
                    page.clone(),
                    entry(page.host, &whole, &page.tags, purge_table.current()),
                ));
            }
            Step::Prove(_) if pages.is_empty() => {}
            Step::Prove(at) => {
                let (page, entry) = at.get(&pages);
                let says = model(page, entry.born, &purges);
                let touched =
                    purge_table.newer_than(entry.born, entry.scopes.touch()) == FillPurgeState::Yes;
                assert!(touched || says == PurgeEffect::Untouched);
                check(purge_table.validity(entry), says);
            }
        }
    }
}

proptest! {
    #[test]
    fn ring_and_tables_match_the_model(steps in steps(), ring in prop::sample::select(vec![0, 1, 3, 64])) {
        let purge_table = PurgeTable::with_limits(PurgeTableLimits { ring, ..PurgeTableLimits::default() });
        play(&purge_table, &steps, |validity, says| assert_eq!(validity, Validity::from(says)));
    }

    #[test]
    fn small_limits_only_purge_more(steps in steps()) {
        let purge_table = PurgeTable::with_limits(PurgeTableLimits { scopes: 2, patterns: 1, pattern_bytes: 4_000, ring: 1 });
        play(&purge_table, &steps, |validity, says| match says {
            PurgeEffect::Untouched => {}
            PurgeEffect::Soft => assert!(matches!(validity, Validity::SoftPurged | Validity::Purged)),
            PurgeEffect::Hard => assert_eq!(validity, Validity::Purged),
        });
    }
}
