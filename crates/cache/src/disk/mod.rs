//! The store on disk: plain files, one for each entry, that survive a restart.
//!
//! Invariants: every byte is verified before it is returned (a damaged file is a miss); an entry never replaces one that
//! was born later; limits hold when space is reserved, before anything is written; an error of the disk is never more than
//! a value. After a start, while the files are being counted, entries are read but none is stored. An entry may be served
//! only after `PurgeTable::prove`, because purges do not visit files.
//!
//! All methods block and are meant for a few helper threads. The lock around the index is held for microseconds, never
//! during a system call. This module starts no thread and reads the clock only once, at the start: the caller calls and
//! paces each step, and `now` is an argument.

mod files;
mod format;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod handover;
mod health;
mod index;
mod layout;
mod moment;
mod pieces;
mod place;
mod read;
mod seal;
mod shared;
mod snapshot;
#[cfg(test)]
mod tests;
mod upkeep;
pub(super) mod write;

pub use self::handover::{PageReader, PageWriter, read_record, write_record};
pub use self::health::{Health, PauseReason};
pub use self::layout::BLOCK;
pub use self::moment::DiskClock;
pub use self::pieces::{BodyPieces, DiskReadError};
pub use self::read::{DiskLookup, OnDisk};
pub use self::seal::{FileName, SiteId, SiteName};
pub use self::shared::{Disk, DiskLimits, DiskUsage};
pub use self::upkeep::{HeaderView, ScanProgress, Swept};
pub use self::write::{EntryWriter, NotStored};
