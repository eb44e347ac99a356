//! The classes of a request that decisions distinguish: method, scheme, device, accepted type, cacheability.

use crate::outcome::{PassWhy, words};

/// The request methods. Names are case-sensitive (RFC 9110 section 9.1): `get` is `Other`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the methods' own names")]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Patch,
    Options,
    /// RFC 10008: safe, with a body that selects the response.
    Query,
    Purge,
    Ban,
    Trace,
    Connect,
    #[default]
    Other,
}

impl Method {
    /// The method of a name.
    pub fn parse(text: &str) -> Self {
        match text {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "DELETE" => Self::Delete,
            "PATCH" => Self::Patch,
            "OPTIONS" => Self::Options,
            "QUERY" => Self::Query,
            "PURGE" => Self::Purge,
            "BAN" => Self::Ban,
            "TRACE" => Self::Trace,
            "CONNECT" => Self::Connect,
            _ => Self::Other,
        }
    }

    /// Whether the method is safe (RFC 9110 section 9.2.1). Unknown methods are not.
    pub fn is_safe(self) -> bool {
        matches!(
            self,
            Self::Get | Self::Head | Self::Options | Self::Query | Self::Trace
        )
    }
}

/// The scheme of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Without TLS.
    #[default]
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    /// `http` or `https`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// 80 or 443.
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// The class of device for which a page is generated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Device {
    /// The site has one page for all devices.
    #[default]
    Any,
    /// Not a phone.
    Desktop,
    /// A phone or tablet, as WordPress recognizes them.
    Mobile,
}

words! {
    /// The class of `Accept`: what the client prefers. A page has at most one copy for each.
    #[derive(Default)]
    AcceptClass {
        /// Any other value, and no `Accept`.
        #[default]
        Page = "page",
        /// `*/json` or `*+json`: the client is an application.
        Json = "json",
        /// `application/activity+json` or `application/ld+json`: a server of the Fediverse.
        Activity = "activity",
        /// `text/markdown`: an agent.
        Markdown = "markdown",
    }
}

impl AcceptClass {
    /// The number in keys.
    pub const fn number(self) -> u8 {
        match self {
            Self::Page => 0,
            Self::Json => 1,
            Self::Activity => 2,
            Self::Markdown => 3,
        }
    }

    /// The class of a number in a key.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|class| class.number() == number)
    }

    /// The value of `Accept` that upstreams receive from every client of the class.
    pub const fn sent(self) -> &'static str {
        match self {
            Self::Page => "text/html,application/xhtml+xml,*/*;q=0.8",
            Self::Json => "application/json",
            Self::Activity => {
                "application/activity+json,application/ld+json;profile=\"https://www.w3.org/ns/activitystreams\""
            }
            Self::Markdown => "text/markdown,text/html;q=0.9,*/*;q=0.8",
        }
    }
}

/// Whether a request may use the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cacheability {
    /// The response may be looked up and stored.
    Cacheable,
    /// The request bypasses the cache: it is forwarded unchanged, and its response is not stored.
    Pass(PassWhy),
}

impl Default for Cacheability {
    /// The safe value: a request that was never parsed shares nothing.
    fn default() -> Self {
        Self::Pass(PassWhy::Method)
    }
}
