//! Reads and checks certificate files.
//!
//! A [`CertificateChain`] is a chain with its key, ready for handshakes; a [`CertificateError`] is the reason why a file does not
//! contain one. The configuration check uses this crate before a start, and the server at a start and whenever a file has
//! changed, so both report the same. The files are untrusted: sizes are limited, and parsing handles any bytes. Nothing is
//! logged, and no key is shown. Whether a chain leads to a trusted authority is not checked: clients decide that.

mod chain;
pub mod file;
mod names;
mod read;

pub use chain::{CertificateChain, CertificateError, DateValidity, MAX_BYTES, SOON};
pub use names::CertificateNames;
pub use read::{CertificateFileError, CertificateFiles, CertificatePem, read, read_roots};

#[cfg(test)]
mod tests;
