//! The primitives in which threads meet and in which the purge protocol shows: the standard library's.
//!
//! In this crate's own tests they are the same with a point before each use, at which the tests of interleavings let
//! another thread go on (`crate::tests`). Outside of such a test a point does nothing. In tests of memory purges the
//! numbers are loom's.

#[cfg(not(test))]
pub(crate) use std::sync::atomic::AtomicU64;
#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, RwLock};

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use self::tests::{AtomicU64, Mutex, RwLock, model, point, sticks};
