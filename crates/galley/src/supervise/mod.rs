//! The managed PHP-FPM (`php = "managed"`): Galley writes its pool, starts it, keeps it alive and ends it.
//!
//! - [`PhpSettings`]: what a site wants; [`Managed`]: its running PHP-FPM;
//! - `binary`, `size`: which program and how many workers; `pool`: the configuration text. Pure decisions;
//! - `master`: one process from its start to its end, and what is left of it afterwards.
//!
//! Invariant: whatever ends Galley, SIGKILL too, no PHP process of ours is left behind. How requests reach the socket is
//! not decided here.

mod backoff;
mod binary;
mod log;
mod managed;
mod master;
mod pool;
mod settings;
mod size;
#[cfg(test)]
mod tests;

pub use managed::{Life, Managed, socket_of};
pub use settings::{PhpSettings, StartError};
pub use size::workers;
