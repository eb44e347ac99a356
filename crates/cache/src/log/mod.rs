//! The durable purge log, which keeps purges after `kill -9`, a power failure and a restart.
//!
//! One log serves all sites; each record contains the name of its site. So purges of different sites share an fdatasync, and
//! all entries on the disk belong to one [`Generation`]. The drawback: damage to the log invalidates the stored entries of
//! all sites.
//!
//! A purge is published in memory first, then written. It may be acknowledged when its [`DurableTicket`] is ready; a reader
//! that applies it earlier does no harm. [`PurgeLog::open`] returns every acknowledged purge, or a new generation that
//! invalidates everything stored before; never less. Counters begin each run `GAP` above every number in the log, because
//! purges that were published but not written used numbers, too, and entries stored under those numbers must not appear
//! newer than later purges. If the log cannot be written, purges still take effect in memory, and tickets report the
//! failure.

mod error;
mod files;
mod fold;
mod format;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod limits;
mod purge_log;
mod queue;
mod record;
mod scan;
#[cfg(test)]
pub(crate) mod tests;
mod ticket;
mod writer;

pub use self::error::OpenError;
pub use self::format::{Generation, LoggedPurge};
pub use self::purge_log::{LogContents, OpenedLog, Published, PurgeLog};
pub use self::record::PurgeRecord;
pub use self::ticket::{Durability, DurableTicket, NotDurable, RestartEffect};
