//! The durable log of purges, which keeps purges through `kill -9`, a power cut and a restart.
//!
//! One log serves all sites; each record has the name of its site. So purges of different sites share an fdatasync, and all
//! entries on the disk belong to one [`Generation`]. The price: damage to the log invalidates the stored entries of all
//! sites.
//!
//! A purge is published in memory first, then written. It may be acknowledged when its [`DurableTicket`] is ready; a reader
//! that applies it before does no harm. [`PurgeLog::open`] returns every acknowledged purge, or a new generation that
//! invalidates everything stored before; never less. Counters begin each run `GAP` above every number in the log, because
//! purges that were published and never reached the disk used numbers too, and what was stored under those must not look
//! newer than the purges to come. If the log cannot be written, purges still take effect in memory, and tickets report the
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
pub use self::format::{Generation, Logged};
pub use self::purge_log::{LogContents, OpenedLog, Published, PurgeLog};
pub use self::record::PurgeRecord;
pub use self::ticket::{Durability, DurableTicket, Loss, Restart};
