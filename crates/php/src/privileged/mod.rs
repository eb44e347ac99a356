//! PHP of other users under a Galley that has given up root: a small privileged process keeps root, and only starts, signals
//! and reaps the programs that the configuration names.
//!
//! - `split`: before root is given up, [`PrivilegeSplit`] collects the programs of other users, and starts the privileged process;
//! - `plan`: the sealed plan that both processes know from then on;
//! - `keep`: the privileged process ([`keep()`]); `step`: becomes a program's user, then the program ([`step()`]);
//! - `line`: Galley's end of the socket between the two processes, `connections`: the other end; `shutdown`: ends the
//!   privileged process; `inherit`: hands it over to another Galley;
//! - `socket_path`: the path to a socket that PHP's own user has created.
//!
//! Neither process forks: the privileged process is this program, executed again while its memory is still empty, so that it
//! contains no key and no data of a client. The crate `galley_privileged` defines the packets and decides which ones are
//! executed.
//!
//! Invariants: the privileged process receives only packets from Galley, never data of a client or of PHP; none of its children
//! runs as root, and all of them are in the plan, which is sealed. It ends with Galley, or with the last Galley if
//! another has taken over, and its programs end with it.

mod connections;
mod inherit;
mod keep;
mod line;
mod plan;
mod shutdown;
mod socket_path;
mod split;
mod step;

pub use inherit::{KeeperOffer, PrivilegedPoolOffer, SocketOffer};
pub use keep::keep;
pub use line::KeeperChannel;
pub(super) use line::PrivilegedProcess;
use plan::COMMAND;
pub use shutdown::{KeeperShutdown, KeeperState};
pub(super) use socket_path::SocketPath;
pub(super) use split::SplitItem;
pub use split::{PrivilegeSplit, Privileged, PrivilegedPool};
pub use step::step;
