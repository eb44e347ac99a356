//! Certificate files: read, checked, and what they are good for.
//!
//! A [`CertificateChain`] is a chain with the key that belongs to it, ready for handshakes; what cannot be one is a [`CertificateError`] with
//! its reason. The configuration asks before a start, the server at a start and whenever a file has changed, so both say the
//! same. Every byte of a file counts as foreign: sizes are bounded, parsing is total. Nothing is logged, no key is shown.
//! Whether a chain leads to an authority is not looked at: that is for clients to judge.

mod chain;
pub mod file;
mod names;
mod read;

pub use chain::{CertificateChain, CertificateError, DateValidity, MOST_BYTES, SOON};
pub use names::CertificateNames;
pub use read::{CertificateFiles, read, read_roots};

#[cfg(test)]
mod tests;
