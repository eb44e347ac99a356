//! Programs that Galley runs itself (`php = "managed"`): PHP-FPM, or another FastCGI program. It writes the pool
//! configuration, starts it, fits it to the memory, keeps it running and ends it.
//!
//! - [`PhpSettings`]: the settings of a site; [`Managed`]: what runs for it; [`PoolNumbers`]: its figures;
//! - [`MemoryDivision`], `pool`, `binary`: how much fits, the configuration text, which program. Pure decisions;
//! - `watch` observes the workers with `meter` and `counted`, and decides with `estimate`;
//! - `sandbox`: the folders that a confined PHP-FPM may access;
//! - [`privileged`]: programs of other users, if Galley has given up root;
//! - `master`: one PHP-FPM from its start to its end, and the cleanup afterwards; `program`: the processes of another
//!   FastCGI program; [`lacks`]: PHP modules that WordPress needs and PHP does not have.
//!
//! Invariant: however Galley ends, also by SIGKILL, none of its PHP processes is left behind. How requests reach the socket
//! is decided elsewhere.

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
mod sandbox;
mod settings;
#[cfg(test)]
mod tests;
mod watch;
mod watcher;

pub use budget::{MachineMemory, MemoryDivision};
pub use handover::{ManagedOffer, MasterHandles, Ownership};
pub use managed::Managed;
pub use master_state::MasterState;
pub use modules::lacks;
pub use numbers::PoolNumbers;
pub use settings::{PhpSettings, PhpStartError};
