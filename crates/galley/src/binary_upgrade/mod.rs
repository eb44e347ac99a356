//! The messages between two processes during an upgrade without downtime.
//!
//! The old process starts the new program and hands over its sockets and its PHP-FPM. When the new process has prepared every step
//! that may fail, the old one closes the disk cache and hands over the pages in memory. From then on each sends its purges to the
//! other, until the old one has sent its last response. `docs/internals/upgrade.md` describes the order of the steps, and what
//! happens if a process ends between two of them. The steps themselves are in `app`.

mod certificates;
mod channel;
mod packet;
mod pages;
mod relay;

pub use certificates::{read_certificate, write_certificate};
pub use channel::{ENVIRONMENT, Predecessor, ReceivedMessage, UpgradeChannel};
pub use packet::{ListenerName, PoolOffer, PrivilegedPoolMessage, QuicHeritage, UpgradeMessage};
pub use pages::{PageSource, read_pages, write_pages};
pub use relay::exchange_purges;
