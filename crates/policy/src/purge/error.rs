//! Errors of purges, and the limits of one purge.

use crate::route::BadHost;
use crate::tags::MAX_TAG_BYTES;
use crate::uri::BadTarget;

/// Why a purge is invalid. The sender may see the text of `Display`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PurgeError {
    /// The URL is invalid.
    #[error("cannot read the URL: {0}")]
    Target(#[from] BadTarget),
    /// The host of the URL is invalid.
    #[error("cannot read the host: {0}")]
    Host(#[from] BadHost),
    /// A purge by tags without a tag.
    #[error("a purge by tags has to name a tag")]
    NoTags,
    /// Tags or a pattern that are not UTF-8.
    #[error("tags and patterns have to be text")]
    NotText,
    /// A pattern longer than [`MAX_PATTERN_BYTES`].
    #[error("a pattern has at most {MAX_PATTERN_BYTES} bytes")]
    PatternTooLong,
    /// A pattern that needs more memory than permitted when it is compiled.
    #[error("a compiled pattern has at most {} KiB: repeat less", COMPILED_BYTES / 1024)]
    PatternTooLarge,
    /// A pattern with the flag `u`.
    #[error(
        "a pattern cannot have the flag `u`: write other letters percent-encoded, as in addresses"
    )]
    PatternUnicode,
    /// A pattern that is not a regular expression; with the reason.
    #[error("the pattern cannot be used: {0}")]
    Pattern(String),
    /// A tag longer than a page's tags can be.
    #[error("a tag has at most {MAX_TAG_BYTES} bytes")]
    TagTooLong,
    /// A URL or prefix longer than [`MAX_URL_BYTES`].
    #[error("a URL or prefix has at most {MAX_URL_BYTES} bytes")]
    UrlTooLong,
    /// More purges than [`MAX_PURGES`].
    #[error("at most {MAX_PURGES} purges at once")]
    TooMany,
    /// More patterns than [`MAX_PATTERNS`].
    #[error("at most {MAX_PATTERNS} patterns at once")]
    TooManyPatterns,
    /// An invalid body.
    #[error("cannot read the body: expected an object with `type`, `selectors` and `groups`")]
    Body,
    /// A request that is not a purge.
    #[error("this request contains no purge")]
    NoPurge,
}

impl PurgeError {
    /// Whether the purge is valid but exceeds a limit. If its sender does not learn that, it purges the whole site: a purge is
    /// never dropped.
    pub const fn is_limit(&self) -> bool {
        match self {
            Self::PatternTooLong
            | Self::PatternTooLarge
            | Self::PatternUnicode
            | Self::TagTooLong
            | Self::UrlTooLong
            | Self::TooMany
            | Self::TooManyPatterns => true,
            Self::Target(_)
            | Self::Host(_)
            | Self::NoTags
            | Self::NotText
            | Self::Pattern(_)
            | Self::Body
            | Self::NoPurge => false,
        }
    }
}

/// The maximum number of purges in one request or response. A response or a plugin's request with more purges the whole site.
pub const MAX_PURGES: usize = 1024;

/// The maximum number of patterns among them: each is compiled, which takes up to a millisecond.
pub const MAX_PATTERNS: usize = 32;

/// The maximum length of a URL or prefix in bytes: that of the longest addresses that browsers and servers usually accept.
pub const MAX_URL_BYTES: usize = 8 * 1024;

/// The maximum length of a pattern in bytes; typical ones are shorter than a hundred.
pub const MAX_PATTERN_BYTES: usize = 1024;

/// The maximum memory of one compiled pattern, in bytes: enough for any text of [`MAX_PATTERN_BYTES`] without repetition.
pub(super) const COMPILED_BYTES: usize = 64 * 1024;
