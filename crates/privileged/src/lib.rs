//! The commands that Galley, which has given up root, may send to the small process that keeps it, and the reports in
//! return.
//!
//! - [`PrivilegedOrder`] and [`Report`]: packets of [`BYTES`] bytes each, in either direction;
//! - [`PoolLedger`]: which commands are executed. The process that keeps root trusts no byte, since an attacker who has
//!   taken over Galley could write them: a command names a pool by its number, a place in it, or a process that the ledger
//!   knows, and nothing else.
//!
//! Pure and total: no I/O, no clock. The server's `php::privileged` executes the commands.

mod ledger;
mod packet;

pub use ledger::{OrderRefusal, PoolLedger, Running};
pub use packet::{BYTES, How, PrivilegedOrder, Report};
