//! Why a block could not be decoded.

/// A block that could not be decoded completely. Later blocks of the connection cannot be decoded, either (RFC 7541
/// section 2.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HpackError {
    /// `COMPRESSION_ERROR`.
    #[error("the header block is malformed")]
    Malformed,
    /// The fields have several times as many bytes as should be kept: no real client sends that, and repeating a long field
    /// costs the client one byte.
    #[error("the header block is far too large")]
    TooLarge,
}
