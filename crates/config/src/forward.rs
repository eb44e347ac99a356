//! Caches of other machines to which the purges of a site are forwarded.

use std::path::PathBuf;

use crate::upstream::HttpUpstream;

/// A cache of another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeForward {
    /// The kind of the cache.
    pub kind: ForwardKind,
    /// The address of the cache's API.
    pub server: HttpUpstream,
    /// The file with a token or key for the API.
    pub token_file: Option<PathBuf>,
    /// Whether purges are sent by the tags of pages.
    pub by_tag: bool,
}

/// The kind of a cache on another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardKind {
    /// Cloudflare, with the zone's id.
    Cloudflare(String),
    /// Fastly, with the service's id.
    Fastly(String),
    /// Bunny, with the pull zone's id.
    Bunny(String),
    /// A cache that accepts `PURGE`.
    Purge,
    /// A cache that accepts `BAN`.
    Ban,
    /// A Galley behind this one.
    Galley,
}
