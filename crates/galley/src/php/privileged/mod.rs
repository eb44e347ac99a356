//! PHP of other users under a Galley that has given up root: a small process keeps root, and does nothing but start, signal and
//! bury the programs that the configuration names.
//!
//! - `split`: before root is given up, [`PrivilegeSplit`] gathers what is to run as somebody else, and starts the process;
//! - `plan`: what both sides know from then on and nobody can change;
//! - `keep`: the process that keeps root ([`keep()`]); `step`: becomes a program's user, then the program ([`step()`]);
//! - `line`: Galley's end of the socket between the two; `door`: the way to a socket that PHP's own user has made.
//!
//! Neither of the two forks: the process is this program, started anew while there is nothing in its memory yet, so that it holds
//! no key and no byte of a client. Packets and which of them are obeyed are in the crate `galley_privileged`.
//!
//! Invariants: nothing of a client, of PHP or of Galley's later life reaches the process but packets; nothing that it runs
//! runs as root, and what runs is in the plan, which is sealed. It ends with Galley, and what it started ends with it.

mod door;
mod keep;
mod line;
mod plan;
mod split;
mod step;

pub(super) use door::SocketPath;
pub use keep::keep;
pub use line::KeeperChannel;
pub(super) use line::PrivilegedProcess;
use plan::COMMAND;
pub(super) use split::SplitItem;
pub use split::{KeeperShutdown, KeeperState, PrivilegeSplit, Privileged, PrivilegedPool};
pub use step::step;
