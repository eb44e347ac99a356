//! Purges that touch a fragment of a page, and not the page.

use std::sync::Arc;

use galley_policy::fragments::FragmentPart;
use galley_policy::purge::{Purge, Scope, Strength};
use galley_policy::time::Tick;

use crate::fragment_table::{FragmentTable, RenderedFragment};
use crate::fragments::PageFragment;
use crate::purge_table::{PurgeTable, Validity};
use crate::testing::entry;

fn part() -> FragmentPart {
    FragmentPart {
        label: "widget:x".to_owned(),
        start: 0,
        length: 1,
        blocks: "-".to_owned(),
        definition: "d".to_owned(),
        tags: galley_policy::tags::from_list("posts").unwrap(),
        has_context: false,
    }
}

#[test]
fn a_purge_of_a_shared_fragment_leaves_the_page_to_be_patched() {
    let table = FragmentTable::default();
    let version = table.version(0, &part(), 1).unwrap();
    let purge = |tag: &str, strength| Purge {
        scope: Scope::Tag(tag.to_owned()),
        strength,
    };
    let page = |born| {
        let fragment = PageFragment {
            range: 0..1,
            born,
            ..PageFragment::alone(Arc::clone(&version))
        };
        entry("a.test", "/x", &["p1"], 0).with_fragments(vec![fragment])
    };
    let purge_table = PurgeTable::new();
    let alone = page(0);
    assert_eq!(purge_table.validity_waiting(&alone), Validity::Valid);
    purge_table.publish(&purge("posts", Strength::Hard));
    assert_eq!(
        purge_table.validity_waiting(&alone),
        Validity::Purged,
        "nobody knows how to render it"
    );
    let rendered = RenderedFragment {
        entry: Arc::new(entry("a.test", "", &["alone"], 0)),
        blocks: "-".into(),
        digest: 1,
    };
    table.rendered(version.id, rendered);
    let shared = page(0);
    assert_eq!(
        purge_table.validity(&shared),
        Validity::Purged,
        "on the fast path"
    );
    assert_eq!(purge_table.validity_waiting(&shared), Validity::Outdated);
    assert_eq!(purge_table.purged_fragments(&shared), Some(vec![0]));
    let patched = page(1);
    assert_eq!(purge_table.validity_waiting(&patched), Validity::Valid);
    purge_table.publish(&purge("alone", Strength::Soft));
    assert_eq!(
        purge_table.validity_waiting(&patched),
        Validity::Outdated,
        "also by what it had alone"
    );
    let again = page(0);
    let later = Tick(60_000);
    assert!(!table.note_disagreement(version.id, 1, Tick(0)));
    assert_eq!(purge_table.validity_waiting(&again), Validity::Outdated);
    assert!(table.note_disagreement(version.id, 1, later));
    assert_eq!(
        purge_table.validity_waiting(&again),
        Validity::Purged,
        "switched off"
    );
    purge_table.publish(&purge("p1", Strength::Soft));
    assert_eq!(
        purge_table.validity_waiting(&patched),
        Validity::Purged,
        "the page, too"
    );
    assert_eq!(purge_table.purged_fragments(&patched), None);
}

#[test]
fn every_purge_reaches_a_fragment_that_depends_on_everything() {
    let table = FragmentTable::default();
    let version = table.version(0, &part(), 1).unwrap();
    let rendered = RenderedFragment {
        entry: Arc::new(entry("a.test", "", &["*"], 0)),
        blocks: "-".into(),
        digest: 1,
    };
    table.rendered(version.id, rendered);
    let fragment = PageFragment {
        range: 0..1,
        ..PageFragment::alone(version)
    };
    let page = entry("a.test", "/x", &["p1"], 0).with_fragments(vec![fragment]);
    let purge_table = PurgeTable::new();
    assert_eq!(purge_table.validity_waiting(&page), Validity::Valid);
    purge_table.publish(&Purge {
        scope: Scope::Tag("unrelated".to_owned()),
        strength: Strength::Hard,
    });
    assert_eq!(purge_table.validity_waiting(&page), Validity::Outdated);
}
