//! The disk cache: one plain file per entry. Entries survive a restart.
//!
//! Invariants: every byte is verified before it is returned (a damaged file is a miss); an entry never replaces one with a
//! greater `born`; limits are checked when space is reserved, before anything is written; an error of the disk is returned as a
//! value. After a start, while the files are being counted, entries are read but not stored. An entry may be sent only
//! after `PurgeTable::validity`, because purges do not access the files.
//!
//! All methods block and are meant for a few helper threads. The lock of the index is held for microseconds, never
//! during a system call. This module starts no thread and reads the clock only once, at the start: the caller runs and
//! paces each step, and `now` is an argument.

mod files;
mod format;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod handover;
mod health;
mod index;
mod layout;
mod maintenance;
mod moment;
mod pieces;
mod place;
mod read;
mod seal;
mod shared;
mod snapshot;
#[cfg(test)]
mod tests;
pub(super) mod write;

pub use self::handover::{PageReader, PageWriter, read_record, write_record};
pub use self::health::{Health, PauseReason};
pub use self::layout::BLOCK;
pub use self::maintenance::{HeaderView, ScanProgress, SweepResult};
pub use self::moment::DiskClock;
pub use self::pieces::{BodyPieces, DiskReadError};
pub use self::read::{DiskLookup, OnDisk};
pub use self::seal::{FileName, SiteId, SiteName};
pub use self::shared::{Disk, DiskLimits, DiskUsage};
pub use self::write::{EntryWriter, NotStored};
