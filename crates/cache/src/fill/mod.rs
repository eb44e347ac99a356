//! A response being received: one writer and any number of readers, on any threads and runtimes.
//!
//! Readers may join until the head is there. The head then decides whether everyone may read ([`FillSharing::Shared`]: the
//! whole body is kept, readers join at any time and never slow the writer down) or only one ([`FillSharing::Private`]: a
//! bounded window, with backpressure from a slow reader). A shared fill that exceeds its [`Keep`] becomes a window too:
//! nobody can join any more, nothing is stored, and the present readers read on. Readers are woken, never polled.
//!
//! The code that hands out a fill should hand out a reader that it made itself, so that the fill cannot close to readers in
//! between.
//!
//! A fill does not decide what may be shared or stored, and has no timeouts.

mod after;
mod handles;
mod parts;
mod readers;
mod state;
#[cfg(test)]
mod tests;

pub use self::handles::{Fill, FillReader, FillWriter, fill};
pub use self::parts::{FillError, FillHead, FillRead, FillSharing, Finished, Keep, NoReaders};
