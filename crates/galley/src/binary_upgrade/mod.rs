//! From one process to the next without a pause: what the two say to each other.
//!
//! The running process starts the new program and hands it its sockets and its PHP-FPM. When the new one has everything that may fail,
//! the old one lets go of the disk and hands over the pages of its memory; from then on each sends its purges to the other, until the
//! old one has answered its last request. `docs/internals/upgrade.md` tells the order of the steps, and what happens if a process
//! ends between two of them. Who does them is in `app`.

mod channel;
mod packet;
mod pages;
mod relay;

pub use channel::{ENVIRONMENT, Predecessor, Received, UpgradeChannel};
pub use packet::{ListenerName, PoolOffer, UpgradeMessage};
pub use pages::{PageSource, read_pages, write_pages};
pub use relay::{PurgeTables, exchange_purges};
