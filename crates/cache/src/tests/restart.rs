//! The log, a crash of the machine or of the process, and the next run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use galley_policy::purge::{Purge, Scope, Strength};

use super::Without;
use super::actors::{SITE, draw, one_in};
use super::world::{Least, Shelved, World, composition};
use crate::entry::Entry;
use crate::log::tests::by_hand::{Directory, Turns};
use crate::purge_table::{PurgeTable, Validity};
use crate::sync::point;

/// The number of purges that a log keeps exactly: few, so that purges are folded.
const RECORDS: usize = 3;

/// The state after a crash.
pub(super) struct Crash {
    directory: Directory,
    shelf: Vec<Shelved>,
    least: Least,
}

impl Crash {
    /// Simulates a crash.
    pub(super) fn now(world: &World, directory: &Directory) -> Self {
        let choice = draw(16);
        let history = world.history();
        Self {
            directory: directory.after_crash(choice),
            shelf: history.shelf.clone(),
            least: history.durable,
        }
    }

    /// The next run. No entry on the disk is sent if an acknowledged purge touches it, and purges of this run are newer than
    /// all entries on the disk.
    pub(super) fn restart(&self, world: &World) {
        let (opened, _turns) = self.directory.open(RECORDS);
        let table = PurgeTable::with_ring([0, 64][draw(2)]);
        opened.replay(SITE, &table);
        let is_ours = |shelved: &&Shelved| {
            shelved.generation == opened.generation || world.is_without(Without::GenerationsCount)
        };
        let shelf: Vec<&Shelved> = self.shelf.iter().filter(is_ours).collect();
        for shelved in &shelf {
            let entry = Entry::new(shelved.parts.clone());
            if table.prove_waiting(&entry) != Validity::Purged {
                world.serve(&self.least, composition(&entry), "the disk");
            }
        }
        let everything = Purge {
            scope: Scope::Site,
            strength: Strength::Hard,
        };
        table.publish(&everything);
        for shelved in shelf {
            let entry = Entry::new(shelved.parts.clone());
            let standing = table.prove_waiting(&entry);
            if standing != Validity::Purged {
                let what = format!("{entry:?} outlived a purge of the next run: {standing:?}");
                world.history().breaks(what);
            }
        }
    }
}

pub(super) fn open(ring: usize) -> (Directory, crate::log::OpenedLog, Turns, PurgeTable) {
    let directory = Directory::default();
    let (opened, turns) = directory.open(RECORDS);
    let table = PurgeTable::with_ring(ring);
    opened.replay(SITE, &table);
    (directory, opened, turns, table)
}

/// Runs the log's writer until all actors have finished.
pub(super) fn write(mut turns: Turns, is_over: &Arc<AtomicBool>) {
    while !is_over.load(Ordering::Relaxed) {
        turns.turn();
        shuttle::thread::yield_now();
    }
    turns.turn();
}

/// Makes the disk fail for a while.
pub(super) fn trouble(directory: &Directory) {
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
