//! Purging by sequence numbers: a purge never searches.
//!
//! Each site has a counter of purges. A purge increments it and records the new number with its scope. An entry contains `born`,
//! the counter from just before its upstream request. The entry is purged if a hard purge with a greater number touches it,
//! and soft-purged if a soft one does. A hit compares two numbers: the counter, and the counter at the time when the entry was
//! last compared with the purges. A purge of one page costs the same as a purge of a million pages.
//!
//! The protocol: publishing is one short critical section that writes the tables and then stores the counter (release). A
//! reader loads the counter (acquire) after it has received the whole request, and records *that* value for the entry, never a
//! later one. A hit takes no lock if there is no newer purge, and otherwise only tries to lock: [`Validity::Unknown`] sends it
//! to the slow path.
//!
//! Not here: the durable log ([`crate::log`], which publishes through this module) and the removal of purged entries
//! (`Memory::sweep`).

mod matching_purge;
mod purge_scope;
mod table;
mod tables;

pub use galley_policy::decide::Validity;

pub use self::matching_purge::{MatchingPurge, PurgeKind};
pub use self::purge_scope::PurgeSubject;
pub use self::table::{FillPurgeState, PurgeTable, UnloggedPurgeTable};
pub(crate) use self::tables::MAX_SITE_PATTERNS;
