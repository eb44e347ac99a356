//! The synchronization primitives of the purge protocol: those of the standard library.
//!
//! In this crate's own tests, a scheduling point precedes each use, at which tests of interleavings may switch to another thread
//! (`crate::tests`). Outside of such a test the point does nothing. In tests of memory ordering the atomics are loom's.

#[cfg(not(test))]
pub(crate) use std::sync::atomic::AtomicU64;
#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, RwLock};

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use self::tests::{AtomicU64, Mutex, RwLock, model, point, set_points_per_switch};
