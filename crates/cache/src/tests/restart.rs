//! The log, a crash of the machine or of the process, and the next run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use galley_policy::purge::{Purge, Scope, Strength};

use super::Without;
use super::actors::{SITE, draw, one_in};
use super::world::{DiskEntry, Least, World, composition};
use crate::entry::Entry;
use crate::log::tests::by_hand::{Directory, ManualWriter};
use crate::purge_table::{PurgeTable, Validity};
use crate::sync::point;

/// The number of purges that a log keeps exactly: few, so that purges are folded.
const RECORDS: usize = 3;

/// The state after a crash.
pub(super) struct Crash {
    directory: Directory,
    disk: Vec<DiskEntry>,
    least: Least,
}

impl Crash {
    /// Simulates a crash.
    pub(super) fn now(world: &World, directory: &Directory) -> Self {
        let choice = draw(16);
        let history = world.history();
        Self {
            directory: directory.after_crash(choice),
            disk: history.disk.clone(),
            least: history.durable,
        }
    }

    /// The next run. No entry on the disk is sent if an acknowledged purge touches it, and purges of this run are newer than
    /// all entries on the disk.
    pub(super) fn restart(&self, world: &World) {
        let (opened, _turns) = self.directory.open(RECORDS);
        let table = PurgeTable::with_ring([0, 64][draw(2)]);
        opened.replay(SITE, &table);
        let is_ours = |disk_entry: &&DiskEntry| {
            disk_entry.generation == opened.generation
                || world.is_without(Without::GenerationsCount)
        };
        let disk: Vec<&DiskEntry> = self.disk.iter().filter(is_ours).collect();
        for disk_entry in &disk {
            let entry = Entry::new(disk_entry.parts.clone());
            if table.validity_waiting(&entry) != Validity::Purged {
                world.serve(&self.least, composition(&entry), "the disk");
            }
        }
        let everything = Purge {
            scope: Scope::Site,
            strength: Strength::Hard,
        };
        table.publish(&everything);
        for disk_entry in disk {
            let entry = Entry::new(disk_entry.parts.clone());
            let validity = table.validity_waiting(&entry);
            if validity != Validity::Purged {
                let what = format!("{entry:?} outlived a purge of the next run: {validity:?}");
                world.history().breaks(what);
            }
        }
    }
}

pub(super) fn open(ring: usize) -> (Directory, crate::log::OpenedLog, ManualWriter, PurgeTable) {
    let directory = Directory::default();
    let (opened, writer) = directory.open(RECORDS);
    let table = PurgeTable::with_ring(ring);
    opened.replay(SITE, &table);
    (directory, opened, writer, table)
}

/// Runs the log's writer until all actors have finished.
pub(super) fn write(mut writer: ManualWriter, has_ended: &Arc<AtomicBool>) {
    while !has_ended.load(Ordering::Relaxed) {
        writer.write_batch();
        shuttle::thread::yield_now();
    }
    writer.write_batch();
}

/// Makes the disk fail for a while.
pub(super) fn fail_for_a_while(directory: &Directory) {
    for fails in [true, false] {
        wait();
        directory.fails(fails && one_in(2));
    }
}

/// Lets some time pass.
pub(super) fn wait() {
    for _ in 0..draw(60) {
        point();
    }
}
