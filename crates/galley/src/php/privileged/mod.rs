//! PHP of other users under a Galley that has given up root: a small process keeps root, and only starts, signals and reaps
//! the programs that the configuration names.
//!
//! - `split`: before root is given up, [`PrivilegeSplit`] collects the programs of other users, and starts the process;
//! - `plan`: what both sides know from then on and nobody can change;
//! - `keep`: the process that keeps root ([`keep()`]); `step`: becomes a program's user, then the program ([`step()`]);
//! - `line`: Galley's end of the socket between the two, `connections`: the other one; `shutdown`: its end; `inherit`: another
//!   Galley goes on with the process;
//! - `door`: the way to a socket that PHP's own user has created.
//!
//! Neither of the two forks: the process is this program, executed again while its memory is still empty, so that it holds
//! no key and no byte of a client. The crate `galley_privileged` defines the packets and which of them are executed.
//!
//! Invariants: the process receives nothing of a client, of PHP or of Galley's later life except packets; nothing that it
//! starts runs as root, and all that it starts is in the plan, which is sealed. It ends with Galley, or with the last one if
//! another has taken over, and its programs end with it.

mod connections;
mod door;
mod inherit;
mod keep;
mod line;
mod plan;
mod shutdown;
mod split;
mod step;

pub(super) use door::SocketPath;
pub use inherit::{KeeperOffer, PrivilegedPoolOffer, SocketOffer};
pub use keep::keep;
pub use line::KeeperChannel;
pub(super) use line::PrivilegedProcess;
use plan::COMMAND;
pub use shutdown::{KeeperShutdown, KeeperState};
pub(super) use split::SplitItem;
pub use split::{PrivilegeSplit, Privileged, PrivilegedPool};
pub use step::step;
