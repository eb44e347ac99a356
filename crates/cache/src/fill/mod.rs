//! A response being received: one writer, any number of readers, on any threads and runtimes.
//!
//! Until the head is there, readers may join. The head then says whether everyone may read ([`FillSharing::Shared`]: all of it
//! is kept, readers join at any time and never hold the writer back) or one alone ([`FillSharing::Private`]: a bounded window,
//! and a slow reader holds the writer back). A shared fill that outgrows its [`Keep`] becomes a window too: nobody joins
//! any more, nothing is stored, those who are there read on. Readers are woken, never polled.
//!
//! Who hands a fill out should hand out a reader made by itself, so that joining cannot be closed in between.
//!
//! It does not decide what may be shared or stored, and has no timeouts.

mod after;
mod handles;
mod parts;
mod readers;
mod state;
#[cfg(test)]
mod tests;

pub use self::handles::{Fill, FillReader, FillWriter, fill};
pub use self::parts::{FillError, FillHead, FillRead, FillSharing, Finished, Keep, NoReaders};
