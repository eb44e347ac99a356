//! The scope and strength of a purge.

use super::error::{MAX_URL_BYTES, PurgeError};
use super::pattern::PurgePattern;
use crate::query;
use crate::route::canonical_host;
use crate::site::Policy;
use crate::tags::MAX_TAG_BYTES;
use crate::uri;

/// The effect of a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strength {
    /// The response is never sent again.
    Hard,
    /// The response is stale: it may be sent while one refresh runs.
    Soft,
}

impl Strength {
    /// The stable word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Hard => "hard",
            Self::Soft => "soft",
        }
    }
}

/// The responses that a purge covers, within its site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All responses.
    Site,
    /// All responses of one canonical host.
    Host(String),
    /// One URL: all its variants, both schemes.
    Url {
        /// The canonical host; `None`: any of the site's hosts.
        host: Option<String>,
        /// The canonical path.
        path: Vec<u8>,
        /// The normalized query.
        query: Option<Vec<u8>>,
    },
    /// A canonical path and all paths below it, by whole segments: `/shop` covers `/shop`, `/shop/` and `/shop/x`, not `/shopping`.
    Prefix(Vec<u8>),
    /// All responses with a tag.
    Tag(String),
    /// All responses in whose `path?query` this regular expression matches anywhere.
    Pattern(PurgePattern),
}

impl Scope {
    /// The length of its texts in bytes.
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::Site => 0,
            Self::Host(text) | Self::Tag(text) => text.len(),
            Self::Url { host, path, query } => {
                host.as_ref().map_or(0, String::len)
                    + path.len()
                    + query.as_ref().map_or(0, Vec::len)
            }
            Self::Prefix(path) => path.len(),
            Self::Pattern(pattern) => pattern.text().len(),
        }
    }
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

/// One purge.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Purge {
    /// The responses that it covers.
    pub scope: Scope,
    /// The effect on these responses.
    pub strength: Strength,
}

/// Parses the scope of one URL: `https://host/path?query`, or `/path?query` for any host. A fragment is dropped.
pub fn url_scope(text: &str, policy: &Policy) -> Result<Scope, PurgeError> {
    let text = limited(text)?;
    let text = text.split_once('#').map_or(text, |(before, _)| before);
    let target = uri::split(text.as_bytes())?;
    let host = target.authority.map(canonical_host).transpose()?;
    let mut path = Vec::new();
    uri::canonical_path(target.path, &mut path)?;
    let mut normal = Vec::new();
    if let Some(raw) = target.query {
        query::normalize(raw, policy, &mut normal);
    }
    Ok(Scope::Url {
        host,
        path,
        query: (!normal.is_empty()).then_some(normal),
    })
}

/// Parses the scope of a path and all paths below it, as users write it: `/shop`, `/shop/`. `/` is the whole site.
pub fn prefix_scope(text: &str) -> Result<Scope, PurgeError> {
    let target = uri::split(limited(text)?.as_bytes())?;
    let mut path = Vec::new();
    uri::canonical_path(target.path, &mut path)?;
    Ok(if path.iter().all(|&byte| byte == b'/') {
        Scope::Site
    } else {
        Scope::Prefix(path)
    })
}

/// The scope of a tag. A page with a longer tag has the tag `*` instead, so a longer one names no page.
pub fn tag_scope(tag: &str) -> Result<Scope, PurgeError> {
    if tag.len() > MAX_TAG_BYTES {
        return Err(PurgeError::TagTooLong);
    }
    Ok(Scope::Tag(tag.to_owned()))
}

fn limited(url: &str) -> Result<&str, PurgeError> {
    let url = url.trim();
    if url.len() > MAX_URL_BYTES {
        return Err(PurgeError::UrlTooLong);
    }
    Ok(url)
}
