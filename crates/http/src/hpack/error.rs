//! Why a block could not be decoded.

/// A block that was not read to its end. What follows on its connection cannot be read either (RFC 7541 section 2.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HpackError {
    /// `COMPRESSION_ERROR`.
    #[error("the header block is malformed")]
    Malformed,
    /// Its fields have several times as many bytes as were to be kept: no real client sends that, and repeating a long field
    /// costs its client one byte.
    #[error("the header block is far too large")]
    TooLarge,
}
