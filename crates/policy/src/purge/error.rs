//! Errors of purges, and the limits of one purge.

use std::fmt;

use crate::route::BadHost;
use crate::tags::MAX_TAG_BYTES;
use crate::uri::BadTarget;

/// Why a purge is invalid. The sender may see the text of `Display`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgeError {
    /// The URL is invalid.
    Target(BadTarget),
    /// The host of the URL is invalid.
    Host(BadHost),
    /// A purge by tags without a tag.
    NoTags,
    /// Tags or a pattern that are not UTF-8.
    NotText,
    /// A pattern longer than [`MAX_PATTERN_BYTES`].
    PatternTooLong,
    /// A pattern that needs more memory than permitted when it is compiled.
    PatternTooLarge,
    /// A pattern with the flag `u`.
    PatternUnicode,
    /// A pattern that is not a regular expression; with the reason.
    Pattern(String),
    /// A tag longer than a page's tags can be.
    TagTooLong,
    /// A URL or prefix longer than [`MAX_URL_BYTES`].
    UrlTooLong,
    /// More purges than [`MAX_PURGES`].
    TooMany,
    /// More patterns than [`MAX_PATTERNS`].
    TooManyPatterns,
    /// An invalid body.
    Body,
    /// A request that is not a purge.
    NoPurge,
}

impl fmt::Display for PurgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(why) => write!(f, "cannot read the URL: {why}"),
            Self::Host(why) => write!(f, "cannot read the host: {why}"),
            Self::NoTags => f.write_str("a purge by tags has to name a tag"),
            Self::NotText => f.write_str("tags and patterns have to be text"),
            Self::PatternTooLong => write!(f, "a pattern has at most {MAX_PATTERN_BYTES} bytes"),
            Self::PatternTooLarge => write!(
                f,
                "a compiled pattern has at most {} KiB: repeat less",
                COMPILED_BYTES / 1024
            ),
            Self::PatternUnicode => f.write_str(
                "a pattern cannot have the flag `u`: write other letters percent-encoded, as in addresses",
            ),
            Self::Pattern(why) => write!(f, "the pattern cannot be used: {why}"),
            Self::TagTooLong => write!(f, "a tag has at most {MAX_TAG_BYTES} bytes"),
            Self::UrlTooLong => write!(f, "a URL or prefix has at most {MAX_URL_BYTES} bytes"),
            Self::TooMany => write!(f, "at most {MAX_PURGES} purges at once"),
            Self::TooManyPatterns => write!(f, "at most {MAX_PATTERNS} patterns at once"),
            Self::Body => f.write_str(
                "cannot read the body: expected an object with `type`, `selectors` and `groups`",
            ),
            Self::NoPurge => f.write_str("this request contains no purge"),
        }
    }
}

impl std::error::Error for PurgeError {}

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

impl From<BadTarget> for PurgeError {
    fn from(why: BadTarget) -> Self {
        Self::Target(why)
    }
}

impl From<BadHost> for PurgeError {
    fn from(why: BadHost) -> Self {
        Self::Host(why)
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
