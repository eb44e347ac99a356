//! The cache: entries in memory and on the disk, responses being received, and purging by sequence numbers.
//!
//! [`entry::Entry`] is one stored response; [`memory::Memory`] finds it by its [`key::Key`]. [`purge_table::PurgeTable`]
//! decides whether purges permit to send it: a purge does not search for entries but raises numbers that entries are compared
//! with. [`private::PrivateStore`] contains the private parts of such responses for logged-in members. [`fill::Fill`] is a
//! response being received, with one writer and many readers. [`budget::MemoryBudget`] is the memory limit that all of them
//! share. [`source::EntrySource`] is the file from which an entry was made. [`disk::Disk`] keeps entries across restarts, and
//! [`log::PurgeLog`] keeps purges across crashes.
//!
//! This crate does not read the wall clock and does not depend on a runtime. Only the log has a thread.
//! `galley_policy::decide` decides on freshness.

pub mod body;
pub mod budget;
pub mod dictionaries;
mod difference_room;
pub mod disk;
mod encoded;
pub mod entry;
mod fields;
pub mod fill;
pub mod fragment_table;
pub mod fragments;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod includes;
pub mod key;
pub mod log;
pub mod memory;
pub mod patch;
mod plain_body;
pub mod private;
pub mod purge_table;
mod scopes;
mod site_shares;
pub mod source;
pub mod splice;
mod sync;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod validity;
