//! The synchronization primitives of the purge protocol: the standard library's.
//!
//! In this crate's own tests, a scheduling point precedes each use, at which tests of interleavings let another thread run
//! (`crate::tests`). Outside of such a test a point does nothing. In tests of memory purges the atomics are loom's.

#[cfg(not(test))]
pub(crate) use std::sync::atomic::AtomicU64;
#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, RwLock};

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use self::tests::{AtomicU64, Mutex, RwLock, model, point, sticks};
