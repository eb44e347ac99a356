//! Caches of other machines that get the purges of a site.

use std::path::PathBuf;

use crate::upstream::HttpUpstream;

/// A cache of another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeForward {
    /// Its kind.
    pub kind: ForwardKind,
    /// The address of its interface.
    pub server: HttpUpstream,
    /// A file with its token or key.
    pub token_file: Option<PathBuf>,
    /// Whether it knows the tags of pages.
    pub by_tag: bool,
}

/// What a cache of another machine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardKind {
    /// Cloudflare, with the zone.
    Cloudflare(String),
    /// Fastly, with the service.
    Fastly(String),
    /// Bunny, with the pull zone.
    Bunny(String),
    /// One that takes `PURGE`.
    Purge,
    /// One that takes `BAN`.
    Ban,
    /// A Galley behind this one.
    Galley,
}
