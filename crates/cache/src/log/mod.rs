//! The durable log of purges: what makes a purge outlive `kill -9`, a power cut and a restart.
//!
//! One log for all sites, each record with its site's name: purges of different sites share an fdatasync, and entries on
//! the disk have one [`Generation`] to be of. The price: damage costs all sites what is stored.
//!
//! A purge is published in memory first, then written; it may be acknowledged when its [`DurableTicket`] is ready. A reader that
//! applies it in between does no harm. [`PurgeLog::open`] gives back every acknowledged purge, or a new generation, under which
//! nothing stored before counts; never fewer. Counters begin each run `GAP` above every number in the log: purges that were
//! published and never reached the disk used numbers too, and what was stored under these must not look newer than the
//! purges to come. If the log cannot be written, purges are in force all the same, and tickets say so.

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
