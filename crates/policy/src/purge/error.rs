//! Errors of purges, and the limits of one purge.

use std::fmt;

use crate::route::BadHost;
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
    /// A pattern that is not a regular expression, or one that becomes too large when it is compiled; with the reason.
    Pattern(String),
    /// More tags than [`MAX_PURGES`].
    TooMany,
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
            Self::Pattern(why) => write!(f, "the pattern cannot be used: {why}"),
            Self::TooMany => write!(f, "at most {MAX_PURGES} tags at once"),
            Self::Body => f.write_str(
                "cannot read the body: expected an object with `type`, `selectors` and `groups`",
            ),
            Self::NoPurge => f.write_str("this request contains no purge"),
        }
    }
}

impl std::error::Error for PurgeError {}

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

/// The maximum number of tags in one request or response. A response with more tags purges the whole site.
pub const MAX_PURGES: usize = 1024;

/// The maximum length of a pattern in bytes; typical ones are shorter than a hundred.
pub const MAX_PATTERN_BYTES: usize = 1024;
