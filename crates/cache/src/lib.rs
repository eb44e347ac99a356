//! Entries in memory, fills, and purging by sequence numbers.
//!
//! [`entry::Entry`] is one stored response, found by its [`key::Key`] in [`memory::Memory`]. [`purge_table::PurgeTable`]
//! says whether it may still be served: a purge searches nothing, it raises numbers that entries are compared with.
//! [`private::PrivateStore`] holds the private parts that members see in such responses. [`fill::Fill`] is a response being
//! received, with one writer and many readers. [`budget::MemoryBudget`] is the one memory limit for all of them.
//! [`source::EntrySource`] is the file that an entry was made from. [`disk::Disk`] keeps entries through a restart, and
//! [`log::PurgeLog`] keeps purges through a crash.
//!
//! Nothing here reads the wall clock or depends on a runtime, and only the log has a thread. Freshness is decided in
//! `galley_policy::decide`.

pub mod body;
pub mod budget;
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
mod plain_body;
pub mod private;
pub mod purge_table;
mod scopes;
mod site_shares;
pub mod source;
mod sync;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod validity;
