//! Orders that content has changed, in the words of the plugins that exist.
//!
//! Reads `PURGE` and `BAN` requests, `GET /purge/..`, orders in an upstream's answer, and URLs as people write them, into
//! [`Purge`]s with a normalised [`Scope`]. URLs are normalised by the functions that requests are normalised by, so an
//! order names exactly what is stored. Where an order is vague, it is read as the wider one: purging too much costs a
//! composition, purging too little shows what was to be gone. Who may order is decided by the caller.

mod answer;
mod api;
mod dialect;
mod path;
mod pattern;
mod said;
mod tag_list;
mod unsafe_method;

use std::fmt;

pub use self::answer::{PURGE_FIELDS, from_answer, receipts};
pub use self::dialect::{DIALECTS, Dialect, DialectReply, orders_from_request};
pub use self::path::is_below_purge;
pub use self::pattern::{MAX_PATTERN_BYTES, PurgePattern};
pub use self::unsafe_method::invalidation;
use crate::query;
use crate::route::{BadHost, canonical_host};
use crate::site::SiteRules;
use crate::uri::{self, BadTarget};

/// What happens to what an order touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strength {
    /// It never answers again.
    Hard,
    /// It is stale: it may answer while one refresh runs.
    Soft,
}

/// What an order touches, within its site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Everything.
    Site,
    /// Everything of one canonical host.
    Host(String),
    /// One URL: all its variants, both schemes.
    Url {
        /// Canonical; `None`: whichever of the site's hosts.
        host: Option<String>,
        /// Canonical path.
        path: Vec<u8>,
        /// Normalised query.
        query: Option<Vec<u8>>,
    },
    /// A canonical path and all below it, by whole segments: `/shop` is `/shop`, `/shop/` and `/shop/x`, not `/shopping`.
    Prefix(Vec<u8>),
    /// Whatever depends on a thing.
    Tag(String),
    /// Whatever has this regular expression somewhere in its `path?query`.
    Pattern(PurgePattern),
}

impl std::fmt::Display for Scope {
    /// For logs, in the words of the command line.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match self {
            Self::Site => write!(out, "all"),
            Self::Host(host) => write!(out, "host {host}"),
            Self::Url { host, path, query } => {
                let host = host.as_deref().unwrap_or_default();
                write!(out, "url {host}{}", text(path))?;
                query
                    .as_ref()
                    .map_or(Ok(()), |query| write!(out, "?{}", text(query)))
            }
            Self::Prefix(path) => write!(out, "prefix {}", text(path)),
            Self::Tag(tag) => write!(out, "tag {}", tag.escape_debug()),
            Self::Pattern(pattern) => write!(out, "pattern {pattern}"),
        }
    }
}

/// One order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Purge {
    /// What it touches.
    pub scope: Scope,
    /// What happens to that.
    pub strength: Strength,
}

/// Why an order could not be read. `Display` gives a text that whoever sent it may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadOrder {
    /// The URL is none.
    Target(BadTarget),
    /// Its host is none.
    Host(BadHost),
    /// A purge by tags that names no tag.
    NoTags,
    /// Tags or a pattern that are no text.
    NotText,
    /// Longer than [`MAX_PATTERN_BYTES`].
    PatternTooLong,
    /// Not a regular expression, or one that grows too large; the text says why.
    Pattern(String),
    /// More tags than [`MAX_ORDERS`].
    TooMany,
    /// A body that is not what it should be.
    Body,
    /// A request that orders nothing.
    NoOrder,
}

impl fmt::Display for BadOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(why) => write!(f, "cannot read the URL: {why}"),
            Self::Host(why) => write!(f, "cannot read the host: {why}"),
            Self::NoTags => f.write_str("a purge by tags has to name a tag"),
            Self::NotText => f.write_str("tags and patterns have to be text"),
            Self::PatternTooLong => write!(f, "a pattern has at most {MAX_PATTERN_BYTES} bytes"),
            Self::Pattern(why) => write!(f, "the pattern cannot be used: {why}"),
            Self::TooMany => write!(f, "at most {MAX_ORDERS} tags at once"),
            Self::Body => f.write_str(
                "cannot read the body: an object with `type`, `selectors` and `groups` is wanted",
            ),
            Self::NoOrder => f.write_str("this request orders no purge"),
        }
    }
}

impl std::error::Error for BadOrder {}

impl From<BadTarget> for BadOrder {
    fn from(why: BadTarget) -> Self {
        Self::Target(why)
    }
}

impl From<BadHost> for BadOrder {
    fn from(why: BadHost) -> Self {
        Self::Host(why)
    }
}

/// The scope of one URL: `https://host/path?query`, or `/path?query` for whichever host. A fragment is left out.
pub fn url_scope(text: &str, site: &SiteRules) -> Result<Scope, BadOrder> {
    let text = text.trim();
    let text = text.split_once('#').map_or(text, |(before, _)| before);
    let target = uri::split(text.as_bytes())?;
    let host = target.authority.map(canonical_host).transpose()?;
    let mut path = Vec::new();
    uri::canonical_path(target.path, &mut path)?;
    let mut normal = Vec::new();
    if let Some(raw) = target.query {
        query::normalise(raw, site, &mut normal);
    }
    Ok(Scope::Url {
        host,
        path,
        query: (!normal.is_empty()).then_some(normal),
    })
}

/// The scope of everything at and below a path, as people write it: `/shop`, `/shop/`. `/` is the whole site.
pub fn prefix_scope(text: &str) -> Result<Scope, BadOrder> {
    let target = uri::split(text.trim().as_bytes())?;
    let mut path = Vec::new();
    uri::canonical_path(target.path, &mut path)?;
    Ok(if path.iter().all(|&byte| byte == b'/') {
        Scope::Site
    } else {
        Scope::Prefix(path)
    })
}

/// The most tags of one request or answer. Above it an answer's orders become one for the whole site.
pub const MAX_ORDERS: usize = 1024;
