//! Purging by sequence numbers: a purge never searches.
//!
//! Each site has a counter of purges. A purge raises it and records its number with its scope. An entry carries `born`, the
//! counter from just before its upstream request. The entry is purged if a hard purge with a greater number touches it, and
//! soft-stale if a soft one does. A hit compares one number: the counter with the one at which the entry was last proved. A
//! purge of one page costs the same as one of a million.
//!
//! The protocol: publishing is one short critical section that writes the tables and then stores the counter (release). A
//! reader loads the counter (acquire) after it has received the whole request, and records *that* value as proved, never a
//! later one. A hit takes no lock if nothing is newer, and otherwise only tries it: [`Validity::Unknown`] sends it to the
//! slow path.
//!
//! Not here: the durable log ([`crate::log`], which publishes through here) and the removal of purged entries
//! (`Memory::sweep`).

mod mark;
mod table;
mod tables;
mod touching;

pub use galley_policy::decide::Validity;

pub use self::mark::Touch;
pub use self::table::{PurgeTable, Touched, Unlogged};
pub use self::touching::{PurgeKind, Touching};
