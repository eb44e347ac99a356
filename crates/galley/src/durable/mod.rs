//! What survives a restart: purge orders in a log, pages on the disk.
//!
//! [`Orders`] obeys a site's purge orders and tells when they may be acknowledged; [`Shelf`] keeps pages behind the
//! memory. Both blocks of the disk's work run on helper threads and on two threads of their own; nothing a visitor waits
//! for waits for a write, and a look-up that the disk holds up is given up as a miss. Without a folder for it, orders and
//! pages live in memory and end together.

mod open;
mod orders;
mod queue;
mod recorder;
mod shelf;

pub use open::{Durable, OpenError, Settings};
pub use orders::{Orders, Receipt, Told};
pub use recorder::Recorder;
pub use shelf::{Counted, Shelf, Shelved};
