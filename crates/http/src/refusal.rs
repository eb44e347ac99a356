//! Why a request is rejected, and the status of the response.

/// A request that violates the framing rules. The connection ends with it: after a rejection the start of the next request
/// is unknown, so the following bytes are never examined (RFC 9112 sections 9.6 and 11.2).
///
/// `Display` may be shown to the client: it names the rule, never the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BadRequest {
    /// A line that ends with LF alone (RFC 9112 section 2.2 permits accepting it, but request smuggling depends on it).
    #[error("line feed without carriage return")]
    BareLineFeed,
    /// No request line of the form `method SP target SP version`, or a control character in it.
    #[error("malformed request line")]
    RequestLine,
    /// A method longer than every registered one (RFC 9112 section 3: 501).
    #[error("unknown method")]
    Method,
    /// A target in none of the four forms, with bytes other than visible ASCII, or with an invalid authority.
    #[error("malformed request target")]
    Target,
    /// A target longer than the limit.
    #[error("request target too long")]
    TargetTooLong,
    /// Neither HTTP/1.0 nor HTTP/1.1.
    #[error("unsupported HTTP version")]
    Version,
    /// A field line with an invalid name, white space before the colon, a folded line or a control character.
    #[error("malformed header field")]
    Field,
    /// More field lines than the limit.
    #[error("too many header fields")]
    TooManyFields,
    /// A head longer than the limit; rejected as soon as the limit is exceeded.
    #[error("request head too large")]
    HeadTooLarge,
    /// Host is missing in HTTP/1.1, repeated, empty, or invalid.
    #[error("missing or malformed host")]
    Host,
    /// Content-Length is repeated, a list, or not `1*DIGIT` within range.
    #[error("malformed content length")]
    ContentLength,
    /// Transfer-Encoding in HTTP/1.0, malformed, or with something after `chunked`.
    #[error("malformed transfer encoding")]
    TransferEncoding,
    /// A well-formed transfer coding that is not `chunked`.
    #[error("unknown transfer coding")]
    UnknownCoding,
    /// Content-Length and Transfer-Encoding together.
    #[error("both content length and transfer encoding")]
    AmbiguousLength,
    /// An expectation other than `100-continue`.
    #[error("unknown expectation")]
    Expectation,
    /// An invalid chunk size, or other bytes where CRLF is required.
    #[error("malformed chunk")]
    Chunk,
    /// A malformed chunk extension, or more extension bytes in one message than the limit.
    #[error("bad chunk extension")]
    ChunkExtension,
    /// A malformed trailer line.
    #[error("malformed trailer field")]
    Trailer,
    /// A trailer section longer than the limit.
    #[error("trailer section too large")]
    TrailersTooLarge,
    /// A body longer than the limit; rejected by Content-Length or a chunk's size, before the bytes are received.
    #[error("request body too large")]
    BodyTooLarge,
}

impl BadRequest {
    /// The status of the response.
    pub fn status(self) -> u16 {
        match self {
            Self::BareLineFeed
            | Self::RequestLine
            | Self::Target
            | Self::Field
            | Self::Host
            | Self::ContentLength
            | Self::TransferEncoding
            | Self::AmbiguousLength
            | Self::Chunk
            | Self::ChunkExtension
            | Self::Trailer => 400,
            Self::BodyTooLarge => 413,
            Self::TargetTooLong => 414,
            Self::Expectation => 417,
            Self::TooManyFields | Self::HeadTooLarge | Self::TrailersTooLarge => 431,
            Self::Method | Self::UnknownCoding => 501,
            Self::Version => 505,
        }
    }
}
