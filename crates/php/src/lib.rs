//! Programs that Galley runs itself (`php = "managed"`): PHP-FPM, or another FastCGI program. Galley writes the pool
//! configuration, starts the program, adapts it to the memory, restarts it after a crash and ends it.
//!
//! - [`PhpSettings`]: the settings of a site; [`Managed`]: the running program; [`PoolNumbers`]: its figures;
//! - [`MemoryDivision`], `pool`, `binary`: the sizes, the text of the configuration, the choice of the binary. Pure decisions;
//! - `watch` observes the workers with `meter` and `counted`, and decides with `estimate`;
//! - `sandbox`: the folders that a sandboxed PHP-FPM may access;
//! - [`privileged`]: programs of other users, if Galley has given up root;
//! - `master`: one PHP-FPM from its start to its end, and the cleanup afterwards; `program`: the processes of another
//!   FastCGI program; [`lacks`]: PHP modules that WordPress needs and PHP does not have.
//!
//! Invariant: however Galley ends, including by SIGKILL, none of its PHP processes remains. How requests reach the socket
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
mod pool;
mod prepare;
pub mod privileged;
mod process;
mod profile;
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
