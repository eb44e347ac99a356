//! Fragments of a visitor are never found by another visitor, and never after the session has ended.

use std::sync::Arc;
use std::time::Duration;

use galley_policy::decide::PrivateParts;
use galley_policy::fragments::FragmentPart;
use galley_policy::private::{PageDifference, PrivateScope};
use galley_policy::storable::Lifetime;
use galley_policy::tags::Tags;
use galley_policy::time::Tick;
use http::{HeaderMap, StatusCode};

use super::*;
use crate::body::StoredBody;
use crate::budget::MemoryBudget;
use crate::entry::{Entry, EntryKind, EntryParts, Scopes};
use crate::fragments::{FragmentVersion, PageFragment};
use crate::key::Key;

const ANN: &[u8] = b"wordpress_logged_in_0a=ann";
const BOB: &[u8] = b"wordpress_logged_in_0a=bob";
const CLASS: &str = "subscriber-0";

fn entry(key: &[u8], body: &[u8], born: u64) -> Entry {
    Entry::new(EntryParts {
        key: Key::new(key),
        kind: EntryKind::Page,
        status: StatusCode::OK,
        fields: HeaderMap::new(),
        body: StoredBody::from(bytes::Bytes::copy_from_slice(body)),
        stored_at: Tick(0),
        lifetime: Lifetime {
            fresh: Duration::from_secs(300),
            ..Lifetime::default()
        },
        scopes: Scopes {
            host: 1,
            url: 2,
            path_query: Box::from(&b"/a"[..]),
            tags: Box::default(),
        },
        tags: Vec::new(),
        born,
    })
}

/// A page with private fragments of these names, all at the beginning.
fn page(key: &[u8], born: u64, names: &[&str]) -> Entry {
    let hole = |name: &&str| {
        let part = FragmentPart {
            label: (*name).to_owned(),
            start: 0,
            length: 0,
            blocks: "-".to_owned(),
            definition: "private-page".to_owned(),
            tags: Tags::default(),
            has_context: false,
        };
        PageFragment {
            born,
            ..PageFragment::alone(Arc::new(FragmentVersion::private(&part, 0)))
        }
    };
    entry(key, b"public", born).with_fragments(names.iter().map(hole).collect())
}

fn own(name: &str, scope: PrivateScope, bytes: &[u8]) -> OwnFragment {
    OwnFragment {
        name: name.to_owned(),
        scope,
        entry: entry(b"", bytes, 7),
    }
}

fn store() -> PrivateStore {
    PrivateStore::new(MemoryBudget::new(1 << 20), [1, 2])
}

/// Records that a page was compared, and stores a fragment for it.
fn keep(store: &PrivateStore, cookies: &[u8], page: &Entry, kept: OwnFragment) {
    let visitor = store.visitor(1, cookies, b"browser");
    let ticket = store.ticket(&visitor);
    store.judge(page, CLASS, None, Tick(0));
    store.keep(&visitor, ticket, Some(CLASS), page, vec![kept], Tick(0));
}

fn look(store: &PrivateStore, cookies: &[u8], page: &Entry) -> OwnFragments {
    let visitor = store.visitor(1, cookies, b"browser");
    store.look(&visitor, page, Tick(10), true, |_| true)
}

fn bytes(found: &OwnFragments) -> Vec<&[u8]> {
    found
        .fragments
        .iter()
        .map(|(_, own)| &own.body().unwrap()[..])
        .collect()
}

#[test]
fn only_the_visitor_finds_what_is_kept_for_them() {
    let (store, page) = (store(), page(b"a", 7, &["bar"]));
    keep(
        &store,
        ANN,
        &page,
        own("bar", PrivateScope::Session, b"Ann"),
    );
    let found = look(&store, ANN, &page);
    assert_eq!(
        (found.state, bytes(&found)),
        (PrivateParts::Complete, vec![&b"Ann"[..]])
    );
    for other in [
        BOB,
        b"",
        b"wordpress_logged_in_0a=ann; woocommerce_items_in_cart=1",
    ] {
        let found = look(&store, other, &page);
        assert_eq!(
            (found.state, found.fragments.len()),
            (PrivateParts::Missing, 0)
        );
    }
    for (variant, agent) in [(2, &b"browser"[..]), (1, b"another")] {
        let visitor = store.visitor(variant, ANN, agent);
        let found = store.look(&visitor, &page, Tick(10), true, |_| true);
        assert_eq!(found.state, PrivateParts::Missing);
    }
    let elsewhere = PrivateStore::new(MemoryBudget::new(1 << 20), [1, 3]);
    assert_ne!(
        elsewhere.visitor(1, ANN, b"browser"),
        store.visitor(1, ANN, b"browser")
    );
}

#[test]
fn fragments_of_a_session_are_for_all_pages_and_those_of_a_page_for_that_one() {
    let store = store();
    let (here, there) = (page(b"a", 7, &["bar"]), page(b"b", 7, &["bar"]));
    store.judge(&there, CLASS, None, Tick(0));
    keep(&store, ANN, &here, own("bar", PrivateScope::Page, b"here"));
    assert_eq!(bytes(&look(&store, ANN, &here)), [b"here"]);
    assert_eq!(look(&store, ANN, &there).state, PrivateParts::Missing);
    keep(
        &store,
        ANN,
        &here,
        own("bar", PrivateScope::Session, b"Ann"),
    );
    assert_eq!(bytes(&look(&store, ANN, &there)), [b"Ann"]);
    assert_eq!(bytes(&look(&store, ANN, &here)), [b"here"]);
}

#[test]
fn a_page_needs_all_of_its_fragments() {
    let (store, page) = (store(), page(b"a", 7, &["bar", "form"]));
    keep(
        &store,
        ANN,
        &page,
        own("bar", PrivateScope::Session, b"Ann"),
    );
    assert_eq!(look(&store, ANN, &page).state, PrivateParts::Missing);
    keep(&store, ANN, &page, own("form", PrivateScope::Page, b"form"));
    assert_eq!(bytes(&look(&store, ANN, &page)), [&b"Ann"[..], b"form"]);
    let visitor = store.visitor(1, ANN, b"browser");
    let purged = store.look(&visitor, &page, Tick(10), true, |own| {
        &own.body().unwrap()[..] != b"form"
    });
    assert_eq!(purged.state, PrivateParts::Missing);
    let old = store.look(&visitor, &page, Tick(300_000), true, |_| true);
    assert_eq!(old.state, PrivateParts::Missing);
    let without = self::page(b"a", 7, &[]);
    assert_eq!(look(&store, ANN, &without).state, PrivateParts::None);
}

#[test]
fn a_session_that_has_ended_leaves_nothing() {
    let (store, page) = (store(), page(b"a", 7, &["bar"]));
    let visitor = store.visitor(1, ANN, b"browser");
    let begun_before = store.ticket(&visitor);
    keep(
        &store,
        ANN,
        &page,
        own("bar", PrivateScope::Session, b"Ann"),
    );
    // In the WordPress administration, the browser sends more cookies.
    let all = [ANN, b"; wordpress_sec_0a=x"].concat();
    store.end_session(&store.visitor(9, &all, b"browser"));
    assert_eq!(look(&store, ANN, &page).state, PrivateParts::Missing);
    // A fragment that was being generated at that time must not be stored.
    let late = vec![own("bar", PrivateScope::Session, b"late")];
    store.keep(&visitor, begun_before, Some(CLASS), &page, late, Tick(1));
    assert_eq!(look(&store, ANN, &page).state, PrivateParts::Missing);
    keep(
        &store,
        ANN,
        &page,
        own("bar", PrivateScope::Session, b"again"),
    );
    assert_eq!(bytes(&look(&store, ANN, &page)), [b"again"]);
}

#[test]
fn a_page_is_compared_for_each_class_and_each_time_that_it_is_generated() {
    let store = store();
    let first = page(b"a", 7, &["bar"]);
    keep(
        &store,
        ANN,
        &first,
        own("bar", PrivateScope::Session, b"Ann"),
    );
    assert_eq!(look(&store, ANN, &first).state, PrivateParts::Complete);
    assert_eq!(
        look(&store, ANN, &page(b"b", 7, &["bar"])).state,
        PrivateParts::Missing
    );
    assert_eq!(
        look(&store, ANN, &page(b"a", 8, &["bar"])).state,
        PrivateParts::Missing
    );
    store.judge(
        &first,
        "editor-0",
        Some(PageDifference::Content(3)),
        Tick(0),
    );
    assert_eq!(look(&store, ANN, &first).state, PrivateParts::Complete);
    store.judge(&first, CLASS, Some(PageDifference::Content(3)), Tick(0));
    let found = look(&store, ANN, &first);
    assert_eq!(
        (found.state, found.fragments.len()),
        (PrivateParts::Differ, 0)
    );
    let reported = store.differences(Tick(1));
    assert_eq!(reported.len(), 2);
    assert_eq!(
        (&*reported[1].class, &*reported[1].path_query),
        (CLASS, &b"/a"[..])
    );
    assert!(store.differences(Tick(3_600_000)).is_empty());
    let counts = store.counts();
    assert_eq!(
        (counts.compared, counts.differed, counts.visitors),
        (3, 2, 1)
    );
}

#[test]
fn a_page_is_compared_again_after_many_uses() {
    let (store, page) = (store(), page(b"a", 7, &["bar"]));
    keep(
        &store,
        ANN,
        &page,
        own("bar", PrivateScope::Session, b"Ann"),
    );
    let uses = (0..1000).take_while(|_| look(&store, ANN, &page).state == PrivateParts::Complete);
    assert_eq!(uses.count(), 256);
    // One request compares it. The others do not wait for that.
    let mut next = (0..256).map(|_| look(&store, ANN, &page).state);
    assert!(next.all(|state| state == PrivateParts::Complete));
    assert_eq!(look(&store, ANN, &page).state, PrivateParts::Missing);
    store.judge(&page, CLASS, None, Tick(0));
    assert_eq!(look(&store, ANN, &page).state, PrivateParts::Complete);
    let visitor = store.visitor(1, ANN, b"browser");
    let explained = (0..1000).map(|_| store.look(&visitor, &page, Tick(10), false, |_| true));
    assert!(
        explained
            .into_iter()
            .all(|found| found.state == PrivateParts::Complete)
    );
}

#[test]
fn visitors_unknown_to_php_get_public_pages_for_a_while() {
    let (store, page) = (store(), page(b"a", 7, &["bar"]));
    let visitor = store.visitor(1, ANN, b"browser");
    store.keep(
        &visitor,
        store.ticket(&visitor),
        None,
        &page,
        Vec::new(),
        Tick(0),
    );
    assert_eq!(look(&store, ANN, &page).state, PrivateParts::None);
    let later = store.look(&visitor, &page, Tick(60_000), true, |_| true);
    assert_eq!(later.state, PrivateParts::Missing);
}

#[test]
fn memory_is_bounded_and_absent_visitors_are_evicted_first() {
    let budget = MemoryBudget::new(200_000);
    let store = PrivateStore::new(budget.clone(), [1, 2]);
    let page = page(b"a", 7, &["bar"]);
    for number in 0..300 {
        let cookies = format!("wordpress_logged_in_0a={number}");
        let kept = own("bar", PrivateScope::Session, &[b'x'; 4000]);
        keep(&store, cookies.as_bytes(), &page, kept);
        assert!(budget.used() <= budget.limit());
        let found = look(&store, cookies.as_bytes(), &page);
        assert_eq!(found.state, PrivateParts::Complete, "{number}");
    }
    assert!(store.counts().visitors < 60);
    let large = own("bar", PrivateScope::Session, &vec![b'x'; 300_000]);
    keep(&store, ANN, &page, large);
    assert_eq!(look(&store, ANN, &page).state, PrivateParts::Missing);
    store.sweep(Tick(2_000_000));
    assert_eq!((store.counts().visitors, budget.used()), (0, 0));
}
