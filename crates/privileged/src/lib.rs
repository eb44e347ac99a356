//! What Galley, which has given up root, may ask of the small process that keeps it, and what that answers.
//!
//! - [`PrivilegedOrder`] and [`Report`]: packets of [`BYTES`] bytes each, either way;
//! - [`PoolLedger`]: which orders are obeyed. The process that keeps root takes every byte for hostile, since whoever has taken over
//!   Galley writes them: an order names a pool by its number, a place in it, or a process that the ledger knows, and nothing else.
//!
//! Pure and total: no I/O, no clock. What an order comes to is carried out in the server's `php::privileged`.

mod ledger;
mod packet;

pub use ledger::{OrderRefusal, PoolLedger};
pub use packet::{BYTES, How, PrivilegedOrder, Report};
