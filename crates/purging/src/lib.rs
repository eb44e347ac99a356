//! Data that survives a restart: purges in a log, pages on the disk.
//!
//! [`SitePurges`] publishes a site's purges and reports when they may be acknowledged; [`DiskCache`] stores pages on the disk.
//! Helper threads and two dedicated threads access the disk. No visitor waits for a write, and a lookup that the disk delays
//! counts as a miss. Without a folder, purges and pages exist only in memory and are lost together.
//!
//! [`PageMarkers`] tells programs that purge nginx's cache which pages are stored; [`purge_forward`] passes purges on to caches of other machines.
//!
//! This crate never decides what a request or a response purges: `galley_policy::purge` does.

mod disk_cache;
mod forward;
mod open;
mod page_markers;
mod purge_budget;
pub mod purge_forward;
mod purges;
mod queue;
mod receipt;
mod recent_purges;
mod recorder;
mod relay;
mod scope_match;

pub use disk_cache::{DiskCache, DiskCacheTotals, SiteDiskCache};
pub use forward::{ForwardInbox, ForwardInboxes, ForwardNeeds, ForwardedPurge, OutboxFolder};
pub use open::{Durable, Settings, StorageOpenError};
pub use page_markers::{FolderOwner, PageMarkers};
pub use purges::SitePurges;
pub use receipt::{PurgeReceipt, Receipt};
pub use recent_purges::{CountablePurge, PurgeSource, PurgedPages, RecentPurge};
pub use recorder::Recorder;
pub use relay::{PurgeRelay, RelayedPurge, RelayedPurges};
pub use scope_match::{MAX_COUNT_STEPS, ScopeMatch};
