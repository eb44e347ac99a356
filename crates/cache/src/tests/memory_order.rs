//! Memory ordering of the counter and of the entries' validity, with every effect that weak memory permits.
//!
//! A thread observes the actions of other threads only through the counter. The lock of the tables is real here and hides no
//! effect, because a reader does not wait if it is held.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use galley_policy::purge::{Purge, Scope, Strength};
use loom::sync::atomic::AtomicU64;
use loom::thread::spawn;

use crate::entry::Entry;
use crate::purge_table::{PurgeTable, Validity};
use crate::sync::model;
use crate::testing::entry;

fn purge(table: &PurgeTable, tag: &str) {
    let purge = Purge {
        scope: Scope::Tag(tag.to_owned()),
        strength: Strength::Hard,
    };
    table.publish(&purge);
}

fn page(born: u64) -> Entry {
    entry("a.test", "/", &["t"], born)
}

/// The counter is stored with release and loaded with acquire: a thread that uses a purge's number as `born` sees all changes
/// from before that purge. Otherwise, content older than its `born` would never be purged.
#[test]
fn an_entry_born_after_a_purge_sees_earlier_changes() {
    model(|| {
        let content = Arc::new(AtomicU64::new(0));
        let table = Arc::new(PurgeTable::new());
        let editor = {
            let (content, table) = (Arc::clone(&content), Arc::clone(&table));
            spawn(move || {
                content.store(1, Relaxed);
                purge(&table, "t");
            })
        };
        let born = table.current();
        let shown = content.load(Relaxed);
        editor.join().unwrap();
        let check_purged = table.validity_waiting(&page(born)) == Validity::Purged;
        assert!(shown == 1 || check_purged, "born at {born}");
    });
}

/// The relaxed writes of one reader to an entry do not mislead another one: after the acknowledgment the entry is purged.
#[test]
fn a_comparison_by_one_reader_does_not_mislead_another() {
    model(|| {
        let acknowledged = Arc::new(AtomicU64::new(0));
        let table = Arc::new(PurgeTable::new());
        let page = Arc::new(page(0));
        let editor = {
            let (acknowledged, table) = (Arc::clone(&acknowledged), Arc::clone(&table));
            spawn(move || {
                purge(&table, "other");
                purge(&table, "t");
                acknowledged.store(1, Release);
            })
        };
        let other = {
            let (table, page) = (Arc::clone(&table), Arc::clone(&page));
            spawn(move || table.validity(&page))
        };
        let is_purged = acknowledged.load(Acquire) == 1;
        let validity = table.validity(&page);
        if is_purged {
            // No thread holds the lock for writing any more.
            assert_eq!(validity, Validity::Purged);
        }
        editor.join().unwrap();
        assert_ne!(other.join().unwrap(), Validity::SoftPurged);
        assert_eq!(table.validity(&page), Validity::Purged);
    });
}
