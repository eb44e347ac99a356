//! Certificate files: read and verified.
//!
//! A [`CertificateChain`] is a chain with its key, ready for handshakes; a file that cannot become one is a
//! [`CertificateError`] with the reason. The configuration check uses it before a start, and the server at a start and
//! whenever a file has changed, so both report the same. Every byte of a file is untrusted: sizes are bounded, parsing is
//! total. Nothing is logged, and no key is shown. Whether a chain leads to a trusted authority is not checked: clients
//! decide that.

mod chain;
pub mod file;
mod names;
mod read;

pub use chain::{CertificateChain, CertificateError, DateValidity, MOST_BYTES, SOON};
pub use names::CertificateNames;
pub use read::{CertificateFileError, CertificateFiles, CertificatePem, read, read_roots};

#[cfg(test)]
mod tests;
