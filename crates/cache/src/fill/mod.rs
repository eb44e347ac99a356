//! A response being received: one writer and any number of readers, on any threads and runtimes.
//!
//! Readers may join until the head is known. The head then decides whether everyone may read ([`FillSharing::Shared`]: the whole
//! body is kept, readers join at any time and never slow the writer down) or only one reader ([`FillSharing::Private`]: a
//! bounded window, with backpressure from a slow reader). A shared fill that exceeds its [`BodyRetention`] becomes a window, too: no
//! further reader can join, the body is not stored, and the present readers continue. Readers are woken, never polled.
//!
//! Code that passes on a fill should pass on a reader of it, so that the fill cannot close to readers in between.
//!
//! A fill does not decide whether a response may be shared or stored, and has no timeouts.

mod deferred;
mod handles;
mod parts;
mod readers;
mod state;
#[cfg(test)]
mod tests;

pub use self::handles::{Fill, FillReader, FillWriter, fill};
pub use self::parts::{BodyRetention, FillError, FillHead, FillRead, FillSharing, NoReaders};
