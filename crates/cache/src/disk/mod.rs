//! The store on disk: plain files, one per entry, that survive a restart.
//!
//! Invariants: what leaves was verified (a bad file is a miss); an entry never takes the place of one that was born
//! later; limits hold when space is reserved, before it is written; no error of the disk is more than a value. While
//! what is there is still being counted after a start, entries are read but none is stored. An entry may be served only
//! after `PurgeTable::prove`: files are not visited by purges.
//!
//! All methods block and are meant for a few helper threads; the lock around the index is held for microseconds, never
//! over a system call. No thread is started here and no clock read but once at the start: steps are called and paced
//! from outside, and `now` is an argument.

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
