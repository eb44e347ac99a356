//! The object cache of WordPress: what `wp_cache_set()` keeps between requests.
//!
//! [`ObjectCache`] is the listener on a thread of its own; nothing on the path of a page shares anything with it but counters. Below it
//! everything is pure and has no clock: [`PhpSession`] answers the messages of one PHP process from the [`ObjectSites`], each with its [`ObjectStore`] per
//! database and the [`Learner`] that knows which keys a request will read. The byte format is in [`wire`].
//!
//! The rule that keeps values current is that of pages: whoever stores a value names the counter at which it read (its *lease*), and the
//! store refuses the value if the key was changed since. `docs/internals/object-cache.md` has the protocol with its invariants.
//!
//! This crate never unserializes a value and never stores one on disk.

mod announcement;
mod connection;
mod database;
mod figures;
mod filter;
#[cfg(fuzzing)]
pub mod fuzzing;
mod handover;
mod learner;
mod listener;
mod numbers;
mod site;
mod sites;
mod store;
mod touches;
pub mod wire;

pub use announcement::{OtherNodes, PendingAnnouncement, RemoteChange, RemoteChanges};
pub use figures::{Figures, GroupCost, Reading};
pub use learner::Learner;
pub use listener::{ObjectCache, ObjectHandover};
pub use site::{ObjectCacheSettings, ObjectCacheSite};
pub use sites::{NodeState, ObjectSites, PhpAnswer, PhpSession, SessionRefused};
pub use store::{ChangeKind, ChangeOutcome, ObjectStore, ValueChange};
