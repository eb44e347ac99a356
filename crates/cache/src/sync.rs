//! The synchronization primitives of the purge protocol: atomics and `RwLock` of the standard library, and [`Lock`].
//!
//! In this crate's own tests, a scheduling point precedes each use, at which tests of interleavings may switch to another thread
//! (`crate::tests`). Outside of such a test the point does nothing. In tests of memory ordering the atomics are loom's.

#[cfg(not(test))]
pub(crate) use std::sync::RwLock;
#[cfg(not(test))]
pub(crate) use std::sync::atomic::AtomicU64;

#[cfg(not(test))]
pub(crate) use galley_sys::Lock;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use self::tests::{AtomicU64, Lock, RwLock, model, point, set_points_per_switch};
