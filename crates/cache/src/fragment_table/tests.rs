//! Tests of the table of fragments.

use super::*;
use crate::testing::entry;

fn part(definition: &str, tags: &str) -> FragmentPart {
    FragmentPart {
        label: "widget:x".to_owned(),
        start: 0,
        length: 1,
        blocks: "-".to_owned(),
        definition: definition.to_owned(),
        tags: galley_policy::tags::from_list(tags).unwrap(),
        has_context: false,
    }
}

fn rendered(digest: u128) -> RenderedFragment {
    RenderedFragment {
        entry: Arc::new(entry("a.test", "/", &["t"], 1)),
        blocks: "-".into(),
        digest,
    }
}

#[test]
fn only_versions_that_were_rendered_alone_are_shared() {
    let table = FragmentTable::default();
    let one = table.version(0, &part("d", "a"), 1).unwrap();
    assert!(Arc::ptr_eq(
        &one,
        &table.version(0, &part("d", "a"), 1).unwrap()
    ));
    let other = table.version(0, &part("d", "a"), 2).unwrap();
    table.rendered(one.id, rendered(1));
    assert!(one.is_shared() && !other.is_shared());
    let later = table.version(0, &part("d", "a,b"), 1).unwrap();
    assert!(later.is_shared(), "known when it comes");
    let elsewhere = table.version(0, &part("e", "a"), 1).unwrap();
    assert!(!elsewhere.is_shared());
}

#[test]
fn a_page_that_agrees_explains_the_disagreement_of_another_one() {
    let table = FragmentTable::default();
    let held = table.version(0, &part("d", "a"), 1).unwrap();
    table.rendered(held.id, rendered(1));
    let later = |periods| Tick(0).plus(LATEST_PURGE * periods);
    assert!(!table.note_disagreement(held.id, 1, later(0)));
    table.note_agreement(held.id);
    assert!(!table.note_disagreement(held.id, 1, later(1)));
    assert!(table.note_disagreement(held.id, 1, later(2)));
    table.note_agreement(held.id);
    assert!(held.is_switched_off(), "it stays off");
}

#[test]
fn a_second_disagreement_switches_a_fragment_off() {
    let table = FragmentTable::default();
    let held = table.version(0, &part("d", "a"), 1).unwrap();
    table.rendered(held.id, rendered(1));
    let later = Tick(0).plus(LATEST_PURGE);
    assert!(!table.note_disagreement(held.id, 1, Tick(0)));
    assert!(
        !table.note_disagreement(held.id, 1, Tick(later.0 - 1)),
        "its purge may come"
    );
    table.rendered(held.id, rendered(2));
    assert!(
        !table.note_disagreement(held.id, 2, later),
        "it was purged meanwhile"
    );
    assert!(held.is_shared() && table.switched_off().is_empty());
    assert!(table.note_disagreement(held.id, 2, later.plus(LATEST_PURGE)));
    assert!(
        !table.note_disagreement(held.id, 2, later.plus(LATEST_PURGE)),
        "once"
    );
    assert!(!held.is_shared() && !table.may_render(held.id, later));
    assert!(
        table
            .version(0, &part("d", "a"), 2)
            .unwrap()
            .is_switched_off()
    );
    assert_eq!(table.switched_off(), ["widget:x".into()]);
    assert!(
        table
            .version(0, &part("e", "a"), 1)
            .is_some_and(|other| !other.is_switched_off())
    );
}

#[test]
fn a_fragment_that_cannot_be_rendered_is_tried_less_and_less_often() {
    let table = FragmentTable::default();
    let held = table.version(0, &part("d", "a"), 1).unwrap();
    let mut now = Tick(0);
    let mut attempts = 0;
    while now < Tick(0).plus(Duration::from_secs(24 * 3600)) {
        if table.may_render(held.id, now) {
            attempts += 1;
            table.note_failure(held.id, now);
        }
        now = now.plus(Duration::from_secs(1));
    }
    assert!((30..40).contains(&attempts), "{attempts} in a day");
    table.rendered(held.id, rendered(1));
    assert!(table.may_render(held.id, now));
}

#[test]
fn unused_fragments_are_removed() {
    let table = FragmentTable::default();
    let held = table.version(0, &part("held", "a"), 1).unwrap();
    table.rendered(held.id, rendered(1));
    for number in 0..10 * FIRST_SWEEP {
        let gone = table.version(0, &part(&format!("gone{number}"), "a"), 1);
        table.rendered(gone.unwrap().id, rendered(1));
    }
    assert!(table.known.lock().by_id.len() <= FIRST_SWEEP + 1);
    assert!(table.last_rendered(held.id).is_some());
}

#[test]
fn too_many_fragments_are_refused_without_a_sweep_for_each() {
    let table = FragmentTable::default();
    let version = |number: usize| table.version(0, &part(&number.to_string(), "a"), 1);
    let held: Vec<_> = (0..MAX_FRAGMENTS).map_while(version).collect();
    assert_eq!(held.len(), MAX_FRAGMENTS);
    let refused = |from: usize| (from..).take_while(|number| version(*number).is_none());
    assert!(version(MAX_FRAGMENTS).is_none());
    drop(held);
    let without_sweep = refused(MAX_FRAGMENTS + 1).count();
    assert!(
        (MAX_FRAGMENTS - 1..=MAX_FRAGMENTS).contains(&without_sweep),
        "{without_sweep}"
    );
    assert!(table.known.lock().by_id.len() <= 1, "then it was swept");
}

#[test]
fn failed_or_slow_fragments_are_rendered_with_fewer_others() {
    let table = FragmentTable::default();
    let definitions = ["fine", "slow", "failing", "new"];
    let version = |definition: &str, variant| table.version(variant, &part(definition, "a"), 1);
    let held = definitions.map(|definition| version(definition, 7).unwrap());
    let elsewhere = version("fine", 8).unwrap();
    for version in held.iter().take(3).chain([&elsewhere]) {
        table.rendered(version.id, rendered(1));
    }
    table.note_duration(held[1].id, 24, true);
    table.note_failure(held[2].id, Tick(0));
    let together = || {
        let shared = table.shared().into_iter();
        let many = shared
            .filter(|one| one.variant == 7 && table.max_batch(one.fragment.version.id).is_none());
        many.map(|one| one.fragment.version.id).collect::<Vec<_>>()
    };
    assert_eq!(together(), [held[0].id]);
    let most = || held.each_ref().map(|version| table.max_batch(version.id));
    assert_eq!(most(), [None, Some(12), Some(1), None]);
    table.note_duration(held[1].id, 1, true);
    assert_eq!(most(), [None, Some(1), Some(1), None]);
    assert_eq!(table.failed(), ["widget:x".into()]);
    let failed = || held.each_ref().map(|version| version.has_failed());
    assert_eq!(failed(), [false, false, true, false]);
    assert!(version("failing", 7).unwrap().has_failed());
    table.note_duration(held[1].id, 1, false);
    table.rendered(held[2].id, rendered(1));
    assert_eq!(together().len(), 3);
    assert!(table.failed().is_empty() && !failed()[2]);
}

#[test]
fn fragments_of_pages_from_the_disk_are_known() {
    let elsewhere = FragmentTable::default();
    let version = elsewhere.version(7, &part("d", "a"), 1).unwrap();
    elsewhere.rendered(version.id, rendered(1));
    let table = FragmentTable::default();
    table.recall(7, &version);
    table.recall(7, &version);
    assert_eq!(table.known.lock().by_id[&version.id].versions.len(), 1);
    assert!(table.shared()[0].rendered.is_none());
    table.rendered(version.id, rendered(1));
    assert!(table.shared()[0].rendered.is_some());
}

#[test]
fn a_part_that_differs_on_every_page_is_not_shared() {
    let table = FragmentTable::default();
    let held: Vec<_> = (0..)
        .map_while(|digest| table.version(0, &part("d", "a"), digest))
        .take(MAX_VERSIONS + 1)
        .collect();
    assert_eq!(held.len(), MAX_VERSIONS);
    drop(held);
    assert!(table.version(0, &part("d", "a"), 99).is_some());
}
