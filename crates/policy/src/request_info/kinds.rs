//! The classes of a request that decisions tell apart: method, scheme, device, accepted type, cacheability.

use crate::outcome::PassWhy;

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
    Purge,
    Ban,
    Trace,
    Connect,
    #[default]
    Other,
}

impl Method {
    /// The method of this name.
    pub fn parse(text: &str) -> Self {
        match text {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "DELETE" => Self::Delete,
            "PATCH" => Self::Patch,
            "OPTIONS" => Self::Options,
            "PURGE" => Self::Purge,
            "BAN" => Self::Ban,
            "TRACE" => Self::Trace,
            "CONNECT" => Self::Connect,
            _ => Self::Other,
        }
    }

    /// Whether it only reads (RFC 9110 section 9.2.1). Unknown methods are not safe.
    pub fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options | Self::Trace)
    }
}

/// How the client reached us.
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
    /// The site has one page for all.
    #[default]
    Any,
    /// Not a phone.
    Desktop,
    /// What WordPress takes for a phone or tablet.
    Mobile,
}

/// The class of `Accept`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AcceptClass {
    /// Anything else, and no `Accept`.
    #[default]
    Page,
    /// Every media range is `*/json` or `*+json`: the client is an application, such as the servers of `ActivityPub`.
    Json,
}

/// Whether the cache may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cacheability {
    /// May be looked up and stored.
    Cacheable,
    /// Bypasses the cache: forwarded as it is, and its response is not stored.
    Pass(PassWhy),
}

impl Default for Cacheability {
    /// Closed: a request that was never parsed shares nothing.
    fn default() -> Self {
        Self::Pass(PassWhy::Method)
    }
}
