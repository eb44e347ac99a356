//! Why a request is rejected, and the status of the response.

/// A request that breaks the rules of framing. The connection ends with it: after a rejection the beginning of the next
/// request is unknown, so the bytes behind it are never examined (RFC 9112 section 9.6 and 11.2).
///
/// `Display` is fit for the client: it names the rule, never the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BadRequest {
    /// A line that ends with LF alone (RFC 9112 section 2.2 permits to accept it; smuggling lives off it).
    #[error("line feed without carriage return")]
    BareLineFeed,
    /// No request line of the form `method SP target SP version`, or a stray control character in it.
    #[error("malformed request line")]
    RequestLine,
    /// A method longer than any that exists (RFC 9112 section 3: 501).
    #[error("unknown method")]
    Method,
    /// A target in none of the four forms, or with bytes outside of visible ASCII, or with a bad authority.
    #[error("malformed request target")]
    Target,
    /// A target longer than the limit.
    #[error("request target too long")]
    TargetTooLong,
    /// Neither HTTP/1.0 nor HTTP/1.1.
    #[error("unsupported HTTP version")]
    Version,
    /// A field line with a bad name, white space before the colon, a folded line or a control character.
    #[error("malformed header field")]
    Field,
    /// More field lines than the limit.
    #[error("too many header fields")]
    TooManyFields,
    /// A head longer than the limit; known as soon as the limit is passed.
    #[error("request head too large")]
    HeadTooLarge,
    /// Host missing in HTTP/1.1, given twice, empty, or not a host.
    #[error("missing or malformed host")]
    Host,
    /// Content-Length twice, as a list, or not `1*DIGIT` within range.
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
    /// A bad chunk size, or anything but CRLF where CRLF must stand.
    #[error("malformed chunk")]
    Chunk,
    /// A malformed chunk extension, or more extension bytes in one message than the limit.
    #[error("bad chunk extension")]
    ChunkExtension,
    /// A malformed trailer line.
    #[error("malformed trailer field")]
    Trailer,
    /// More bytes of trailers than the limit.
    #[error("trailer section too large")]
    TrailersTooLarge,
    /// A body longer than the limit; known from Content-Length or a chunk's size, before its bytes.
    #[error("request body too large")]
    BodyTooLarge,
}

impl BadRequest {
    /// The status to answer with.
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
