//! What Galley runs itself (`php = "managed"`): PHP-FPM, or another FastCGI program. It writes the pool, starts it, fits it to
//! the memory, keeps it alive and ends it.
//!
//! - [`PhpSettings`]: what a site wants; [`Managed`]: what runs for it; [`PoolNumbers`]: what is known of it;
//! - [`MemoryDivision`], `pool`, `binary`: how much fits, the configuration text, which program. Pure decisions;
//! - `watch` looks at the workers with `meter` and `counted`, and decides with `estimate`;
//! - [`privileged`]: what runs as other users where Galley has given up root;
//! - `master`: one PHP-FPM from its start to its end, and what is left of it afterwards; `program`: the processes of another
//!   FastCGI program; [`lacks`]: what PHP has not that WordPress needs.
//!
//! Invariant: whatever ends Galley, SIGKILL too, no PHP process of ours is left behind. How requests reach the socket is
//! not decided here.

mod backoff;
mod binary;
mod budget;
mod counted;
mod estimate;
mod handover;
mod log;
mod managed;
mod master;
mod master_state;
mod meter;
mod modules;
mod numbers;
mod outlook;
mod pool;
mod prepare;
pub mod privileged;
mod process;
mod program;
mod settings;
#[cfg(test)]
mod tests;
mod watch;
mod watcher;

pub use budget::{MachineMemory, MemoryDivision};
pub use handover::{ManagedOffer, MasterHandles, Ownership};
pub use managed::{Managed, socket_of};
pub use master_state::MasterState;
pub use modules::lacks;
pub use numbers::PoolNumbers;
pub use settings::{PhpSettings, PhpStartError};
