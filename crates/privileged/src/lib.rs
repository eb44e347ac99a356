//! The protocol between Galley, which has given up root, and a small process that keeps it: commands in one direction, reports
//! in the other.
//!
//! - [`PrivilegedCommand`] and [`Report`]: packets of [`BYTES`] bytes each;
//! - [`PrivilegedPools`]: decides which commands are executed. The process that keeps root trusts no byte, because an attacker who
//!   controls Galley could have written it: a command can only name a pool by its number, a slot in it, or a process that
//!   a pool has.
//!
//! Pure and total functions: no I/O, no clock. The server's `php::privileged` executes the commands.

mod packet;
mod pools;

pub use packet::{BYTES, KillSignal, PrivilegedCommand, Report};
pub use pools::{CommandRefusal, PrivilegedPools, Running};
