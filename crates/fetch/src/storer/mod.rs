//! What a fetch thread stores and finds: memory, disk, and the pages that the nodes of a cluster share.
//!
//! Only the files below touch the memory cache, the shared pages and the lease. [`Storer`] never sends a request and never waits for
//! one; the fetch decides what is received, and when.

mod caches;
pub mod hit_for_pass;
mod lookup;
pub mod rfc9111;
pub mod shared;
mod shared_rendering;
mod store;

pub(super) use caches::Storer;
pub(super) use shared_rendering::RenderingLookup;
pub(super) use store::StorePlan;
