//! Purging by sequence numbers: a purge never searches.
//!
//! Each site has a counter of purges. A purge raises it and leaves its number with the scope it names; an entry
//! carries `born`, the counter from just before its upstream request. The entry is purged if a hard purge with a greater
//! number touches it, soft-stale if a soft one does. A hit compares one number: the counter with the one the entry was
//! last proved at. A purge costs the same for one page as for a million.
//!
//! The protocol: publishing is one short critical section that writes the tables and then stores the counter (release).
//! A reader loads the counter (acquire) after it has the whole request, and notes *that* value as proved, never a later
//! one. A hit takes no lock when nothing is newer, and only tries it otherwise: [`Validity::Unknown`] sends it the slow path.
//!
//! Not here: the durable log ([`crate::log`], which publishes through here) and removing purged entries (`Memory::sweep`).

mod mark;
mod table;
mod tables;
mod touching;

pub use galley_policy::decide::Validity;

pub use self::mark::Touch;
pub use self::table::{PurgeTable, Touched, Unlogged};
pub use self::touching::{PurgeKind, Touching};
