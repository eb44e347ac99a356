//! What survives a restart: purges in a log, pages on the disk.
//!
//! [`SitePurges`] publishes a site's purges and says when they may be acknowledged; [`DiskCache`] keeps pages behind the
//! memory. Both blocks of the disk's work run on helper threads and on two threads of their own; nothing a visitor waits
//! for waits for a write, and a look-up that the disk holds up is given up as a miss. Without a folder for it, purges and
//! pages live in memory and end together.

mod disk_cache;
mod forward;
mod open;
mod page_markers;
mod purges;
mod queue;
mod receipt;
mod recent_purges;
mod recorder;
mod relay;

pub use disk_cache::{DiskCache, DiskCacheTotals, SiteDiskCache};
pub use forward::{ForwardInbox, ForwardInboxes, ForwardNeeds, ForwardedPurge, OutboxFolder};
pub use open::{Durable, Settings, StorageOpenError};
pub use page_markers::{FolderOwner, PageMarkers};
pub use purges::SitePurges;
pub use receipt::{PurgeReceipt, Receipt};
pub use recent_purges::{PurgeSource, RecentPurge};
pub use recorder::Recorder;
pub use relay::{PurgeRelay, RelayedPurge, RelayedPurges};
